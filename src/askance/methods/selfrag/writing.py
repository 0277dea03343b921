"""How Self-RAG writes segments, and the writer for any model: its sentences are judged by a scorer."""

from abc import ABC, abstractmethod
from asyncio import Lock
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace

from askance.core.ports import Run
from askance.core.types import GenerateRequest, Hit, Key, Prompt, Question, Sampling, Until, Want
from askance.methods.budget import NoRoom
from askance.methods.prompts import STOPS, Layout, Wording, answer_prompt
from askance.methods.selfrag.judging import Judge, fitting, told
from askance.methods.selfrag.segments import Action, Path, Segment
from askance.methods.selfrag.tokens import Distribution, sequence_score
from askance.text.answers import AnswerEnd, has_answer
from askance.text.sentences import SentenceEnd
from askance.tree.abreast import both


@dataclass(kw_only=True, eq=False)
class Writer(ABC):
    """Writes segments of one answer.

    Attributes:
        judge: who judges them; None where the model does so itself while it writes.
        max_tokens: most new tokens of a segment.
        is_bounded: there is an L_max. One segment is written and judged after the other then, so that what
            is left out never depends on timing, and a segment that has no room is empty.
        was_short: there was no room at least once.
    """

    run: Run
    judge: Judge | None
    max_tokens: int
    is_bounded: bool = False
    was_short: bool = False
    _turn: AbstractAsyncContextManager[None] = field(init=False)

    def __post_init__(self) -> None:
        self._turn = Lock() if self.is_bounded else nullcontext()

    async def begin(self) -> tuple[Path, Distribution]:
        """The empty path, perhaps with what the model wrote before it decided; and the decision's numbers."""
        return Path(), {} if self.judge is None else await self.judge.onward(Path(), ("decide",))

    async def write(self, path: Path, action: Action, hit: Hit | None, *, key: Key, whole: bool) -> Segment:
        """One more segment of `path`, its support perhaps not judged; with `whole`, all the rest, judged."""
        try:
            async with self._turn:
                segment = await self._judged(path, action, hit, key, whole)
                if self.judge is None or not self.is_bounded or whole or not segment.text:
                    return segment
                # All at once: what one segment leaves unspent must not depend on the others of the beam.
                segment = await self.judge.with_support(path, segment, key)
                grown = replace(path, segments=(*path.segments, segment))
                return replace(segment, onward=await self.judge.onward(grown, key))
        except NoRoom as why:
            self.was_short = True
            self.run.trace.decide("segment", "no room", str(why))
            return Segment("", action, hit, finish="no room")

    async def supported(self, path: Path, segment: Segment, *, key: Key) -> Segment:
        """`segment`, written behind `path`, with how far its passage backs it, if that was not judged."""
        return segment if self.judge is None else await self.judge.with_support(path, segment, key)

    async def onward(self, path: Path, *, key: Key) -> Distribution:
        """The retrieve tokens' probabilities at the end of a path with a segment."""
        if self.judge is None or self.is_bounded:
            return path.segments[-1].onward
        return await self.judge.onward(path, key)

    async def utility(self, path: Path) -> Distribution:
        """How useful the answer is as it stands."""
        async with self._turn:
            return await told(self._utility(path, (*path.name.split("."), "utility")))

    async def options(self, path: Path, hit: Hit, options: tuple[str, ...]) -> tuple[float, ...]:
        """The mean log-probability (nats) of each option's tokens as the answer that `hit` gives."""
        try:
            async with self._turn:
                scores = await self.run.model.score(*self._options(path, hit, options))
                return tuple(each.logprob / each.num_tokens for each in scores)
        except NoRoom:
            return (float("-inf"),) * len(options)

    @abstractmethod
    async def _written(
        self, path: Path, action: Action, passage: Hit | None, key: Key, whole: bool
    ) -> Segment: ...

    @abstractmethod
    def _options(self, path: Path, hit: Hit, options: tuple[str, ...]) -> tuple[Prompt, Sequence[str]]: ...

    async def _utility(self, path: Path, key: Key) -> Distribution:
        return {} if self.judge is None else await self.judge.utility(path.written, key)

    async def _judged(self, path: Path, action: Action, hit: Hit | None, key: Key, whole: bool) -> Segment:
        passage = hit if action == "retrieve" else path.in_use if action == "continue" else None
        writing = self._written(path, action, passage, key, whole)
        if self.judge is None:
            return await writing
        judging = self.judge.relevance(passage if action == "retrieve" else None, key)
        segment, relevance = await both(writing, judging)
        return await self.judge.judged(path, segment, relevance, key, whole=whole)


@dataclass(kw_only=True, eq=False)
class PromptedWriter(Writer):
    """Writes with the prompt that all methods here share, the passage in use in it."""

    question: Question
    layout: Layout
    wording: Wording
    use_seqscore: bool

    async def _written(
        self, path: Path, action: Action, passage: Hit | None, key: Key, whole: bool
    ) -> Segment:
        until: Until = AnswerEnd(path.written) if whole else SentenceEnd()
        (written,) = await self.run.model.generate(
            GenerateRequest(
                self._prompt(path.written, passage, self.max_tokens),
                Sampling(self.max_tokens, stop=STOPS),
                Want(logprob=self.use_seqscore),
                until,
                key=key,
            )
        )
        return Segment(
            written.text,
            action,
            passage,
            sequence_score=sequence_score(written.tokens),
            is_last=written.finish in ("end", "stop") or has_answer(path.written + written.text),
            finish=written.finish,
        )

    def _options(self, path: Path, hit: Hit, options: tuple[str, ...]) -> tuple[Prompt, Sequence[str]]:
        spaced = [f" {option}" for option in options]
        longest = max(len(self.run.model.tokenize(option)) for option in spaced)
        return self._prompt(path.written + self.wording.elicitation, hit, longest), spaced

    def _prompt(self, so_far: str, hit: Hit | None, max_tokens: int) -> Prompt:
        def prompt_with(*hits: Hit) -> Prompt:
            return answer_prompt(self.run.model, self.question, hits, so_far, self.layout, self.wording)

        return fitting(self.run, self.run.model, prompt_with, hit, max_tokens) if hit else prompt_with()
