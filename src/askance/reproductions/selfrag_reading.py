"""What the Self-RAG authors' code reads out of a generation: decisions, scores, where a segment ends.

It reads log-probabilities of the likeliest tokens and takes -100 for one that is not among them. Here all
are known, and one is missing where its probability is 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from askance.core.types import Generation, Part, Token, untrusted
from askance.methods.selfrag.scores import relevance_score, support_score, utility_score
from askance.methods.selfrag.tokens import (
    GROUPS,
    IRRELEVANT,
    KEEP_USING,
    NO_SEARCH,
    RELEVANT,
    SEARCH,
    Distribution,
    Group,
)
from askance.methods.selfrag.vocabulary import Vocabulary, distribution
from askance.reproductions.selfrag_output import END

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
    threshold of 1 all the same: the code compares the outcome of the comparison once more. With a threshold
    of 0 it always is, since a missing token counts e^-100. Ours: without a threshold, on which the code
    fails, nothing is rewritten.
    """
    if threshold is None or threshold >= 1:
        return False
    filled = _filled("retrieve", probs)
    return (filled[SEARCH] + filled[KEEP_USING]) / (filled[SEARCH] + filled[NO_SEARCH]) > threshold


def judgements(written: Generation, vocabulary: Vocabulary) -> Judgements:
    """Relevance where a continuation begins, support and utility at their first tokens, or empty."""
    return {
        "relevance": first_distribution(written, "relevance"),
        "support": distribution(_first(written, vocabulary, "support"), "support"),
        "utility": distribution(_first(written, vocabulary, "utility"), "utility"),
    }


def answer_scores(selfrag: "Selfrag", written: Generation, judged: Judgements) -> dict[str, float]:
    """The score of a whole answer, and its parts (short form)."""
    parts = {
        "sequence": _sequence_score(written),
        "relevance": relevance_score(_filled("relevance", judged["relevance"])),
        "support": _support(selfrag, judged),
        "utility": _utility(selfrag, judged),
    }
    return {"score": _weighted(selfrag, parts), **parts}


def segment_scores(selfrag: "Selfrag", written: Generation, judged: Judgements) -> dict[str, float]:
    """The score of a segment, and its parts (long form).

    With `fixed_weights` they are 1, 1 and 0.5, without a sequence term, as their script has it whatever its
    options say. Utility is 0, since the code looks for its tokens among those of support; and -100 stands for
    a missing probability of relevance rather than for its logarithm, which makes a segment best that
    [Relevant] is missing from.
    """
    probs = judged["relevance"]
    relevant, irrelevant = (probs.get(token, 0.0) or _MISSING for token in (RELEVANT, IRRELEVANT))
    parts = {
        "sequence": _sequence_score(written),
        "relevance": relevant / (relevant + irrelevant),
        "support": _support(selfrag, judged),
        "utility": 0.0,
    }
    score = parts["relevance"] + parts["support"]
    return {"score": score if selfrag.fixed_weights else _weighted(selfrag, parts), **parts}


@dataclass(frozen=True, slots=True)
class Read:
    """A continuation as the tree of the long form takes it.

    Attributes:
        text: up to where another search begins, as text, in which control tokens are told by their names.
        behind: the same for later prompts, in the ids written.
        searches: another segment may follow.
        is_end: the end token and nothing else, where the model's text shows it.
    """

    text: str
    behind: tuple[Part, ...] = ()
    searches: bool = False
    is_end: bool = False


def segment(written: Generation, shows_end: bool, vocabulary: Vocabulary, threshold: float | None) -> Read:
    """What is left of a continuation when the tail behind the first [Retrieval] is thrown away.

    The code looks for names in the text: an ordinary text that spells one counts, and a token that the
    model's text does not show doesn't. Each [No Retrieval] of the text may be read as [Retrieval] by the
    probabilities at the token of the same number; where any is in the text, one more is added at its end.

    Args:
        shows_end: the model's text has the end token, and so it has `END`.
    """
    ends = tuple(token.id for token in written.dropped) if shows_end else ()
    text = written.text.removesuffix(END) + END if ends else written.text
    told = _rewritten(text, written.tokens, vocabulary.ids[NO_SEARCH], threshold)
    at = told.find(SEARCH)
    shown = [token for token in written.tokens if token.text or token.id not in vocabulary.control]
    if 0 <= at <= len(written.text):
        return Read(told[:at], _parts(shown, at), searches=True)
    stray = (vocabulary.ids[NO_SEARCH],) if len(told) > len(text) else ()
    ids = (*(token.id for token in shown), *ends, *stray)
    return Read(told if at < 0 else told[:at], (ids,), searches=at >= 0, is_end=told == END)


def _rewritten(text: str, tokens: Sequence[Token], no_search: int, threshold: float | None) -> str:
    if NO_SEARCH not in text:
        return text
    turned = [
        is_rewritten(distribution(token, "retrieve"), threshold) for token in tokens if token.id == no_search
    ]
    pieces = text.split(NO_SEARCH)
    return "".join(
        piece + (SEARCH if turned[at : at + 1] == [True] else NO_SEARCH) for at, piece in enumerate(pieces)
    )


def _parts(tokens: Sequence[Token], num_chars: int) -> tuple[Part, ...]:
    """The tokens of the first `num_chars` characters; of one that they cut, its text."""
    whole = tuple(token.id for token in tokens if token.end <= num_chars and token.start < num_chars)
    cut = [token for token in tokens if token.start < num_chars < token.end]
    rest = [untrusted(token.text[: num_chars - token.start]) for token in cut]
    return (whole, *rest)


def _surprise(probability: float) -> float:
    return abs(math.log(probability)) if probability > 0 else -_MISSING


def _first(written: Generation, vocabulary: Vocabulary, group: Group) -> Token | None:
    ids = vocabulary.group(group)
    return next((token for token in written.tokens if token.id in ids), None)


def _filled(group: Group, probs: Distribution) -> Distribution:
    return {token: probs.get(token, 0.0) or math.exp(_MISSING) for token in GROUPS[group]}


def _support(selfrag: "Selfrag", judged: Judgements) -> float:
    if not (selfrag.use_groundness and judged["support"]):
        return 0.0
    return support_score(_filled("support", judged["support"]))


def _utility(selfrag: "Selfrag", judged: Judgements) -> float:
    if not (selfrag.use_utility and judged["utility"]):
        return 0.0
    return utility_score(_filled("utility", judged["utility"]))


def _weighted(selfrag: "Selfrag", parts: Mapping[str, float]) -> float:
    score = selfrag.w_rel * parts["relevance"] + selfrag.w_sup * parts["support"]
    return score + selfrag.w_use * parts["utility"] + (parts["sequence"] if selfrag.use_seqscore else 0.0)


def _sequence_score(written: Generation) -> float:
    """Of all tokens, the end token included."""
    logprobs = [token.logprob or 0.0 for token in (*written.tokens, *written.dropped)]
    return math.exp(sum(logprobs) / max(len(logprobs), 1))
