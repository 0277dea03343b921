"""Parameters: types and ranges, how they are read from texts, and how they are written."""

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


@dataclass(frozen=True)
class ClosedBook(Parameters):
    passages: int = parameter(3, "passages per search", at_least=1)


def test_strings_become_typed_values_and_other_values_stay():
    settings = {
        "theta": "1e-1",
        "is_fast": "no",
        "layout": "chat",
        "limit": "none",
        "least": "7",
        "passages": 5,
    }
    assert parse_parameters(Dials, settings) == {
        "theta": 0.1, "is_fast": False, "layout": "chat", "limit": None, "least": 7, "passages": 5
    }  # fmt: skip


@pytest.mark.parametrize(
    ("make", "settings", "error", "message"),
    [
        (parse_parameters, {"passages": "many"}, ParameterError, "passages.*'many'.*expected int"),
        (parse_parameters, {"passages": "2.5"}, ParameterError, "passages.*'2.5'.*expected int"),
        (parse_parameters, {"theta": "high"}, ParameterError, "theta.*'high'.*expected float"),
        (parse_parameters, {"is_fast": "perhaps"}, ParameterError, "is_fast.*'perhaps'.*true or false"),
        (parse_parameters, {"layout": "html"}, ParameterError, "layout.*'html'.*one of raw, chat"),
        (parse_parameters, {"limit": "some"}, ParameterError, "limit.*'some'.*int or none"),
        (parse_parameters, {"pasages": "3"}, UnknownName, "did you mean 'passages'"),
        (Dials, {"passages": 0}, ParameterError, "from 1 to 100"),
        (Dials, {"least": 0}, ParameterError, "1 or more"),
        (Dials, {"theta": 1.5}, ParameterError, "from 0 to 1"),
        (Dials, {"theta": float("nan")}, ParameterError, "from 0 to 1"),
        (Dials, {"passages": True}, ParameterError, "expected int"),
        (Dials, {"passages": 2.0}, ParameterError, "expected int"),
        (Dials, {"layout": "html"}, ParameterError, "one of raw, chat"),
        (ClosedBook, {}, InputError, "is a dataclass of the standard library.*checked_dataclass"),
    ],
)
def test_bad_values_are_refused_with_parameter_value_and_expectation(make, settings, error, message):
    with pytest.raises(error, match=message):
        make(Dials, settings) if make is parse_parameters else make(**settings)


def test_a_method_is_written_as_users_name_it_with_what_is_not_at_its_default():
    assert name_of(ClosedBook) == "closed_book"
    assert (describe_type(int | None), describe_type(bool)) == ("int or none", "true or false")
    assert repr(Dials()) == "dials"
    changed = Dials(theta=0.5, layout="chat", is_fast=False)
    assert repr(changed) == "dials(theta=0.5, is_fast=false, layout=chat)"
