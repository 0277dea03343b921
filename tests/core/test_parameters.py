from dataclasses import dataclass
from typing import Literal

import pytest

from askance.core.errors import InputError, ParameterError, UnknownName
from askance.core.parameters import (
    Parameters,
    checked_dataclass,
    describe_type,
    name_of,
    parameter,
    parse_parameters,
)


@checked_dataclass()
class Dials(Parameters):
    passages: int = parameter(3, "passages per search", at_least=1, at_most=100)
    theta: float = parameter(0.8, "threshold", at_least=0, at_most=1)
    is_fast: bool = parameter(True, "hurry")
    layout: Literal["raw", "chat"] = parameter("raw", "layout")
    limit: int | None = parameter(None, "limit or none")
    least: int = parameter(1, "no upper bound", at_least=1)


def test_strings_become_typed_values():
    settings = {"passages": "5", "theta": "1e-1", "is_fast": "no", "layout": "chat", "limit": "none"}
    assert parse_parameters(Dials, settings) == {
        "passages": 5, "theta": 0.1, "is_fast": False, "layout": "chat", "limit": None,
    }  # fmt: skip
    assert parse_parameters(Dials, {"limit": "7"}) == {"limit": 7}


def test_values_that_are_no_strings_stay():
    assert parse_parameters(Dials, {"passages": 5}) == {"passages": 5}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("passages", "many", "expected int"),
        ("passages", "2.5", "expected int"),
        ("theta", "high", "expected float"),
        ("is_fast", "perhaps", "true or false"),
        ("layout", "html", "one of raw, chat"),
        ("limit", "some", "int or none"),
    ],
)
def test_wrong_type_names_parameter_value_and_expectation(name, text, expected):
    with pytest.raises(ParameterError) as error:
        parse_parameters(Dials, {name: text})
    assert name in str(error.value)
    assert repr(text) in str(error.value)
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"passages": 0}, "from 1 to 100"),
        ({"least": 0}, "1 or more"),
        ({"theta": 1.5}, "from 0 to 1"),
        ({"theta": float("nan")}, "from 0 to 1"),
        ({"passages": True}, "expected int"),
        ({"passages": 2.0}, "expected int"),
        ({"layout": "html"}, "one of raw, chat"),
    ],
)
def test_out_of_range_or_wrong_type_when_made(settings, expected):
    with pytest.raises(ParameterError, match=expected):
        Dials(**settings)


def test_unknown_parameter_names_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'passages'"):
        parse_parameters(Dials, {"pasages": "3"})


def test_methods_are_called_by_the_name_users_know():
    class ClosedBook:
        pass

    assert name_of(ClosedBook) == "closed_book"


def test_types_are_described_as_a_user_writes_them():
    assert describe_type(int | None) == "int or none"
    assert describe_type(bool) == "true or false"


def test_the_repr_is_a_specification_with_what_is_not_at_its_default():
    assert repr(Dials()) == "dials"
    changed = Dials(theta=0.5, layout="chat", is_fast=False)
    assert repr(changed) == "dials(theta=0.5, is_fast=false, layout=chat)"


def test_a_dataclass_that_checks_nothing_is_refused():
    @dataclass(frozen=True)
    class Plain(Parameters):
        passages: int = parameter(3, "passages per search", at_least=1)

    with pytest.raises(InputError, match=r"Plain is a dataclass of the standard library.*checked_dataclass"):
        Plain()
