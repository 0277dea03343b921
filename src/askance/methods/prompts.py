"""The prompt that DRAGIN, FLARE and their baselines share: examples, passages, question, answer so far.

Two layouts of the same parts. `raw` is the papers' own: plain text that the model goes on from. `chat` puts
the parts into the model's chat format, for models that offer nothing else.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Literal

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
from askance.methods.wording import OWN, Wording

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
