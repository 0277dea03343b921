"""The reflection tokens of Self-RAG (Asai et al. 2024): their strings, scores, and ids in a model.

The strings are those of the released checkpoints, letter by letter; no spaces stand around them. The scores
are equations 3 and 4 and the appendix. All read probabilities, and a group whose total is 0 scores 0.
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
"""Probabilities of the tokens of a group. They need not sum to 1: only their ratios are read."""

SEARCH, NO_SEARCH, KEEP_USING = "[Retrieval]", "[No Retrieval]", "[Continue to Use Evidence]"
RELEVANT, IRRELEVANT = "[Relevant]", "[Irrelevant]"
FULLY, PARTIALLY, UNSUPPORTED = (
    "[Fully supported]", "[Partially supported]", "[No support / Contradictory]",
)  # fmt: skip
UTILITIES = tuple(f"[Utility:{grade}]" for grade in range(1, 6))
OPENS, CLOSES = "<paragraph>", "</paragraph>"

GROUPS: Mapping[Group, tuple[str, ...]] = {
    "retrieve": (SEARCH, NO_SEARCH, KEEP_USING),
    "relevance": (RELEVANT, IRRELEVANT),
    "support": (FULLY, PARTIALLY, UNSUPPORTED),
    "utility": UTILITIES,
}
BEGINS: Mapping[str, str] = {"retrieve": SEARCH, "continue": KEEP_USING, "none": NO_SEARCH}
"""How a segment begins, by the action."""
JUDGED = tuple(token for tokens in GROUPS.values() for token in tokens)
"""The thirteen whose probabilities are read."""
ALL_TOKENS = (*JUDGED, OPENS, CLOSES)

_TOKEN = re.compile("(" + "|".join(map(re.escape, ALL_TOKENS)) + ")")
_BREAK = "\u200b"


def without_tokens(text: str) -> str:
    """`text` without control tokens and passages, on one line; a single leading "#" or ":" goes, too."""
    bare = re.sub(f"{re.escape(OPENS)}.*?({re.escape(CLOSES)}|$)", " ", text, flags=re.DOTALL)
    line = " ".join(bare.split())
    while _TOKEN.search(line):  # what stood around a token, or a line break, may make another together
        line = " ".join(_TOKEN.sub(" ", line).split())
    return re.sub(r"^[#:]\s*", "", line)


def disarmed(text: str) -> tuple[str, int]:
    """`text` with the strings of tokens broken by an invisible character, and how many were."""
    return _TOKEN.subn(lambda found: f"{found.group()[0]}{_BREAK}{found.group()[1:]}", text)


def disarmed_hit(hit: Hit) -> tuple[Hit, int]:
    """The same of a passage's title and text."""
    (title, in_title), (text, in_text) = disarmed(hit.passage.title), disarmed(hit.passage.text)
    passage = replace(hit.passage, title=title, text=text)
    return replace(hit, passage=passage), in_title + in_text


def likeliest(distribution: Distribution) -> str:
    """The most probable token, or an empty text where all are 0."""
    best = max(distribution, key=lambda token: distribution[token], default="")
    return best if best and distribution[best] > 0 else ""


_WORTHS = (-1.0, -0.5, 0.0, 0.5, 1.0)


def relevance_score(probs: Distribution) -> float:
    """The share of "relevant", from 0 to 1."""
    return _mean(probs, {RELEVANT: 1.0, IRRELEVANT: 0.0})


def support_score(probs: Distribution) -> float:
    """The share of "fully supported" and half of that of "partially", from 0 to 1.

    As in the paper's appendix; the paper's body has the best token's share alone.
    """
    return _mean(probs, {FULLY: 1.0, PARTIALLY: 0.5, UNSUPPORTED: 0.0})


def utility_score(probs: Distribution) -> float:
    """The mean of grades 1 to 5, brought to -1 to 1."""
    return _mean(probs, dict(zip(UTILITIES, _WORTHS, strict=True)))


def search_share(probs: Distribution) -> float:
    """The share of "retrieval" among it and "no retrieval", from 0 to 1; 0 where both are.

    As in the paper's appendix; its body divides by the probability of "continue", too.
    """
    return _mean(probs, {SEARCH: 1.0, NO_SEARCH: 0.0})


def wants_search(probs: Distribution, threshold: float | None) -> bool:
    """Whether to search: the share is above `threshold`, or, without one, "retrieval" is the likeliest."""
    if threshold is None:
        return likeliest(probs) == SEARCH
    return search_share(probs) > threshold


def wants_to_go_on(probs: Distribution) -> bool:
    """Whether "continue to use evidence" is the likeliest of the three."""
    return likeliest(probs) == KEEP_USING


def _mean(probs: Distribution, worths: dict[str, float]) -> float:
    total = sum(probs.get(token, 0.0) for token in worths)
    if total <= 0:
        return 0.0
    return sum(worth * probs.get(token, 0.0) for token, worth in worths.items()) / total


WANT = Want(logprob=True, token_probs=JUDGED)
"""What `distribution` reads from."""


@dataclass(frozen=True, slots=True)
class ReflectionVocabulary:
    """The ids that the reflection tokens have in one model: found by their strings, never assumed."""

    ids: Mapping[str, int]

    @classmethod
    def of(cls, model: Model) -> "ReflectionVocabulary":
        """Raises MissingAbility, naming what is missing, unless each string is exactly one token of `model`,
        which goes on from a text and tells the probabilities of tokens.
        """
        found = {token: model.tokenize([Span(token)]) for token in ALL_TOKENS}
        missing = [token for token, ids in found.items() if not _is_one(model, token, ids)]
        if missing:
            how = "has none of them" if len(missing) == len(ALL_TOKENS) else f"lacks {', '.join(missing)}"
            raise MissingAbility(
                f"method selfrag, set to scorer=native, needs reflection tokens, each one token of the "
                f"vocabulary; {model.name} {how}: use a Self-RAG checkpoint "
                "(hf:selfrag/selfrag_llama2_7b), or scorer=prompted, which asks any model in words."
            )
        lacking = sorted({"token_probs", "logprob"} - model.signals) + sorted({"raw"} - model.capabilities)
        if lacking:
            raise MissingAbility(
                f"method selfrag, set to scorer=native, needs {', '.join(lacking)}, which {model.name} does "
                "not give: use a local model (hf:NAME, gguf:FILE), or scorer=prompted, which asks any model "
                "in words."
            )
        return cls({token: ids[0] for token, ids in found.items()})

    def group(self, group: Group) -> tuple[int, ...]:
        """The ids of one group."""
        return tuple(self.ids[token] for token in GROUPS[group])

    def judged(self, tokens: Sequence[Token], group: Group) -> Distribution:
        """The probabilities of a group at the first of its tokens; empty where there is none."""
        ids = self.group(group)
        return distribution(next((token for token in tokens if token.id in ids), None), group)

    @property
    def segment_end(self) -> "GroupFollows":
        """Where a segment ends: a retrieve token, which begins the next, or the utility token behind all."""
        return GroupFollows(self.group("retrieve"), self.group("utility"))

    @property
    def control(self) -> frozenset[int]:
        """All fifteen."""
        return frozenset(self.ids.values())

    def names(self, tokens: Sequence[Token]) -> frozenset[str]:
        """The reflection tokens among those that a model wrote."""
        written = {token.id for token in tokens}
        return frozenset(name for name, id in self.ids.items() if id in written)

    def words(self, tokens: Sequence[Token]) -> str:
        """What stands between control tokens; a passage that the model made up itself does not."""
        control, opens, closes = self.control, self.ids[OPENS], self.ids[CLOSES]
        pieces, in_passage = list[str](), False
        for token in tokens:
            in_passage = in_passage or token.id == opens
            if not in_passage:
                # A token between two words may be all that parts them.
                pieces.append(" " if token.id in control else token.text)
            in_passage = in_passage and token.id != closes
        return "".join(pieces)


def _is_one(model: Model, token: str, ids: TokenIds) -> bool:
    # An unknown token is one id, too, but its text is another.
    return len(ids) == 1 and ids[0] not in model.tokenize(token) and model.decode(ids).strip() == token


def has_reflection_tokens(model: Model) -> bool:
    """Whether `model` can judge by itself."""
    try:
        ReflectionVocabulary.of(model)
    except MissingAbility:
        return False
    return True


@dataclass(frozen=True, slots=True)
class GroupFollows:
    """Ends a generation at the first token of some ids; that of `kept_ids` stays, that of `ids` does not."""

    ids: tuple[int, ...]
    kept_ids: tuple[int, ...] = ()

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        if tokens[-1].id in self.ids:
            return Cut(len(tokens) - 1, "retrieve")
        return Cut(len(tokens), "utility") if tokens[-1].id in self.kept_ids else None


def distribution(token: Token | None, group: Group) -> Distribution:
    """The probabilities of the tokens of `group` where the model wrote `token`; empty without one."""
    if token is None:
        return {}
    probs = dict(zip(JUDGED, token.probs, strict=True))
    return {name: probs[name] for name in GROUPS[group]}


def first_distribution(written: Generation, group: Group) -> Distribution:
    """The same where a generation begins."""
    return distribution(next(iter((*written.tokens, *written.dropped)), None), group)


def sequence_score(tokens: Sequence[Token]) -> float:
    """The geometric mean of the probabilities of tokens; 0 where there are none."""
    logprobs = [token.logprob or 0.0 for token in tokens]
    return math.exp(sum(logprobs) / len(logprobs)) if logprobs else 0.0
