"""Self-RAG's short form (Asai et al. 2024, section 3.3): write an answer for each passage and choose one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from askance.core.ports import Run
from askance.core.trace import Decided, WordSignal
from askance.core.types import Hit, Question
from askance.methods.common.label_probabilities import softmax
from askance.methods.selfrag import tokens
from askance.methods.selfrag.parameters import OwnParameters
from askance.methods.selfrag.prompts import answer_options, named_option
from askance.methods.selfrag.segment_writer import SegmentWriter
from askance.methods.selfrag.segments import Action, Path, Segment, record_candidate, search_passages
from askance.methods.selfrag.tokens import Distribution
from askance.text.answers import normalise_answer

Scored = tuple[Segment, float]
"""A whole answer and its score."""


@dataclass
class Form:
    """The parts that both forms share: one question, its segment writer, and the retrieve decision."""

    parameters: OwnParameters
    question: Question
    run: Run
    writer: SegmentWriter

    async def start_path(self) -> Path:
        """Return the initial path, with the probabilities for the first retrieve decision."""
        return await self.writer.start_path() if self.parameters.mode == "adaptive" else Path()

    async def search(self, path: Path, action: Action, query: str) -> tuple[Hit, ...]:
        """Record the retrieve decision, and return the passages found.

        If `action` is not "retrieve", no search is made and no passages are returned.
        """
        decision = self.record_decision(path.retrieve_probs, action, query)
        if action != "retrieve":
            return ()
        return await search_passages(self.run, decision, self.parameters.passages)

    def record_decision(self, retrieve_probs: Distribution, action: Action, query: str) -> Decided:
        """Record a retrieve decision in the trace, with its probabilities.

        Args:
            query: The search query, or an empty string if no search is made because earlier passages are
                reused.
        """
        share, threshold = tokens.retrieval_share(retrieve_probs), self.parameters.threshold
        has_signal = self.parameters.mode == "adaptive" and threshold is not None and retrieve_probs
        outcome = "keep" if action != "retrieve" else "search" if query else "reuse"
        return self.run.trace.decide(
            "retrieve",
            outcome,
            self._reason(retrieve_probs, action, share),
            signal="share of [Retrieval]",
            threshold=threshold,
            query=query if action == "retrieve" else "",
            words=(WordSignal(tokens.RETRIEVAL, share, is_hit=action == "retrieve"),) if has_signal else (),
            numbers={**retrieve_probs, **({"share": share} if retrieve_probs else {})},
        )

    def _reason(self, retrieve_probs: Distribution, action: Action, share: float) -> str:
        if self.parameters.mode != "adaptive":
            return f"mode={self.parameters.mode}"
        if action == "continue":
            return "the model continues with the passage in use"
        if self.parameters.threshold is None:
            return f"the likeliest token is {tokens.most_likely(retrieve_probs) or 'none of the three'}"
        above = "above" if action == "retrieve" else "not above"
        return f"the share of [Retrieval] is {share:.2f}, {above} {self.parameters.threshold:g}"


class ShortForm(Form):
    """The short-form answer to one question, chosen among the answers for all passages."""

    async def answer(self) -> tuple[Path, str]:
        """Return the path of the chosen answer, and the option that this answer names, or an empty string.

        If there are no passages, or every answer is rejected, the answer is written without retrieval.
        """
        question, start = self.question, await self.start_path()
        action = self.parameters.next_action(start.retrieve_probs, start)
        hits = await self.search(start, action, question.text)
        candidates = await self._candidates(start, hits)
        if not candidates:
            segment = await self.writer.write(start, "none", None, key=("none",), whole=True)
            score = self.parameters.answer_score(segment)
            record_candidate(self.run, f"{start.name}.{len(hits) + 1}", segment, score, "")
            return start.extend_with(segment, len(hits) + 1), named_option(segment.text, question)
        if answer_options(question):
            best, option = await self._vote(start, candidates)
        else:
            best, option = self._best(candidates), ""
        number = 1 + next(index for index, hit in enumerate(hits) if hit is best.hit)
        return start.extend_with(best, number), option

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
            record_candidate(self.run, f"{start.name}.{number}", segment, score, rejected)
            if not rejected:
                kept.append((segment, score))
        if hits and not kept:
            self.run.trace.decide("choose", "without retrieval", "every answer with a passage was rejected")
        return kept

    def _best(self, candidates: Sequence[Scored]) -> Segment:
        """Return the answer with the greatest score. Ties go to the answer with the better passage.

        With `open_dedupe`, the result is the first answer that has the same normalised text as the best one.
        The scores of equal answers are not added up.
        """
        best, _ = max(candidates, key=lambda entry: entry[1])
        if not self.parameters.open_dedupe:
            return best
        same = normalise_answer(best.text)
        return next(segment for segment, _ in candidates if normalise_answer(segment.text) == same)

    async def _vote(self, start: Path, candidates: Sequence[Scored]) -> tuple[Segment, str]:
        """Return the best answer for the option with the greatest sum of votes, and that option.

        Ties go to the option that more passages favour, then to the first option. With `score_sum`, the
        answer from each passage votes for the option that it names, with its score as the weight. Answers
        that name no option can win only if none of the answers names one. With `option_likelihood`, each
        passage splits its vote among all options in proportion to their likelihood. The weight of the passage
        is the score of its answer, or 0 if that score is negative.
        """
        options = allowed = answer_options(self.question)
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
        """Return the normalised likelihoods of the options for each candidate's passage.

        If all likelihoods for a passage are 0, the options get equal values.
        """
        options = answer_options(self.question)
        scores = await self.parameters.together(
            self.writer.options(start, segment.hit, options)
            for segment, _ in candidates
            if segment.hit is not None
        )
        equal = [1 / len(options)] * len(options)
        shares = [share if any(share) else equal for share in map(softmax, scores)]
        return [dict(zip(options, share, strict=True)) for share in shares]
