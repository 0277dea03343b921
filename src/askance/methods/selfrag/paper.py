"""Self-RAG with the scores that the main text of its paper prints."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import ClassVar

from askance.core.parameters import checked_dataclass
from askance.core.types import Token
from askance.methods.selfrag import tokens
from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.segments import Segment
from askance.methods.selfrag.tokens import Distribution, Group


@checked_dataclass()
class SelfragPaper(Selfrag):
    """Self-RAG (Asai et al. 2024) with the scores of its equations 3 and 4 and of algorithm 1.

    The score of a segment is the probability p(y) of its text, which shrinks with each token, and the
    weighted shares of the most desirable tokens: [Relevant], [Fully supported] and [Utility:5], each among
    the tokens of its group. Utility is judged for every segment, also for one without a new passage, and the
    mean over all segments is part of the score of a path. All else is as in `selfrag`.
    """

    token_values: ClassVar[Mapping[Group, Distribution]] = {
        group: {token: float(token == best) for token in tokens.GROUPS[group]}
        for group, best in tokens.BEST_TOKENS.items()
    }
    grades_segments: ClassVar[bool] = True

    def segment_score(self, segment: Segment) -> float:
        """Return the score of a segment by equations 3 and 4, or an upper bound if it is not judged yet."""
        return Selfrag.segment_score(self, segment) + self._grade(segment)

    def path_score(self, segments: Sequence[Segment]) -> float:
        """Return the mean score of the segments with a new passage, and the mean utility of all, added up."""
        scores = [Selfrag.segment_score(self, each) for each in segments if each.action == "retrieve"]
        grades = [self._grade(each) for each in segments if each.action != "lead"]
        return fmean(scores or [0.0]) + fmean(grades or [0.0])

    def _grade(self, segment: Segment) -> float:
        best = {tokens.BEST_TOKENS["utility"]: 1.0}
        return self.utility_score(segment.utility if segment.is_judged else best)

    def answer_score(self, segment: Segment) -> float:
        """Return the score of a segment that is a whole answer, which is that of any segment."""
        return self.segment_score(segment)

    def sequence_score(self, written: Sequence[Token]) -> float:
        """Return p(y), the product of the probabilities of the tokens."""
        return tokens.sequence_score(written) ** max(len(written), 1)
