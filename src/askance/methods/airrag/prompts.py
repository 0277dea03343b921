"""Build the prompts of AirRAG's actions (Feng et al. 2025, arXiv 2501.10053, appendix) and parse the replies.

The instructions come from an `AirragPromptTemplate`, which users can replace; `prompts.toml` has the default
text. The reply formats are those of the paper. The parsers skip headings, announcements and statements that
models write next to a query or instead of one.

A model with a chat format gets a system turn, a pair of turns for each example, and a user turn. Any other
model gets the same content as plain text that ends with a cue. Retrievers return the best hit first, but
prompts show the best hit last.
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from askance.core.ports import Model
from askance.core.types import Chat, Demo, Hit, Prompt, Question, Raw, Span, Turn, untrusted
from askance.methods.common.prompts import chat_turns, content_name, numbered_passages, question_spans
from askance.text.answers import normalise_answer

REFUSAL = "The passages do not contain the answer."
"""The reply that RA asks for if the passages hold no answer."""


@dataclass(frozen=True, slots=True, repr=False)
class AirragPromptTemplate:
    """The instructions of each action, with worked examples. The repr changes with the content.

    Attributes:
        system: The system message, which precedes each instruction if the model has no chat format.
        say, ra, qt, sa: The instructions of the actions. DA has none.
        verify: The instruction of the call that chooses between answers.
        judge: The instruction of the reward model, which replies Yes or No.
        examples: The number of worked examples shown for each action.
        say_demos, qt_demos, sa_demos: The worked examples. In prompts, `Question: ` precedes each example.
        name: The prefix of the repr, which is ignored in comparisons.
    """

    system: str
    say: str
    ra: str
    qt: str
    sa: str
    verify: str
    judge: str
    examples: int = 0
    say_demos: tuple[Demo, ...] = ()
    qt_demos: tuple[Demo, ...] = ()
    sa_demos: tuple[Demo, ...] = ()
    name: str = field(default="prompts", compare=False, kw_only=True)

    def __repr__(self) -> str:
        return content_name(self)

    def __str__(self) -> str:
        return next((known.name for known in (OWN, READER) if self == known), repr(self))


def _own() -> AirragPromptTemplate:
    content = tomllib.loads(Path(__file__).with_name("prompts.toml").read_text(encoding="utf-8"))
    content |= {key: tuple(Demo(**each) for each in content[key]) for key in DEMO_KEYS}
    return AirragPromptTemplate(**content, name="airrag")


DEMO_KEYS = ("say_demos", "qt_demos", "sa_demos")
OWN = _own()
READER = replace(
    OWN,
    qt="Given what is known, decide whether to rephrase, summarise or split the next query, or to ask a "
    "follow-up, so that searching and answering get easier. Write one query per line, or None if none is "
    "needed.",
    name="airrag-reader",
)
"""The template on which readers, including the packaged one, are trained. If you change it, retrain them."""

MOST_QUERIES = 4
"""The maximum number of queries in one reply, equal to the paper's limit on the iterations of a path."""
QUERY_STOPS = ("\nQuestion:", "\nContext:", "\nKnown:")
"""The stop strings of query lists in a chat.

A blank line is not one of them, because many models leave a line blank between an announcement and the list.
"""

_LEAD = re.compile(
    r"^(?:#{1,6}\s+|[-*•–—+]\s+|\(?\d{1,2}[.)](?!\d)\s*|\d:\s+|\(?[a-z]\)\s+"
    r"|\**(?:next |sub-?|follow-?up )?(?:query|queries|questions?)(?: \d+)?\**:\**(?:\s+|$))+",
    re.IGNORECASE,
)
"""Match a heading mark, bullet, list number or label, but not an initial ("J. Joyce") or a number that is
part of the text ("3:10", "1.5").
"""
_HEADING_OR_CODE = re.compile(
    r"\s*(?:\*\*[^*?]*\*\*\s*$"
    r"|(?:#{1,6}\s|```|(?:SELECT|FROM|WHERE|JOIN|ORDER BY|GROUP BY|LIMIT)\b)[^?]*$)"
)
"""Match headings and code. Small models sometimes write SQL when asked for a query."""
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
"""Match a statement, but not "the film that was made in 1957"."""
_NEW_SENTENCE = re.compile(r"(?:[^\W\d_]{4}|\d|\))[.!]\s+[^\W\d_a-z]")
"""Match the start of a new sentence, but not after an initial or "Mrs."."""
_NEXT_QUESTION = re.compile(r"(?<=\?)\s+(?=[A-ZÀ-ÖØ-ÞΑ-ΩА-Я])")
"""Match the space between a question and another sentence on the same line."""
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
    """A candidate answer for `PromptBuilder.verify`.

    Attributes:
        num_paths: The number of paths that ended in this answer.
        history: The sub-queries of one of these paths, with their answers.
    """

    answer: str
    num_paths: int = 1
    history: tuple[Demo, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptBuilder:
    """A builder of the prompts for one question."""

    model: Model
    question: Question
    template: AirragPromptTemplate = OWN

    def say(self) -> Prompt:
        """Return the prompt that asks the model to rephrase, generalise or split the question.

        The model is asked to reply `None` if nothing is gained.
        """
        return self._prompt(self.template.say, self._question, "Queries:", self.template.say_demos)

    def da(self) -> Prompt:
        """Return the prompt that asks the question without an instruction.

        For a model without a chat format, an answer cue follows the question.
        """
        return self._prompt("", question_spans(self.question))

    def ra(self, hits: Sequence[Hit], query: str) -> Prompt:
        """Return the prompt that asks for a short answer to `query` from passages.

        The model is asked to reply with `REFUSAL` if the passages hold no answer.
        """
        return self._prompt(self.template.ra, (*_contexts(hits), Span("Question: "), _line(query)))

    def qt(self, history: Sequence[Demo], current: str) -> Prompt:
        """Return the prompt that asks what to search for next.

        Args:
            current: The next query in the queue, or an empty string if the queue is empty.
        """
        due = (Span("\n"), *_history(history), Span("Next query: "), _line(current.strip() or "None"))
        return self._prompt(self.template.qt, (*self._question, *due), "Queries:", self.template.qt_demos)

    def sa(self, history: Sequence[Demo], hits: Sequence[Hit] = ()) -> Prompt:
        """Return the prompt that asks for the final answer from the answered sub-queries and passages."""
        parts = (*_contexts(hits), *_history(history), *self._question)
        return self._prompt(self.template.sa, parts, demos=self.template.sa_demos)

    def verify(self, candidates: Sequence[Candidate], hits: Sequence[Hit] = ()) -> Prompt:
        """Return the prompt that asks which candidate is right.

        Args:
            candidates: The distinct candidates, likeliest first.
        """
        listed: list[Span] = [Span("Candidates:\n")]
        for candidate in candidates:
            count = f" ({candidate.num_paths})" if candidate.num_paths > 1 else ""
            listed += [Span("- "), _line(candidate.answer), Span(f"{count}\n"), *_history(candidate.history)]
        return self._prompt(self.template.verify, (*_contexts(hits), *listed, *self._question))

    def judge(self, steps: Sequence[tuple[str, str]]) -> Prompt:
        """Return the prompt that asks whether a path is right.

        Args:
            steps: The steps of the path, each as a pair of a label and an output.
        """
        lines = [(Span(f"\n{label}: "), _line(output)) for label, output in steps]
        judging = replace(self.template, system=_JUDGING)
        ending = (Span("\n"),) if "chat" in self.model.capabilities else ()
        parts = (*self._question, *chain.from_iterable(lines), *ending)
        return replace(self, template=judging)._prompt(self.template.judge, parts, "Judgement:")

    @property
    def _question(self) -> tuple[Span, ...]:
        return (Span("Question: "), *question_spans(self.question))

    def _prompt(
        self, instruction: str, parts: tuple[Span, ...], cue: str = "Answer:", demos: Sequence[Demo] = ()
    ) -> Prompt:
        worked = [
            ((Span("Question: "), untrusted(each.question)), each.answer)
            for each in demos[: self.template.examples]
        ]
        if "chat" in self.model.capabilities:
            head = (Span(f"{instruction}\n\n"),) if instruction else ()
            system = Turn("system", (Span(self.template.system),))
            return Chat((system, *chat_turns("", worked, (*head, *parts))))
        spans = [Span(f"{self.template.system} {instruction}\n\n")] if instruction else []
        for question, answer in worked:
            spans += [*question, Span(f"\n{cue} "), untrusted(answer), Span("\n\n")]
        return Raw((*spans, *parts, Span(f"\n{cue}")))


def _contexts(hits: Sequence[Hit]) -> tuple[Span, ...]:
    return (*numbered_passages(hits[::-1]), Span("\n")) if hits else ()


def _history(history: Sequence[Demo]) -> tuple[Span, ...]:
    spans: list[Span] = []
    for pair in history:
        question = (_line(pair.question), Span(" ")) if pair.question else ()
        spans += [Span("Known: "), *question, _line(pair.answer), Span("\n")]
    return tuple(spans)


def _line(text: str) -> Span:
    return untrusted(" ".join(text.split()))


_JUDGING = "You judge how questions are being answered."


def parse_final(text: str) -> str:
    """Return the answer in a reply of RA, SA or DA.

    The answer is the first line that has a letter or digit, without quotes around the line or a full stop at
    its end. If the reply contains a cue ("Answer:", "the answer is"), only the text after the last cue
    counts, unless that text is empty. Replies must be generated with `askance.methods.common.prompts.STOPS`,
    so that they end before an invented question.
    """
    pieces = [piece for piece in _CUE.split(text) if any(map(str.isalnum, piece))]
    lines = (line for line in (pieces[-1] if pieces else "").splitlines() if any(map(str.isalnum, line)))
    return unquoted(unquoted(next(lines, "")).removesuffix("."))


def is_refusal(answer: str) -> bool:
    """Return whether a reply says, in a phrase typical of models, that there is no answer.

    "The passages do not contain …" is a refusal. The same statement about anything other than the passages is
    an answer.
    """
    plain = normalise_answer(answer.replace("’", "'"))
    return plain in _UNKNOWN or _REFUSAL.search(plain) is not None


def unquoted(text: str) -> str:
    """Return `text` without quotes that enclose all of it.

    Quotes that enclose only a part of `text`, such as a title, stay.
    """
    text = text.strip()
    for begin, end in _PAIRS:
        inner = text[len(begin) : -len(end)]
        marks = _APOSTROPHE.sub("", inner)
        if text == f"{begin}{inner}{end}" and begin not in marks and end not in marks:
            return unquoted(inner)
    return text


def parse_queries(text: str, most: int = MOST_QUERIES) -> tuple[str, ...]:
    """Return the first `most` distinct queries in a reply of SAY or QT.

    A reply usually has one query per line, or `None` if no query is needed. Bullets, numbers, labels and
    quotes around a query are removed. The parser skips every `None`. It also skips headings, code, lines that
    end in a colon, and statements, because small models often answer instead of asking. Text after a question
    on the same line is dropped, unless it is another question.
    """
    queries: dict[str, str] = {}
    for line in (each for each in text.splitlines() if not _HEADING_OR_CODE.match(each)):
        for query in _queries_in(unquoted(_LEAD.sub("", unquoted(line)))):
            plain = normalise_answer(query)
            if any(map(str.isalnum, query)) and not _NO_QUERY.fullmatch(plain):
                queries.setdefault(plain or query, query)
    return tuple(queries.values())[:most]


def _queries_in(line: str) -> tuple[str, ...]:
    """Return the queries in a cleaned line. A line without a question mark is one query or none."""
    questions = tuple(
        piece for piece in _NEXT_QUESTION.split(line) if piece.rstrip(_MARKS).endswith(("?", "？"))
    )
    announces = line.rstrip(_MARKS).endswith(":")
    return questions or (() if announces or _NONE_AND_WHY.match(line) or _is_statement(line) else (line,))


def _is_statement(line: str) -> bool:
    """Return whether a line without a question mark is a statement rather than a query."""
    if _COMMANDS.match(line):
        return False
    if _ASKS.match(line):
        return _NEW_SENTENCE.search(line) is not None
    is_sentence = line.rstrip(_MARKS).endswith((".", "!", "…", "。"))
    return is_sentence or _NEW_SENTENCE.search(line) is not None or _STATES.match(line) is not None
