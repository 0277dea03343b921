"""Self-RAG's long form: segment-level beam search (Asai et al. 2024, algorithm 1).

The paper defines the score of a segment and says "return the best sequence". We define the rest:
- The score of a path is the sum of its segment scores, divided by their number to the power `path_power`. A
  power of 1 gives the mean, and 0 gives the sum. A lower power favours longer answers, even if some of their
  segments are unsupported.
- A segment that repeats an earlier segment of its path is rejected, as if by a hard constraint.
- Utility counts once, at the end, because it judges whole answers.
- A prompted scorer makes no judgement that can't change the answer. It does not judge the support of a
  segment that can't enter the beam even with full support. Nor does it judge, for a path that is not
  extended, whether a search is needed.
- Each path searches with its own latest segment and never sees the text of other paths.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from askance.core.types import Hit, Key
from askance.methods.selfrag.segments import START, Action, Path, Segment, record_candidate
from askance.methods.selfrag.short_form import Form
from askance.methods.selfrag.tokens import most_likely, without_tokens


@dataclass
class LongForm(Form):
    """The long-form answer to one question."""

    _static_hits: asyncio.Task[tuple[Hit, ...]] | None = None

    async def answer(self) -> tuple[Path, str]:
        """Return the best path, finished or not, and an empty string, because this form chooses no option."""
        finished, beam = await self.beam(await self.start_path())
        return await self._best([*finished, *beam]), ""

    async def beam(self, start: Path) -> tuple[list[Path], list[Path]]:
        """Extend all paths of the beam concurrently, and keep the best unfinished ones after each step.

        The search ends early if no unfinished path is left. It also ends once at least `beam_width` paths are
        finished and no unfinished path scores higher than the best finished one. Ties go to the earlier path,
        so results never depend on timing.

        Returns:
            The finished paths and the unfinished paths, both in the order in which they were found.
        """
        finished, beam = ([start], []) if start.is_finished else ([], [start])
        for _ in range(self.parameters.max_segments):
            if not beam:
                break
            grown = await self.parameters.together(map(self.grow, beam))
            newly_finished, beam = await self._prune([path for each in grown for path in each])
            finished += newly_finished
            best_open = max(map(self.score, beam), default=float("-inf"))
            if len(finished) >= self.parameters.beam_width and max(map(self.score, finished)) >= best_open:
                break
        return finished, beam

    async def _prune(self, paths: list[Path]) -> tuple[list[Path], list[Path]]:
        """Return the finished paths and the best unfinished ones, after judging their support.

        Until the support of a path is judged, its score is an upper bound. Support is therefore judged only
        for finished paths and for paths that may enter the beam (branch and bound, Land and Doig 1960). This
        does not change the result. Of several paths with the same `identity`, only the best is kept. Ties go
        to the earlier path.
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
            unjudged = [path for path in (*finished, *beam) if not path.is_judged]
            if not unjudged:
                break
            judged = await self.parameters.together(map(self.judge_support, unjudged))
            judged_paths = dict(zip(unjudged, judged, strict=True))
            paths = [judged_paths.get(path, path) for path in paths]
        for path in paths:
            if not path.is_judged:
                self.record_pruned(path)
        return finished, [path for path in left if path in beam]

    def identity(self, path: Path) -> object:
        """Return the text and the passage id of each segment of a path.

        Paths for which all of these are equal are duplicates.
        """
        return tuple((piece.text, piece.hit.passage.id if piece.hit else "") for piece in path.segments)

    def score(self, path: Path) -> float:
        return path.score(self.parameters.path_power)

    async def _best(self, paths: Sequence[Path]) -> Path:
        """Return the best path, after judging the utility of each path whose utility is still unknown.

        If the utility constraint rejects every path, the constraint is ignored. Ties go to the path with more
        segments, then to the earlier path.
        """
        needs_utility = "utility" in self.parameters.needed_groups

        async def with_utility(path: Path) -> Path:
            if path.utility or not path.segments or not needs_utility:
                return path
            return replace(path, utility=await self.writer.utility(path))

        candidates = [path for path in paths if path.segments] or paths
        graded = await self.parameters.together(map(with_utility, candidates))
        rejection = self.parameters.utility_rejection
        accepted = [path for path in graded if not rejection({most_likely(path.utility)})] or graded
        numbers = {
            path.name: self.score(path) + self.parameters.utility_score(path.utility) for path in accepted
        }
        best: Path = max(accepted, key=lambda path: (numbers[path.name], len(path.segments)))
        self.run.trace.decide("choose", best.name, "the best of the answers in the beam", numbers=numbers)
        return best

    async def grow(self, path: Path) -> Sequence[Path]:
        """Return one extended path for each accepted next segment.

        If no segment is accepted, return the same path, marked as finished.
        """
        if path.name != START:
            path = replace(path, retrieve_probs=await self.writer.retrieve_probs(path, key=_key(path.name)))
        action = self.parameters.next_action(path.retrieve_probs, path)
        hits = await self._search_hits(path, action)
        tried: Sequence[Hit | None] = (None,) if action == "continue" else hits
        paths = await self._expand(path, action, tried, 1)
        paths = paths or await self._expand(path, "none", (None,), len(tried) + 1)
        return paths or [replace(path, is_finished=True)]

    async def judge_support(self, path: Path) -> Path:
        """Return the path with the support of its last segment judged."""
        *before, last = path.segments
        parent = replace(path, segments=tuple(before))
        segment = await self.writer.with_support(parent, last, key=_key(path.name))
        score = self.parameters.segment_score(segment)
        record_candidate(self.run, path.name, segment, score, "")
        return replace(path, segments=(*before, segment), scores=(*path.scores[:-1], score))

    def record_pruned(self, path: Path) -> None:
        """Record a path that could not enter the beam even if its last segment were fully supported."""
        why = f"with full support its answer would have {self.score(path):.3f}, and others are better"
        record_candidate(self.run, path.name, path.segments[-1], path.scores[-1], why)

    async def _search_hits(self, path: Path, action: Action) -> tuple[Hit, ...]:
        """Return the passages for the next segment.

        In dynamic retrieval, the query is the question followed by the latest segment. In static retrieval,
        the query is the question alone, and only one search is made.
        """
        query = self.question.text
        if self.parameters.retrieval == "static" and action == "retrieve":
            if self._static_hits is None:
                self._static_hits = asyncio.ensure_future(self.search(path, action, query))
            else:
                self.record_decision(path.retrieve_probs, action, "")
            return await self._static_hits
        last = next((segment.text for segment in path.segments[-1:] if segment.action != "lead"), "")
        return await self.search(path, action, f"{query} {last}".strip())

    async def _expand(self, path: Path, action: Action, hits: Sequence[Hit | None], first: int) -> list[Path]:
        """Return an extended path for each hit whose new segment passes the constraints.

        Args:
            first: The number of the first new segment among its siblings.
        """
        segments = await self.parameters.together(
            self._write(path, action, hit, _key(f"{path.name}.{number}"))
            for number, hit in enumerate(hits, start=first)
        )
        grown = [self._extended(path, each, number) for number, each in enumerate(segments, start=first)]
        return [each for each in grown if each is not None]

    async def _write(self, path: Path, action: Action, hit: Hit | None, key: Key) -> Segment:
        segment = await self.writer.write(path, action, hit, key=key, whole=False)
        if self.parameters.reject_unsupported:  # judge now: an upper bound can't show a rejection
            return await self.writer.with_support(path, segment, key=key)
        return segment

    def _extended(self, path: Path, segment: Segment, number: int) -> Path | None:
        # An empty last segment ends an answer that has text.
        is_end = segment.is_last and not segment.text and bool(path.segments)
        rejected = self.parameters.rejection(segment) if segment.text or is_end else "it is empty"
        rejected = rejected or ("it says what an earlier one said" if _is_repeated(path, segment) else "")
        score = self.parameters.segment_score(segment)
        if rejected or segment.is_judged:
            record_candidate(self.run, f"{path.name}.{number}", segment, score, rejected)
        if rejected:
            return None
        grown = path.extend_with(segment, number) if segment.text else path
        scored = (score,) if segment.action == "retrieve" and segment.text else ()
        return replace(
            grown,
            scores=(*path.scores, *scored),
            utility=segment.utility,
            retrieve_probs=segment.retrieve_probs,
            is_finished=segment.is_last,
        )


def _is_repeated(path: Path, segment: Segment) -> bool:
    """Return whether a segment of `path` already has the same visible text."""
    text = without_tokens(segment.text)
    return bool(text) and any(text == without_tokens(segment.text) for segment in path.segments)


def _key(name: str) -> Key:
    """Return the request key for the last segment of the path called `name`."""
    *before, number = name.split(".")
    return ("segment", *before, int(number))
