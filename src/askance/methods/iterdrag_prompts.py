"""The prompt of IterDRAG (Yue et al. 2024, arXiv 2410.04343), and how a line that it leads to is read.

The three beginnings of a line are the paper's; all other words are ours. Passages come in the order in which
they are to be shown.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from askance.core.ports import Model
from askance.core.types import Chat, Hit, Passage, Prompt, Question, Raw, Span, Turn, untrusted
from askance.methods.prompts import Layout, numbered_passages, question_spans

FOLLOW_UP, INTERMEDIATE, FINAL = "Follow up:", "Intermediate answer:", "So the final answer is:"
BEGINNINGS = (FOLLOW_UP, INTERMEDIATE, FINAL)


@dataclass(frozen=True, slots=True)
class Worked:
    """An example: passages, a question, and the lines that answer it."""

    passages: tuple[Passage, ...]
    question: str
    lines: str

    @property
    def hits(self) -> tuple[Hit, ...]:
        """Its passages as they are shown."""
        return tuple(Hit(passage, 1.0, rank) for rank, passage in enumerate(self.passages, start=1))


def line_prompt(
    model: Model,
    question: Question,
    hits: Sequence[Hit],
    so_far: str,
    examples: Sequence[Worked] = (),
    layout: Layout = "auto",
) -> Prompt:
    """The prompt that makes `model` go on with the lines `so_far`, which may end within one.

    Args:
        layout: "auto" is raw where the model takes it.
    """
    continuation = (untrusted(so_far),) if so_far else ()
    asked = (*_shown(hits), Span("Question: "), *question_spans(question))
    if layout == "raw" or (layout == "auto" and "raw" in model.capabilities):
        head = (Span(f"{INSTRUCTION}\n\n"), *_as_text(examples))
        return Raw((*head, *asked, Span("\n")), continuation)
    return Chat(
        (Turn("system", (Span(INSTRUCTION),)), *_as_turns(examples), Turn("user", asked)), continuation
    )


def read_line(text: str) -> tuple[str, str]:
    """Which of `BEGINNINGS` a line has, or nothing, and what stands behind it."""
    plain = " ".join(text.split())
    for beginning, pattern in _PATTERNS.items():
        found = pattern.match(plain)
        if found:
            return beginning, plain[found.end() :]
    return "", plain


def _shown(hits: Sequence[Hit]) -> tuple[Span, ...]:
    return (*numbered_passages(hits), Span("\n")) if hits else ()


def _as_text(examples: Sequence[Worked]) -> tuple[Span, ...]:
    spans: list[Span] = []
    for each in examples:
        spans += [*_shown(each.hits), Span("Question: "), untrusted(each.question)]
        spans += [Span("\n"), untrusted(each.lines), Span("\n\n")]
    return tuple(spans)


def _as_turns(examples: Sequence[Worked]) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    for each in examples:
        turns.append(Turn("user", (*_shown(each.hits), Span("Question: "), untrusted(each.question))))
        turns.append(Turn("assistant", (untrusted(each.lines),)))
    return tuple(turns)


_PATTERNS = {
    FOLLOW_UP: re.compile(r"follow[ -]?up\s*:\s*", re.IGNORECASE),
    INTERMEDIATE: re.compile(r"intermediate answer\s*:\s*", re.IGNORECASE),
    FINAL: re.compile(r"so the final answer is\s*:\s*", re.IGNORECASE),
}

INSTRUCTION = (
    "Answer the question from the passages, line by line. Where something is missing, write a line that "
    f'begins with "{FOLLOW_UP}" and asks for it; answer that from the passages in a line that begins with '
    f'"{INTERMEDIATE}". When nothing is missing, end with a line that begins with "{FINAL}" and gives the '
    "correct and concise answer."
)

EXAMPLES = (
    Worked(
        (
            Passage("", "Saxophone", "The saxophone was invented by the instrument maker Adolphe Sax."),
            Passage("", "Adolphe Sax", "He was born in Dinant in 1814 and died in Paris in 1894."),
        ),
        "In which city did the inventor of the saxophone die?",
        f"{FOLLOW_UP} Who invented the saxophone?\n"
        f"{INTERMEDIATE} Adolphe Sax\n"
        f"{FOLLOW_UP} In which city did Adolphe Sax die?\n"
        f"{INTERMEDIATE} Paris\n"
        f"{FINAL} Paris",
    ),
    Worked(
        (
            Passage("", "Mount Kenya", "It is 5,199 m high, which makes it the tallest mountain of Kenya."),
            Passage("", "Kilimanjaro", "The tallest mountain of Tanzania rises to 5,895 m."),
        ),
        "Is the tallest mountain of Kenya higher than that of Tanzania?",
        f"{FOLLOW_UP} How high is the tallest mountain of Kenya?\n"
        f"{INTERMEDIATE} 5,199 m\n"
        f"{FOLLOW_UP} How high is the tallest mountain of Tanzania?\n"
        f"{INTERMEDIATE} 5,895 m\n"
        f"{FINAL} no",
    ),
    Worked(
        (Passage("", "Cello", "The cello has four strings, tuned in fifths."),),
        "How many strings has a cello?",
        f"{FINAL} four",
    ),
)
"""Examples of our own."""
