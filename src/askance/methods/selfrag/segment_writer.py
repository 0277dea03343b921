"""Write the segments of Self-RAG with any model, and have a scorer judge them."""

import asyncio
from dataclasses import dataclass, field, replace

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
from askance.methods.selfrag.parameters import OwnParameters
from askance.methods.selfrag.scoring import Scorer, fit_passage
from askance.methods.selfrag.segments import Action, Path, Segment
from askance.methods.selfrag.tokens import Distribution, Group, most_likely, sequence_score
from askance.text.answers import AnswerEnd, SentenceEnd, has_answer


@dataclass(eq=False)
class SegmentWriter:
    """A writer of the segments of one answer, which prompts any model with the shared prompt template.

    A segment or judgement is empty if its call does not fit the token budget.

    Attributes:
        scorer: The scorer of the segments; None if the model scores them while it writes.
        was_short: True if the token budget was too small for a segment at least once.
    """

    parameters: OwnParameters
    question: Question
    run: Run
    scorer: Scorer | None
    was_short: bool = field(default=False, init=False)
    _relevances: dict[Passage, Distribution] = field(default_factory=dict, init=False)
    _locks: dict[Passage, asyncio.Lock] = field(default_factory=dict, init=False)

    async def start_path(self) -> Path:
        """Return the initial path, with the probabilities for the first retrieve decision."""
        return Path(retrieve_probs=await self._judge("retrieve", key=("decide",)))

    async def write(self, path: Path, action: Action, hit: Hit | None, *, key: Key, whole: bool) -> Segment:
        """Write the next segment of `path`. Its support may be judged later (see `with_support`).

        If `whole` is true, the segment is the whole rest of the answer and is judged fully.
        """
        segment: Segment
        passage = hit if action == "retrieve" else path.current_hit if action == "continue" else None
        try:
            segment_task = self._write_segment(path, action, passage, key, whole)
            if self.scorer is None:
                return await segment_task
            relevance_task = self._relevance(hit, (*key, "relevance"))
            segment, relevance = await self.parameters.together([segment_task, relevance_task])
        except NoRoom as error:
            self.was_short = True
            self.run.trace.decide("segment", "no room", str(error))
            return Segment("", action, hit)
        is_new = bool(segment.text) and passage is not None and action == "retrieve"
        segment = replace(  # a judgement by the writing model does not count
            segment,
            relevance=relevance,
            support={},
            utility={},
            labels=frozenset({most_likely(relevance)}),
            retrieve_probs={},
            is_judged=not is_new or "support" not in self.parameters.needed_groups,
        )
        if not segment.text or not (whole or self.parameters.reject_unsupported):
            return segment
        support_task = self.with_support(path, segment, key=key)
        if not whole:
            return await support_task  # an upper bound can't show a rejection
        answer = f"{path.text} {segment.text}".strip()
        utility_task = self._judge("utility", None, "", answer, key=(*key, "utility"))
        segment, utility = await self.parameters.together([support_task, utility_task])
        return replace(segment, utility=utility)

    async def with_support(self, path: Path, segment: Segment, *, key: Key) -> Segment:
        """Return `segment`, which follows `path`, with its support judged."""
        if segment.is_judged:
            return segment
        support = await self._judge("support", segment.hit, path.text, segment.text, key=(*key, "support"))
        labels = segment.labels | {most_likely(support)}
        return replace(segment, support=support, labels=labels, is_judged=True)

    async def retrieve_probs(self, path: Path, *, key: Key) -> Distribution:
        """Return the probabilities of the retrieve tokens at the end of a path that has segments."""
        if self.scorer is None:
            return path.segments[-1].retrieve_probs
        return await self._judge("retrieve", path.current_hit, path.text, key=(*key, "onward"))

    async def utility(self, path: Path) -> Distribution:
        """Return the utility distribution of the current answer."""
        return await self._judge("utility", None, "", path.text, key=(*path.name.split("."), "utility"))

    async def _relevance(self, hit: Hit | None, key: Key) -> Distribution:
        """Return the relevance of a passage.

        It is judged once per question, because it does not depend on the text of the answer.
        """
        if hit is None:
            return {}
        async with self._locks.setdefault(hit.passage, asyncio.Lock()):
            if hit.passage not in self._relevances:
                self._relevances[hit.passage] = await self._judge("relevance", hit, key=key)
            return self._relevances[hit.passage]

    async def _judge(
        self, group: Group, hit: Hit | None = None, so_far: str = "", text: str = "", *, key: Key
    ) -> Distribution:
        if self.scorer is None or group not in self.parameters.needed_groups:
            return {}
        try:
            return await self.scorer(group, hit, so_far, text, key=key)
        except NoRoom:
            return {}

    async def _write_segment(
        self, path: Path, action: Action, passage: Hit | None, key: Key, whole: bool
    ) -> Segment:
        until: StopCondition = AnswerEnd(path.written) if whole else SentenceEnd()
        (written,) = await self.run.model.generate(
            GenerateRequest(
                await self._shared_prompt(path.written, passage, self.parameters.max_tokens),
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

    async def _shared_prompt(self, so_far: str, hit: Hit | None, max_tokens: int) -> Prompt:
        def prompt_with(*hits: Hit) -> Prompt:
            layout, template = self.parameters.layout, self.parameters.prompts
            return answer_prompt(self.run.model, self.question, hits, so_far, layout, template)

        return await fit_passage(self.run, self.run.model, prompt_with, hit, max_tokens)
