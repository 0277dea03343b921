"""Parameters: the fields of a frozen dataclass, usually a method, declared with their meaning and range.

Command-line flags, the listing of `askance methods`, the repr and the cache key all derive from these fields.
pydantic checks their types and ranges.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import pydantic.dataclasses
from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError, model_validator

from askance.core.errors import InputError, ParameterError, UnknownName, about
from askance.core.extensions import implements
from askance.core.ports import Method
from askance.core.spec import Spec, call_spec

T = TypeVar("T")
RELATIVE = re.compile(r"([+-]?\d{1,9}(?:\.\d{1,9})?)(%|/question)")
"""A threshold given by what it leads to: the percentage of questions for which it does not fire, or the mean
number of searches per question, including those that need no threshold."""
CHECKED = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True, validate_default=True)


@dataclass_transform(frozen_default=True)
def checked_dataclass(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """Return a decorator that makes a frozen dataclass with slots, whose fields pydantic checks.

    Args:
        kw_only: Take the fields of this class by name only.
    """
    make = pydantic.dataclasses.dataclass(
        frozen=True, slots=True, repr=False, kw_only=kw_only, config=CHECKED
    )
    return cast(Callable[[type[T]], type[T]], make)


def parameter(default: T, help: str, *, at_least: float | None = None, at_most: float | None = None) -> T:
    """Declare a parameter: a dataclass field with a default, a help text and, for numbers, a range.

    Args:
        help: The meaning of the parameter, as `askance methods` shows it.
    """
    if at_least is None and isinstance(default, float):
        at_least = -math.inf  # excludes what is no number
    bounds = {name: bound for name, bound in (("ge", at_least), ("le", at_most)) if bound is not None}
    return dataclasses.field(default=default, metadata={"description": help, **bounds})


@dataclasses.dataclass(frozen=True, slots=True)
class SearchParameter:
    """The parameter that controls how often a method searches, which `askance calibrate` tunes.

    Attributes:
        rises: True if a greater value means more searches.
        belongs_to: The parameters that the right value depends on. A preset file sets them as well.
        in_force: The attribute that holds the effective value, if the parameter itself may be None.
    """

    name: str
    rises: bool = False
    belongs_to: tuple[str, ...] = ()
    in_force: str = ""

    def value_of(self, method: object) -> float | None:
        """Return the parameter's effective value in a method."""
        return cast("float | None", getattr(method, self.in_force or self.name))


@implements(Method)
@checked_dataclass()
class Parameters:
    """The base class of methods and other records whose fields are parameters.

    Attributes:
        calibrated: The parameter that controls how often the method searches, if there is one.
        owner: The name that messages use for a class that is not a method, such as "the budget".

    Raises:
        UnknownName: There is no such parameter.
        ParameterError: A parameter has the wrong type or is out of range.
    """

    calibrated: ClassVar[SearchParameter | None] = None
    owner: ClassVar[str] = ""

    @model_validator(mode="wrap")
    @classmethod
    def _explained(cls, given: Any, validate: Any) -> Any:
        try:
            return validate(given)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        with about(f"parameters.{name}"):
            raise parameter_error(cls, name, first["type"], first["input"])

    def __post_init__(self) -> None:
        if "__pydantic_validator__" not in vars(type(self)):
            raise InputError(
                f"{type(self).__name__} is a dataclass of the standard library, which checks no parameter: "
                "decorate it with @askance.checked_dataclass() instead."
            )

    def __repr__(self) -> str:
        return str(method_spec(self))


def method_spec(method: object, *, is_whole: bool = False) -> Spec:
    """Return the specification of a method: its name, with the parameters changed from their defaults.

    Args:
        is_whole: Include the parameters that have their defaults.
    """
    fields = dataclasses.fields(method) if is_whole and dataclasses.is_dataclass(method) else ()
    whole = {field.name: getattr(method, field.name) for field in fields}
    arguments = dict[str, Any]()
    for name, value in (whole or changed_parameters(method)).items():
        arguments |= value.arguments(name) if hasattr(value, "arguments") else {name: value}
    return call_spec(name_of(type(method)), arguments)


def changed_parameters(method: object) -> dict[str, Any]:
    """Return the parameters whose values differ from their defaults."""
    parameters = dataclasses.fields(method) if dataclasses.is_dataclass(method) else ()
    values = {field.name: (getattr(method, field.name), field.default) for field in parameters}
    return {parameter: value for parameter, (value, default) in values.items() if value != default}


def parse_parameters(cls: type[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Convert settings such as ``{"passages": "3"}`` to the types of the parameters of `cls`.

    Args:
        settings: The settings by name. Strings are parsed, and other values are returned unchanged.

    Returns:
        The typed values by name.

    Raises:
        UnknownName: A key is not a parameter of `cls`.
        ParameterError: A string can't be parsed as the parameter's type.
    """
    hints = get_type_hints(cls)
    typed = {}
    for name, value in settings.items():
        with about(f"parameters.{name}"):
            parameter_field(cls, name)
            typed[name] = _parse(cls, name, hints[name], value) if isinstance(value, str) else value
    return typed


def is_relative(value: object) -> bool:
    """Return whether a value of a parameter is a text such as ``70%`` or ``1.5/question``."""
    return isinstance(value, str) and RELATIVE.fullmatch(value) is not None


def name_of(cls: type[Any]) -> str:
    """Return the name of a method: its class name in snake case, such as ``closed_book``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


def owner_of(cls: type[Any]) -> str:
    """Return how messages refer to the owner of parameters, such as "method single"."""
    return getattr(cls, "owner", "") or f"method {name_of(cls)}"


def search_parameter(cls: type[Any]) -> SearchParameter | None:
    """Return the parameter that controls how often a method searches, or None."""
    return cast("SearchParameter | None", getattr(cls, "calibrated", None))


def parameter_field(cls: type[Any], name: str) -> dataclasses.Field[Any]:
    """Return the dataclass field of a parameter.

    Raises:
        UnknownName: `cls` has no such parameter.
    """
    known = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    fields = {field.name: field for field in known}
    if name not in fields:
        raise UnknownName("parameter", name, fields, place=f"of {owner_of(cls)}")
    return fields[name]


def parameter_range(field: dataclasses.Field[Any]) -> tuple[float, float]:
    """Return the minimum and maximum value of a parameter."""
    return field.metadata.get("ge", -math.inf), field.metadata.get("le", math.inf)


def describe_type(hint: Any) -> str:
    """Return the description of a type for users: ``int``, ``one of a, b``, ``float or none``."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(describe_type, get_args(hint)))
    if hint is type(None):
        return "none"
    named = {"bool": "true or false", "NamedGate": "a gate", "NamedFunction": "module:function"}
    return named.get(hint.__name__, str(hint.__name__))


def parameter_error(cls: type[Any], name: str, problem: str, value: object) -> ParameterError:
    """Return an error about a value of a parameter of `cls`.

    Args:
        problem: The type of pydantic's error, such as "greater_than_equal".

    Raises:
        UnknownName: There is no such parameter.
    """
    low, high = parameter_range(parameter_field(cls, name))
    expected = describe_type(get_type_hints(cls)[name])
    if problem in ("greater_than_equal", "less_than_equal") and low > -math.inf:
        expected = f"{low:g} or more" if high == math.inf else f"a value from {low:g} to {high:g}"
    return ParameterError(f"parameter {name}={value!r:.99} of {owner_of(cls)}: expected {expected}.")


def _parse(cls: type[Any], name: str, hint: Any, text: str) -> Any:
    if type(None) in get_args(hint) and text.lower() == "none":
        return None
    with suppress(ValidationError, PydanticSchemaGenerationError):  # the latter for a record
        return TypeAdapter(hint).validate_python(text)
    raise ParameterError(f"parameter {name}={text!r:.99} of {owner_of(cls)}: expected {describe_type(hint)}.")
