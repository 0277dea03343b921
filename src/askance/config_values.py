"""The values that settings may have: how each is read, and how it is stored."""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from askance.core.errors import UnknownName
from askance.core.extensions import check_port, spec_of
from askance.core.knobs import changed_knobs, parse_knobs
from askance.core.ports import Model
from askance.loading import DEFAULT_MODEL, ROLES
from askance.runtime.session import Budget

OBJECT = "object"
"""The key under which a stored configuration tells of an object that no name leads to."""


def as_path(value: Any) -> Any:
    if not isinstance(value, str | Path | None):
        raise ValueError("expected a path")  # noqa: TRY004 - as pydantic wants it
    return Path(value) if isinstance(value, str) else value


def named(what: str, port: type, value: Any) -> Any:
    """A name, or an object that has what its port asks for."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int | float | Mapping | list):
        raise ValueError(f"expected the name of a {what}")  # noqa: TRY004 - as pydantic wants it
    check_port(value, port, f"the {what} {value!r}")
    return value


def models_of(value: Any) -> Any:
    """Models by role; one specification alone is that of the model that answers."""
    given = {"answer": value} if isinstance(value, str) or not isinstance(value, Mapping) else value
    for role, model in given.items():
        if role not in ROLES:
            raise UnknownName("role", str(role), ROLES, place="of a model")
        if model is None:
            raise ValueError(f"expected the name of a model for the role {role}")
        named("model", Model, model)
    return {"answer": DEFAULT_MODEL, **given}


def budget_of(value: Any) -> Any:
    return Budget(**parse_knobs(Budget, value)) if isinstance(value, Mapping) else value


def knobs_of(value: Any) -> Any:
    return {} if value is None else value


def is_object(value: Any) -> bool:
    """Whether a stored value tells of an object."""
    return isinstance(value, Mapping) and set(value) == {OBJECT}


def plain(value: Any) -> Any:
    """A value of a setting in values of JSON."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Budget):
        return {name: limit for name, limit in asdict(value).items() if limit is not None}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    return {OBJECT: str(getattr(value, "name", "")) or repr(value)}


def plain_method_of(method: object) -> tuple[Any, dict[str, Any]]:
    """A method that was given as an object: the name of its class, and its knobs, where these lead to it."""
    name = spec_of(type(method))
    if not name or not is_dataclass(method):
        return {OBJECT: repr(method)}, {}
    return name, {knob: plain(value) for knob, value in changed_knobs(method).items()}
