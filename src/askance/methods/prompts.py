"""The prompt that DRAGIN, FLARE and their baselines share: examples, passages, question, answer so far.

Two layouts of the same parts. `raw` is the papers' own: plain text that the model goes on from. `chat` puts
the parts into the model's chat format, for models that offer nothing else. Their words are a `Wording`, which
any method takes another of.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from itertools import chain
from typing import Any, Literal

from askance.core.ports import Model
from askance.core.types import (
    Capability,
    Chat,
    Demo,
    Hit,
    Passage,
    Prompt,
    Question,
    Raw,
    Span,
    Turn,
    untrusted,
)

DEMOS = (
    Demo(
        "In which country was the composer of the opera Carmen born?",
        "The opera Carmen was composed by Georges Bizet. Georges Bizet was born in Paris, which is in "
        "France. So the answer is France.",
    ),
    Demo(
        "Who died first, Marie Curie or Albert Einstein?",
        "Marie Curie died in July 1934. Albert Einstein died in April 1955. July 1934 is before April 1955. "
        "So the answer is Marie Curie.",
    ),
    Demo(
        "Do the rivers Danube and Rhone flow into the same sea?",
        "The Danube flows into the Black Sea. The Rhone flows into the Mediterranean Sea. "
        "These are not the same sea. So the answer is no.",
    ),
    Demo(
        "What is the mother tongue of the author of the novel The Trial?",
        "The novel The Trial was written by Franz Kafka. The mother tongue of Franz Kafka was German. "
        "So the answer is German.",
    ),
)


@dataclass(frozen=True, slots=True, repr=False)
class Wording:
    """The words of a prompt. Its repr, which traces and cache keys show, changes with the content.

    Attributes:
        demos: worked examples, unless the question brings its own.
        heading: the line above the passages.
        instruction: the line below the passages, in the layout of the DRAGIN authors.
        before_question: what stands before the question to be answered, spaces and line breaks included, in
            that layout, too.
        system: the system turn, where the model's chat format is used; empty for none.
        elicitation: begins the sentence that states the answer, where the text has none; the short answer
            is read after "the answer is".
        name: what the repr begins with; no part of the content, so that renaming changes nothing.
    """

    demos: tuple[Demo, ...] = DEMOS
    heading: str = "Context:"
    instruction: str = "Reply in the way of the examples above."
    before_question: str = ""
    system: str = (
        "Answer the question. Reason in short sentences, one fact in each, "
        'and finish with one sentence of the form "So the answer is ...".'
    )
    elicitation: str = " So the answer is"
    name: str = field(default="wording", compare=False, kw_only=True)

    def __repr__(self) -> str:
        return content_name(self)

    def __str__(self) -> str:
        return next((known.name for known in (OWN, PLAIN) if self == known), repr(self))


def content_name(words: Any) -> str:
    """A dataclass's own name and a checksum of all its fields that are compared."""
    content = repr(tuple(getattr(words, each.name) for each in fields(words) if each.compare))
    return f"{words.name}-{blake2b(content.encode(), digest_size=4).hexdigest()}"


OWN = Wording(name="own")
PLAIN = Wording(demos=(), instruction="Answer from these passages.", name="plain")
"""Without examples, for models that know the form of an answer."""


Layout = Literal["auto", "raw", "chat"]

Choice = tuple[frozenset[Capability], ...]

STOPS = ("\n\n", "\nQuestion:", "\nContext:")
"""What would begin after the answer: a blank line, an invented next question, an invented passage block."""


def layout_needs(layout: Layout, *, goes_on: bool) -> Choice:
    """What a model must be capable of for `answer_prompt`, where it `goes_on` from a text or not."""
    raw = frozenset[Capability]({"raw"})
    chat = frozenset[Capability]({"chat", "continuation"} if goes_on else {"chat"})
    both = (raw, chat) if goes_on else ()  # every model takes one of the two
    return {"raw": (raw,), "chat": (chat,), "auto": both}[layout]


def answer_prompt(
    model: Model,
    question: Question,
    hits: Sequence[Hit] = (),
    text: str = "",
    layout: Layout = "auto",
    wording: Wording = OWN,
) -> Prompt:
    """The prompt that makes `model` go on with the answer to `question` after `text`.

    Args:
        hits: passages, placed directly before the question.
        text: the answer so far, to be gone on from exactly.
        layout: "auto" is raw where the model takes raw prompts.
        wording: its lines between passages and question are not used: measured, they made answers worse.
    """
    so_far = (untrusted(text),) if text else ()
    if layout == "raw" or (layout == "auto" and "raw" in model.capabilities):
        return Raw(_raw_parts(question, hits, wording), so_far)
    return Chat(_chat_turns(question, hits, wording), so_far)


def _raw_parts(question: Question, hits: Sequence[Hit], wording: Wording) -> tuple[Span, ...]:
    passages = (*_passage_block(hits, wording), Span("\n")) if hits else ()
    examples = example_spans(_examples(question, wording), gap="\n\n")
    return (*examples, *passages, Span("Question: "), *question_spans(question), Span("\nAnswer:"))


def _chat_turns(question: Question, hits: Sequence[Hit], wording: Wording) -> tuple[Turn, ...]:
    turns = [Turn("system", (Span(wording.system),))] if wording.system else []
    for demo in _examples(question, wording):
        turns += [Turn("user", (untrusted(demo.question),)), Turn("assistant", (untrusted(demo.answer),))]
    passages = (*_passage_block(hits, wording), Span("\n")) if hits else ()
    return (*turns, Turn("user", (*passages, *question_spans(question))))


def _examples(question: Question, wording: Wording) -> tuple[Demo, ...]:
    demos = wording.demos if question.demos is None else question.demos
    return (*demos, *question.history)


def _passage_block(hits: Sequence[Hit], wording: Wording) -> tuple[Span, ...]:
    return (Span(f"{wording.heading}\n"), *numbered_passages(hits))


def numbered_passages(hits: Sequence[Hit]) -> tuple[Span, ...]:
    """Passages on a line each, numbered from 1."""
    return numbered([passage_text(hit.passage) for hit in hits])


def numbered(texts: Sequence[str]) -> tuple[Span, ...]:
    """Texts on a line each, numbered from 1."""
    lines = (
        (Span(f"[{number}] "), untrusted(text), Span("\n")) for number, text in enumerate(texts, start=1)
    )
    return tuple(chain.from_iterable(lines))


def example_spans(demos: Sequence[Demo], gap: str) -> tuple[Span, ...]:
    """Worked examples with `gap` behind each."""
    spans = (
        (Span("Question: "), untrusted(demo.question), Span("\nAnswer: "), untrusted(demo.answer), Span(gap))
        for demo in demos
    )
    return tuple(chain.from_iterable(spans))


def passage_text(passage: Passage) -> str:
    """Title and text on one line."""
    title = f"{passage.title}: " if passage.title else ""
    return " ".join(f"{title}{passage.text}".split())


def question_spans(question: Question) -> tuple[Span, ...]:
    """The question on one line, and its options on another."""
    asked = [untrusted(" ".join(question.text.split()))]
    if question.options:
        asked += [Span("\nOptions: "), untrusted("; ".join(question.options))]
    return tuple(asked)
