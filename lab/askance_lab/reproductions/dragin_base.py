"""The base of all methods in the DRAGIN authors' code: generation, search, short answers, drafts."""

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from askance.core.answers import Answer, Citation
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Model, Needs, Run
from askance.core.trace import Decided, Trace, WordSignal
from askance.core.types import (
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
from askance.methods.common.answer_text import cite_sentences, decide_short_answer, parse_markers
from askance.methods.common.generation_state import SHORT_ANSWER_TOKENS
from askance.methods.common.prompts import OWN, PromptTemplate, example_spans, numbered
from askance.methods.common.token_limit import TokenLimited
from askance.text.answers import AUTHORS_MARKER, before_invention, short_answer
from askance.text.linguistics import OWN as OWN_LINGUISTICS
from askance.text.linguistics import Linguistics
from askance.text.support import PromptPassages

_REPLY = "Reply in the way of the examples above."
_LINES = {
    "plain": ("Answer from these passages.", ""),
    "hotpotqa": (
        _REPLY,
        "Reason step by step in the manner of the examples, then answer this question.\n",
    ),
    "strategyqa": (
        _REPLY,
        "Work out step by step, as the examples do, whether the answer is yes or no.\n\n",
    ),
}
"""The instruction and the text before the question in the authors' layout, by packaged prompt set."""


@checked_dataclass(kw_only=True)
class AuthorsMethod(TokenLimited):
    """The parameters of every method in the authors' code.

    Prompts are raw text. Generated text stays unchanged, including citation markers and end tokens.
    """

    max_tokens: int = parameter(
        128, "maximum number of new tokens of one generation; a longer text ends the answer", at_least=1
    )
    ask_short_answer: bool = parameter(True, "ask the model for a short answer if the text states none")
    prompts: PromptTemplate = parameter(OWN, "prompt template: the examples and fixed lines of the prompt")

    keeps_markers: ClassVar[bool] = True
    reads: ClassVar[frozenset[Signal]] = frozenset()
    """The signals that the method needs for each generated token, such as log-probabilities."""
    retrieves: ClassVar[bool] = False

    @property
    def needs(self) -> Needs:
        return Needs(self.reads, frozenset({"raw"}), retriever=self.retrieves)

    def start(self, question: Question, run: Run) -> "AuthorsState":
        """Return the initial state, with an empty answer."""
        return AuthorsState(question, run, self.prompts, self.ask_short_answer)


@checked_dataclass(kw_only=True)
class AuthorsSearch(AuthorsMethod):
    """The parameters of the methods that search."""

    passages: int = parameter(3, "number of passages per search", at_least=1)
    query_tokens: int = parameter(64, "maximum number of tokens of a query, its last ones", at_least=1)

    retrieves: ClassVar[bool] = True


@checked_dataclass(kw_only=True)
class AuthorsRounds(AuthorsSearch):
    """The parameters of the methods that alternate between searching and writing."""

    max_rounds: int = parameter(100, "maximum number of rounds of one answer", at_least=1)


@dataclass(slots=True)
class AuthorsState:
    """The state of the answer to one question while a method in the authors' code writes it.

    Attributes:
        asks_short_answer: Whether to ask for a short answer if the text states none.
        text: The answer so far, with the leading and trailing spaces that the authors' code keeps.
        stop_reason: The reason why the answer has ended; an empty string while it continues.
        shown: Pairs (length of the stripped text at a search, passages found), used for citations.
        control: The ids of the control tokens that the model has written, by their text. Usually, this is
            only the end token. Later prompts encode these texts as control tokens.
    """

    question: Question
    run: Run
    template: PromptTemplate
    asks_short_answer: bool = False
    text: str = ""
    stop_reason: str = ""
    shown: list[tuple[int, Sequence[Hit]]] = field(default_factory=list)
    control: dict[str, int] = field(default_factory=dict)

    async def rounds(self, most: int, max_tokens: int) -> AsyncIterator[int]:
        """Yield the number of each round, from 0, until the answer has ended or `most` rounds have run.

        At the end, the trace records the reason for stopping.
        """
        for step in range(most):
            chars_before = len(self.text)
            yield step
            self.stop_reason = self.stop_reason or await self._stop_reason_after(chars_before, max_tokens)
            if self.stop_reason:
                break
        self.run.trace.decide("end", "stop", self.stop_reason or f"there were {most} rounds")

    async def write(
        self, text: str, max_tokens: int, key: Key, passages: Sequence[str] | None = None, want: Want = Want()
    ) -> Generation:
        """Return a greedy continuation of `text`, generated without stop strings.

        The prompt shows `passages` before the question. As in the authors' code, the generated tokens and
        text include the end token. The generated text has no leading space, even if the tokenizer adds one.
        """
        model, prompt, on_text = self.run.model, self._prompt(text, passages), self.run.trace.draft
        request = GenerateRequest(prompt, Sampling(max_tokens), want, key=key, on_text=on_text)
        (generation,) = await model.generate(request)
        tokens = (*generation.tokens, *generation.dropped)
        ids = tuple(token.id for token in tokens)
        self.control |= {model.decode((id,)): id for id in set(ids) if is_control_token(id, model)}
        return replace(generation, text=model.decode(ids, at_start=True), tokens=tokens, dropped=())

    async def search(self, decision: Decided, k: int, query_tokens: int) -> tuple[str, ...]:
        """Return the texts of `k` passages, padded with empty strings if fewer are found.

        The query is cut to its last `query_tokens` tokens, and control tokens among these are removed.
        """
        model, run = self.run.model, self.run
        ids = self.ids(decision.query)[-query_tokens:]
        plain_ids = tuple(id for id in ids if id not in self.control.values())
        with run.trace.because(decision):
            hits = await run.retriever.search(model.decode(plain_ids, at_start=True), k)
        self.shown.append((len(self.text.strip()), hits))
        return (*(" ".join(hit.passage.text.split("\n")) for hit in hits), *[""] * (k - len(hits)))

    async def search_for(self, query: str, why: str, k: int, query_tokens: int) -> tuple[str, ...]:
        """Record the decision to search for `query`, and return the result of `search`."""
        decision = self.run.trace.decide("retrieve", "search", why, query=query)
        return await self.search(decision, k, query_tokens)

    def ids(self, text: str) -> TokenIds:
        """Return the token ids of `text`, encoded on its own and without a BOS token."""
        return self.run.model.tokenize(control_spans(text, self.control), at_start=True)

    def replace(self, text: str) -> None:
        """Replace the answer with `text`, and commit the new part of it to the trace.

        `text` must continue the answer so far, except that white space around the answer may differ.
        """
        self.run.trace.commit(text.strip()[len(self.text.strip()) :])
        self.text = text

    async def finish(self) -> Answer:
        """Return the answer, with white space as the authors' code leaves it.

        Text that was generated only to get a short answer is not part of the answer.
        """
        leading = len(self.text) - len(self.text.lstrip())
        shown = [(offset and offset + leading, hits) for offset, hits in self.shown]
        short, text = await self._short_answer(), self._without_control_tokens(self.text)
        citations = cite_with_markers(self.question, self.run.trace, text, shown, short)
        return Answer(self.text, short, citations)

    async def _short_answer(self) -> str:
        """Return the short answer, extracted from the text before any invented question or note.

        As in the authors' code, if the text lacks "the answer is" (case-sensitive), the beginning of such a
        sentence and a space are added, and the model completes the sentence without passages. If there is no
        room for this call, the trace records the reason. The authors' code then extracts the answer by rules
        for each data set. Here the same rules apply as in all other methods.
        """
        text = before_invention(self.text.strip(), least_index=1)
        if self.asks_short_answer and AUTHORS_MARKER not in text:
            opening = f"{text}{self.template.elicitation}".lstrip()
            why = f"the text does not hold {AUTHORS_MARKER!r}"
            prompt = self._prompt(f" {opening} ")
            if await decide_short_answer(self.run, prompt, SHORT_ANSWER_TOKENS, why):
                ending = await self.write(f" {opening} ", SHORT_ANSWER_TOKENS, ("elicit",))
                text = f"{opening} {before_invention(ending.text, least_index=0)}"
        statement = self._without_control_tokens(text[max(0, text.find(AUTHORS_MARKER)) :])
        return short_answer(parse_markers(statement, self.question, self.run.trace).text, self.question)

    async def _stop_reason_after(self, chars_before: int, max_tokens: int) -> str:
        if AUTHORS_MARKER in self.text:
            return f"the text holds {AUTHORS_MARKER!r}"
        if len(self.text) <= chars_before:
            return "the text did not grow"
        if self.text and await self.run.model.count(Raw((Span(self.text),))) > max_tokens:
            return f"the text has more than {max_tokens} tokens"
        return ""

    def _without_control_tokens(self, text: str) -> str:
        """Return `text` with blanks in place of the control tokens that the model wrote."""
        spans = control_spans(text, self.control)
        return "".join(" " * len(span.text) if span.trusted else span.text for span in spans)

    def _prompt(self, text: str, passages: Sequence[str] | None = None) -> Raw:
        """Return the prompt in the authors' format: examples, passages, question and answer so far.

        This format does not provide for a question's options and history, so both are left out. `text`, with
        its leading white space, directly follows "Answer:".

        Args:
            passages: The passages. If None, the prompt has no block of passages at all.
        """
        template, question = self.template, self.question
        demos = template.demos if question.demos is None else question.demos
        spans = [*example_spans(demos, gap="\n")]
        instruction, before = _LINES.get(template.name, (_REPLY, ""))
        if passages is not None:
            heading, line = f"{template.heading}\n", template.instruction or instruction
            spans += [Span(heading), *numbered(passages), Span(f"{line}\n")]
        before = template.before_question or before
        spans += [Span(f"{before}Question: "), untrusted(question.text), Span("\nAnswer:")]
        return Raw(tuple(spans), control_spans(text, self.control))


@dataclass(frozen=True, slots=True)
class Trigger:
    """The part of a draft to rewrite, and the search to make before that.

    Attributes:
        kept: The text of the draft before the part to rewrite.
        words: The scored parts of the triggering sentence: words for DRAGIN, tokens or entities for FLARE.
            Without a triggering sentence, the parts of the whole draft.
        signal: The meaning of the scores; an empty string for a trigger without scores.
        threshold: The threshold for the scores; None for a trigger without scores.
        is_due: Whether a sentence triggers the search; otherwise the whole draft is kept.
    """

    kept: str
    words: tuple[WordSignal, ...]
    query: str = ""
    signal: str = ""
    threshold: float | None = None
    is_due: bool = True

    def record(self, trace: Trace) -> Decided:
        """Record the decision to search, or to keep the draft."""
        evidence = {"signal": self.signal, "threshold": self.threshold, "words": self.words}
        if not self.is_due:
            return trace.decide("retrieve", "keep", "no sentence of the draft is in doubt", **evidence)
        why = "a search is due" if self.threshold is None else f"a sentence is above {self.threshold:g}"
        numbers = {"kept characters": float(len(self.kept))}
        return trace.decide("retrieve", "search", why, query=self.query, numbers=numbers, **evidence)


@checked_dataclass(kw_only=True)
class AuthorsDrafts(AuthorsRounds, ABC):
    """A method that drafts without passages, and rewrites the part of a draft that triggers a search."""

    linguistics: Linguistics = parameter(
        OWN_LINGUISTICS, "sentences, content words and entities: own, or spacy:PIPELINE"
    )

    joins_empty: ClassVar[bool] = False
    """Whether empty strings also count as parts when parts of a text are joined with spaces."""

    @property
    @abstractmethod
    def want(self) -> Want:
        """The signals that the method needs for each token of a draft."""

    @abstractmethod
    async def find_trigger(self, draft: Generation, state: AuthorsState) -> Trigger | None:
        """Return the part of `draft` to rewrite.

        To keep the whole draft, the result is None or a trigger that is not due.
        """

    async def answer(self, question: Question, run: Run) -> Answer:
        state = self.start(question, run)
        async for step in state.rounds(self.max_rounds, self.max_tokens):
            before = state.text
            draft = await state.write(self._leading(before), self.max_tokens, ("draft", step), want=self.want)
            trigger = await self.find_trigger(draft, state)
            trigger = trigger or Trigger(draft.text, (), is_due=False)
            decision = trigger.record(run.trace)
            if not trigger.is_due:
                state.replace(f"{before.strip()} {draft.text.strip()}")
                continue
            kept = trigger.kept.strip()
            passages = await state.search(decision, self.passages, self.query_tokens)
            with run.trace.because(decision):
                new = await self.rewrite(self._leading(before, kept), state, passages, step)
            state.replace(joined(before.strip(), kept, new.strip(), keeps_empty=self.joins_empty))
        return await state.finish()

    async def rewrite(self, text: str, state: AuthorsState, passages: Sequence[str], step: int) -> str:
        """Return the text that replaces the rest of the draft after `text`."""
        return (await state.write(text, self.max_tokens, ("again", step), passages)).text

    def _leading(self, *parts: str) -> str:
        """Return the joined parts with a leading space, which separates them from "Answer:" in the prompt."""
        text = joined(*parts, keeps_empty=self.joins_empty)
        return f" {text}" if text or self.joins_empty else ""


def control_spans(text: str, control: Collection[str]) -> tuple[Span, ...]:
    """Split `text` into trusted spans, which are strings in `control`, and untrusted spans for the rest."""
    longest_first = sorted(control, key=len, reverse=True)
    pieces = re.split(f"({'|'.join(map(re.escape, longest_first))})", text) if control else [text]
    return tuple(Span(piece, trusted=piece in control) for piece in pieces if piece)


def joined(*parts: str, keeps_empty: bool = False) -> str:
    """Return the parts joined with single spaces, without empty parts unless `keeps_empty` is set."""
    return " ".join(part for part in parts if part or keeps_empty)


def is_control_token(id: int, model: Model) -> bool:
    """Return whether a token is a control token, which can result only from encoding trusted text."""
    text = model.decode((id,))
    return model.tokenize(text) != (id,) == model.tokenize((Span(text),))


def cite_with_markers(
    question: Question, trace: Trace, text: str, shown: PromptPassages, short: str
) -> tuple[Citation, ...]:
    """Return the citations of a text that still contains the model's markers."""
    written = parse_markers(text, question, trace)
    return tuple(
        replace(each, start=written.written_offset(each.start), end=written.written_offset(each.end))
        for each in cite_sentences(trace, written, short, shown, ((0, question.text),))
    )
