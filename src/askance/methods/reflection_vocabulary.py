"""Reflection tokens in a model: their ids, where a generation stops at them, what they were given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from askance.core.errors import MissingAbility
from askance.core.ports import Model
from askance.core.types import Cut, Span, Token, TokenIds, Want
from askance.methods.reflection_tokens import ALL_TOKENS, GROUPS, JUDGED, Distribution, Group

WANT = Want(logprob=True, token_probs=JUDGED)
"""What `distribution` reads from."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The ids that the reflection tokens have in one model: found by their strings, never assumed."""

    ids: Mapping[str, int]

    @classmethod
    def of(cls, model: Model) -> "Vocabulary":
        """Raises MissingAbility, naming the strings that are not exactly one token of `model`."""
        found = {token: model.tokenize([Span(token)]) for token in ALL_TOKENS}
        missing = [token for token, ids in found.items() if not _is_one(model, token, ids)]
        if missing:
            how = "has none of them" if len(missing) == len(ALL_TOKENS) else f"lacks {', '.join(missing)}"
            raise MissingAbility(
                f"method selfrag, set to scorer=native, needs reflection tokens, each one token of the "
                f"vocabulary; {model.name} {how}: use a Self-RAG checkpoint "
                "(hf:selfrag/selfrag_llama2_7b), or scorer=prompted, which asks any model in words."
            )
        return cls({token: ids[0] for token, ids in found.items()})

    def group(self, group: Group) -> tuple[int, ...]:
        """The ids of one group."""
        return tuple(self.ids[token] for token in GROUPS[group])

    @property
    def segment_end(self) -> "GroupFollows":
        """Where a segment ends: a retrieve token, which begins the next, or the utility token behind all."""
        return GroupFollows(self.group("retrieve"), self.group("utility"))

    @property
    def control(self) -> frozenset[int]:
        """All fifteen."""
        return frozenset(self.ids.values())


def _is_one(model: Model, token: str, ids: TokenIds) -> bool:
    # An unknown token is one id, too, but its text is another.
    return len(ids) == 1 and ids[0] not in model.tokenize(token) and model.decode(ids).strip() == token


def check_abilities(model: Model) -> None:
    """Raises MissingAbility unless `model` goes on from a text and tells the probabilities of tokens."""
    lacking = sorted({"token_probs", "logprob"} - model.signals) + sorted({"raw"} - model.capabilities)
    if lacking:
        raise MissingAbility(
            f"method selfrag, set to scorer=native, needs {', '.join(lacking)}, which {model.name} does not "
            "give: use a local model (hf:NAME, gguf:FILE), or scorer=prompted, which asks any model in words."
        )


def has_reflection_tokens(model: Model) -> bool:
    """Whether `model` can judge by itself."""
    try:
        Vocabulary.of(model)
        check_abilities(model)
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
    """What the model gave the tokens of `group` where it wrote `token`."""
    if token is None:
        return {}
    probs = dict(zip(JUDGED, token.probs, strict=True))
    return {name: probs[name] for name in GROUPS[group]}
