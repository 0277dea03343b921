"""The fields of a record, each read as what it should be, or named with its flaw."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

_ABSENT: Any = object()
_SHOWN_CHARACTERS = 60


class Flaw(ValueError):
    """What is wrong with a record: the field, the problem and, where it helps, the value."""


@dataclass(frozen=True, slots=True)
class Field:
    """A value of a record, or the record itself; every method raises `Flaw` for what it is not.

    Attributes:
        path: leads there from the record, such as ``questions.0.answer``; empty for the record itself.
    """

    value: Any
    path: str = ""

    def __getitem__(self, key: str | int) -> "Field":
        """The value of a field of an object, or at a place of a list, which must be there."""
        path = f"{self.path}.{key}" if self.path else str(key)
        if isinstance(key, str):
            return Field(self.object().get(key, _ABSENT), path)
        values = self._as(list, "a list")
        return Field(values[key] if key < len(values) else _ABSENT, path)

    def get(self, key: str, default: Any) -> "Field":
        """The value of a field that may be left out or null, or else `default`."""
        found = self[key]
        return found if found.is_given else Field(default, found.path)

    def first(self, *keys: str) -> "Field":
        """The first of these fields that is there."""
        return next((self[key] for key in keys if self[key].is_given), self[keys[0]])

    @property
    def is_given(self) -> bool:
        """Whether it is there and not null."""
        return self.value is not _ABSENT and self.value is not None

    def object(self) -> dict[str, Any]:
        """An object's fields."""
        return self._as(dict, "an object")

    def each(self) -> list["Field"]:
        """The values of a list."""
        return [self[number] for number in range(len(self._as(list, "a list")))]

    def filled(self) -> list["Field"]:
        """The values of a list that has some."""
        if values := self.each():
            return values
        raise self.flaw("is empty", found=True)

    def maybe_blank(self) -> str:
        """Text that can be written as UTF-8."""
        text = self._as(str, "a string")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])
            raise self.flaw(f"holds half of a character (the lone surrogate {half})") from error
        return text

    def text(self) -> str:
        """The same, and not blank."""
        text = self.maybe_blank()
        if not text.strip():
            raise self.flaw("is empty", found=True)
        return text

    def id(self) -> str:
        """The same as `text`; whole numbers become text."""
        is_number = isinstance(self.value, int) and not isinstance(self.value, bool)
        return str(self.value) if is_number else self.text()

    def texts(self) -> list[str]:
        """A list of texts that are not blank."""
        return [each.text() for each in self.each()]

    def maybe_blanks(self) -> list[str]:
        """A list of texts."""
        return [each.maybe_blank() for each in self.each()]

    def integer(self) -> int:
        """A whole number."""
        return self._as(int, "an integer")

    def truth(self) -> bool:
        """True or false."""
        return self._as(bool, "a boolean")

    def one_of(self, *choices: T) -> T:
        """One of these texts."""
        text = self.maybe_blank()
        if text not in choices:
            raise self.flaw(f"none of {', '.join(map(repr, choices))}", found=True)
        return choices[choices.index(text)]

    def flaw(self, problem: str, *, found: bool = False) -> Flaw:
        """What is wrong with it, with the value itself if `found`."""
        where = f", field {self.path}: " if self.path else ": "
        value = ascii(self.value) if isinstance(self.value, str) else repr(self.value)
        shown = value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "…"
        return Flaw(f"{where}{problem}, found {shown}" if found else f"{where}{problem}")

    def _as(self, kind: type[T], called: str) -> T:
        if self.value is _ABSENT:
            raise self.flaw("missing")
        if not isinstance(self.value, kind) or (isinstance(self.value, bool) and kind is not bool):
            raise self.flaw(f"not {called}", found=True)
        return self.value


def unique(texts: Iterable[str]) -> tuple[str, ...]:
    """Each text once, in the order of its first appearance."""
    return tuple(dict.fromkeys(texts))
