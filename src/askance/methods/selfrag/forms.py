"""The two forms of Self-RAG: an answer for each passage, and segment-level beam search (Asai et al. 2024).

The short form (section 3.3) writes an answer for each passage and chooses one. The long form (algorithm 1)
extends answers segment by segment. For it, the paper defines the score of a segment and says
"return the best sequence". We define the rest:
- The score of a path is the mean of its segment scores. A sum would favour longer answers, even if some of
  their segments are unsupported.
- A segment that repeats an earlier segment of its path is rejected, as if by a hard constraint.
- Utility counts once, at the end, because it judges whole answers.
- A prompted scorer makes no judgement that can't change the answer. It does not judge the support of a
  segment that can't enter the beam even with full support. Nor does it judge, for a path that is not
  extended, whether a search is needed.
- Each path searches with its own latest segment and never sees the text of other paths.
"""

from collections.abc import Sequence
from dataclasses import replace

from askance.core.trace import WordSignal
from askance.core.types import Hit, Key
from askance.methods.selfrag import tokens
from askance.methods.selfrag.prompts import answer_options, named_option
from askance.methods.selfrag.segment_writer import SegmentWriter
from askance.methods.selfrag.segments import START, Action, Path, Segment, search_passages
from askance.methods.selfrag.tokens import Distribution, Group
from askance.text.answers import normalise_answer

Scored = tuple[Segment, float]
"""A whole answer and its score."""


class Form:
    """The parts that both forms share: one question, its segment writer, and the retrieve decision."""

    def __init__(self, writer: SegmentWriter) -> None:
        self.parameters, self.question, self.run = writer.parameters, writer.question, writer.run
        self.writer = writer

    async def search(self, path: Path, action: Action, query: str) -> tuple[Hit, ...]:
        """Record the retrieve decision at the end of `path`, with its probabilities, and return the passages.

        If `action` is not "retrieve", no search is made and no passages are returned.
        """
        mode, threshold, probs = self.parameters.mode, self.parameters.threshold, path.retrieve_probs
        share, searches = tokens.retrieval_share(probs), action == "retrieve"
        if mode != "adaptive":
            why = f"mode={mode}"
        elif action == "continue":
            why = "the model continues with the passage in use"
        elif threshold is None:
            why = f"the likeliest token is {tokens.most_likely(probs) or 'none of the three'}"
        else:
            why = f"the share of [Retrieval] is {share:.2f}, {'' if searches else 'not '}above {threshold:g}"
        has_signal = mode == "adaptive" and threshold is not None and probs
        decision = self.run.trace.decide(
            "retrieve",
            "search" if searches else "keep",
            why,
            signal="share of [Retrieval]",
            threshold=threshold,
            query=query if searches else "",
            words=(WordSignal(tokens.RETRIEVAL, share, is_hit=searches),) if has_signal else (),
            numbers={**probs, **({"share": share} if probs else {})},
        )
        return await search_passages(self.run, decision, self.parameters.passages) if searches else ()

    def record(self, node: str, segment: Segment, score: float, rejected: str) -> None:
        """Record a candidate in the trace: its text, passage, distributions and scores.

        If the segment is not judged yet, `score` is an upper bound.
        """
        judged: dict[Group, Distribution] = {"relevance": segment.relevance}
        if segment.is_judged:
            judged["support"] = segment.support
        if segment.is_judged or not self.parameters.grades_segments:
            judged["utility"] = segment.utility
        scores = {group: self.parameters.group_score(group, probs) for group, probs in judged.items()}
        judged["retrieve"], name = segment.retrieve_probs, "score" if segment.is_judged else "score at most"
        self.run.trace.expand(
            node,
            segment.action,
            segment.text,
            passage=segment.hit,
            numbers={name: score, "sequence": segment.sequence_score, **scores},
            distributions={group: dict(probs) for group, probs in judged.items() if probs},
            rejected=rejected,
        )


class ShortForm(Form):
    """The short-form answer to one question, chosen among the answers for all passages."""

    async def answer(self) -> tuple[Path, str]:
        """Return the path of the chosen answer, and the option that this answer names, or an empty string.

        The answer to an open question is the one with the greatest score. Ties go to the better passage. If
        there are no passages, or every answer is rejected, the answer is written without retrieval.
        """
        start = await self.writer.start_path()
        hits = await self.search(start, self.parameters.next_action(start), self.question.text)
        candidates = await self._candidates(start, hits)
        if not candidates:
            segment = await self.writer.write(start, "none", None, key=("none",), whole=True)
            score = self.parameters.answer_score(segment)
            self.record(f"{start.name}.{len(hits) + 1}", segment, score, "")
            option = named_option(segment.text, self.question)
        elif answer_options(self.question):
            segment, option = self._vote(candidates)
        else:
            segment, option = max(candidates, key=lambda scored: scored[1])[0], ""
        return replace(start, segments=(*start.segments, segment)), option

    async def _candidates(self, start: Path, hits: Sequence[Hit]) -> list[Scored]:
        """Return the non-empty answers that pass the hard constraints, best passage first."""
        segments = await self.parameters.together(
            self.writer.write(start, "retrieve", hit, key=("passage", number), whole=True)
            for number, hit in enumerate(hits, start=1)
        )
        kept = []
        for number, segment in enumerate(segments, start=1):
            score = self.parameters.answer_score(segment)
            rejected = self.parameters.rejection(segment) if segment.text else "it is empty"
            self.record(f"{start.name}.{number}", segment, score, rejected)
            if not rejected:
                kept.append((segment, score))
        if hits and not kept:
            self.run.trace.decide("choose", "without retrieval", "every answer with a passage was rejected")
        return kept

    def _vote(self, candidates: Sequence[Scored]) -> tuple[Segment, str]:
        """Return the best answer for the option with the greatest sum of scores, and that option.

        Ties go to the option that more passages favour, then to the first option. Answers that name no option
        can win only if none of the answers names one.
        """
        options, by_name = answer_options(self.question), dict[str, list[Scored]]()
        names = [named_option(segment.text, self.question) for segment, _ in candidates]
        if not any(names):
            names = [normalise_answer(segment.text) for segment, _ in candidates]
        for name, candidate in zip(names, candidates, strict=True):
            by_name.setdefault(name, []).append(candidate)

        def votes(name: str) -> tuple[float, int]:
            return sum(score for _, score in by_name[name]), len(by_name[name])

        won = max([option for option in options if option in by_name] or by_name, key=votes)
        best, _ = max(by_name[won], key=lambda scored: scored[1])
        return best, won if won in options else ""


class LongForm(Form):
    """The long-form answer to one question."""

    async def answer(self) -> tuple[Path, str]:
        """Return the best path, finished or not, and an empty string, because this form chooses no option."""
        finished, beam = await self.beam(await self.writer.start_path())
        return await self._best([*finished, *beam]), ""

    async def beam(self, start: Path) -> tuple[list[Path], list[Path]]:
        """Extend all paths of the beam concurrently, and keep the best unfinished ones after each step.

        The search ends early if no unfinished path is left. It also ends once at least `beam_width` paths are
        finished and no unfinished path scores higher than the best finished one. Ties go to the earlier path,
        so results never depend on timing.

        Returns:
            The finished paths and the unfinished paths, both in the order in which they were found.
        """
        finished, beam = list[Path](), [start]
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
            for path in sorted(paths, key=self.score, reverse=True):
                best.setdefault(self.identity(path), path)
            beam = [path for path in best.values() if not path.is_finished][: self.parameters.beam_width]
            finished = [path for path in paths if path.is_finished and path in best.values()]
            unjudged = [path for path in (*finished, *beam) if not path.is_judged]
            if not unjudged:
                break
            judged = await self.parameters.together(map(self.judge, unjudged))
            judged_paths = dict(zip(unjudged, judged, strict=True))
            paths = [judged_paths.get(path, path) for path in paths]
        for path in paths:
            if not path.is_judged:
                self.record_pruned(path)
        return finished, [path for path in paths if path in beam]

    def identity(self, path: Path) -> object:
        """Return the text and the passage id of each segment of a path.

        Paths for which all of these are equal are duplicates.
        """
        return tuple((piece.text, piece.hit.passage.id if piece.hit else "") for piece in path.segments)

    def score(self, path: Path) -> float:
        """Return the score of a path so far, or an upper bound if a segment is not judged yet."""
        return self.parameters.path_score(path.segments)

    async def _best(self, paths: Sequence[Path]) -> Path:
        """Return the best path, after judging the utility of each path whose utility is still unknown.

        Ties go to the path with more segments, then to the earlier path.
        """

        async def with_utility(path: Path) -> Path:
            is_known = path.utility or not path.segments or self.parameters.grades_segments
            return path if is_known else replace(path, utility=await self.writer.utility(path))

        candidates = [path for path in paths if path.segments] or paths
        graded = await self.parameters.together(map(with_utility, candidates))
        utility_score = self.parameters.utility_score
        scores = {path.name: self.score(path) + utility_score(path.utility) for path in graded}
        best: Path = max(graded, key=lambda path: (scores[path.name], len(path.segments)))
        self.run.trace.decide("choose", best.name, "the best of the answers in the beam", numbers=scores)
        return best

    async def grow(self, path: Path) -> Sequence[Path]:
        """Return one extended path for each accepted next segment.

        If no segment is accepted, return the same path, marked as finished.
        """
        if path.name != START:
            path = replace(path, retrieve_probs=await self.writer.retrieve_probs(path, key=_key(path.name)))
        action = self.parameters.next_action(path)
        last = next((segment.text for segment in path.segments[-1:] if segment.action != "lead"), "")
        hits = await self.search(path, action, f"{self.question.text} {last}".strip())
        tried: Sequence[Hit | None] = (None,) if action == "continue" else hits
        paths = await self._expand(path, action, tried, 1)
        paths = paths or await self._expand(path, "none", (None,), len(tried) + 1)
        return paths or [replace(path, is_finished=True)]

    async def judge(self, path: Path) -> Path:
        """Return the path with its last segment judged."""
        *before, last = path.segments
        parent = replace(path, segments=tuple(before))
        segment = await self.writer.with_judgements(parent, last, key=_key(path.name))
        self.record(path.name, segment, self.parameters.segment_score(segment), "")
        return replace(path, segments=(*before, segment))

    def record_pruned(self, path: Path) -> None:
        """Record a path that could not enter the beam even if its last segment were fully supported."""
        why = f"with full support its answer would have {self.score(path):.3f}, and others are better"
        segment = path.segments[-1]
        self.record(path.name, segment, self.parameters.segment_score(segment), why)

    async def _expand(self, path: Path, action: Action, hits: Sequence[Hit | None], first: int) -> list[Path]:
        """Return an extended path for each hit whose new segment passes the constraints.

        Args:
            first: The number of the first new segment among its siblings.
        """
        segments = await self.parameters.together(
            self.writer.write(path, action, hit, key=_key(f"{path.name}.{number}"), whole=False)
            for number, hit in enumerate(hits, start=first)
        )
        grown = [self._extended(path, each, number) for number, each in enumerate(segments, start=first)]
        return [each for each in grown if each is not None]

    def _extended(self, path: Path, segment: Segment, number: int) -> Path | None:
        # An empty last segment ends an answer that has text.
        is_end = segment.is_last and not segment.text and bool(path.segments)
        rejected = self.parameters.rejection(segment) if segment.text or is_end else "it is empty"
        rejected = rejected or ("it says what an earlier one said" if _is_repeated(path, segment) else "")
        score = self.parameters.segment_score(segment)
        if rejected or segment.is_judged:
            self.record(f"{path.name}.{number}", segment, score, rejected)
        if rejected:
            return None
        if segment.text:
            path = replace(path, segments=(*path.segments, segment), name=f"{path.name}.{number}")
        utility = {} if self.parameters.grades_segments else segment.utility
        return replace(path, utility=utility, is_finished=segment.is_last)


def _is_repeated(path: Path, segment: Segment) -> bool:
    """Return whether a segment of `path` already has the same visible text."""
    text = tokens.without_tokens(segment.text)
    return bool(text) and any(text == tokens.without_tokens(segment.text) for segment in path.segments)


def _key(name: str) -> Key:
    """Return the request key for the last segment of the path called `name`."""
    *before, number = name.split(".")
    return ("segment", *before, int(number))
