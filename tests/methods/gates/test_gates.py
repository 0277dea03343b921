"""Gates and guards, each against a value worked out by hand."""

from math import e, log

import numpy as np
import pytest

from askance.configuration.evaluation import open_gates
from askance.core.types import Token
from askance.methods.gates.signals import MissingSignal, Signals, Written
from tests.tolerances import near

GATES, GUARDS = open_gates(())


def written(*tokens, **fields):
    """Return an answer of tokens (text, probability, entropy, second probability)."""
    made, start = [], 0
    for text, probability, entropy, second in tokens:
        top = ((text, log(probability)), ("", log(second)))
        made.append(Token(1, text, start, start + len(text), log(probability), entropy, top))
        start += len(text)
    return Written(fields.pop("answer", "Bonn"), tuple(made), **fields)


DRAFT = written(
    ("The", 0.5, 3.0, 0.25), (" river", 0.5, 1.0, 0.25), (" Rh", 0.25, 2.0, 0.25), ("ine", 1.0, 0.0, 1e-9),
    (" passes", 0.5, 0.5, 0.25), (" Bonn", 0.5, 2.5, 0.25), (".", 1.0, 0.1, 1e-9),
    influences=(0.9, 0.5, 0.2, 0.1, 0.0),
)  # fmt: skip
SAMPLES = ("Bonn", "the Bonn", "Bonn city", "Kiel")
ALIKE = Signals(memory=Written("Bonn", samples=("Bonn",) * 4))
DIFFERENT = Signals(memory=Written("Bonn", samples=("Bonn", "Kiel", "Ulm", "Hof")))


@pytest.mark.parametrize(
    ("gate", "value"),
    [
        ("perplexity", 2 ** (6 / 7)),
        ("mean_entropy", 9.1 / 7),
        ("largest_entropy", 3.0),
        ("least_probability", 0.75),
        ("margin", 1 - (4 * 0.25 + 0 + 2 * (1 - 1e-9)) / 7),
        ("flare", [0, 0.5, 0.75, 0.5, 0.5]),
        ("rind", [0, 0.5, 0.2, 0.05, 0.0]),
    ],
)
def test_gates_of_tokens(gate, value):
    assert GATES[gate](Signals(memory=DRAFT)) == near(value)


def test_entropy_trend_is_the_smoothed_second_difference_of_content_words():
    # Entropies of river, Rhine, passes, Bonn: 1, 2, 0.5, 2.55 (the full stop belongs to its word).
    entropies = [1.0, 2.0, 0.5, 2.5]
    first, second = np.diff(entropies, 2)
    mean = (first + second) / 2
    weight = 0.9 + 0.1 * abs(first - mean) / (abs(first - mean) + abs(second - mean))
    # The running mean of the first is the first itself, so 0, the difference before, has no weight.
    expected = [0, 0, 0, first, weight * second + (1 - weight) * first]
    assert GATES["entropy_trend"](Signals(memory=DRAFT)) == near(expected)


@pytest.mark.parametrize(
    ("gate", "alike", "different"),
    [("lexical_disagreement", 0, 1), ("semantic_entropy", 0, log(4)), ("eigenvalues", 1, 4)],
)
def test_gates_of_samples_range_from_agreement_to_disagreement(gate, alike, different):
    found = [GATES[gate](each) for each in (ALIKE, DIFFERENT)]
    assert found == near([alike, different])
    assert alike < GATES[gate](Signals(memory=Written("", samples=SAMPLES))) < different


def test_an_answer_that_says_more_has_the_same_meaning_but_an_empty_one_has_not():
    def entropy(*samples):
        return GATES["semantic_entropy"](Signals(memory=Written("", samples=samples)))

    assert entropy("Bonn city", "Bonn", "the city of Bonn") == 0
    assert entropy("", "Bonn") == near(log(2))


def test_gates_of_single_numbers():
    memory = Written("Bonn", numbers={"p_true": 0.25, "stated_confidence": 0.5})
    signals = Signals("Where?", memory, scores=(8.0, 6.0), numbers={"name_rarity": 7.5, "energy_score": 2.0})
    names = ("p_true", "stated_confidence", "best_score", "score_gap", "name_rarity", "energy_score")
    assert [GATES[name](signals) for name in names] == [0.75, 0.5, 8.0, 0.25, 7.5, -2.0]
    assert GATES["score_gap"](Signals(scores=(8.0,))) == 1
    assert GATES["score_gap"](Signals(scores=(0.0, 0.0))) == 0


def test_guards_compare_both_answers():
    memory = written((" Bonn", 1 / e, 1.0, 0.1), samples=("Bonn", "the Kiel", "kiel", "Kiel."))
    read = written((" Kiel", 1.0, 0.1, 1e-9), answer="Kiel", numbers={"support": 0.5})
    signals = Signals(memory=memory, read=read)
    values = [GUARDS[name](signals) for name in GUARDS]
    assert [*GUARDS] == ["confidence_gain", "least_probability_gain", "agreement", "support"]
    assert values == near([1.0, 1 - 1 / e, 0.5, 0.5])
    alone = Signals(memory=Written("Bonn", samples=("Kiel",)), read=read)
    assert GUARDS["agreement"](alone) == 1


@pytest.mark.parametrize("name", [*GATES, *GUARDS])
def test_a_gate_names_the_signal_that_it_lacks(name):
    gate = {**GATES, **GUARDS}[name]
    for signals in (Signals(), Signals(memory=Written("Bonn")), Signals("Where?", Written(""), Written(""))):
        with pytest.raises(MissingSignal, match="not recorded"):
            gate(signals)


def test_a_draft_without_content_words_triggers_nothing():
    signals = Signals(memory=written(("It", 0.1, 3.0, 0.05), (" is", 0.1, 3.0, 0.05), influences=(1.0, 1.0)))
    assert [GATES[name](signals) for name in ("flare", "rind", "entropy_trend")] == [[0, 0]] * 3
