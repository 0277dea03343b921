"""Gates that read single numbers about the answer from memory or about the question."""

from askance.methods.gates.signals import MissingSignal, Signals


def p_true(signals: Signals) -> float:
    """Return 1 minus the probability that the model gives its own answer of being true.

    Kadavath et al. 2022, "Language Models (Mostly) Know What They Know", section 3.
    """
    return 1 - signals.draft.number("p_true")


def stated_confidence(signals: Signals) -> float:
    """Return 1 minus the confidence, from 0 to 1, that the model states in words (Tian et al. 2023)."""
    return 1 - signals.draft.number("stated_confidence")


def best_score(signals: Signals) -> float:
    """Return the score of the best passage found for the question."""
    return _scores(signals)[0]


def score_gap(signals: Signals) -> float:
    """Return by what share of the best passage's score the second is behind it."""
    best, second = (*_scores(signals), 0.0)[:2]
    return (best - second) / best if best else 0.0


def name_rarity(signals: Signals) -> float:
    """Return the recorded rarity of the rarest name in the question."""
    return signals.number("name_rarity")


def energy_score(signals: Signals) -> float:
    """Return minus the recorded energy score, which is greater for familiar inputs (Liu et al. 2020)."""
    return -signals.number("energy_score")


def _scores(signals: Signals) -> tuple[float, ...]:
    if not signals.scores:
        raise MissingSignal("the scores of passages were not recorded")
    return signals.scores
