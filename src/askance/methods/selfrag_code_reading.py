"""What the Self-RAG authors' code reads out of a generation: decisions, scores, where a segment ends.

It reads log-probabilities of the likeliest tokens and takes -100 for one that is not among them. Here all
are known, and one is missing where its probability is 0.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from askance.core.types import Generation, Token, TokenIds
from askance.methods.reflection_scores import relevance_score, support_score, utility_score
from askance.methods.reflection_tokens import (
    GROUPS,
    IRRELEVANT,
    KEEP_USING,
    NO_SEARCH,
    RELEVANT,
    SEARCH,
    Distribution,
    Group,
)
from askance.methods.reflection_vocabulary import Vocabulary, distribution

if TYPE_CHECKING:
    from askance.methods.selfrag import Selfrag

Judgements = Mapping[Group, Distribution]

_MISSING = -100.0


def first_distribution(written: Generation, group: Group) -> Distribution:
    """Of a group, where the generation begins."""
    return distribution(next(iter((*written.tokens, *written.dropped)), None), group)


def inverted_share(probs: Distribution) -> float:
    """The share of [Retrieval] in the logarithms of its probability and that of [No Retrieval].

    The more probable it is, the smaller its share: above 0.2 means a probability below 0.7245, where the two
    tokens are all there is. Ours: a missing token counts -100, as meant; the code fails on one.
    """
    search, none = (_surprise(probs.get(token, 0.0)) for token in (SEARCH, NO_SEARCH))
    return search / (search + none) if search + none else 0.0


def is_rewritten(probs: Distribution, threshold: float | None) -> bool:
    """Whether a [No Retrieval] with these probabilities beside it is read as [Retrieval].

    "Continue" speaks for it and is not in the divisor, so that the ratio may be above 1. Nothing is above a
    threshold of 1 all the same: the code compares the outcome of the comparison once more. Ours: without a
    threshold, on which the code fails, nothing is rewritten.
    """
    divisor = probs.get(SEARCH, 0.0) + probs.get(NO_SEARCH, 0.0)
    if threshold is None or threshold >= 1 or divisor <= 0:
        return False
    return (probs.get(SEARCH, 0.0) + probs.get(KEEP_USING, 0.0)) / divisor > threshold


def judgements(written: Generation, vocabulary: Vocabulary) -> Judgements:
    """Relevance where a continuation begins, support and utility at their first tokens, or empty."""
    return {
        "relevance": first_distribution(written, "relevance"),
        "support": distribution(_first(written, vocabulary, "support"), "support"),
        "utility": distribution(_first(written, vocabulary, "utility"), "utility"),
    }


def answer_scores(selfrag: "Selfrag", written: Generation, judged: Judgements) -> dict[str, float]:
    """The score of a whole answer, and its parts (short form)."""
    relevance = relevance_score(_filled("relevance", judged["relevance"]))
    support = _support(judged)
    utility = utility_score(_filled("utility", judged["utility"])) if judged["utility"] else 0.0
    sequence = _sequence_score(written)
    score = selfrag.w_rel * relevance + selfrag.w_sup * support + selfrag.w_use * utility
    return {
        "score": score + (sequence if selfrag.use_seqscore else 0.0),
        "sequence": sequence,
        "relevance": relevance,
        "support": support,
        "utility": utility,
    }


def segment_scores(judged: Judgements) -> dict[str, float]:
    """The score of a segment, and its parts (long form).

    Weights are 1, 1 and 0.5 whatever the knobs say, without a sequence term; utility is 0, since the code
    looks for its tokens among those of support; and -100 stands for a missing probability of relevance
    rather than for its logarithm, which makes a segment best that [Relevant] is missing from.
    """
    probs = judged["relevance"]
    relevant, irrelevant = (probs.get(token, 0.0) or _MISSING for token in (RELEVANT, IRRELEVANT))
    relevance, support = relevant / (relevant + irrelevant), _support(judged)
    return {"score": relevance + support, "relevance": relevance, "support": support, "utility": 0.0}


@dataclass(frozen=True, slots=True)
class Read:
    """A continuation as the tree of the long form takes it.

    Attributes:
        text: up to where another search begins, with the names of control tokens.
        ids: the same for later prompts; of one that is read to its end, the end token and a stray
            [No Retrieval], which the code adds where it rewrites, too.
        searches: another segment may follow.
        is_empty: nothing but the end token was written.
    """

    text: str
    ids: TokenIds
    searches: bool
    is_empty: bool


def segment(written: Generation, vocabulary: Vocabulary, threshold: float | None) -> Read:
    """What is left of a continuation when the tail behind the first [Retrieval] is thrown away."""
    search, no_search = vocabulary.ids[SEARCH], vocabulary.ids[NO_SEARCH]
    tokens = written.tokens
    for at, token in enumerate(tokens):
        rewritten = token.id == no_search and is_rewritten(distribution(token, "retrieve"), threshold)
        if token.id == search or rewritten:
            return Read(words(tokens[:at], vocabulary), _ids(tokens[:at]), searches=True, is_empty=False)
    ids = _ids((*tokens, *written.dropped))
    stray = (no_search,) if no_search in ids else ()
    return Read(words(tokens, vocabulary), (*ids, *stray), searches=False, is_empty=not tokens)


def words(tokens: tuple[Token, ...], vocabulary: Vocabulary) -> str:
    """The text of tokens, with the names of control tokens."""
    names = {id: name for name, id in vocabulary.ids.items()}
    return "".join(names.get(token.id, token.text) for token in tokens)


def _ids(tokens: tuple[Token, ...]) -> TokenIds:
    return tuple(token.id for token in tokens)


def _surprise(probability: float) -> float:
    return abs(math.log(probability)) if probability > 0 else -_MISSING


def _first(written: Generation, vocabulary: Vocabulary, group: Group) -> Token | None:
    ids = vocabulary.group(group)
    return next((token for token in written.tokens if token.id in ids), None)


def _filled(group: Group, probs: Distribution) -> Distribution:
    return {token: probs.get(token, 0.0) or math.exp(_MISSING) for token in GROUPS[group]}


def _support(judged: Judgements) -> float:
    return support_score(_filled("support", judged["support"])) if judged["support"] else 0.0


def _sequence_score(written: Generation) -> float:
    """Of all tokens, the end token included."""
    logprobs = [token.logprob or 0.0 for token in (*written.tokens, *written.dropped)]
    return math.exp(sum(logprobs) / max(len(logprobs), 1))
