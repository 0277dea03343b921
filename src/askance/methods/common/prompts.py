"""The prompt that DRAGIN, FLARE and their baselines share: examples, passages, question, answer so far.

Two layouts of the same parts. `raw` is the papers' own: plain text that the model goes on from. `chat` puts
the parts into the model's chat format, for models that offer nothing else. Their words are a
`PromptTemplate`, which any method takes another of.
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from pathlib import Path
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

EXAMPLES = tomllib.loads(Path(__file__).with_name("examples.toml").read_text(encoding="utf-8"))
DEMOS = tuple(Demo(**each) for each in EXAMPLES["demos"])


@dataclass(frozen=True, slots=True, repr=False)
class PromptTemplate:
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


OWN = PromptTemplate(name="own")
PLAIN = PromptTemplate(demos=(), instruction="Answer from these passages.", name="plain")
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
    wording: PromptTemplate = OWN,
) -> Prompt:
    """The prompt that makes `model` go on with the answer to `question` after `text`.

    Args:
        hits: passages, placed directly before the question.
        text: the answer so far, to be gone on from exactly.
        layout: "auto" is raw where the model takes raw prompts.
        wording: its lines between passages and question are not used: measured, they made answers worse.
    """
    passages: tuple[Span, ...] = ()
    if hits:
        passages = (Span(f"{wording.heading}\n"), *numbered_passages(hits), Span("\n"))
    asked, demos = question_spans(question), wording.demos if question.demos is None else question.demos
    examples = (*demos, *question.history)
    parts = (*example_spans(examples, "\n\n"), *passages, Span("Question: "), *asked, Span("\nAnswer:"))
    worked = [((untrusted(demo.question),), demo.answer) for demo in examples]
    return in_layout(layout, model, parts, chat_turns(wording.system, worked, (*passages, *asked)), text)


def in_layout(
    layout: Layout, model: Model, parts: Sequence[Span], turns: Sequence[Turn], so_far: str
) -> Prompt:
    """A prompt as text, `parts`, or as a chat, `turns`, whose answer has begun with `so_far`."""
    continuation = (untrusted(so_far),) if so_far else ()
    if layout == "raw" or (layout == "auto" and "raw" in model.capabilities):
        return Raw(tuple(parts), continuation)
    return Chat(tuple(turns), continuation)


def chat_turns(
    system: str, worked: Iterable[tuple[tuple[Span, ...], str]], asked: tuple[Span, ...]
) -> list[Turn]:
    """A chat that asks `asked`, after examples, each of what is asked and what is answered."""
    turns = [Turn("system", (Span(system),))] if system else []
    for question, answer in worked:
        turns += [Turn("user", question), Turn("assistant", (untrusted(answer),))]
    return [*turns, Turn("user", asked)]


def numbered_passages(hits: Sequence[Hit]) -> tuple[Span, ...]:
    """Passages on a line each, numbered from 1."""
    return numbered([passage_text(hit.passage) for hit in hits])


def numbered(texts: Sequence[str]) -> tuple[Span, ...]:
    """Texts on a line each, numbered from 1."""
    spans = list[Span]()
    for number, text in enumerate(texts, start=1):
        spans += [Span(f"[{number}] "), untrusted(text), Span("\n")]
    return tuple(spans)


def example_spans(demos: Sequence[Demo], gap: str) -> tuple[Span, ...]:
    """Worked examples with `gap` behind each."""
    spans = list[Span]()
    for demo in demos:
        spans += [Span("Question: "), untrusted(demo.question)]
        spans += [Span("\nAnswer: "), untrusted(demo.answer), Span(gap)]
    return tuple(spans)


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
