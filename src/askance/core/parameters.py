"""Parameters: the fields of a frozen dataclass, usually a method, declared with their meaning and range.

Command-line flags, the listing of `askance methods`, the repr and the cache key all derive from these fields.
"""

import dataclasses
import inspect
import math
import re
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from askance.core.errors import ParameterError, UnknownName, about
from askance.core.extensions import implements
from askance.core.ports import Method

T = TypeVar("T")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_WORDS: dict[Any, dict[str, Any]] = {
    type(None): {"none": None},
    bool: {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)},
}


def parameter(default: T, help: str, *, at_least: float = -math.inf, at_most: float = math.inf) -> T:
    """Declare a parameter: a dataclass field with a default, a help text and, for numbers, a range.

    Args:
        help: The meaning of the parameter, as `askance methods` shows it.
    """
    metadata = {"help": help, "at_least": at_least, "at_most": at_most}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, slots=True)
class SearchParameter:
    """The parameter that controls how often a method searches, which `askance calibrate` tunes.

    Attributes:
        rises: True if a greater value means more searches.
        belongs_to: The parameters that the right value depends on. A preset file sets them as well.
        scale: The part of `belongs_to` that determines which quantity the value is compared with. A preset
            that does not set these parameters assumes their defaults.
        in_force: The attribute that holds the effective value, if the parameter itself may be None.
    """

    name: str
    rises: bool = False
    belongs_to: tuple[str, ...] = ()
    scale: tuple[str, ...] = ()
    in_force: str = ""

    def value_of(self, method: object) -> float | None:
        """Return the parameter's effective value in a method."""
        return cast("float | None", getattr(method, self.in_force or self.name))


@implements(Method)
class Parameters:
    """The base class of methods, which checks the type and range of every parameter on construction.

    Attributes:
        calibrated: The parameter that controls how often the method searches, if there is one.
        owner: The name that messages use for a class that is not a method, such as "the budget".
        known_as: The name of a method, set by a class that implements one of the method's profiles.

    Raises:
        ParameterError: A parameter has the wrong type or is out of range.
    """

    __slots__ = ()

    calibrated: ClassVar[SearchParameter | None] = None
    owner: ClassVar[str] = ""
    known_as: ClassVar[str] = ""

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            with about(f"parameters.{field.name}"):
                _check(_owner(type(self)), field, hints[field.name], getattr(self, field.name))


def short_repr(method: object) -> str:
    """Return a method's name, profile and changed parameters: ``dragin (paper, threshold=1.3)``."""
    changed = [
        f"{parameter}={value}"
        for parameter, value in changed_parameters(method).items()
        if parameter != "profile"
    ]
    return titled(name_of(type(method)), getattr(method, "profile", ""), changed)


def changed_parameters(method: object) -> dict[str, Any]:
    """Return the parameters whose values differ from their defaults.

    A profile that is implemented by its own class is always included.
    """
    parameters = dataclasses.fields(method) if dataclasses.is_dataclass(method) else ()
    always = {"profile"} if getattr(method, "known_as", "") else set[str]()
    values = {field.name: (getattr(method, field.name), field.default) for field in parameters}
    return {
        parameter: value
        for parameter, (value, default) in values.items()
        if value != default or parameter in always
    }


def titled(name: str, profile: str, settings: Sequence[str] = ()) -> str:
    """Return a method's title for tables, such as ``dragin (paper)`` or ``flare (search_below=0.3)``."""
    details = [*filter(None, [profile]), *settings]
    return f"{name} ({', '.join(details)})" if details else name


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
            typed[name] = _parse(_owner(cls), name, hints[name], value) if isinstance(value, str) else value
    return typed


def name_of(cls: type[Any]) -> str:
    """Return the name of a method, which is its class name in snake case: ``closed_book`` for ``ClosedBook``.

    A class that implements a profile has the name of the method that the profile belongs to.
    """
    return getattr(cls, "known_as", "") or re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


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
        raise UnknownName("parameter", name, fields, place=f"of {_owner(cls)}")
    return fields[name]


def parameter_range(field: dataclasses.Field[Any]) -> tuple[float, float]:
    """Return the minimum and maximum value of a parameter."""
    return field.metadata.get("at_least", -math.inf), field.metadata.get("at_most", math.inf)


def describe_type(hint: Any) -> str:
    """Return the description of a type for users: ``int``, ``one of a, b``, ``float or none``."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if len(_choices(hint)) > 1:
        return " or ".join(map(describe_type, _choices(hint)))
    if hint is type(None):
        return "none"
    return "true or false" if hint is bool else str(hint.__name__)


def described(docstring: str | None, section: str) -> dict[str, str]:
    """Return the entries of a docstring section, such as "Args", by name. Each entry is put on one line."""
    body = inspect.cleandoc(docstring or "").partition(f"\n\n{section}:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n     .*)*)", body, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _owner(cls: type[Any]) -> str:
    return getattr(cls, "owner", "") or f"method {name_of(cls)}"


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the alternatives of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _parse(owner: str, name: str, hint: Any, text: str) -> Any:
    for choice in _choices(hint):
        with suppress(ValueError):
            return _parse_one(choice, text)
    raise ParameterError(f"parameter {name}={text!r} of {owner}: expected {describe_type(hint)}.")


def _parse_one(hint: Any, text: str) -> Any:
    if dataclasses.is_dataclass(hint):
        raise ValueError("a record can't be written as one text")
    if get_origin(hint) is Literal:
        words = {str(value): value for value in get_args(hint)}
    elif hint in _WORDS:
        words, text = _WORDS[hint], text.lower()
    else:
        return hint(text)
    if text not in words:
        raise ValueError(text)
    return words[text]


def _check(owner: str, field: dataclasses.Field[Any], hint: Any, value: Any) -> None:
    place = f"parameter {field.name}={value!r} of {owner}"
    if not _fits(hint, value):
        raise ParameterError(f"{place}: expected {describe_type(hint)}.")
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = parameter_range(field)
        if not low <= value <= high:
            expected = f"{low:g} or more" if high == math.inf else f"a value from {low:g} to {high:g}"
            raise ParameterError(f"{place}: expected {expected}.")


def _fits(hint: Any, value: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if len(_choices(hint)) > 1:
        return any(_fits(choice, value) for choice in _choices(hint))
    if isinstance(value, bool) and hint in (int, float):
        return False
    return isinstance(value, int | float if hint is float else hint)
