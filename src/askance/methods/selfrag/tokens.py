"""The reflection tokens of Self-RAG (Asai et al. 2024): strings, scores, and ids in a model.

The strings are exactly those of the released checkpoints, without surrounding spaces. The scores follow
equations 3 and 4 and the appendix. They are computed from probabilities. If the probabilities of a group sum
to 0, the score of the group is 0.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from askance.core.errors import MissingAbility
from askance.core.ports import Model
from askance.core.types import Cut, Generation, Hit, Span, Token, TokenIds, Want

Group = Literal["retrieve", "relevance", "support", "utility"]
Distribution = Mapping[str, float]
"""The probabilities of the tokens in a group. They need not sum to 1, because only their ratios matter."""

RETRIEVAL, NO_RETRIEVAL, CONTINUE = "[Retrieval]", "[No Retrieval]", "[Continue to Use Evidence]"
RELEVANT, IRRELEVANT = "[Relevant]", "[Irrelevant]"
FULLY_SUPPORTED, PARTIALLY_SUPPORTED, NO_SUPPORT = (
    "[Fully supported]", "[Partially supported]", "[No support / Contradictory]",
)  # fmt: skip
UTILITIES = tuple(f"[Utility:{grade}]" for grade in range(1, 6))
PARAGRAPH_START, PARAGRAPH_END = "<paragraph>", "</paragraph>"

GROUPS: Mapping[Group, tuple[str, ...]] = {
    "retrieve": (RETRIEVAL, NO_RETRIEVAL, CONTINUE),
    "relevance": (RELEVANT, IRRELEVANT),
    "support": (FULLY_SUPPORTED, PARTIALLY_SUPPORTED, NO_SUPPORT),
    "utility": UTILITIES,
}
RETRIEVE_TOKENS: Mapping[str, str] = {"retrieve": RETRIEVAL, "continue": CONTINUE, "none": NO_RETRIEVAL}
"""The retrieve token that begins a segment, for each action."""
SCORED_TOKENS = tuple(token for tokens in GROUPS.values() for token in tokens)
"""The thirteen tokens whose probabilities are requested from the model."""
ALL_TOKENS = (*SCORED_TOKENS, PARAGRAPH_START, PARAGRAPH_END)

TOKEN = re.compile("(" + "|".join(map(re.escape, ALL_TOKENS)) + ")")
_PASSAGE = re.compile(f"{PARAGRAPH_START}.*?({PARAGRAPH_END}|$)", re.DOTALL)
_BREAK = "\u200b"


def _blanked(text: str) -> str:
    return TOKEN.sub(" ", _PASSAGE.sub(" ", text))


def without_tokens(text: str) -> str:
    """Return `text` on one line, without control tokens, passages or a leading "#" or ":"."""
    line = " ".join(_blanked(text).split())
    # Removing a token or a line break may join the text around it into another token.
    while TOKEN.search(line):
        line = " ".join(_blanked(line).split())
    return re.sub(r"^[#:]\s*", "", line)


def escape_tokens(text: str) -> tuple[str, int]:
    """Return `text` with an invisible character in each reflection token, and the number of such tokens."""
    return TOKEN.subn(lambda match: f"{match.group()[0]}{_BREAK}{match.group()[1:]}", text)


def escape_hit(hit: Hit) -> tuple[Hit, int]:
    """Return `hit` with all reflection tokens in its passage escaped, and the number of these tokens."""
    (title, in_title), (text, in_text) = escape_tokens(hit.passage.title), escape_tokens(hit.passage.text)
    passage = replace(hit.passage, title=title, text=text)
    return replace(hit, passage=passage), in_title + in_text


def most_likely(distribution: Distribution) -> str:
    """Return the most probable token, or an empty string if all probabilities are 0."""
    best = max(distribution, key=lambda token: distribution[token], default="")
    return best if best and distribution[best] > 0 else ""


APPENDIX_VALUES: Mapping[Group, Distribution] = {
    "relevance": {RELEVANT: 1.0, IRRELEVANT: 0.0},
    "support": {FULLY_SUPPORTED: 1.0, PARTIALLY_SUPPORTED: 0.5, NO_SUPPORT: 0.0},
    "utility": dict(zip(UTILITIES, (-1.0, -0.5, 0.0, 0.5, 1.0), strict=True)),
}
"""The value of each token in the score of its group, by the paper's appendix."""
BEST_TOKENS: Mapping[Group, str] = {
    "relevance": RELEVANT, "support": FULLY_SUPPORTED, "utility": UTILITIES[-1],
}  # fmt: skip
"""The most desirable token of each group (equation 4)."""


def group_score(probs: Distribution, values: Distribution) -> float:
    """Return the mean value of a group's tokens, weighted by their probabilities, or 0 if all are 0."""
    total = sum(probs.get(token, 0.0) for token in values)
    if total <= 0:
        return 0.0
    return sum(value * probs.get(token, 0.0) for token, value in values.items()) / total


def relevance_score(probs: Distribution) -> float:
    """Return P(relevant) / (P(relevant) + P(irrelevant)), or 0 if both are 0."""
    return group_score(probs, APPENDIX_VALUES["relevance"])


def support_score(probs: Distribution) -> float:
    """Return P(fully supported) + P(partially supported) / 2, normalised over the group, or 0 if all are 0.

    This follows the appendix of the paper. The main text uses only the normalised probability of the most
    desirable token.
    """
    return group_score(probs, APPENDIX_VALUES["support"])


def utility_score(probs: Distribution) -> float:
    """Return the expected grade, from 1 to 5, rescaled to the range from -1 to 1."""
    return group_score(probs, APPENDIX_VALUES["utility"])


def retrieval_share(probs: Distribution) -> float:
    """Return P(retrieval) / (P(retrieval) + P(no retrieval)), or 0 if both are 0.

    This follows the appendix of the paper. The main text also has P(continue) in the denominator.
    """
    return group_score(probs, {RETRIEVAL: 1.0, NO_RETRIEVAL: 0.0})


def should_retrieve(probs: Distribution, threshold: float | None) -> bool:
    """Return whether `retrieval_share` exceeds `threshold`.

    If `threshold` is None, return whether "retrieval" is the most likely retrieve token.
    """
    if threshold is None:
        return most_likely(probs) == RETRIEVAL
    return retrieval_share(probs) > threshold


def should_continue(probs: Distribution) -> bool:
    """Return whether "continue to use evidence" is the most likely retrieve token."""
    return most_likely(probs) == CONTINUE


WANTED = Want(logprob=True, token_probs=SCORED_TOKENS)
"""The signals that a generation must report for `distribution` and `sequence_score`."""


@dataclass(frozen=True, slots=True)
class ReflectionVocabulary:
    """The ids of the reflection tokens in one model, looked up by their strings."""

    ids: Mapping[str, int]

    @classmethod
    def of(cls, model: Model) -> "ReflectionVocabulary":
        """Look up the reflection tokens of `model`.

        Raises:
            MissingAbility: A reflection token is not a single token of the model, or the model can't continue
                raw text or report token probabilities. The message names what is missing.
        """
        ids_of = {token: model.tokenize([Span(token)]) for token in ALL_TOKENS}
        missing = [token for token, ids in ids_of.items() if not _is_one(model, token, ids)]
        if len(missing) == len(ALL_TOKENS):
            missing = ["all reflection tokens"]
        missing += sorted({"token_probs", "logprob"} - model.signals) + sorted({"raw"} - model.capabilities)
        if missing:
            raise MissingAbility(
                f"method selfrag, set to scorer=native, needs reflection tokens, each one token of the "
                f"vocabulary, and their probabilities after raw text; {model.name} lacks "
                f"{', '.join(missing)}: use a Self-RAG model (bundled:selfrag, "
                "hf:selfrag/selfrag_llama2_7b), or scorer=prompted, which asks any model in words."
            )
        return cls({token: ids[0] for token, ids in ids_of.items()})

    def group_ids(self, group: Group) -> tuple[int, ...]:
        """Return the ids of the tokens in `group`."""
        return tuple(self.ids[token] for token in GROUPS[group])

    def group_probs(self, tokens: Sequence[Token], group: Group) -> Distribution:
        """Return the distribution over `group` at the position of its first token in `tokens`.

        If `tokens` has no token of the group, the distribution is empty.
        """
        ids = self.group_ids(group)
        return distribution([token for token in tokens if token.id in ids], group)

    @property
    def control_ids(self) -> frozenset[int]:
        """Return the ids of all fifteen control tokens."""
        return frozenset(self.ids.values())

    def token_names(self, tokens: Sequence[Token]) -> frozenset[str]:
        """Return the names of the reflection tokens that occur in `tokens`."""
        written = {token.id for token in tokens}
        return frozenset(name for name, id in self.ids.items() if id in written)

    def text_of(self, tokens: Sequence[Token]) -> str:
        """Return the text of `tokens`, with blanks for control tokens and passages that the model made up."""
        names = {id: name for name, id in self.ids.items()}
        return _blanked("".join(names.get(token.id, token.text) for token in tokens))


def _is_one(model: Model, token: str, ids: TokenIds) -> bool:
    # An unknown token may also have a single id, but that id decodes to another string.
    return len(ids) == 1 and ids[0] not in model.tokenize(token) and model.decode(ids).strip() == token


def has_reflection_tokens(model: Model) -> bool:
    """Return whether `model` has the reflection tokens and reports their probabilities."""
    try:
        ReflectionVocabulary.of(model)
    except MissingAbility:
        return False
    return True


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """A stop condition that cuts before the first token in `ids` or after the first token in `kept_ids`.

    A segment ends before a retrieve token, which begins the next segment, or after a utility token, which
    ends the answer.
    """

    ids: tuple[int, ...]
    kept_ids: tuple[int, ...] = ()

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        if tokens[-1].id in self.ids:
            return Cut(len(tokens) - 1, "retrieve")
        return Cut(len(tokens), "utility") if tokens[-1].id in self.kept_ids else None


def distribution(tokens: Sequence[Token], group: Group) -> Distribution:
    """Return the distribution over `group` at the first of `tokens`, or an empty one without tokens."""
    probs = zip(SCORED_TOKENS, tokens[0].probs, strict=True) if tokens else ()
    return {name: prob for name, prob in probs if name in GROUPS[group]}


def first_distribution(written: Generation, group: Group) -> Distribution:
    """Return the distribution over `group` at the first token of a generation."""
    return distribution((*written.tokens, *written.dropped), group)


def sequence_score(tokens: Sequence[Token]) -> float:
    """Return the geometric mean of the probabilities of `tokens`, or 0 if there are no tokens."""
    logprobs = [token.logprob or 0.0 for token in tokens]
    return math.exp(sum(logprobs) / len(logprobs)) if logprobs else 0.0
