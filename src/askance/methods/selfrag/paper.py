"""Self-RAG with the scores that the main text of its paper prints."""

from collections.abc import Mapping, Sequence
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
    the tokens of its group. Utility is judged for every segment. All else is as in `selfrag`.
    """

    token_values: ClassVar[Mapping[Group, Distribution]] = {
        group: {token: float(token == best) for token in tokens.GROUPS[group]}
        for group, best in tokens.BEST_TOKENS.items()
    }
    grades_segments: ClassVar[bool] = True

    def segment_score(self, segment: Segment) -> float:
        """Return the score of a segment by equations 3 and 4, or an upper bound if it is not judged yet."""
        utility = segment.utility if segment.is_judged else {tokens.BEST_TOKENS["utility"]: 1.0}
        return Selfrag.segment_score(self, segment) + self.utility_score(utility)

    def answer_score(self, segment: Segment) -> float:
        """Return the score of a segment that is a whole answer, which is that of any segment."""
        return self.segment_score(segment)

    def sequence_score(self, written: Sequence[Token]) -> float:
        """Return p(y), the product of the probabilities of the tokens."""
        return tokens.sequence_score(written) ** max(len(written), 1)
