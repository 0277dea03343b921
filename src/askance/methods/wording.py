"""The fixed strings of the DRAGIN authors' prompt layout: the words are ours, the layout theirs."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from askance.core.types import Demo, Question, Raw, Span, untrusted
from askance.methods.prompts import DEMOS


@dataclass(frozen=True, slots=True, repr=False)
class Wording:
    """The words of a prompt. Its repr, which traces and cache keys show, changes with the content.

    Attributes:
        demos: worked examples, unless the question brings its own.
        heading: the line above the passages.
        instruction: the line below the passages.
        before_question: what stands before the question to be answered.
    """

    demos: tuple[Demo, ...] = DEMOS
    heading: str = "Context:"
    instruction: str = "Reply in the way of the examples above."
    before_question: str = ""

    def __repr__(self) -> str:
        content = repr((self.demos, self.heading, self.instruction, self.before_question))
        return f"wording-{blake2b(content.encode(), digest_size=4).hexdigest()}"

    def __str__(self) -> str:
        return "own" if self == OWN else repr(self)


OWN = Wording()


def raw_prompt(
    wording: Wording, question: Question, so_far: str, passages: Sequence[str] | None, end: str = ""
) -> Raw:
    """Examples, passages, question, answer so far, in the order and with the line breaks of the authors.

    Args:
        so_far: put directly behind "Answer:", white space included.
        end: the end token's text; where `so_far` holds it, it is that token again, as in the authors' code.
        passages: None leaves their block out; an empty text gives an empty numbered line.
    """
    spans: list[Span] = []
    for demo in wording.demos if question.demos is None else question.demos:
        spans += [Span("Question: "), untrusted(demo.question), Span("\nAnswer: "), untrusted(demo.answer)]
        spans.append(Span("\n"))
    if passages is not None:
        spans.append(Span(f"{wording.heading}\n"))
        for number, passage in enumerate(passages, start=1):
            spans += [Span(f"[{number}] "), untrusted(passage), Span("\n")]
        spans.append(Span(f"{wording.instruction}\n"))
    spans += [Span(f"{wording.before_question}Question: "), untrusted(question.text), Span("\nAnswer:")]
    return Raw(tuple(spans), _with_ends(so_far, end))


def _with_ends(text: str, end: str) -> tuple[Span, ...]:
    pieces = text.split(end) if end else [text]
    spans = [span for piece in pieces for span in (Span(end), untrusted(piece))][1:]
    return tuple(span for span in spans if span.text)
