"""Self-RAG within L_max: what there is no room for is left out, and what is there is the answer.

One segment is written and judged after the other, so that what is left out never depends on timing.
"""

from asyncio import Lock
from collections.abc import Awaitable, Sequence
from dataclasses import replace

from askance.core.ports import Run
from askance.core.types import Hit, Key
from askance.methods.budget import NoRoom
from askance.methods.selfrag.scorers import ReflectionScorer
from askance.methods.selfrag.segments import Action, Path, Segment, Writer
from askance.methods.selfrag.tokens import Distribution


class SparingWriter:
    """A writer whose segments are empty where there is no room for them.

    Attributes:
        was_short: there was none at least once.
    """

    def __init__(self, writer: Writer, run: Run) -> None:
        self._writer, self._run, self._turn = writer, run, Lock()
        self.was_short = False

    async def begin(self) -> tuple[Path, Distribution]:
        return await self._writer.begin()

    async def write(self, path: Path, action: Action, hit: Hit | None, *, key: Key, whole: bool) -> Segment:
        async with self._turn:
            try:
                segment = await self._writer.write(path, action, hit, key=key, whole=whole)
                return segment if whole or not segment.text else await self._judged(path, segment, key)
            except NoRoom as why:
                self.was_short = True
                self._run.trace.decide("segment", "no room", str(why))
                return Segment("", action, hit, finish="no room")

    async def judge(self, path: Path, segment: Segment, *, key: Key) -> Segment:
        return segment

    async def onward(self, path: Path, *, key: Key) -> Distribution:
        return path.segments[-1].onward

    async def utility(self, path: Path) -> Distribution:
        async with self._turn:
            return await _told(self._writer.utility(path))

    async def options(self, path: Path, hit: Hit, options: tuple[str, ...]) -> tuple[float, ...]:
        async with self._turn:
            try:
                return await self._writer.options(path, hit, options)
            except NoRoom:
                return (float("-inf"),) * len(options)

    async def _judged(self, path: Path, segment: Segment, key: Key) -> Segment:
        """All at once: what one segment leaves unspent must not depend on the others of the beam."""
        segment = await self._writer.judge(path, segment, key=key)
        onward = await self._writer.onward(replace(path, segments=(*path.segments, segment)), key=key)
        return replace(segment, onward=onward)


class SparingScorer:
    """A scorer that can tell nothing where there is no room to ask."""

    def __init__(self, scorer: ReflectionScorer) -> None:
        self._scorer = scorer

    async def retrieve(self, so_far: str, hits: Sequence[Hit], *, key: Key) -> Distribution:
        return await _told(self._scorer.retrieve(so_far, hits, key=key))

    async def relevance(self, hit: Hit, *, key: Key) -> Distribution:
        return await _told(self._scorer.relevance(hit, key=key))

    async def support(self, so_far: str, sentence: str, hit: Hit, *, key: Key) -> Distribution:
        return await _told(self._scorer.support(so_far, sentence, hit, key=key))

    async def utility(self, answer: str, *, key: Key) -> Distribution:
        return await _told(self._scorer.utility(answer, key=key))


async def _told(judgement: Awaitable[Distribution]) -> Distribution:
    try:
        return await judgement
    except NoRoom:
        return {}
