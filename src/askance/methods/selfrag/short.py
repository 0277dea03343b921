"""Self-RAG's short form (Asai et al. 2024, section 3.3): an answer for each passage; one is taken."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from askance.core.ports import Run
from askance.core.trace import Decided, WordSignal
from askance.core.types import Hit, Question
from askance.methods.common.label_probabilities import softmax
from askance.methods.selfrag import tokens
from askance.methods.selfrag.parameters import OwnParameters
from askance.methods.selfrag.segments import Action, Path, Segment, found_for, show
from askance.methods.selfrag.tasks import named_option, options_of
from askance.methods.selfrag.tokens import Distribution
from askance.methods.selfrag.writing import Writer
from askance.text.answers import normalise_answer

Scored = tuple[Segment, float]
"""A whole answer and its score."""


@dataclass
class Form:
    """What both forms have: one question, who writes, and when to search."""

    parameters: OwnParameters
    question: Question
    run: Run
    writer: Writer

    async def begin(self) -> Path:
        """What is written before anything is decided, and what the first decision is read from."""
        return await self.writer.begin() if self.parameters.mode == "adaptive" else Path()

    async def found(self, path: Path, action: Action, query: str) -> tuple[Hit, ...]:
        """The decision behind a path, and the passages that it finds; see `found_for`."""
        decision = self.decide(path.onward, action, query)
        return await found_for(self.run, decision, self.parameters.passages) if action == "retrieve" else ()

    def decide(self, onward: Distribution, action: Action, query: str) -> Decided:
        """The decision in the trace, with the probabilities it was read from.

        Args:
            query: empty where the passages are there already.
        """
        share, threshold = tokens.search_share(onward), self.parameters.threshold
        has_words = self.parameters.mode == "adaptive" and threshold is not None and onward
        outcome = "keep" if action != "retrieve" else "search" if query else "reuse"
        return self.run.trace.decide(
            "retrieve",
            outcome,
            self._why(onward, action, share),
            signal="share of [Retrieval]",
            threshold=threshold,
            query=query if action == "retrieve" else "",
            words=(WordSignal(tokens.SEARCH, share, is_hit=action == "retrieve"),) if has_words else (),
            numbers={**onward, **({"share": share} if onward else {})},
        )

    def _why(self, onward: Distribution, action: Action, share: float) -> str:
        if self.parameters.mode != "adaptive":
            return f"mode={self.parameters.mode}"
        if action == "continue":
            return "the model goes on with the passage it has"
        if self.parameters.threshold is None:
            return f"the likeliest token is {tokens.likeliest(onward) or 'none of the three'}"
        above = "above" if action == "retrieve" else "not above"
        return f"the share of [Retrieval] is {share:.2f}, {above} {self.parameters.threshold:g}"


class ShortForm(Form):
    """The answer to one question is found among those of all passages."""

    async def answer(self) -> tuple[Path, str]:
        """The answer that was taken, and its option where the question has any.

        Without passages, and where hard constraints reject every answer, it is written without retrieval.
        """
        question, start = self.question, await self.begin()
        hits = await self.found(start, self.parameters.action(start.onward, start), question.text)
        candidates = await self._candidates(start, hits)
        if not candidates:
            segment = await self.writer.write(start, "none", None, key=("none",), whole=True)
            show(
                self.run, f"{start.name}.{len(hits) + 1}", segment, self.parameters.answer_score(segment), ""
            )
            return start.then(segment, len(hits) + 1), named_option(segment.text, question)
        if options_of(question):
            best, option = await self._voted(start, candidates)
        else:
            best, option = self._best(candidates), ""
        number = 1 + next(at for at, hit in enumerate(hits) if hit is best.hit)
        return start.then(best, number), option

    async def _candidates(self, start: Path, hits: Sequence[Hit]) -> list[Scored]:
        """The answers that no hard constraint rejects and that say something, best passage first."""
        segments = await self.parameters.together(
            self.writer.write(start, "retrieve", hit, key=("passage", number), whole=True)
            for number, hit in enumerate(hits, start=1)
        )
        kept = []
        for number, segment in enumerate(segments, start=1):
            score = self.parameters.answer_score(segment)
            rejected = self.parameters.rejection(segment) if segment.text else "it is empty"
            show(self.run, f"{start.name}.{number}", segment, score, rejected)
            if not rejected:
                kept.append((segment, score))
        if hits and not kept:
            self.run.trace.decide("choose", "without retrieval", "every answer with a passage was rejected")
        return kept

    def _best(self, candidates: Sequence[Scored]) -> Segment:
        """The greatest score; with `open_dedupe`, of the first among equal answers. Ties: the better passage.

        An answer counts once, however many passages give it: scores are not added up.
        """
        best, _ = max(candidates, key=lambda entry: entry[1])
        if not self.parameters.open_dedupe:
            return best
        same = normalise_answer(best.text)
        return next(segment for segment, _ in candidates if normalise_answer(segment.text) == same)

    async def _voted(self, start: Path, candidates: Sequence[Scored]) -> tuple[Segment, str]:
        """The option with the greatest sum of votes; ties go to more passages behind it, then to the first.

        By `score_sum` a passage votes with its answer's score for the option that its answer names; other
        texts can win only where no option was given. By `option_likelihood` it votes for all options, as
        likely as it makes them, each weighted by the score as far as that is above 0.
        """
        options = allowed = options_of(self.question)
        if self.parameters.closed_aggregation == "score_sum":
            names = [named_option(segment.text, self.question) for segment, _ in candidates]
            if not any(names):
                names = [normalise_answer(segment.text) for segment, _ in candidates]
            allowed = tuple(option for option in options if option in names) or tuple(names)
            ballots = [(score, {name: 1.0}) for name, (_, score) in zip(names, candidates, strict=True)]
        else:
            shares = await self._likelihoods(start, candidates)
            ballots = [(max(score, 0.0), each) for each, (_, score) in zip(shares, candidates, strict=True)]

        def votes(option: str) -> tuple[float, int]:
            backing = sum(max(share, key=share.__getitem__) == option for _, share in ballots)
            return sum(weight * share.get(option, 0.0) for weight, share in ballots), backing

        won = max(allowed, key=votes)
        weights = [weight * share[won] if won in share else -math.inf for weight, share in ballots]
        best = candidates[weights.index(max(weights))][0]
        if self.parameters.closed_aggregation == "option_likelihood":
            best = replace(best, written=won)
        return best, won if won in options else ""

    async def _likelihoods(self, start: Path, candidates: Sequence[Scored]) -> list[dict[str, float]]:
        """The share of each option by the passage of each candidate; equal ones where nothing tells."""
        options = options_of(self.question)
        found = await self.parameters.together(
            self.writer.options(start, segment.hit, options)
            for segment, _ in candidates
            if segment.hit is not None
        )
        equal = [1 / len(options)] * len(options)
        shares = [share if any(share) else equal for share in map(softmax, found)]
        return [dict(zip(options, share, strict=True)) for share in shares]
