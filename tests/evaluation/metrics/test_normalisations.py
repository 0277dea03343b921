import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.configuration.catalogue import METRICS
from askance.evaluation.metrics.answers import NORMALISATIONS, accepted_forms, closed_set_form


def test_the_default_comes_first_and_all_are_named():
    assert tuple(NORMALISATIONS) == METRICS["exact_match"].normalisations
    assert METRICS["exact_match"].normalisations[0] == "dragin"


@pytest.mark.parametrize(
    ("prediction", "gold", "dragin", "airrag", "selfrag"),
    [
        ("The Rhine!", "rhine", True, True, False),
        ("the", "A", True, None, False),
        ("(A)", "A", True, None, True),
        ("(B)", "A", False, None, False),
        ("(B)", "B", True, True, True),
        ("B: iron", "B", False, False, True),
        ("True, since it was measured", "SUPPORTS", False, False, True),
        ("U.S.A.", "USA", True, True, False),
        ("Bonn", " bonn\n", True, True, True),
    ],
)
def test_what_equals_what(prediction, gold, dragin, airrag, selfrag):
    for name, expected in (("dragin", dragin), ("airrag", airrag), ("selfrag", selfrag)):
        accepted = accepted_forms([gold], name)
        assert (NORMALISATIONS[name](prediction) in accepted if accepted else None) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A", "a"),
        ("(c) Iron", "c"),
        ("D.", "d"),
        ("3: three", "3"),
        ("Iron (B)", "iron (b)"),
        ("A dog", "a dog"),
        ("A.B.", "a.b."),
        ("10: ten", "10: ten"),
        ("REFUTES", "false"),
        ("False. It is not.", "false"),
        ("  Supports\tit", "true"),
        ("Truest of all", "truest of all"),
        ("It is true", "it is true"),
        ("", ""),
    ],
)
def test_the_option_that_a_text_begins_with(text, expected):
    assert closed_set_form(text) == expected


@given(st.text())
def test_a_normal_form_is_its_own(text):
    for normal_form in NORMALISATIONS.values():
        once = normal_form(text)
        assert normal_form(once) == once
