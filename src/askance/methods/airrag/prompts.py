"""The prompts of AirRAG's actions (Feng et al. 2025, arXiv 2501.10053, appendix), and how answers are read.

The words are those of an `AirragWording`.

A model with a chat format gets a system turn, a pair of turns for each example, and a user turn. Another
gets the same as plain text with a cue at its end. Hits are given best first, as retrievers do, and shown
best last.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from askance.core.ports import Model
from askance.core.types import Chat, Demo, Hit, Prompt, Question, Raw, Span, Turn, untrusted
from askance.methods.airrag.wording import OWN, AirragWording
from askance.methods.prompts import numbered_passages, question_spans
from askance.text.answers import normalise_answer

_PAIRS = (('"', '"'), ("“", "”"), ("'", "'"), ("‘", "’"), ("`", "`"), ("**", "**"))
_CUE = re.compile(
    r"\b(?:the (?:final |correct )?answer is\b\s*:?|answer(?: is)?\s*:)(?:\*\*(?=\s|$))?\s*", re.IGNORECASE
)
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")
_SHOWN = r"(?:passages?|contexts?|documents?|texts?|sources?|information)"
_REFUSAL = re.compile(
    r"\b(?:no (?:information|mention)|not mentioned|(?:can ?not|cant) (?:be )?determined?"
    rf"|{_SHOWN} (?:\w+ )?(?:do not|does not|dont|doesnt) "
    r"(?:contain|mention|say|hold|state|provide|specify|include|tell|give|answer)"
    rf"|none of {_SHOWN} (?:contain|mention|say|hold|state|provide|answer)s?"
    rf"|not (?:provided|given|stated|specified|found) in (?:\w+ )?{_SHOWN})\b"
)
_UNKNOWN = frozenset({"unknown", "no answer", "i do not know", "i dont know"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """One answer for `candidates_prompt`.

    Attributes:
        num_paths: how many paths ended in it.
        history: the sub-queries on one of these paths with their answers.
    """

    answer: str
    num_paths: int = 1
    history: tuple[Demo, ...] = ()


def analysis_prompt(
    model: Model, question: Question, demos: Sequence[Demo] = (), *, words: AirragWording = OWN
) -> Prompt:
    """SAY: the question, to be rephrased, generalised or split into sub-queries, or `None`."""
    return _prompt(model, words, words.say, _asked(question), "Queries:", demos)


def direct_prompt(model: Model, question: Question, *, words: AirragWording = OWN) -> Prompt:
    """DA: the bare question, without an instruction; in plain text, with the cue for an answer."""
    return _prompt(model, words, "", question_spans(question), "Answer:")


def retrieval_answer_prompt(
    model: Model, hits: Sequence[Hit], query: str, *, words: AirragWording = OWN
) -> Prompt:
    """RA: a short answer to `query` from passages, or `REFUSAL`."""
    asked = (Span("Question: "), _line(query))
    return _prompt(model, words, words.ra, (*_contexts(hits), *asked), "Answer:")


def transformation_prompt(
    model: Model,
    question: Question,
    history: Sequence[Demo],
    current: str,
    demos: Sequence[Demo] = (),
    *,
    words: AirragWording = OWN,
) -> Prompt:
    """QT: what to ask next, given what is answered; `current` is the query that would come next, or empty."""
    parts = (*_asked(question), Span("\n"), *_history(history))
    due = (Span("Next query: "), untrusted(" ".join(current.split()) or "None"))
    return _prompt(model, words, words.qt, (*parts, *due), "Queries:", demos)


def summary_prompt(
    model: Model,
    question: Question,
    history: Sequence[Demo],
    hits: Sequence[Hit] = (),
    demos: Sequence[Demo] = (),
    *,
    words: AirragWording = OWN,
) -> Prompt:
    """SA: the final, concise answer out of sub-queries with their answers, and passages where they fit."""
    parts = (*_contexts(hits), *_history(history), *_asked(question))
    return _prompt(model, words, words.sa, parts, "Answer:", demos)


def candidates_prompt(
    model: Model,
    question: Question,
    candidates: Sequence[Candidate],
    hits: Sequence[Hit] = (),
    *,
    words: AirragWording = OWN,
) -> Prompt:
    """SA as verifier: which of several answers is right. Equal ones come as one, the likeliest first."""
    listed: list[Span] = [Span("Candidates:\n")]
    for candidate in candidates:
        count = f" ({candidate.num_paths})" if candidate.num_paths > 1 else ""
        listed += [Span("- "), _line(candidate.answer), Span(f"{count}\n"), *_history(candidate.history)]
    return _prompt(model, words, words.verify, (*_contexts(hits), *listed, *_asked(question)), "Answer:")


def parse_final(text: str) -> str:
    """The answer in a reply of RA, SA or DA: its first line, without a final full stop and marks around it.

    What stands behind the last cue ("Answer:", "the answer is") counts, as far as anything does. The reply
    must end where an invented next question would begin (`askance.methods.prompts.STOPS`).
    """
    pieces = [piece for piece in _CUE.split(text) if any(map(str.isalnum, piece))]
    lines = (line for line in (pieces[-1] if pieces else "").splitlines() if any(map(str.isalnum, line)))
    return unquoted(unquoted(next(lines, "")).removesuffix("."))


def is_refusal(answer: str) -> bool:
    """Whether an answer says that there is none, in the words that models use for it.

    To say that the passages lack it is a refusal; that something else lacks something is an answer.
    """
    plain = normalise_answer(answer.replace("’", "'"))
    return plain in _UNKNOWN or _REFUSAL.search(plain) is not None


def _prompt(
    model: Model,
    words: AirragWording,
    instruction: str,
    parts: tuple[Span, ...],
    cue: str,
    demos: Sequence[Demo] = (),
) -> Prompt:
    if "chat" in model.capabilities:
        head = (Span(f"{instruction}\n\n"),) if instruction else ()
        system, asked = Turn("system", (Span(words.system),)), Turn("user", (*head, *parts))
        return Chat((system, *_example_turns(demos), asked))
    head = (Span(f"{words.system} {instruction}\n\n"),) if instruction else ()
    return Raw((*head, *_example_spans(demos, cue), *parts, Span(f"\n{cue}")))


def _example_turns(demos: Sequence[Demo]) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    for demo in demos:
        turns.append(Turn("user", (Span("Question: "), untrusted(demo.question))))
        turns.append(Turn("assistant", (untrusted(demo.answer),)))
    return tuple(turns)


def _example_spans(demos: Sequence[Demo], cue: str) -> tuple[Span, ...]:
    spans: list[Span] = []
    for demo in demos:
        spans += [Span("Question: "), untrusted(demo.question)]
        spans += [Span(f"\n{cue} "), untrusted(demo.answer), Span("\n\n")]
    return tuple(spans)


def _asked(question: Question) -> tuple[Span, ...]:
    return (Span("Question: "), *question_spans(question))


def _contexts(hits: Sequence[Hit]) -> tuple[Span, ...]:
    return (*numbered_passages(hits[::-1]), Span("\n")) if hits else ()


def _history(history: Sequence[Demo]) -> tuple[Span, ...]:
    spans: list[Span] = []
    for pair in history:
        asked = (_line(pair.question), Span(" ")) if pair.question else ()
        spans += [Span("Known: "), *asked, _line(pair.answer), Span("\n")]
    return tuple(spans)


def _line(text: str) -> Span:
    return untrusted(" ".join(text.split()))


def unquoted(text: str) -> str:
    """`text` without the marks around the whole of it; those around a part, such as a title, stay."""
    text = text.strip()
    for begin, end in _PAIRS:
        inner = text[len(begin) : -len(end)]
        marks = _APOSTROPHE.sub("", inner)
        if text == f"{begin}{inner}{end}" and begin not in marks and end not in marks:
            return unquoted(inner)
    return text
