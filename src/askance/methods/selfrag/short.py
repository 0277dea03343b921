"""Self-RAG's short form (Asai et al. 2024, section 3.3): an answer for each passage; one is taken."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from askance.core.ports import Run
from askance.core.types import Hit, Question
from askance.methods.labels import softmax
from askance.methods.selfrag.segments import Action, Constraints, Path, SearchRule, Segment, Weights, show
from askance.methods.selfrag.tasks import named_option, options_of
from askance.methods.selfrag.writing import Writer
from askance.text.answers import normalise_answer

Scored = tuple[Segment, float]
"""A whole answer and its score."""


@dataclass(kw_only=True)
class Form:
    """What either form needs to know to answer one question."""

    question: Question
    run: Run
    writer: Writer
    rule: SearchRule
    weights: Weights
    constraints: Constraints
    passages: int

    async def begin(self) -> Path:
        """What is written before anything is decided, and what the first decision is read from."""
        if self.rule.mode != "adaptive":
            return Path()
        start, onward = await self.writer.begin()
        return replace(start, onward=onward)

    async def found(self, path: Path, action: Action, query: str) -> tuple[Hit, ...]:
        """The decision behind a path, and the passages that it finds."""
        return await self.rule.found(self.run, path.onward, action, query, self.passages)


@dataclass(kw_only=True)
class ShortForm(Form):
    """How the answer to one question is found among those of all passages.

    Attributes:
        aggregation: how passages vote for options.
        dedupe: of equal answers to an open question that of the best passage is taken.
    """

    aggregation: Literal["score_sum", "option_likelihood"]
    dedupe: bool

    async def answer(self) -> tuple[Path, str]:
        """The answer that was taken, and its option where the question has any.

        Without passages, and where hard constraints reject every answer, it is written without retrieval.
        """
        question, start = self.question, await self.begin()
        hits = await self.found(start, self.rule.action(start.onward, start), question.text)
        candidates = await self._candidates(start, hits)
        if not candidates:
            segment = await self.writer.write(start, "none", None, key=("none",), whole=True)
            show(self.run, f"{start.name}.{len(hits) + 1}", segment, self.weights.of_answer(segment), "")
            return start.then(segment, len(hits) + 1), named_option(segment.text, question)
        if not options_of(question):
            best, option = self._best(candidates), ""
        elif self.aggregation == "score_sum":
            best, option = self._greatest_sum(candidates)
        else:
            best, option = await self._likeliest(start, candidates)
        number = 1 + next(at for at, hit in enumerate(hits) if hit is best.hit)
        return start.then(best, number), option

    async def _candidates(self, start: Path, hits: Sequence[Hit]) -> list[Scored]:
        """The answers that no hard constraint rejects and that say something, best passage first."""
        segments = await self.writer.together(
            self.writer.write(start, "retrieve", hit, key=("passage", number), whole=True)
            for number, hit in enumerate(hits, start=1)
        )
        kept = []
        for number, segment in enumerate(segments, start=1):
            score = self.weights.of_answer(segment)
            rejected = self.constraints.rejection(segment) if segment.text else "it is empty"
            show(self.run, f"{start.name}.{number}", segment, score, rejected)
            if not rejected:
                kept.append((segment, score))
        if hits and not kept:
            self.run.trace.decide("choose", "without retrieval", "every answer with a passage was rejected")
        return kept

    def _best(self, candidates: Sequence[Scored]) -> Segment:
        """The greatest score; with `dedupe`, of the first among equal answers. Ties: the better passage.

        An answer counts once, however many passages give it: scores are not added up.
        """
        best, _ = max(candidates, key=lambda entry: entry[1])
        if not self.dedupe:
            return best
        same = normalise_answer(best.text)
        return next(segment for segment, _ in candidates if normalise_answer(segment.text) == same)

    def _greatest_sum(self, candidates: Sequence[Scored]) -> tuple[Segment, str]:
        """The option whose answers' scores add up to most.

        Other texts can win only where no option was given.
        """
        options = options_of(self.question)
        names = [named_option(segment.text, self.question) for segment, _ in candidates]
        if not any(names):
            names = [normalise_answer(segment.text) for segment, _ in candidates]
        named = [(name, score) for name, (_, score) in zip(names, candidates, strict=True)]
        won = _won([option for option in options if option in names] or names, named, names)
        best = max((at for at, name in enumerate(names) if name == won), key=lambda at: candidates[at][1])
        return candidates[best][0], won if won in options else ""

    async def _likeliest(self, start: Path, candidates: Sequence[Scored]) -> tuple[Segment, str]:
        """The option that is likeliest over all passages, each weighted by its score above 0."""
        options = options_of(self.question)
        found = await self.writer.together(
            self.writer.options(start, segment.hit, options)
            for segment, _ in candidates
            if segment.hit is not None
        )
        equal = [1 / len(options)] * len(options)
        shares = [share if any(share) else equal for share in map(softmax, found)]
        weighted = [
            [max(score, 0.0) * each for each in share]
            for (_, score), share in zip(candidates, shares, strict=True)
        ]
        votes = [vote for each in weighted for vote in zip(options, each, strict=True)]
        won = _won(options, votes, [options[share.index(max(share))] for share in shares])
        place = options.index(won)
        best = max(range(len(candidates)), key=lambda at: weighted[at][place])
        return replace(candidates[best][0], written=won), won


def _won(options: Sequence[str], votes: Iterable[tuple[str, float]], backing: Sequence[str]) -> str:
    """The option with the greatest sum of votes; ties go to more passages behind it, then to the first."""
    sums = dict.fromkeys(options, 0.0)
    for option, vote in votes:
        if option in sums:
            sums[option] += vote
    return max(options, key=lambda option: (sums[option], backing.count(option)))
