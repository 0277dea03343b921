"""The prompts of AirRAG's actions (Feng et al. 2025, arXiv 2501.10053, appendix), and how replies are read.

What each must say is the paper's; the words are ours. They are short, since every call of a tree search pays
for them. The packaged adapter is trained on these very texts: whoever changes one must train it again.

A model with a chat format gets one user turn; another gets the same as plain text with a cue at its end.
"""

import re
from collections.abc import Sequence

from askance.core.ports import Model
from askance.core.types import Chat, Demo, Hit, Prompt, Question, Raw, Span, Turn, untrusted
from askance.methods.prompts import numbered_passages, question_spans
from askance.text.answers import normalise_answer

MOST_QUERIES = 4
"""The paper's cap on the iterations of one path, and ours on the queries of one plan."""

_LEAD = re.compile(r"^\s*(?:[-*•–]\s+|\(?\d+[.):]\s*|[a-z][.)]\s+)+", re.IGNORECASE)
_QUOTES = " \t\"'“”‘’`"
_CUE = re.compile(r"(?:^|\b)(?:final\s+)?answer\s*:\s*", re.IGNORECASE)
_NO_QUERY = frozenset({"none", "no", "nothing", "na", ""})
_REFUSALS = (
    "no information",
    "not mentioned",
    "cannot determine",
    "can not determine",
    "cannot be determined",
    "do not contain",
    "does not contain",
    "do not say",
    "not provided",
)


def analysis_prompt(model: Model, question: Question, demos: Sequence[Demo] = ()) -> Prompt:
    """SAY: the question, to be rephrased, generalised or split into sub-queries, or `None`."""
    return _prompt(model, SAY, (*_examples(demos), *_asked("Question", question)), "Queries:")


def direct_prompt(model: Model, question: Question) -> Prompt:
    """DA: the bare question, without an instruction."""
    return _prompt(model, "", tuple(question_spans(question)), "")


def retrieval_answer_prompt(model: Model, hits: Sequence[Hit], query: str) -> Prompt:
    """RA: answer `query` from passages; of `hits`, the best stands last, nearest to the question."""
    asked = (Span("Question: "), untrusted(" ".join(query.split())))
    return _prompt(model, RA, (*_contexts(hits), *asked), "Answer:")


def transformation_prompt(
    model: Model,
    question: Question,
    history: Sequence[Demo],
    current: str,
    demos: Sequence[Demo] = (),
) -> Prompt:
    """QT: what to ask next, given what is answered; `current` is the query that would come next, or empty."""
    parts = (*_examples(demos), *_asked("Question", question), Span("\n"), *_history(history))
    due = (Span("Next query: "), untrusted(" ".join(current.split()) or "None"))
    return _prompt(model, QT, (*parts, *due), "Queries:")


def summary_prompt(
    model: Model,
    question: Question,
    history: Sequence[Demo],
    hits: Sequence[Hit] = (),
    demos: Sequence[Demo] = (),
) -> Prompt:
    """SA: the final, concise answer out of sub-queries with their answers, and passages where they fit."""
    parts = (*_examples(demos), *_contexts(hits), *_history(history), *_asked("Question", question))
    return _prompt(model, SA, parts, "Answer:")


def candidates_prompt(
    model: Model,
    question: Question,
    candidates: Sequence[tuple[str, int]],
    hits: Sequence[Hit] = (),
) -> Prompt:
    """SA as verifier: which of several candidate answers is right; each with the number of paths to it."""
    listed: list[Span] = [Span("Candidates:\n")]
    for text, count in candidates:
        listed += [
            Span("- "),
            untrusted(" ".join(text.split())),
            Span(f" ({count})\n" if count > 1 else "\n"),
        ]
    return _prompt(model, VERIFY, (*_contexts(hits), *listed, *_asked("Question", question)), "Answer:")


def parse_queries(text: str, most: int = MOST_QUERIES) -> tuple[str, ...]:
    """The queries of a reply of SAY or QT, one a line, each once; none where it says that none is needed.

    Bullets, numbers and quotation marks go. `None` beside queries is passed over.
    """
    lines = (_LEAD.sub("", line).strip(_QUOTES) for line in text.splitlines())
    found = dict.fromkeys(line for line in lines if normalise_answer(line) not in _NO_QUERY)
    return tuple(found)[:most]


def parse_final(text: str) -> str:
    """The answer in a reply of RA, SA or DA: its first line behind the last cue, without marks around it."""
    stated = text[max((match.end() for match in _CUE.finditer(text)), default=0) :]
    line = next((line for line in stated.splitlines() if line.strip()), "")
    return line.strip(_QUOTES).removesuffix(".").strip(_QUOTES)


def is_refusal(answer: str) -> bool:
    """Whether an answer says that there is none, in the words that models use for it."""
    plain = normalise_answer(answer)
    return plain == "unknown" or any(each in plain for each in _REFUSALS)


def _prompt(model: Model, instruction: str, parts: tuple[Span, ...], cue: str) -> Prompt:
    head = (Span(f"{instruction}\n\n"),) if instruction else ()
    if "chat" in model.capabilities:
        return Chat((Turn("system", (Span(SYSTEM),)), Turn("user", (*head, *parts))))
    return Raw((*head, *parts, Span(f"\n{cue}" if cue else "\n")))


def _examples(demos: Sequence[Demo]) -> tuple[Span, ...]:
    spans: list[Span] = []
    for demo in demos:
        spans += [
            Span("Question: "),
            untrusted(demo.question),
            Span("\n"),
            untrusted(demo.answer),
            Span("\n\n"),
        ]
    return tuple(spans)


def _asked(label: str, question: Question) -> tuple[Span, ...]:
    return (Span(f"{label}: "), *question_spans(question))


def _contexts(hits: Sequence[Hit]) -> tuple[Span, ...]:
    return (*numbered_passages(hits[::-1]), Span("\n")) if hits else ()


def _history(history: Sequence[Demo]) -> tuple[Span, ...]:
    spans: list[Span] = []
    for pair in history:
        spans += [Span("Known: "), untrusted(" ".join(pair.question.split())), Span(" ")]
        spans += [untrusted(" ".join(pair.answer.split())), Span("\n")]
    return tuple(spans)


SYSTEM = "You are an expert at answering questions."

SAY = (
    "Rephrase the question, make it more general, or split it into sub-queries, so that searching and "
    "answering get easier. Write one query per line and nothing else, or None if nothing is gained."
)
RA = (
    "Answer the question from the passages, which may or may not be relevant. Be brief. If they do not "
    "hold the answer, say: The passages do not contain the answer."
)
QT = (
    "Given what is known, decide whether to rephrase, summarise or split the next query, or to ask a "
    "follow-up, "
    "so that searching and answering get easier. Write one query per line, or None if none is needed."
)
SA = "Give the correct and concise answer to the question, from the passages and from what is known."
VERIFY = "Give the correct and concise answer to the question. Decide between the candidates by the passages."
REFUSAL = "The passages do not contain the answer."
"""What RA asks for where the passages hold no answer."""
