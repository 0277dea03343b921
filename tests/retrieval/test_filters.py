"""Filters: what their text means, what is refused, and where the message points."""

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.retrieval.conftest import kind_of, matches

from askance.core.errors import FilterError, UnknownName
from askance.core.filters import Compound, FieldComparison, all_of
from askance.core.types import Passage
from askance.retrieval.filters import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    check_filter,
    filtered_retriever,
    parse_filter,
)
from askance.retrieval.scripted import ScriptedRetriever

DOCUMENT = {"year": 2020, "source": "manual", "is draft": False, "date": "2020-05-17", "price": 1.5}
FIELDS = {name: (kind_of(value),) for name, value in DOCUMENT.items()}


def passing(where, documents):
    """Return the numbers of the documents that pass a filter."""
    passages = [Passage(str(number), "", "", fields=fields) for number, fields in enumerate(documents)]
    hits = asyncio.run(ScriptedRetriever(passages, where=where).search("any", len(passages)))
    return [int(hit.passage.id) for hit in hits]


@pytest.mark.parametrize(
    ("text", "expected"),
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
        ("missing = 1 or missing < 1", False),
        ("missing != 1 and missing not in (1)", True),
        ("year = '2020' or year > '' or year = true", False),
        ("year = 2020.0", True),
        ("`is draft` = 0 or source > 0", False),
    ],
)
def test_the_meaning_of_a_filter(text, expected):
    where = parse_filter(text)
    assert (passing(where, [DOCUMENT]) == [0]) is matches(where, DOCUMENT) is expected


NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.builds(lambda bits, change: 2**bits + change, st.integers(50, 320), st.integers(-2, 2)),
    st.builds(lambda bits, change: -(2**bits) + change, st.integers(50, 320), st.integers(-2, 2)),
    st.sampled_from((2**53, 2**63, 2**64, 10**30)).map(float),
)
TEXTS = st.one_of(
    st.text(max_size=3),
    st.sampled_from(("true", "1", "京", "\uffff", "\U0001f600", "a\0b", "a\"'`\\", "1) or (1 = 1", "\n")),
)
VALUES = st.one_of(NUMBERS, TEXTS, st.booleans())
NAMES = st.sampled_from(("a", "b"))
ORDERED = st.one_of(NUMBERS, TEXTS).map(lambda value: (value,))
COMPARISONS = st.one_of(
    st.builds(FieldComparison, NAMES, st.just("in"), st.lists(VALUES, min_size=1, max_size=4).map(tuple)),
    st.builds(FieldComparison, NAMES, st.sampled_from(("<", "<=", ">", ">=", "=")), ORDERED),
)
FILTERS = st.recursive(
    COMPARISONS,
    lambda parts: st.one_of(
        st.builds(
            Compound, st.sampled_from(("and", "or")), st.lists(parts, min_size=2, max_size=3).map(tuple)
        ),
        st.builds(lambda part: Compound("not", (part,)), parts),
    ),
    max_leaves=8,
)


@given(FILTERS, st.lists(st.dictionaries(NAMES, VALUES), min_size=1, max_size=12))
@example(parse_filter("a = 9007199254740993"), [{"a": 2**53}, {"a": 2**53 + 1}, {"a": float(2**53)}])
@example(parse_filter("a > 1000000000000000000000000000000"), [{"a": 10**30 + 1}, {"a": 1e30}, {"a": 1e31}])
@example(parse_filter("a = true or a = 0"), [{"a": 1}, {"a": True}, {"a": "true"}, {"a": -0.0}])
def test_sqlite_finds_what_the_oracle_finds_and_the_string_of_a_filter_is_the_filter(where, documents):
    expected = [number for number, fields in enumerate(documents) if matches(where, fields)]
    assert passing(where, documents) == expected
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
        ("year = '\ud800'", 0, "half of a character"),
        ("a = 1" + " " * MAX_CHARACTERS, 0, "10,000 are possible"),
        ("(" * MAX_DEPTH + "a = 1" + ")" * MAX_DEPTH, 51, "nested more than 50 levels"),
        ("not " * MAX_DEPTH + "a = 1", 201, "nested more than 50 levels"),
        ("price = 1 and yeer = 2", 15, "field 'yeer' of the filter, .* did you mean 'year'"),
        ('year = "2020"', 1, "its values are numbers: compare it with a number without quotes"),
        ("not date in ('2020', 2021)", 5, "its values are text"),
        ("n = true", 1, "numbers and text"),
    ],
)
def test_a_text_that_is_no_filter_of_these_fields_is_refused_with_the_position(text, position, problem):
    fields = {**FIELDS, "n": ("number", "text")}
    with pytest.raises((FilterError, UnknownName), match=problem) as raised:
        check_filter(parse_filter(text), fields)
    assert raised.value.setting == "where"
    assert f"character {position}" in str(raised.value) or not position
    right = 'year = 2020 and `is draft` = true and date < "2021" or n = 1 or n = ""'
    check_filter(parse_filter(right), fields)


@pytest.mark.parametrize(
    "text",
    [
        " or ".join(["a=1"] * 1400),
        f"a in ({','.join(['1'] * 4900)})",
        "not " * 48 + "a = 1",
        "(" * 49 + "a = 1" + " or a = 2)" * 49,
        "(a = 1 or not " * 24 + "a = 2" + ")" * 24,
        f"({'a=1 or ' * 26}" * 45 + "a=1" + ")" * 45,
    ],
)
def test_the_longest_and_deepest_filters_are_evaluated(text):
    assert passing(parse_filter(text), [{"a": 2}, {"a": 1}])[-1:] == [1]


def test_filters_that_are_combined_stay_separate_conditions():
    fixed, asked = parse_filter("team = 'a'"), parse_filter("team = 'b' or team != 'a'")
    assert passing(all_of(fixed, None, asked), [{"team": "b"}, {"team": "a"}]) == []
    assert all_of(None, asked) is asked
    assert all_of(None) is None


def test_the_scripted_retriever_filters_its_passages():
    passages = [Passage(f"p{year}", "T", "x", source="a.txt", fields={"year": year}) for year in range(9)]
    retriever = filtered_retriever(ScriptedRetriever(passages), "year >= 5 and source = 'a.txt'")
    assert [hit.passage.id for hit in asyncio.run(retriever.search("q", 3))] == ["p5", "p6", "p7"]
    assert retriever.fields == {"source": ("text",), "title": ("text",), "year": ("number",)}
