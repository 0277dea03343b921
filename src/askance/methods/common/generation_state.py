"""The state of an answer while a method writes it: prompt, passages, text, and the reason to stop."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from askance.core.answers import Answer
from askance.core.errors import ModelFailure
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Needs, Run
from askance.core.token_ledger import has_room
from askance.core.trace import Decided
from askance.core.types import (
    GenerateRequest,
    Generation,
    Hit,
    Key,
    Prompt,
    Question,
    Sampling,
    Signal,
    StopCondition,
    Want,
)
from askance.methods.common.answer_text import (
    PlainTrace,
    cite_whole_answer,
    committed_answer,
    decide_short_answer,
    full_text,
    parse_markers,
)
from askance.methods.common.prompts import OWN, Layout, PromptTemplate, answer_prompt, layout_needs, stops_of
from askance.methods.common.search import num_fitting
from askance.methods.common.token_limit import TokenLimited
from askance.text.answers import SentenceEnd, answer_end, awaits_answer, has_answer, short_answer
from askance.text.linguistics import content_words
from askance.text.markers import UnmarkedText

ELICITED = ("elicit",)
"""The key of the call that asks for a short answer."""
_DRAWN = ("temperature", "top_p", "top_k")
SHORT_ANSWER_TOKENS = 20
"""The maximum number of new tokens of a short answer that is asked for."""
_SHORTEST_ANSWER = 3
"""The minimum length of a sentence in characters, chosen to admit " no." but not a lone full stop."""


@checked_dataclass(kw_only=True)
class WritesAnswer(TokenLimited):
    """The common parameters of the methods that take their prompt from `answer_prompt`."""

    max_tokens: int = parameter(128, "maximum number of new tokens of the answer", at_least=1)
    ask_short_answer: bool = parameter(True, "ask the model for a short answer if the text states none")
    layout: Layout = parameter("auto", "raw text, or the model's chat format; auto prefers raw text")
    prompts: PromptTemplate = parameter(OWN, "prompt template: the examples and fixed lines of the prompt")

    continues: ClassVar[bool] = True
    """Whether the model must be able to continue its own text."""
    reads: ClassVar[frozenset[Signal]] = frozenset()
    """The signals that the method needs for each generated token, such as log-probabilities."""

    @property
    def needs(self) -> Needs:
        return Needs(self.reads, one_of=layout_needs(self.layout, continues=self.continues), retriever=True)

    def start(self, question: Question, run: Run) -> "GenerationState":
        """Return the initial state, with an empty answer. A method without options of sampling is greedy."""
        asks, layout, template = self.ask_short_answer, self.layout, self.prompts
        drawn = {name: getattr(self, name) for name in _DRAWN if hasattr(self, name)}
        sampling = Sampling(self.max_tokens, **drawn)
        state = GenerationState(question, run, asks, layout, template, sampling)
        if isinstance(run.trace, PlainTrace):
            run.trace.evidence = lambda text: (state.shown, ((0, question.text),), text)
        return state


@dataclass(slots=True)
class GenerationState:
    """The state of the answer to one question while a method writes it.

    Attributes:
        asks_short_answer: Whether to ask for a short answer if the text states none.
        sampling: The sampling options of the answer, with its maximum number of tokens.
        text: The answer so far, including citation markers that the model wrote.
        notes: Text before the answer that the model continues, but that is no part of the answer, such as
            reasoning and retrieved text.
        hits: The passages in the prompt.
        shown: Pairs (offset in `text`, passages that the prompt shows from that offset on).
        stop_reason: The reason why the answer has ended; an empty string while it continues.
        queries: The queries searched for, plain.
        keeps_thoughts: Whether thoughts of the model stay in the text (see `Raw`).
    """

    question: Question
    run: Run
    asks_short_answer: bool
    layout: Layout
    template: PromptTemplate
    sampling: Sampling = Sampling(0)
    text: str = ""
    notes: str = ""
    num_tokens: int = 0
    num_searches: int = 0
    hits: tuple[Hit, ...] = ()
    shown: list[tuple[int, tuple[Hit, ...]]] = field(default_factory=list)
    stop_reason: str = ""
    queries: set[str] = field(default_factory=set)
    keeps_thoughts: bool = False

    @property
    def tokens_left(self) -> int:
        """The number of tokens that may still be added to the answer."""
        return self.sampling.max_tokens - self.num_tokens

    def prompt(self, hits: Sequence[Hit] | None = None, further: str = "", text: str = "") -> Prompt:
        """Return the prompt of the next call.

        Args:
            hits: Passages in place of those in the prompt.
            further: Text that follows the notes.
            text: Text in place of the notes and the answer so far.
        """
        hits = self.hits if hits is None else hits
        so_far = text or self.notes + further + self.text
        prompt = answer_prompt(self.run.model, self.question, hits, so_far, self.layout, self.template)
        return replace(prompt, keeps_thoughts=self.keeps_thoughts)

    @property
    def shown_ids(self) -> frozenset[str]:
        """The ids of all passages that the prompt has shown."""
        return frozenset(hit.passage.id for _, hits in self.shown for hit in hits)

    def rounds(self, most: int) -> Iterator[int]:
        """Yield the number of each round, from 0, until the answer has ended or `most` rounds have run."""
        for step in range(most):
            yield step
            if self.stop_reason:
                return
        self.stop_reason = f"there were {most} rounds"

    async def search(
        self, decision: Decided, k: int, exclude: frozenset[str] = frozenset()
    ) -> tuple[Hit, ...]:
        """Return the `k` best passages for the query of a decision, without duplicates.

        This method does not change the passages in the prompt.
        """
        self.num_searches += 1
        self.queries.add(_plain(decision.query))
        with self.run.trace.because(decision):
            hits = await self.run.retriever.search(decision.query, k, exclude=exclude)
        return tuple({hit.passage.id: hit for hit in reversed(hits)}.values())[::-1]

    def obstacle_to(self, query: str) -> str:
        """Return the reason not to search for a query; an empty string if there is none.

        The reasons are that it has no content word, and that it was searched for before, apart from case,
        white space and punctuation.
        """
        if not query.strip():
            return "the query is empty"
        if not content_words(query):
            return "the query has no content word"
        return "this query was searched for before" if self.was_searched(query) else ""

    def was_searched(self, query: str) -> bool:
        """Return whether a query was searched for, apart from case, white space and punctuation."""
        return _plain(query) in self.queries

    async def search_for(
        self, query: str, k: int, why: str, exclude: frozenset[str] = frozenset()
    ) -> tuple[Hit, ...]:
        """Decide to search for `query`, and return the passages found (see `search`)."""
        return await self.search(self.run.trace.decide("retrieve", "search", why, query=query), k, exclude)

    async def search_first(self, k: int) -> None:
        """Search for the question, and put the passages found into the prompt."""
        why = "the first search is made with the question itself"
        self.show_passages(await self.search_for(self.question.text, k, why))

    def show_passages(self, hits: tuple[Hit, ...]) -> None:
        """Replace the passages in the prompt with `hits`, from the end of the text on."""
        if hits != self.hits:
            self.hits = hits
            self.shown.append((len(self.text), hits))

    async def show_fitting(self, hits: tuple[Hit, ...], *, keep: int = 0) -> None:
        """Replace the passages in the prompt with as many of `hits`, the first ones, as there is room for.

        Args:
            keep: The number of tokens of the budget that must be left.
        """
        model, most = self.run.model, self.sampling.max_tokens
        num_hits = await num_fitting(
            self.run, len(hits), lambda num: has_room(model, self.prompt(hits[:num]), most, keep=keep)
        )
        self.show_passages(hits[:num_hits])

    async def has_room(self, max_tokens: int, further: str = "") -> bool:
        """Return whether the next call fits, and after it another one that asks for the answer.

        The other call reads what the next one reads and writes, at most `SHORT_ANSWER_TOKENS` tokens that the
        method adds, and the beginning of the sentence that states the answer (`PromptTemplate.elicitation`).

        Args:
            max_tokens: The maximum number of new tokens of the next call; 0 if the other one is the next.
            further: Text that follows the notes.
        """
        model, prompt = self.run.model, self.prompt(further=further + self.template.elicitation)
        written = max_tokens and max_tokens + SHORT_ANSWER_TOKENS
        keep = written and await model.count(prompt) + written
        return await has_room(model, prompt, written + SHORT_ANSWER_TOKENS, keep=keep)

    async def lacks_room(self, max_tokens: int, part: str) -> bool:
        """Return whether the answer ends because there is no room for another call (see `has_room`).

        The first call is made in any case if the model is not asked for its answer instead.

        Args:
            part: The name of what the call writes, for `stop_reason`.
        """
        may_end = self.asks_short_answer or self.notes or self.text
        if not may_end or await self.has_room(max_tokens):
            return False
        self.stop_reason = f"there is no room for a {part} and the answer"
        return True

    async def write(
        self,
        max_tokens: int,
        key: Key,
        want: Want = Want(),
        until: StopCondition | None = None,
        on_text: Callable[[str], None] | None = None,
        *,
        stop: tuple[str, ...] | None = None,
    ) -> Generation:
        """Generate and return the next part of the answer, without appending it to the answer.

        Args:
            on_text: A function that receives the text while the model writes it. By default, the trace
                records the text as a draft.
            stop: The stop strings; by default, those of an answer.
        """
        prompt, on_text = self.prompt(), on_text or self.run.trace.draft
        stop = stops_of(prompt) if stop is None else stop
        sampling = replace(self.sampling, max_tokens=max_tokens, stop=stop)
        request = GenerateRequest(prompt, sampling, want, until, key=key, on_text=on_text)
        (generation,) = await self.run.model.generate(request)
        return generation

    async def write_all(self) -> None:
        """Generate the whole answer in one call, and commit its text while the model writes it.

        Without a passage, a model in this process also gives the answer's own probability (see
        `text.support.source_of`). A server would need more time, and some then lose characters.

        Raises:
            ModelFailure: The server broke off, and wrote another text on the next attempt.
        """
        committed = list[str]()

        def commit(text: str) -> None:
            committed.append(text)
            self.run.trace.commit(text)

        model = self.run.model
        want = Want(logprob=not self.hits and "logprob" in model.signals and "attend" in model.capabilities)
        generation = await self.write(self.sampling.max_tokens, ("answer",), want, on_text=commit)
        shown = "".join(committed)
        if not generation.text.startswith(shown):
            raise ModelFailure(
                "the server broke off its answer, and wrote another text when it was asked again, but the "
                "first part can't be taken back: ask the question again."
            )
        if len(generation.text) > len(shown):  # the model does not stream
            self.run.trace.commit(generation.text[len(shown) :])
        self.text = generation.text

    def keep_text(self, text: str, num_tokens: int) -> None:
        """Append text to the answer, and commit it to the trace."""
        self.run.trace.commit(text)
        self.text += text
        self.num_tokens += num_tokens

    def keep_piece(self, piece: Generation) -> None:
        """Append a generated piece to the answer, and set `stop_reason` if this piece ends the answer."""
        self.stop_reason = self.stop_reason_after(piece)
        self.keep_text(piece.text, len(piece.tokens))

    def stop_reason_after(self, piece: Generation) -> str:
        """Return the reason why the answer would end after a new piece.

        Return an empty string if the answer would continue.
        """
        was_cut_short = piece.finish == "length"
        if not was_cut_short and has_answer(self.text + piece.text):
            return "the answer is stated"
        if piece.finish == "stop":
            return "a blank line, or what would follow an answer, begins"
        if piece.finish == "end" or not (was_cut_short or piece.text.strip()):
            return "the model ended its answer"
        is_full = len(piece.tokens) >= self.tokens_left
        return f"the answer has {self.sampling.max_tokens} tokens" if is_full else ""

    def scorable(self, piece: Generation) -> Generation:
        """Return a copy of a new piece in which only tokens that may trigger a search are left unchanged.

        Tokens of citation markers, and tokens after the end of the stated answer, can't trigger a search.
        Blanks replace their text, and they count as certain.
        """
        whole = self.parse_text(piece.text).blanked
        end = answer_end(whole)
        kept, tokens = (whole[:end] + " " * (len(whole) - end))[len(self.text) :], []
        for token in piece.tokens:
            span = slice(token.start, token.end)
            is_kept = kept[span] == piece.text[span]
            tokens.append(token if is_kept else replace(token, text=kept[span], logprob=0.0, entropy=0.0))
        return replace(piece, tokens=tuple(tokens))

    def parse_text(self, further: str = "") -> UnmarkedText:
        """Return the answer so far, followed by `further`, with the positions of its citation markers."""
        return parse_markers(self.text + further, self.question, self.run.trace)

    async def finish(self) -> Answer:
        """Return the answer with its short answer and citations.

        If the text does not state its answer, the model is first asked for a short one.
        """
        if self.stop_reason:
            self.run.trace.decide("end", "stop", self.stop_reason)
        await self.ask_short_answer()
        return committed_answer(self.question, self.run, self.shown)

    def conclude(self, text: str) -> Answer:
        """Commit a text that is only a short answer, and return it.

        Its citation is the passage that supports it best among all that were shown.
        """
        if self.stop_reason:
            self.run.trace.decide("end", "stop", self.stop_reason)
        self.run.trace.commit(text.strip())
        text = full_text(self.run.trace).text.strip()
        passages = list({hit.passage.id: hit.passage for _, hits in self.shown for hit in hits}.values())
        citations = cite_whole_answer(self.run.trace, text, [(self.question.text, passages)])
        stated = text if has_answer(text) else f"The answer is {text}"
        return Answer(text, short_answer(stated, self.question), citations)

    async def ask_short_answer(self) -> str:
        """Ask the model for a short answer if the text states none, and return the added text.

        Return an empty string if nothing is added. The prompt is the one used for the text, followed by the
        text and the beginning of a sentence that states the answer (`PromptTemplate.elicitation`). The model
        completes that sentence greedily, as in the DRAGIN authors' code (Su et al. 2024). The sentence is
        kept only if a short answer can be extracted from it. If the model can't be asked, because it can't
        continue its own text or has no room for the request, the trace records this.
        """
        question, trace = self.question, self.run.trace
        full_text(trace)
        text = self.parse_text().text
        if not self.asks_short_answer or has_answer(text):
            return ""
        so_far, model = (self.notes + text).rstrip(), self.run.model
        opening = "" if awaits_answer(text) else _missing_words(text.rstrip(), self.template.elicitation)
        prompt = self.prompt(text=so_far + opening)
        why = "the text does not state its answer"
        decision = await decide_short_answer(self.run, prompt, SHORT_ANSWER_TOKENS, why)
        if decision is None:
            return ""
        until = SentenceEnd(_SHORTEST_ANSWER)
        sampling = Sampling(SHORT_ANSWER_TOKENS, stop=stops_of(prompt))
        with trace.because(decision):
            request = GenerateRequest(prompt, sampling, until=until, key=ELICITED, on_text=trace.draft)
            (generation,) = await model.generate(request)
        whole = parse_markers(text.rstrip() + opening + generation.text, question, trace).text
        if not has_answer(whole) or not short_answer(whole, question):
            return ""
        added = opening + generation.text
        added = added.lstrip() if text[-1:].isspace() else added
        trace.commit(added)
        return parse_markers(added, question, trace).text


def _missing_words(text: str, phrase: str) -> str:
    """Return `phrase` without the leading words that `text` already ends with."""
    words = phrase.split(" ")
    starts = (" ".join(words[:num_words]) for num_words in range(len(words), -1, -1))
    return phrase[len(next(start for start in starts if text.endswith(start))) :]


def _plain(query: str) -> str:
    return " ".join(re.findall(r"\w+", query.casefold()))
