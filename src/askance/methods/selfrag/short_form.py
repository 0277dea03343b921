"""Self-RAG's short form (Asai et al. 2024, section 3.3): write an answer for each passage and choose one."""

from collections.abc import Sequence
from dataclasses import replace

from askance.core.trace import WordSignal
from askance.core.types import Hit
from askance.methods.selfrag import tokens
from askance.methods.selfrag.prompts import answer_options, named_option
from askance.methods.selfrag.segment_writer import SegmentWriter
from askance.methods.selfrag.segments import Action, Path, Segment, record_candidate, search_passages
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
            record_candidate(self.run, f"{start.name}.{len(hits) + 1}", segment, score, "")
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
            record_candidate(self.run, f"{start.name}.{number}", segment, score, rejected)
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
