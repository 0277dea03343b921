"""Self-RAG's long form: a beam of answers that grow segment by segment (Asai et al. 2024, algorithm 1).

The paper gives the score of a segment and "return the best sequence"; the rest is ours:
- the paths of a beam are compared by the sum of their segments' scores over a power of their number
  (`path_power`; 1 is the mean; less favours going on, also with segments that nothing supports, and 0 is the
  sum);
- a segment that says what an earlier one of its path said is rejected, as a hard constraint would do;
- utility counts once, at the end, since it is a judgement of whole answers;
- in words, what can't change the answer is not asked: whether its passage backs a segment that can't be among
  the best of the beam even with full support, and what comes next behind a segment that is not gone on from;
- each path searches with what it wrote last, and sees no other's text.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from askance.core.types import Hit, Key
from askance.methods.selfrag.segments import START, Action, Path, Segment, show
from askance.methods.selfrag.short import Form
from askance.methods.selfrag.tokens import likeliest, without_tokens


@dataclass
class LongForm(Form):
    """The answer to one question grows."""

    _static: asyncio.Task[tuple[Hit, ...]] | None = None

    async def answer(self) -> tuple[Path, str]:
        """The best path of the beam, finished or not; no option is found here."""
        finished, beam = await self.beam(await self.begin())
        return await self._best([*finished, *beam]), ""

    async def beam(self, start: Path) -> tuple[list[Path], list[Path]]:
        """Grow `start`, all paths of a step side by side, and after each step keep the best not finished.

        It ends early when nothing is left to grow, or when as many are finished as the beam is wide and none
        of those left is better than the best of them. Ties go to the earlier path: results never depend on
        timing.

        Returns:
            The finished paths and the open ones, each in the order in which they came about.
        """
        finished, beam = ([start], []) if start.is_finished else ([], [start])
        for _ in range(self.parameters.max_segments):
            if not beam:
                break
            grown = await self.parameters.together(map(self.grow, beam))
            more, beam = await self._settled([path for each in grown for path in each])
            finished += more
            best_open = max(map(self.score, beam), default=float("-inf"))
            if len(finished) >= self.parameters.beam_width and max(map(self.score, finished)) >= best_open:
                break
        return finished, beam

    async def _settled(self, paths: list[Path]) -> tuple[list[Path], list[Path]]:
        """The finished of some paths, and the best of the others, once what these have as support is judged.

        Where it is not, the score is an upper bound: support is judged for those alone that may be among the
        best (branch and bound, Land and Doig 1960). What is found is the same. Of paths that are the same by
        `identity` the better is kept, the earlier where they are equal.
        """
        while True:
            best: dict[object, Path] = {}
            for path in paths:
                twin = best.setdefault(self.identity(path), path)
                if self.score(path) > self.score(twin):
                    best[self.identity(path)] = path
            kept = [path for path in paths if path in best.values()]
            finished = [path for path in kept if path.is_finished]
            left = [path for path in kept if not path.is_finished]
            beam = sorted(left, key=self.score, reverse=True)[: self.parameters.beam_width]
            unknown = [path for path in (*finished, *beam) if not path.is_judged]
            if not unknown:
                break
            settled = await self.parameters.together(map(self.settle, unknown))
            settling = dict(zip(unknown, settled, strict=True))
            paths = [settling.get(path, path) for path in paths]
        for path in paths:
            if not path.is_judged:
                self.drop(path)
        return finished, [path for path in left if path in beam]

    def identity(self, path: Path) -> object:
        """Paths with equal texts and passages are one."""
        return tuple((each.text, each.hit.passage.id if each.hit else "") for each in path.segments)

    def score(self, path: Path) -> float:
        return path.score(self.parameters.path_power)

    async def _best(self, paths: Sequence[Path]) -> Path:
        """The best with its utility, which is read for answers that were not finished by a utility token.

        Where the constraint on utility rejects all of them, none is. Ties: more segments, then the earlier.
        """
        reads = "utility" in self.parameters.read

        async def graded(path: Path) -> Path:
            if path.utility or not path.segments or not reads:
                return path
            return replace(path, utility=await self.writer.utility(path))

        told = [path for path in paths if path.segments] or paths
        judged = await self.parameters.together(map(graded, told))
        useless = self.parameters.uselessness
        whole = [path for path in judged if not useless({likeliest(path.utility)})] or judged
        numbers = {
            path.name: self.score(path) + self.parameters.utility_score(path.utility) for path in whole
        }
        best: Path = max(whole, key=lambda path: (numbers[path.name], len(path.segments)))
        self.run.trace.decide("choose", best.name, "the best of the answers in the beam", numbers=numbers)
        return best

    async def grow(self, path: Path) -> Sequence[Path]:
        """The path with each segment that may follow; itself, finished, where none may."""
        if path.name != START:
            path = replace(path, onward=await self.writer.onward(path, key=_key(path.name)))
        action = self.parameters.action(path.onward, path)
        hits = await self._hits(path, action)
        tried: Sequence[Hit | None] = (None,) if action == "continue" else hits
        paths = await self._grown(path, action, tried, 1)
        paths = paths or await self._grown(path, "none", (None,), len(tried) + 1)
        return paths or [replace(path, is_finished=True)]

    async def settle(self, path: Path) -> Path:
        """The path with the support of its last segment."""
        *before, last = path.segments
        parent = replace(path, segments=tuple(before))
        segment = await self.writer.supported(parent, last, key=_key(path.name))
        score = self.parameters.segment_score(segment)
        show(self.run, path.name, segment, score, "")
        return replace(path, segments=(*before, segment), scores=(*path.scores[:-1], score))

    def drop(self, path: Path) -> None:
        """Tell that a path falls out of the beam whatever the support of its last segment is."""
        why = f"with full support its answer would have {self.score(path):.3f}, and others are better"
        show(self.run, path.name, path.segments[-1], path.scores[-1], why)

    async def _hits(self, path: Path, action: Action) -> tuple[Hit, ...]:
        """The passages for the question, and for the segment written last where each is searched for."""
        query = self.question.text
        if self.parameters.retrieval == "static" and action == "retrieve":
            if self._static is None:
                self._static = asyncio.ensure_future(self.found(path, action, query))
            else:
                self.decide(path.onward, action, "")
            return await self._static
        last = next((each.text for each in path.segments[-1:] if each.action != "lead"), "")
        return await self.found(path, action, f"{query} {last}".strip())

    async def _grown(self, path: Path, action: Action, hits: Sequence[Hit | None], first: int) -> list[Path]:
        """The segments that no hard constraint rejects and that say something, numbered from `first`."""
        segments = await self.parameters.together(
            self._written(path, action, hit, _key(f"{path.name}.{number}"))
            for number, hit in enumerate(hits, start=first)
        )
        grown = [self._next(path, segment, number) for number, segment in enumerate(segments, start=first)]
        return [each for each in grown if each is not None]

    async def _written(self, path: Path, action: Action, hit: Hit | None, key: Key) -> Segment:
        segment = await self.writer.write(path, action, hit, key=key, whole=False)
        if self.parameters.reject_unsupported:  # no score tells what that constraint rejects
            return await self.writer.supported(path, segment, key=key)
        return segment

    def _next(self, path: Path, segment: Segment, number: int) -> Path | None:
        # Nothing more to say than that the answer is complete.
        is_over = segment.is_last and not segment.text and bool(path.segments)
        rejected = self.parameters.rejection(segment) if segment.text or is_over else "it is empty"
        rejected = rejected or ("it says what an earlier one said" if _is_repeated(path, segment) else "")
        score = self.parameters.segment_score(segment)
        if rejected or segment.is_judged:
            show(self.run, f"{path.name}.{number}", segment, score, rejected)
        if rejected:
            return None
        grown = path.then(segment, number) if segment.text else path
        scored = (score,) if segment.action == "retrieve" and segment.text else ()
        return replace(
            grown,
            scores=(*path.scores, *scored),
            utility=segment.utility,
            onward=segment.onward,
            is_finished=segment.is_last,
        )


def _is_repeated(path: Path, segment: Segment) -> bool:
    """Whether what a reader sees of a segment stands in its path already."""
    text = without_tokens(segment.text)
    return bool(text) and any(text == without_tokens(each.text) for each in path.segments)


def _key(name: str) -> Key:
    """The key of the last segment of the path with that name."""
    *before, number = name.split(".")
    return ("segment", *before, int(number))
