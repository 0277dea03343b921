"""The confidence of an answer: the estimated probability that the documents answer the question.

The estimate is made after a method has answered, from evidence that the trace and the answer hold:

- relevance: the greatest score that a cross-encoder gives the question with one of the passages read;
- coverage: the greatest share of the question's content words that one sentence with its title contains;
- reflection: the method's own judgement, if it makes one (Self-RAG's [Relevant] and [Fully supported]);
- agreement: the share of sampled answers that agree, if there are several (AirRAG, AirRAG-Blender).

A logistic regression turns the evidence into a probability (Platt 1999, "Probabilistic Outputs for Support
Vector Machines"). Its coefficients are in `confidence.toml`, written by `python -m recipes.confidence`. They
were fitted to the scores of the cross-encoder that comes with askance. An answer whose confidence is below a
threshold is abstained from (selective prediction; El-Yaniv and Wiener 2010, "On the Foundations of Noise-free
Selective Classification").
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from askance.core.answers import Answer, Citation
from askance.core.ports import PairScorer
from askance.core.trace import Searched, Trace, Uncited
from askance.core.types import Passage, Question
from askance.text.answers import sentence_spans
from askance.text.support import covered_share, sentence_citations

MOST_PASSAGES = 12
"""The maximum number of passages that the cross-encoder scores for one answer."""
_CALIBRATION = Path(__file__).with_name("confidence.toml")
_LEAST_LOGIT = -8.0
"""The score of a passage that does not exist."""


@dataclass(frozen=True, slots=True)
class AnswerEvidence:
    """The evidence that passages answer a question (see the module). Scores of pairs are logits."""

    relevance: float
    coverage: float
    reflection: float | None = None
    agreement: float | None = None


@dataclass(frozen=True, slots=True)
class ConfidenceModel:
    """A logistic regression from evidence to confidence, and the threshold that was chosen with it.

    Attributes:
        coefficients: The coefficient of each kind of evidence, by name. Evidence that an answer lacks counts
            as its mean in `means`.
        means: The mean of the evidence that an answer may lack, over the questions of the fit.
        threshold: The confidence below which answers are abstained from by default.
    """

    intercept: float
    coefficients: Mapping[str, float]
    means: Mapping[str, float]
    threshold: float

    def confidence(self, evidence: AnswerEvidence) -> float:
        """Return the estimated probability, from 0 to 1, that the passages answer the question."""
        values = asdict(evidence)
        known = {
            name: self.means[name] if values[name] is None else values[name] for name in self.coefficients
        }
        logit = self.intercept + sum(weight * known[name] for name, weight in self.coefficients.items())
        return 1 / (1 + math.exp(-max(-700.0, min(700.0, logit))))


@cache
def default_calibration() -> ConfidenceModel:
    """Return the calibration that comes with askance."""
    return ConfidenceModel(**tomllib.loads(_CALIBRATION.read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True, eq=False)
class Abstaining:
    """The layer above a method that estimates the confidence of its answers and decides when to abstain.

    Attributes:
        scorer: The cross-encoder.
        below: The confidence below which an answer is abstained from; 0 means never.
        calibration: The regression from evidence to confidence.
    """

    scorer: PairScorer
    below: float
    calibration: ConfidenceModel

    async def judge(self, question: Question, answer: Answer, trace: Trace) -> Answer:
        """Return the answer with its confidence and, if it is abstained from, with the reason.

        The trace records the decision with the evidence. An abstained answer keeps its text and its short
        answer, but cites nothing.

        Raises:
            ModelFailure: The cross-encoder failed.
        """
        passages = passages_read(answer, trace)
        evidence = await evidence_of(self.scorer, question.text, answer, passages)
        confidence = self.calibration.confidence(evidence) if passages and answer.text.strip() else 0.0
        numbers = {name: value for name, value in asdict(evidence).items() if value is not None}
        is_abstained = confidence < self.below
        why = self._reason(confidence, bool(passages), bool(answer.text.strip()))
        trace.decide(
            "confidence",
            "abstain" if is_abstained else "answer",
            why,
            signal="confidence",
            threshold=self.below,
            numbers={"confidence": confidence, **numbers},
        )
        if is_abstained:
            return replace(answer, confidence=confidence, abstained=why, citations=())
        return replace(answer, confidence=confidence)

    def _reason(self, confidence: float, has_passages: bool, has_text: bool) -> str:
        if not has_text:
            return "there is no answer"
        if not has_passages:
            return "no passage was read"
        if confidence < self.below:
            return f"no passage supports it: best support {_below(confidence, self.below)}"
        return f"the best support is {confidence:.2f}, at least {self.below:.2f}"


def _below(value: float, threshold: float) -> str:
    """Return both numbers with as many digits as it takes to distinguish them, at least two."""
    digits = next((n for n in range(2, 9) if f"{value:.{n}f}" != f"{threshold:.{n}f}"), 9)
    return f"{value:.{digits}f}, below {threshold:.{digits}f}"


def passages_read(answer: Answer, trace: Trace) -> tuple[Passage, ...]:
    """Return the distinct passages that an answer cites, and then those found, best rank first.

    At most `MOST_PASSAGES` are returned. Of hits of equal rank, those of the first search come first.
    """
    hits = [hit for event in trace.events if isinstance(event, Searched) for hit in event.hits]
    found = [hit.passage for hit in sorted(hits, key=lambda hit: hit.rank)]
    cited = [citation.passage for citation in answer.citations]
    return tuple({passage.id: passage for passage in (*cited, *found)}.values())[:MOST_PASSAGES]


async def evidence_of(
    scorer: PairScorer, question: str, answer: Answer, passages: Sequence[Passage]
) -> AnswerEvidence:
    """Return the evidence that passages answer a question.

    Raises:
        ModelFailure: The cross-encoder failed.
    """
    pairs = [(question, passage.titled_text) for passage in passages]
    scores = await scorer.score_pairs(pairs) if pairs else [_LEAST_LOGIT]
    shares = (
        covered_share(question, passage.title, passage.text[start:end])
        for passage in passages
        for start, end in sentence_spans(passage.text)
    )
    coverage = max(shares, default=0.0)
    return AnswerEvidence(max(scores), coverage, answer.reflection, answer.agreement)


def supported_part(answer: Answer, trace: Trace) -> Answer:
    """Return an answer without the sentences that cite no passage. The trace records what is left out.

    If no sentence is left, the short answer is empty, too.
    """
    pieces, citations, length = list[str](), list[Citation](), 0
    for (start, end), cited in sentence_citations(answer, sentence_spans(answer.text)):
        sentence = answer.text[start:end]
        if not cited:
            trace.add(Uncited, text=sentence, why="left out, because it cites no passage")
            continue
        offset = length + bool(pieces)
        citations += [replace(each, start=offset, end=offset + len(sentence)) for each in cited]
        pieces.append(sentence)
        length = offset + len(sentence)
    short = answer.short if pieces else ""
    return replace(answer, text=" ".join(pieces), short=short, citations=tuple(citations))
