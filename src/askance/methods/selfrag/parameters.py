"""The parameters of Self-RAG, and what follows from them alone: when to search, what scores, what is
rejected.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from askance.core.concurrency import Together, gather_or_cancel, in_turn
from askance.core.parameters import parameter
from askance.methods.common.prompts import OWN, Layout, PromptTemplate
from askance.methods.common.token_limit import TokenLimited
from askance.methods.selfrag import tokens
from askance.methods.selfrag.segments import Action, Citing, Path, Segment
from askance.methods.selfrag.tasks import OWN_INSTRUCTIONS, Instructions, Separator, Task
from askance.methods.selfrag.tokens import Distribution, Group


@dataclass(frozen=True, slots=True)
class SelfragParameters(TokenLimited):
    """The parameters that every reading of Self-RAG has."""

    form: Literal["short", "long"] = parameter("short", "one answer a passage, or a beam of segments")
    mode: Literal["adaptive", "always", "never"] = parameter("adaptive", "when to search")
    threshold: float | None = parameter(
        0.2,
        "search when the share of [Retrieval] is above this; none: when it is the likeliest token",
        at_least=0,
        at_most=1,
    )
    passages: int = parameter(5, "passages per search, each with an answer or segment of its own", at_least=1)
    max_tokens: int = parameter(
        100, "most new tokens of an answer or, in the long form, a segment", at_least=1
    )
    w_rel: float = parameter(1.0, "weight of the share of [Relevant]", at_least=0)
    w_sup: float = parameter(1.0, "weight of support, from 0 to 1", at_least=0)
    w_use: float = parameter(0.5, "weight of utility, from -1 to 1", at_least=0)
    use_seqscore: bool = parameter(True, "add the mean probability of a candidate's tokens to its score")
    use_groundness: bool = parameter(True, "read support at all; without it its score is 0")
    use_utility: bool = parameter(True, "read utility at all; without it its score is 0")
    reject_unsupported: bool = parameter(
        False, "hard constraint: no segment that its passage does not support"
    )
    beam_width: int = parameter(2, "answers that are gone on with, in the long form", at_least=1)
    max_segments: int = parameter(6, "most segments of an answer, in the long form", at_least=1)
    task: Task = parameter("auto", "the instruction before the question, with native tokens")
    instructions: Instructions = parameter(
        OWN_INSTRUCTIONS, "the instructions of all tasks, with native tokens"
    )
    separator: Separator = parameter("auto", "what stands between the two; auto is that of the training data")


@dataclass(frozen=True, slots=True)
class OwnParameters(SelfragParameters):
    """The parameters of our own reading of the paper."""

    profile: Literal["default"] = parameter("default", "whose reading: ours")
    seqscore_text_only: bool = parameter(False, "that of its words alone, without reflection tokens")
    reject_irrelevant: bool = parameter(False, "hard constraint: no segment with an irrelevant passage")
    least_utility: int = parameter(1, "hard constraint: no answer of a lower grade", at_least=1, at_most=5)
    closed_aggregation: Literal["score_sum", "option_likelihood"] = parameter(
        "score_sum", "how passages vote for options: by their answers' scores, or by each option's likelihood"
    )
    open_dedupe: bool = parameter(False, "of equal answers keep that of the best passage, in the short form")
    path_power: float = parameter(
        1.0, "scores of segments are added up and divided by their number to this power", at_least=0
    )
    retrieval: Literal["dynamic", "static"] = parameter(
        "dynamic", "search anew for each segment, or once, in the long form"
    )
    evidence: Literal["current_only", "keep_all"] = parameter(
        "current_only", "whether earlier passages stay in the prompt, in the long form with native tokens"
    )
    scan_tokens: int = parameter(
        0, "tokens in which the first decision is looked for; 0: 1, or 25 in the long form", at_least=0
    )
    citations: Citing = parameter("each_sentence", "the sentences of a segment that cite its passage")
    scorer: Literal["auto", "native", "prompted"] = parameter(
        "auto", "who judges: reflection tokens, where the judge has them, or answers to questions in words"
    )
    elicit: bool = parameter(
        True, "ask for the short answer where the text states none, without native tokens"
    )
    elicit_tokens: int = parameter(20, "most new tokens of an elicited answer", at_least=1)
    layout: Layout = parameter(
        "auto", "raw text or the model's chat format, without native tokens; auto is raw where it is taken"
    )
    wording: PromptTemplate = parameter(OWN, "examples and fixed lines of the prompt, without native tokens")

    @property
    def support_weight(self) -> float:
        """The weight of support; 0 where it is switched off."""
        return self.w_sup * self.use_groundness

    @property
    def utility_weight(self) -> float:
        """The weight of utility; 0 where it is switched off."""
        return self.w_use * self.use_utility

    @property
    def read(self) -> frozenset[Group]:
        """The judgements that something depends on besides citations: a score, a constraint, or a search."""
        is_read: dict[Group, bool] = {
            "retrieve": self.mode == "adaptive",
            "relevance": self.w_rel > 0 or self.reject_irrelevant,
            "support": self.support_weight > 0 or self.reject_unsupported,
            "utility": self.utility_weight > 0 or self.least_utility > 1,
        }
        return frozenset(group for group, reads in is_read.items() if reads)

    @property
    def together(self) -> Together:
        """How calls that do not need each other are made: within an L_max in turn, so that what is left out
        never depends on timing.
        """
        return gather_or_cancel if self.l_max is None else in_turn

    def action(self, onward: Distribution, path: Path) -> Action:
        """How the next segment of `path` begins, by the probabilities of the retrieve tokens."""
        if self.mode != "adaptive":
            return "retrieve" if self.mode == "always" else "none"
        if tokens.wants_to_go_on(onward) and path.in_use is not None:
            return "continue"
        return "retrieve" if tokens.wants_search(onward, self.threshold) else "none"

    def segment_score(self, segment: Segment) -> float:
        """The score of a segment: equation 4 without the utility, which only whole answers have.

        Support that is not judged yet counts as much as it can: the score is an upper bound then.
        """
        backing = segment.support if segment.is_judged else {tokens.FULLY: 1.0}
        relevance = self.w_rel * tokens.relevance_score(segment.relevance)
        score = self.use_seqscore * segment.sequence_score + relevance
        return score + self.support_weight * tokens.support_score(backing)

    def answer_score(self, segment: Segment) -> float:
        """The score of a segment that is a whole answer."""
        return self.segment_score(segment) + self.utility_score(segment.utility)

    def utility_score(self, utility: Distribution) -> float:
        """What a whole answer's utility adds to its score."""
        return self.utility_weight * tokens.utility_score(utility)

    def rejection(self, segment: Segment) -> str:
        """Why a hard constraint rejects a segment, whatever its score, or nothing."""
        if self.reject_unsupported and tokens.UNSUPPORTED in segment.labels:
            return "its passage does not support it"
        if self.reject_irrelevant and tokens.IRRELEVANT in segment.labels:
            return "its passage is irrelevant"
        return self.uselessness(segment.labels)

    def uselessness(self, labels: Collection[str]) -> str:
        """Why an answer of that utility is rejected, or nothing."""
        grades = [grade for grade, label in enumerate(tokens.UTILITIES, start=1) if label in labels]
        if grades and grades[0] < self.least_utility:
            return f"its utility is {grades[0]}, less than {self.least_utility}"
        return ""
