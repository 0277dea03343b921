"""The parameters of Self-RAG, and the rules that follow from them: retrieval, scores, hard constraints."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import ClassVar, Literal

from askance.core.parameters import checked_dataclass, parameter
from askance.core.types import Token
from askance.methods.common.prompts import OWN, Layout, PromptTemplate
from askance.methods.common.token_limit import TokenLimited
from askance.methods.selfrag import tokens
from askance.methods.selfrag.prompts import OWN_INSTRUCTIONS, Instructions, Task
from askance.methods.selfrag.segments import Action, Path, Segment
from askance.methods.selfrag.tokens import Distribution, Group


@checked_dataclass()
class SelfragParameters(TokenLimited):
    """The parameters that every variant of Self-RAG has."""

    form: Literal["short", "long"] = parameter("short", "an answer per passage, or a beam of segments")
    mode: Literal["adaptive", "always", "never"] = parameter("adaptive", "when to search")
    threshold: float | None = parameter(
        0.2,
        "search if the share of [Retrieval] is above this; none: if it is the most likely token",
        at_least=0,
        at_most=1,
    )
    passages: int = parameter(5, "passages per search, each with its own answer or segment", at_least=1)
    max_tokens: int = parameter(
        100, "maximum number of new tokens of an answer or, in the long form, a segment", at_least=1
    )
    w_rel: float = parameter(1.0, "weight of the share of [Relevant]", at_least=0)
    w_sup: float = parameter(1.0, "weight of support, from 0 to 1", at_least=0)
    w_use: float = parameter(0.5, "weight of utility, from -1 to 1", at_least=0)
    use_seqscore: bool = parameter(True, "add the mean probability of a candidate's tokens to its score")
    reject_unsupported: bool = parameter(
        False, "hard constraint: reject segments that their passage does not support"
    )
    beam_width: int = parameter(2, "beam width: answers that are continued, in the long form", at_least=1)
    max_segments: int = parameter(6, "maximum number of segments of an answer, in the long form", at_least=1)
    task: Task = parameter("auto", "task whose instruction precedes the question, with native tokens")
    instructions: Instructions = parameter(OWN_INSTRUCTIONS, "instructions of all tasks, with native tokens")


@checked_dataclass()
class OwnParameters(SelfragParameters):
    """The parameters of our own implementation of the paper."""

    scorer: Literal["auto", "native", "prompted"] = parameter(
        "auto", "score segments by reflection tokens, if the critic has them, or by questions in words"
    )
    ask_short_answer: bool = parameter(
        True, "ask for the short answer if the text states none, without native tokens"
    )
    layout: Layout = parameter(
        "auto",
        "raw text or the model's chat format, without native tokens; auto is raw if the model takes it",
    )
    prompts: PromptTemplate = parameter(OWN, "prompt template, without native tokens")

    token_values: ClassVar[Mapping[Group, Distribution]] = tokens.APPENDIX_VALUES
    """The value of each token in the score of its group."""
    grades_segments: ClassVar[bool] = False
    """Whether utility is judged for each segment, instead of for whole answers."""

    @property
    def needed_groups(self) -> frozenset[Group]:
        """Return the token groups that the scores, hard constraints or retrieve decisions depend on."""
        is_read: dict[Group, bool] = {
            "retrieve": self.mode == "adaptive",
            "relevance": self.w_rel > 0,
            "support": self.w_sup > 0 or self.reject_unsupported,
            "utility": self.w_use > 0,
        }
        return frozenset(group for group, reads in is_read.items() if reads)

    def next_action(self, path: Path) -> Action:
        """Return how the next segment of `path` begins."""
        if self.mode != "adaptive":
            return "retrieve" if self.mode == "always" else "none"
        if tokens.should_continue(path.retrieve_probs) and path.current_hit is not None:
            return "continue"
        return "retrieve" if tokens.should_retrieve(path.retrieve_probs, self.threshold) else "none"

    def segment_score(self, segment: Segment) -> float:
        """Return the score of a segment: equation 4 without utility, which only whole answers have.

        A segment whose support is not judged yet counts as fully supported, so its score is an upper bound.
        """
        support = segment.support if segment.is_judged else {tokens.FULLY_SUPPORTED: 1.0}
        relevance = self.w_rel * self.group_score("relevance", segment.relevance)
        score = self.use_seqscore * segment.sequence_score + relevance
        return score + self.w_sup * self.group_score("support", support)

    def path_score(self, segments: Sequence[Segment]) -> float:
        """Return the mean score of the segments with a newly retrieved passage, or 0 without any."""
        return fmean([self.segment_score(each) for each in segments if each.action == "retrieve"] or [0.0])

    def answer_score(self, segment: Segment) -> float:
        """Return the score of a segment that is a whole answer."""
        return self.segment_score(segment) + self.utility_score(segment.utility)

    def utility_score(self, utility: Distribution) -> float:
        """Return how much the utility of a whole answer adds to the score of the answer."""
        return self.w_use * self.group_score("utility", utility)

    def group_score(self, group: Group, probs: Distribution) -> float:
        """Return the score of a group from the probabilities of its tokens."""
        return tokens.group_score(probs, self.token_values[group])

    def sequence_score(self, written: Sequence[Token]) -> float:
        """Return the score of the text of a segment from the probabilities of its tokens."""
        return tokens.sequence_score(written)

    def rejection(self, segment: Segment) -> str:
        """Return why the hard constraint rejects a segment, or an empty string if it does not."""
        is_rejected = self.reject_unsupported and tokens.NO_SUPPORT in segment.labels
        return "its passage does not support it" if is_rejected else ""
