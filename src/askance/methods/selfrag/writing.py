"""How Self-RAG writes segments and has them judged, and the writer for any model, sentence by sentence."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from askance.core.ports import Run
from askance.core.token_ledger import NoRoom
from askance.core.types import (
    GenerateRequest,
    Hit,
    Key,
    Passage,
    Prompt,
    Question,
    Sampling,
    StopCondition,
    Want,
)
from askance.methods.common.prompts import STOPS, answer_prompt
from askance.methods.selfrag.judging import Scorer, fitting
from askance.methods.selfrag.parameters import OwnParameters
from askance.methods.selfrag.segments import Action, Path, Segment
from askance.methods.selfrag.tokens import Distribution, Group, likeliest, sequence_score
from askance.text.answers import AnswerEnd, SentenceEnd, has_answer


@dataclass(eq=False)
class Writer(ABC):
    """Writes segments of one answer. What has no room, a segment or a judgement, is empty.

    Attributes:
        scorer: who judges them; None where the model does so itself while it writes.
        was_short: there was no room for a segment at least once.
    """

    parameters: OwnParameters
    question: Question
    run: Run
    scorer: Scorer | None
    was_short: bool = field(default=False, init=False)
    _relevances: dict[Passage, Distribution] = field(default_factory=dict, init=False)
    _locks: dict[Passage, asyncio.Lock] = field(default_factory=dict, init=False)

    async def begin(self) -> Path:
        """The empty path, perhaps with what the model wrote before it decided, and the decision's numbers."""
        return Path(onward=await self._told("retrieve", key=("decide",)))

    async def write(self, path: Path, action: Action, hit: Hit | None, *, key: Key, whole: bool) -> Segment:
        """One more segment of `path`, its support perhaps not judged; with `whole`, all the rest, judged."""
        segment: Segment
        passage = hit if action == "retrieve" else path.in_use if action == "continue" else None
        try:
            writing = self._written(path, action, passage, key, whole)
            if self.scorer is None:
                return await writing
            judging = self._relevance(hit, (*key, "relevance"))
            segment, relevance = await self.parameters.together([writing, judging])
        except NoRoom as why:
            self.was_short = True
            self.run.trace.decide("segment", "no room", str(why))
            return Segment("", action, hit)
        segment = self._judged(segment, relevance if segment.text else {})
        if not whole or not segment.text:
            return segment
        answer = f"{path.text} {segment.text}".strip()
        utility = self._told("utility", None, "", answer, key=(*key, "utility"))
        supporting = self.supported(path, segment, key=key)
        segment, useful = await self.parameters.together([supporting, utility])
        return replace(segment, utility=useful, labels=segment.labels | _labels(useful))

    def _judged(self, segment: Segment, relevance: Distribution) -> Segment:
        """A segment with a scorer's judgements in place of the writer's own; its support is still to come."""
        is_backed = bool(segment.text) and segment.hit is not None and segment.action == "retrieve"
        return replace(
            segment,
            relevance=relevance,
            support={},
            utility={},
            labels=_labels(relevance),
            onward={},
            is_judged=not is_backed or "support" not in self.parameters.read,
        )

    async def supported(self, path: Path, segment: Segment, *, key: Key) -> Segment:
        """`segment`, written behind `path`, with how far its passage backs it, if that was not judged."""
        if segment.is_judged:
            return segment
        support = await self._told("support", segment.hit, path.text, segment.text, key=(*key, "support"))
        return replace(segment, support=support, labels=segment.labels | _labels(support), is_judged=True)

    async def onward(self, path: Path, *, key: Key) -> Distribution:
        """The retrieve tokens' probabilities at the end of a path with a segment."""
        if self.scorer is None:
            return path.segments[-1].onward
        *before, last = path.segments
        so_far = f"{replace(path, segments=tuple(before)).text} {last.text}".strip()
        return await self._told("retrieve", path.in_use, so_far, key=(*key, "onward"))

    async def utility(self, path: Path) -> Distribution:
        """How useful the answer is as it stands."""
        return await self._told("utility", None, "", path.text, key=(*path.name.split("."), "utility"))

    async def options(self, path: Path, hit: Hit, options: tuple[str, ...]) -> tuple[float, ...]:
        """The mean log-probability (nats) of each option's tokens as the answer that `hit` gives."""
        try:
            scores = await self.run.model.score(*self._options(path, hit, options))
        except NoRoom:
            return (float("-inf"),) * len(options)
        return tuple(each.logprob / each.num_tokens for each in scores)

    @abstractmethod
    def _written(
        self, path: Path, action: Action, passage: Hit | None, key: Key, whole: bool
    ) -> Coroutine[Any, Any, Segment]: ...

    @abstractmethod
    def _options(self, path: Path, hit: Hit, options: tuple[str, ...]) -> tuple[Prompt, Sequence[str]]: ...

    async def _relevance(self, hit: Hit | None, key: Key) -> Distribution:
        """Whether a passage helps; asked once for the whole question, since no text counts."""
        if hit is None:
            return {}
        async with self._locks.setdefault(hit.passage, asyncio.Lock()):
            if hit.passage not in self._relevances:
                self._relevances[hit.passage] = await self._told("relevance", hit, key=key)
            return self._relevances[hit.passage]

    async def _told(
        self, group: Group, hit: Hit | None = None, so_far: str = "", said: str = "", *, key: Key
    ) -> Distribution:
        if self.scorer is None or group not in self.parameters.read:
            return {}
        try:
            return await self.scorer(group, hit, so_far, said, key=key)
        except NoRoom:
            return {}


def _labels(distribution: Distribution) -> frozenset[str]:
    return frozenset(filter(None, (likeliest(distribution),)))


class PromptedWriter(Writer):
    """Writes with the prompt that all methods here share, the passage in use in it."""

    async def _written(
        self, path: Path, action: Action, passage: Hit | None, key: Key, whole: bool
    ) -> Segment:
        until: StopCondition = AnswerEnd(path.written) if whole else SentenceEnd()
        (written,) = await self.run.model.generate(
            GenerateRequest(
                self._prompt(path.written, passage, self.parameters.max_tokens),
                Sampling(self.parameters.max_tokens, stop=STOPS),
                Want(logprob=self.parameters.use_seqscore),
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
        )

    def _options(self, path: Path, hit: Hit, options: tuple[str, ...]) -> tuple[Prompt, Sequence[str]]:
        spaced = [f" {option}" for option in options]
        longest = max(len(self.run.model.tokenize(option)) for option in spaced)
        return self._prompt(path.written + self.parameters.wording.elicitation, hit, longest), spaced

    def _prompt(self, so_far: str, hit: Hit | None, max_tokens: int) -> Prompt:
        def prompt_with(*hits: Hit) -> Prompt:
            layout, wording = self.parameters.layout, self.parameters.wording
            return answer_prompt(self.run.model, self.question, hits, so_far, layout, wording)

        return fitting(self.run, self.run.model, prompt_with, hit, max_tokens)
