"""The prompts of AirRAG's actions (Feng et al. 2025, arXiv 2501.10053, appendix), and how replies are read.

The words of the prompts are those of an `AirragPromptTemplate`. The formats of replies are the paper's. What
models write beside a query, or in its place, is passed over: headings, announcements, statements.

A model with a chat format gets a system turn, a pair of turns for each example, and a user turn. Another
gets the same as plain text with a cue at its end. Hits are given best first, as retrievers do, and shown
best last.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from askance.core.ports import Model
from askance.core.types import Chat, Demo, Hit, Prompt, Question, Raw, Span, Turn, untrusted
from askance.methods.airrag.prompt_template import OWN, AirragPromptTemplate
from askance.methods.common.prompts import chat_turns, numbered_passages, question_spans
from askance.text.answers import normalise_answer

MOST_QUERIES = 4
"""The paper's cap on the iterations of one path, and ours on the queries of one plan."""
QUERY_STOPS = ("\nQuestion:", "\nContext:", "\nKnown:")
"""In a chat. A blank line is no end: many models announce their list, and leave one before it."""

_LEAD = re.compile(
    r"^(?:#{1,6}\s+|[-*•–—+]\s+|\(?\d{1,2}[.)](?!\d)\s*|\d:\s+|\(?[a-z]\)\s+"
    r"|\**(?:next |sub-?|follow-?up )?(?:query|queries|questions?)(?: \d+)?\**:\**(?:\s+|$))+",
    re.IGNORECASE,
)
"""The mark of a heading, a bullet, a number or a label; not an initial ("J. Joyce"), nor a number that is a
word ("3:10", "1.5").
"""
_HEADING_OR_CODE = re.compile(
    r"\s*(?:\*\*[^*?]*\*\*\s*$"
    r"|(?:#{1,6}\s|```|(?:SELECT|FROM|WHERE|JOIN|ORDER BY|GROUP BY|LIMIT)\b)[^?]*$)"
)
"""Small models take a query for one in SQL."""
_NO_QUERY = re.compile(
    r"(?:none|nothing|na|no(?: (?:further |more |other )?(?:sub)?(?:quer(?:y|ies)|questions?))?)"
    r"(?: (?:is |are )?(?:needed|necessary|required|gained))?"
    r"|(?:sub|follow ?up )?(?:queries|questions)"
)
_NONE_AND_WHY = re.compile(r"none\s*[.,:;(–—-]", re.IGNORECASE)
_ASKS = re.compile(
    r"(?:(?:in|on|at|by|for|from|to|of|with|under|during|after|before|since|until) )?"
    r"(?:who|whom|whose|what|which|when|where|why|how)\b"
    r"|(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b",
    re.IGNORECASE,
)
_COMMANDS = re.compile(
    r"(?:find|identify|determine|search|look|name|list|give|tell|describe|explain|check|compare|get)\b",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"(?:the|an?|it|he|she|they|this|that|there|these|those|i|you|we)\b"
    r"(?:$|.*(?<!that)(?<!who)(?<!which) (?:is|are|was|were|has|had|died|can|cannot|could|will|would)\b)",
    re.IGNORECASE,
)
"""Not "the film that was made in 1957"."""
_GOES_ON = re.compile(r"(?:[^\W\d_]{4}|\d|\))[.!]\s+[^\W\d_a-z]")
"""A new sentence; not behind an initial or "Mrs."."""
_MARKS = "\"'”’*_) "

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
    """One answer for `Prompts.verify`.

    Attributes:
        num_paths: how many paths ended in it.
        history: the sub-queries on one of these paths with their answers.
    """

    answer: str
    num_paths: int = 1
    history: tuple[Demo, ...] = ()


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts for one question.

    Attributes:
        examples: how many worked examples SAY, QT and SA show.
    """

    model: Model
    question: Question
    words: AirragPromptTemplate = OWN
    examples: int = 0

    def say(self) -> Prompt:
        """The question, to be rephrased, generalised or split into sub-queries, or `None`."""
        return self._prompt(self.words.say, self._asked, "Queries:", self.words.say_demos)

    def da(self) -> Prompt:
        """The bare question, without an instruction; in plain text, with the cue for an answer."""
        return self._prompt("", question_spans(self.question))

    def ra(self, hits: Sequence[Hit], query: str) -> Prompt:
        """A short answer to `query` from passages, or `REFUSAL`."""
        return self._prompt(self.words.ra, (*_contexts(hits), Span("Question: "), _line(query)))

    def qt(self, history: Sequence[Demo], current: str) -> Prompt:
        """What to ask next, given what is answered; `current` is the query that would come next, or empty."""
        due = (Span("\n"), *_history(history), Span("Next query: "), _line(current.strip() or "None"))
        return self._prompt(self.words.qt, (*self._asked, *due), "Queries:", self.words.qt_demos)

    def sa(
        self, history: Sequence[Demo], hits: Sequence[Hit] = (), *, shows_examples: bool = False
    ) -> Prompt:
        """The final, concise answer out of sub-queries with their answers, and passages where they fit."""
        parts = (*_contexts(hits), *_history(history), *self._asked)
        return self._prompt(self.words.sa, parts, demos=self.words.sa_demos if shows_examples else ())

    def verify(self, candidates: Sequence[Candidate], hits: Sequence[Hit] = ()) -> Prompt:
        """Which of several answers is right. Equal ones come as one, the likeliest first."""
        listed: list[Span] = [Span("Candidates:\n")]
        for candidate in candidates:
            count = f" ({candidate.num_paths})" if candidate.num_paths > 1 else ""
            listed += [Span("- "), _line(candidate.answer), Span(f"{count}\n"), *_history(candidate.history)]
        return self._prompt(self.words.verify, (*_contexts(hits), *listed, *self._asked))

    def judge(self, steps: Sequence[tuple[str, str]]) -> Prompt:
        """Whether a path leads to the right answer: a label and what was said of each of its steps."""
        lines = [(Span(f"\n{label}: "), _line(said)) for label, said in steps]
        judging = replace(self.words, system=_JUDGING)
        ending = (Span("\n"),) if "chat" in self.model.capabilities else ()
        parts = (*self._asked, *chain.from_iterable(lines), *ending)
        return replace(self, words=judging)._prompt(self.words.judge, parts, "Judgement:")

    @property
    def _asked(self) -> tuple[Span, ...]:
        return (Span("Question: "), *question_spans(self.question))

    def _prompt(
        self, instruction: str, parts: tuple[Span, ...], cue: str = "Answer:", demos: Sequence[Demo] = ()
    ) -> Prompt:
        worked = [
            ((Span("Question: "), untrusted(each.question)), each.answer) for each in demos[: self.examples]
        ]
        if "chat" in self.model.capabilities:
            head = (Span(f"{instruction}\n\n"),) if instruction else ()
            system = Turn("system", (Span(self.words.system),))
            return Chat((system, *chat_turns("", worked, (*head, *parts))))
        spans = [Span(f"{self.words.system} {instruction}\n\n")] if instruction else []
        for asked, answer in worked:
            spans += [*asked, Span(f"\n{cue} "), untrusted(answer), Span("\n\n")]
        return Raw((*spans, *parts, Span(f"\n{cue}")))


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


_JUDGING = "You judge how questions are being answered."


def parse_final(text: str) -> str:
    """The answer in a reply of RA, SA or DA: its first line, without a final full stop and marks around it.

    What stands behind the last cue ("Answer:", "the answer is") counts, as far as anything does. The reply
    must end where an invented next question would begin (`askance.methods.common.prompts.STOPS`).
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


def unquoted(text: str) -> str:
    """`text` without the marks around the whole of it; those around a part, such as a title, stay."""
    text = text.strip()
    for begin, end in _PAIRS:
        inner = text[len(begin) : -len(end)]
        marks = _APOSTROPHE.sub("", inner)
        if text == f"{begin}{inner}{end}" and begin not in marks and end not in marks:
            return unquoted(inner)
    return text


def parse_queries(text: str, most: int = MOST_QUERIES) -> tuple[str, ...]:
    """The queries of a reply of SAY or QT, one a line, each once; none where it says that none is needed.

    Bullets, numbers, labels and the quotation marks around a query go. `None` beside queries is passed over,
    and so are headings, code, a line that ends in a colon, which only announces them, and one that states
    something: small models answer where they should ask. What follows a question on its line is another
    question, or goes.
    """
    found: dict[str, str] = {}
    for line in (each for each in text.splitlines() if not _HEADING_OR_CODE.match(each)):
        for query in _queries_in(unquoted(_LEAD.sub("", unquoted(line)))):
            plain = normalise_answer(query)
            if any(map(str.isalnum, query)) and not _NO_QUERY.fullmatch(plain):
                found.setdefault(plain or query, query)
    return tuple(found.values())[:most]


def _queries_in(line: str) -> tuple[str, ...]:
    """Those of one line without its marks; a line without a question mark is one, or nothing."""
    questions = tuple(piece for piece in _parted(line) if piece.rstrip(_MARKS).endswith(("?", "？")))
    announces = line.rstrip(_MARKS).endswith(":")
    return questions or (() if announces or _NONE_AND_WHY.match(line) or _is_statement(line) else (line,))


def _parted(line: str) -> list[str]:
    """A line, parted behind each question mark where a new sentence begins."""
    pieces: list[str] = []
    for piece in re.split(r"(?<=\?)\s+", line):
        if pieces and not piece[:1].isupper():
            pieces[-1] = f"{pieces[-1]} {piece}"
        else:
            pieces.append(piece)
    return pieces


def _is_statement(line: str) -> bool:
    """Whether a line without a question says something, rather than what is to be found."""
    if _COMMANDS.match(line):
        return False
    if _ASKS.match(line):
        return _GOES_ON.search(line) is not None
    is_sentence = line.rstrip(_MARKS).endswith((".", "!", "…", "。"))
    return is_sentence or _GOES_ON.search(line) is not None or _STATES.match(line) is not None
