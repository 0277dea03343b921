"""What the methods of the DRAGIN authors' code share: how text is joined, cut, searched for, and ended."""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from askance.core.parameters import parameter
from askance.core.ports import Needs, Run
from askance.core.trace import Decided, Trace, WordSignal
from askance.core.types import (
    Answer,
    GenerateRequest,
    Generation,
    Hit,
    Key,
    Question,
    Raw,
    Sampling,
    Signal,
    Span,
    TokenIds,
    Want,
    untrusted,
)
from askance.methods.common.answer_text import cite_with_markers, decide_short_answer, parse_markers
from askance.methods.common.prompts import OWN, PromptTemplate, example_spans, numbered
from askance.methods.common.token_limit import TokenLimited
from askance.methods.dragin.attention_map import is_control_token
from askance.text.answers import AUTHORS_MARKER, before_invention, short_answer
from askance.text.linguistics import OWN as OWN_LINGUISTICS
from askance.text.linguistics import Linguistics


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorsMethod(TokenLimited):
    """The parameters of every method of the code. Its prompts are raw text, and what the model writes stays
    as it is, markers and end tokens included.
    """

    profile: Literal["code"] = parameter("code", "whose reading: the DRAGIN authors' code")
    max_tokens: int = parameter(
        128, "most new tokens of one generation; a longer text ends the answer", at_least=1
    )
    elicit: bool = parameter(True, "ask for the short answer where the text states none")
    elicit_tokens: int = parameter(20, "most new tokens of an elicited answer", at_least=1)
    wording: PromptTemplate = parameter(OWN, "examples and fixed lines of the prompt")

    keeps_markers: ClassVar[bool] = True
    reads: ClassVar[frozenset[Signal]] = frozenset()
    """The signals that are looked at."""
    retrieves: ClassVar[bool] = False

    @property
    def needs(self) -> Needs:
        return Needs(self.reads, frozenset({"raw"}), retriever=self.retrieves)

    def start(self, question: Question, run: Run) -> "AuthorsState":
        """An answer that is still empty."""
        return AuthorsState(question, run, self.wording, self.elicit_tokens if self.elicit else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorsSearch(AuthorsMethod):
    """The parameters of those that search."""

    passages: int = parameter(3, "passages per search", at_least=1)
    query_tokens: int = parameter(64, "a query keeps this many of its last tokens", at_least=1)

    retrieves: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorsRounds(AuthorsSearch):
    """The parameters of those that write in rounds, and search in them."""

    max_rounds: int = parameter(100, "most rounds of one answer", at_least=1)


@dataclass(slots=True)
class AuthorsState:
    """One question on its way: the answer so far, and which passages were shown from which character on.

    Attributes:
        elicit_tokens: most new tokens of an elicited answer; 0 asks for none.
        text: the answer so far, spaces in front and behind included, as the code keeps it.
        ended: why no further round follows, once that is known.
        shown: for the citations.
        control: text and id of the control tokens that the model has written, as a rule its end token; in
            later prompts they are these tokens again.
    """

    question: Question
    run: Run
    wording: PromptTemplate
    elicit_tokens: int = 0
    text: str = ""
    ended: str = ""
    shown: list[tuple[int, Sequence[Hit]]] = field(default_factory=list)
    control: dict[str, int] = field(default_factory=dict)

    def rounds(self, most: int, max_tokens: int) -> Iterator[int]:
        """The numbers of the rounds until the text has ended; the trace says why it has."""
        for step in range(most):
            chars_before = len(self.text)
            yield step
            self.ended = self.ended or self._end_reason(chars_before, max_tokens)
            if self.ended:
                break
        self.run.trace.decide("end", "stop", self.ended or f"there were {most} rounds")

    async def write(
        self, state: str, max_tokens: int, key: Key, shown: Sequence[str] | None = None, want: Want = Want()
    ) -> Generation:
        """Generate greedily, without stop strings, with the passages `shown` in front of the question.

        As the code sees it, the end token is one of the tokens, and its string a part of the text, which
        stands by itself: where a tokenizer puts a space in front of a text, it has none.
        """
        model, prompt = self.run.model, self._prompt(state, shown)
        (generation,) = await model.generate(
            GenerateRequest(prompt, Sampling(max_tokens), want, key=key, watch=self.run.trace.draft)
        )
        tokens = (*generation.tokens, *generation.dropped)
        ids = tuple(token.id for token in tokens)
        self.control |= {model.decode((id,)): id for id in set(ids) if is_control_token(id, model)}
        return replace(generation, text=model.decode(ids, at_start=True), tokens=tokens, dropped=())

    async def search(self, decision: Decided, k: int, query_tokens: int) -> tuple[str, ...]:
        """The texts of `k` passages; empty ones stand for those that were not found.

        The last `query_tokens` tokens of the query are searched for, less the control ones among them.
        """
        model, run = self.run.model, self.run
        plain = tuple(
            id for id in self.ids(decision.query)[-query_tokens:] if id not in self.control.values()
        )
        with run.trace.because(decision):
            hits = await run.retriever.search(model.decode(plain, at_start=True), k)
        self.shown.append((len(self.text.strip()), hits))
        return (*(" ".join(hit.passage.text.split("\n")) for hit in hits), *[""] * (k - len(hits)))

    async def search_for(self, query: str, why: str, k: int, query_tokens: int) -> tuple[str, ...]:
        """`search`, and the decision to do so."""
        decision = self.run.trace.decide("retrieve", "search", why, query=query)
        return await self.search(decision, k, query_tokens)

    def ids(self, text: str) -> TokenIds:
        """Of a text by itself, without BOS."""
        return self.run.model.tokenize(control_spans(text, self.control), at_start=True)

    def replace(self, text: str) -> None:
        """Take `text`, which begins with the answer so far but for white space around it."""
        self.run.trace.commit(text.strip()[len(self.text.strip()) :])
        self.text = text

    async def finish(self) -> Answer:
        """The answer, with the white space that the code keeps; its text never has what was elicited."""
        left = len(self.text) - len(self.text.lstrip())
        shown, short = [(at and at + left, hits) for at, hits in self.shown], await self._short()
        said = self._said(self.text)
        citations = cite_with_markers(self.question, self.run.trace, said, shown, short)
        return Answer(self.text, short, citations)

    async def _short(self) -> str:
        """The short answer of the text up to where it invents questions or notes.

        As in the code, a text without "the answer is", in these letters, is gone on from without passages,
        with a space behind the words that begin the answer. The code reads all that follows them, by rules
        that depend on the data set; here it is read as for every method. Ours: a window without room for
        this is recorded, and what there is is read.
        """
        text = before_invention(self.text.strip(), least_at=1)
        if self.elicit_tokens and AUTHORS_MARKER not in text:
            begun = f"{text}{self.wording.elicitation}".lstrip()
            why = f"the text does not hold {AUTHORS_MARKER!r}"
            if decide_short_answer(self.run, self._prompt(f" {begun} "), self.elicit_tokens, why):
                more = await self.write(f" {begun} ", self.elicit_tokens, ("elicit",))
                text = f"{begun} {before_invention(more.text, least_at=0)}"
        stated = text[max(0, text.find(AUTHORS_MARKER)) :]
        said = parse_markers(self._said(stated), self.question, self.run.trace)
        return short_answer(said.text, self.question)

    def _end_reason(self, chars_before: int, max_tokens: int) -> str:
        if AUTHORS_MARKER in self.text:
            return f"the text holds {AUTHORS_MARKER!r}"
        if len(self.text) <= chars_before:
            return "the text did not grow"
        if self.text and self.run.model.count(Raw((Span(self.text),))) > max_tokens:
            return f"the text has more than {max_tokens} tokens"
        return ""

    def _said(self, text: str) -> str:
        """`text` with blanks for the control tokens that the model wrote, which say nothing."""
        spans = control_spans(text, self.control)
        return "".join(" " * len(span.text) if span.trusted else span.text for span in spans)

    def _prompt(self, state: str, passages: Sequence[str] | None = None) -> Raw:
        """Examples, passages, question, answer so far, in the order and with the line breaks of the authors.

        Their layout has no place for the options and the history of a question: both are left out. White
        space in `state` stays directly behind "Answer:". None leaves the block of passages out.
        """
        wording, question = self.wording, self.question
        demos = wording.demos if question.demos is None else question.demos
        spans = [*example_spans(demos, gap="\n")]
        if passages is not None:
            spans += [
                Span(f"{wording.heading}\n"), *numbered(passages), Span(f"{wording.instruction}\n")
            ]  # fmt: skip
        spans += [Span(f"{wording.before_question}Question: "), untrusted(question.text), Span("\nAnswer:")]
        return Raw(tuple(spans), control_spans(state, self.control))


@dataclass(frozen=True, slots=True)
class Trigger:
    """What of a draft is to be written again.

    Attributes:
        kept: what of the draft stands before it.
        words: what was judged of the doubtful sentence: words, or FLARE's tokens or entities.
        query: what is searched for.
        signal: what the numbers of the words are; empty where none is looked at.
        threshold: of the signal.
    """

    kept: str
    words: tuple[WordSignal, ...]
    query: str = ""
    signal: str = ""
    threshold: float | None = None

    def decide(self, trace: Trace) -> Decided:
        """Record the search."""
        why = "a search is due" if self.threshold is None else f"a sentence is above {self.threshold:g}"
        told = {"signal": self.signal, "threshold": self.threshold, "words": self.words, "query": self.query}
        numbers = {"kept characters": float(len(self.kept))}
        return trace.decide("retrieve", "search", why, numbers=numbers, **told)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorsDrafts(AuthorsRounds, ABC):
    """Drafts without passages; what is in doubt is written again with the passages found for it."""

    linguistics: Linguistics = parameter(
        OWN_LINGUISTICS, "sentences, content words and entities: own, or spacy:PIPELINE"
    )

    joins_empty: ClassVar[bool] = False
    """Whether a space stands beside a text that is empty, too."""

    @property
    @abstractmethod
    def want(self) -> Want:
        """The signals of a draft that are looked at."""

    @abstractmethod
    async def first_doubt(self, draft: Generation, state: AuthorsState) -> Trigger | None:
        """Where `draft` is to be written again, or None to keep all of it."""

    async def answer(self, question: Question, run: Run) -> Answer:
        state = self.start(question, run)
        for step in state.rounds(self.max_rounds, self.max_tokens):
            before = state.text
            draft = await state.write(self._behind(before), self.max_tokens, ("draft", step), want=self.want)
            doubt = await self.first_doubt(draft, state)
            if doubt is None:
                run.trace.decide("retrieve", "keep", "no sentence of the draft is in doubt")
                state.replace(f"{before.strip()} {draft.text.strip()}")
                continue
            decision, kept = doubt.decide(run.trace), doubt.kept.strip()
            passages = await state.search(decision, self.passages, self.query_tokens)
            with run.trace.because(decision):
                new = await self.again(self._behind(before, kept), state, passages, step)
            state.replace(joined(before.strip(), kept, new.strip(), keeps_empty=self.joins_empty))
        return await state.finish()

    async def again(self, text: str, state: AuthorsState, passages: Sequence[str], step: int) -> str:
        """What replaces the doubtful part behind `text`, and all that follows it."""
        return (await state.write(text, self.max_tokens, ("again", step), passages)).text

    def _behind(self, *parts: str) -> str:
        """The parts as they stand behind "Answer:"."""
        text = joined(*parts, keeps_empty=self.joins_empty)
        return f" {text}" if text or self.joins_empty else ""


def control_spans(text: str, control: Collection[str]) -> tuple[Span, ...]:
    """`text`, untrusted but for the strings in `control`, which are the tokens again that a model wrote."""
    longest_first = sorted(control, key=len, reverse=True)
    pieces = re.split(f"({'|'.join(map(re.escape, longest_first))})", text) if control else [text]
    return tuple(Span(piece, trusted=piece in control) for piece in pieces if piece)


def joined(*parts: str, keeps_empty: bool = False) -> str:
    """The parts with single spaces between them, without the empty ones unless it `keeps_empty`."""
    return " ".join(part for part in parts if part or keeps_empty)
