"""Self-RAG's short form (Asai et al. 2024, section 3.3): an answer for each passage; one is taken."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from askance.core.ports import Run
from askance.core.types import Hit, Question
from askance.methods.selfrag.deciding import SearchRule, show
from askance.methods.selfrag.segments import Constraints, Path, Segment, Weights
from askance.methods.selfrag.tasks import named_option, options_of
from askance.methods.selfrag.tokens import softmax
from askance.methods.selfrag.writing import Writer
from askance.text.answers import normalise_answer
from askance.tree.abreast import abreast

Scored = tuple[Segment, float]
"""A whole answer and its score."""


@dataclass(frozen=True, slots=True)
class ShortForm:
    """How one answer is found among those of all passages.

    Attributes:
        passages: how many are searched for.
        aggregation: how passages vote for options.
        dedupe: of equal answers to an open question that of the best passage is taken.
    """

    rule: SearchRule
    weights: Weights
    constraints: Constraints
    passages: int
    aggregation: Literal["score_sum", "option_likelihood"]
    dedupe: bool

    async def answer(self, question: Question, run: Run, writer: Writer) -> tuple[Path, str]:
        """The answer that was taken, and its option where the question has any.

        Without passages, and where hard constraints reject every answer, it is written without retrieval.
        """
        start, onward = await writer.begin() if self.rule.mode == "adaptive" else (Path(), {})
        action = self.rule.action(onward, start)
        hits = await self.rule.found(run, onward, action, question.text, self.passages)
        candidates = await self._candidates(run, writer, start, hits)
        if not candidates:
            segment = await writer.write(start, "none", None, key=("none",), whole=True)
            show(run, f"{start.name}.{len(hits) + 1}", segment, self.weights.of_answer(segment), "")
            return start.then(segment, len(hits) + 1), named_option(segment.text, question)
        options = options_of(question)
        if not options:
            best, option = _best(candidates, dedupe=self.dedupe), ""
        elif self.aggregation == "score_sum":
            best, option = _greatest_sum(candidates, question)
        else:
            best, option = await _likeliest(writer, start, candidates, options)
        number = 1 + next(at for at, hit in enumerate(hits) if hit is best.hit)
        return start.then(best, number), option

    async def _candidates(self, run: Run, writer: Writer, start: Path, hits: Sequence[Hit]) -> list[Scored]:
        """The answers that no hard constraint rejects and that say something, best passage first."""
        segments = await abreast(
            writer.write(start, "retrieve", hit, key=("passage", number), whole=True)
            for number, hit in enumerate(hits, start=1)
        )
        kept = []
        for number, segment in enumerate(segments, start=1):
            score = self.weights.of_answer(segment)
            rejected = self.constraints.rejection(segment) if segment.text else "it is empty"
            show(run, f"{start.name}.{number}", segment, score, rejected)
            if not rejected:
                kept.append((segment, score))
        if hits and not kept:
            run.trace.decide("choose", "without retrieval", "every answer with a passage was rejected")
        return kept


def _best(candidates: Sequence[Scored], *, dedupe: bool) -> Segment:
    """The greatest score; with `dedupe`, of the first among equal answers. Ties: the better passage.

    An answer counts once, however many passages give it: scores are not added up.
    """
    best, _ = max(candidates, key=lambda entry: entry[1])
    if not dedupe:
        return best
    same = normalise_answer(best.text)
    return next(segment for segment, _ in candidates if normalise_answer(segment.text) == same)


def _greatest_sum(candidates: Sequence[Scored], question: Question) -> tuple[Segment, str]:
    """The option whose answers' scores add up to most; other texts can win only where no option was given."""
    options = options_of(question)
    named = [(named_option(segment.text, question), segment, score) for segment, score in candidates]
    if not any(option for option, _, _ in named):
        named = [(normalise_answer(segment.text), segment, score) for segment, score in candidates]
    sums: dict[str, float] = {}
    for option, _, score in named:
        sums[option] = sums.get(option, 0.0) + score
    allowed = [option for option in options if option in sums] or list(sums)
    backing = Counter(option for option, _, _ in named)
    won = _first_of_best(allowed, sums, backing)
    best = max((entry for entry in named if entry[0] == won), key=lambda entry: entry[2])[1]
    return best, won if won in options else ""


async def _likeliest(
    writer: Writer, start: Path, candidates: Sequence[Scored], options: tuple[str, ...]
) -> tuple[Segment, str]:
    """The option that is likeliest over all passages, each weighted by its score where that is above 0."""
    found = await abreast(
        writer.options(start, segment.hit, options) for segment, _ in candidates if segment.hit is not None
    )
    equal = [1 / len(options)] * len(options)
    shares = [share if any(share) else equal for share in map(softmax, found)]
    sums = dict.fromkeys(options, 0.0)
    backing = dict.fromkeys(options, 0)
    for (_, score), share in zip(candidates, shares, strict=True):
        for option, probability in zip(options, share, strict=True):
            sums[option] += max(score, 0.0) * probability
        backing[options[share.index(max(share))]] += 1
    won = _first_of_best(options, sums, backing)
    place = options.index(won)
    weights = [max(score, 0.0) * share[place] for (_, score), share in zip(candidates, shares, strict=True)]
    best = candidates[weights.index(max(weights))][0]
    return replace(best, written=won), won


def _first_of_best(options: Sequence[str], sums: Mapping[str, float], backing: Mapping[str, int]) -> str:
    """Ties go to the option with more passages behind it, then to the first."""
    return max(options, key=lambda option: (sums[option], backing[option]))
