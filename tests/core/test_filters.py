"""Filters: what their text means, what is refused, and where the message points."""

import pytest

from askance.core.errors import FilterError, UnknownName
from askance.core.filters import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    all_of,
    check_filter,
    kinds_in,
    matches,
    parse_filter,
)

DOCUMENT = {"year": 2020, "source": "manual", "is draft": False, "date": "2020-05-17", "price": 1.5}


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ('year >= 2020 and source = "manual"', True),
        ("year > 2020", False),
        ("year < 2020.5", True),
        ("year <= 2019 or price = 1.5", True),
        ("year in (2019, 2020)", True),
        ("year not in (2019, 2020)", False),
        ("source != 'web'", True),
        ("not source = 'manual'", False),
        ("`is draft` = false", True),
        ('date >= "2020-05" and date < "2020-06"', True),
        ("year = 1 or year = 2020 and source = 'web'", False),
        ("(year = 1 or year = 2020) and not (source = 'web')", True),
        ("YEAR = 2020", False),
        ("year = 2020 AND NOT price > 2", True),
        ("missing = 1", False),
        ("missing != 1", True),
        ("missing < 1", False),
        ("missing not in (1)", True),
    ],
)
def test_the_meaning_of_a_filter(text, is_true):
    assert matches(parse_filter(text), DOCUMENT) is is_true


def test_values_of_other_types_are_never_equal():
    for text in ('n = "1"', "n = true"):
        assert not matches(parse_filter(text), {"n": 1})
    assert not matches(parse_filter("n = 1"), {"n": True})
    assert matches(parse_filter("n = 1.0"), {"n": 1})


def test_large_numbers_are_compared_exactly():
    assert not matches(parse_filter("n = 9007199254740993"), {"n": 9007199254740992})
    assert matches(parse_filter("n > 9007199254740992"), {"n": 9007199254740993})


@pytest.mark.parametrize(
    "value", ['a"b', "a'b", "back\\slash", "1) or (1 = 1", '" or year > 0 or "', "Ünï\ncode 京", "`x`"]
)
def test_no_value_is_mistaken_for_syntax(value):
    quoted = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    where = parse_filter(f"source = {quoted}")
    assert where.values == (value,)
    assert matches(where, {"source": value})
    assert not matches(where, DOCUMENT)
    assert parse_filter(str(where)) == where


@pytest.mark.parametrize(
    "text",
    [
        "a = 1 or b = 2 and not c in (1, 'x', true)",
        "(a = 1 or b = 2) and (c = 3 and d = 4)",
        "not not (a != 1 or (b = 2 or c = 3))",
        "`and` = 1 and `a b` >= -1.5e3",
    ],
)
def test_the_string_of_a_filter_is_read_as_the_same_filter(text):
    where = parse_filter(text)
    assert parse_filter(str(where)) == where


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 0, "the filter is empty"),
        ("   ", 0, "the filter is empty"),
        ("year >> 2020", 7, "expected a value"),
        ("year", 5, "expected one of = != < <= > >= in"),
        ("year = ", 8, "found the end"),
        ("= 2020", 1, "expected the name of a field"),
        ("year = 2020-01-01", 8, "put text and dates in quotes"),
        ("year = NaN", 8, "expected a value"),
        ("year = 1e999", 8, "too large"),
        ("year = " + "9" * 200, 8, "too long"),
        ('source = "manual', 10, "never closed"),
        ("(year = 1", 10, r"expected '\)'"),
        ("year = 1)", 9, "expected 'and', 'or' or the end"),
        ("year in ()", 10, "expected a value"),
        ("year in (1; 2)", 11, "can't be read"),
        ("and = 1", 1, "expected the name of a field"),
        ("draft > true", 13, "have no order"),
        ("year = 1 source = 2", 10, "found 'source'"),
    ],
)
def test_a_text_that_is_no_filter_is_refused_with_the_position(text, position, problem):
    with pytest.raises(FilterError, match=problem) as raised:
        parse_filter(text)
    assert raised.value.setting == "where"
    if position:
        assert f"character {position}," in str(raised.value)


def test_long_and_deep_filters_are_refused():
    with pytest.raises(FilterError, match="10,000 are possible"):
        parse_filter("a = 1" + " " * MAX_CHARACTERS)
    with pytest.raises(FilterError, match="nested more than 50 levels"):
        parse_filter("(" * MAX_DEPTH + "a = 1" + ")" * MAX_DEPTH)
    with pytest.raises(FilterError, match="nested more than 50 levels"):
        parse_filter("not " * MAX_DEPTH + "a = 1")
    inside = MAX_DEPTH - 1
    assert matches(parse_filter("(" * inside + "a = 1" + ")" * inside), {"a": 1})


def test_unknown_fields_and_wrong_types_are_refused():
    fields = kinds_in(DOCUMENT.items())
    check_filter(parse_filter('year = 2020 and `is draft` = true and date < "2021"'), fields)
    with pytest.raises(
        UnknownName, match="unknown field 'yeer' of the filter, character 15: did you mean 'year'"
    ):
        check_filter(parse_filter("price = 1 and yeer = 2"), fields)
    with pytest.raises(FilterError, match="its values are numbers: compare it with a number without quotes"):
        check_filter(parse_filter('year = "2020"'), fields)
    with pytest.raises(FilterError, match=r"character 5: .* its values are text"):
        check_filter(parse_filter("not date in ('2020', 2021)"), fields)
    mixed = kinds_in([("n", 1), ("n", "x")])
    check_filter(parse_filter("n = 1 or n = 'x'"), mixed)
    with pytest.raises(FilterError, match="numbers and text"):
        check_filter(parse_filter("n = true"), mixed)


def test_filters_that_are_combined_stay_separate_conditions():
    fixed, asked = parse_filter("team = 'a'"), parse_filter("team = 'b' or team != 'a'")
    assert not matches(all_of(fixed, None, asked), {"team": "b"})
    assert not matches(all_of(fixed, asked), {"team": "a"})
    assert all_of(None, asked) is asked
    assert all_of(None) is None
