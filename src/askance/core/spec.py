"""Specifications: texts such as ``dragin(threshold=0.46)`` that name a method, a model or another part.

    dragin(threshold=0.46, trigger=rind)                    a method with parameters
    blender(a=dragin(threshold=0.4), b=single(passages=5))  a method with members, each a method itself
    openai:NAME@http://HOST/v1?server=vllm&top_k=1          a kind, a place and options
    bundled?candidates=20&retriever_weight=0.5              a name and options
    popqa:FILE?popularity<100                               the only limit: its value is "<100"

`parse_method` reads the first form and `parse_spec` the other one. The `str` of the result reads as the same
specification. A value is a word, or text between double quotation marks with the escapes of JSON. Options
after the question mark are never unescaped, since the path of an adapter may hold any character but &.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from askance.core.errors import InputError

_NAME = re.compile(r"[A-Za-z_][\w.]*(:[A-Za-z_]\w*)?")
_LIMIT = re.compile("(popularity)(<.+)")
_WORD = re.compile(r"[^\s(),=\"]+")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
MOST_CHARACTERS = 20_000
"""The maximum length of a specification."""
_MOST_DEPTH = 8
"""The maximum depth of methods within methods."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A specification that was read.

    Attributes:
        name: The name, such as "dragin" or "openai".
        place: The text between the name's colon and the options, such as a folder; empty for none.
        options: The parameters or options by name. A value is a text or, for a member, a specification.
        is_call: True for the form with parentheses.
    """

    name: str
    place: str = ""
    options: Mapping[str, "str | Spec"] = field(default_factory=dict)
    is_call: bool = False

    def __str__(self) -> str:
        if self.is_call and not self.options:
            return self.name
        if self.is_call:
            arguments = ", ".join(f"{name}={_shown(value)}" for name, value in self.options.items())
            return f"{self.name}({arguments})"
        query = "&".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.full_name}?{query}" if query else self.full_name

    @property
    def full_name(self) -> str:
        """The specification without its options."""
        return f"{self.name}:{self.place}" if self.place else self.name


def parse_spec(text: str) -> Spec:
    """Read the form with a place and options, which names anything but a method.

    Raises:
        InputError: The text can't be read. The message shows the place with a caret.
    """
    _check_length(text)
    named, _, query = text.partition("?")
    kind, _, place = named.partition(":")
    options: dict[str, str | Spec] = {}
    for pair in filter(None, query.split("&")):
        option, value = limit.groups() if (limit := _LIMIT.fullmatch(pair)) else pair.partition("=")[::2]
        if not value or option in options:
            problem = f"give {option or 'an option'} one value, such as {option or 'option'}=…"
            raise _flaw(text, text.rindex(pair), problem)
        options[option] = value
    return Spec(kind, place, options)


def parse_method(text: str) -> Spec:
    """Read the form with parentheses, which names a method; a name alone is a method without parameters.

    Raises:
        InputError: The text can't be read. The message shows the place with a caret.
    """
    _check_length(text)
    if "(" not in text:
        return Spec(text, is_call=True)
    reader = _Reader(text)
    spec = reader.call()
    if reader.at < len(text):
        raise _flaw(text, reader.at, "nothing may follow the closing parenthesis")
    return spec


def _check_length(text: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise InputError(
            f"a specification has {len(text):,} characters, and at most {MOST_CHARACTERS:,} are read."
        )


def call_spec(name: str, arguments: Mapping[str, Any]) -> Spec:
    """Return the specification of a method with these parameters, whose values are printed as texts."""
    texts = {key: value if isinstance(value, Spec) else _text(value) for key, value in arguments.items()}
    return Spec(name, options=texts, is_call=True)


def _text(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _shown(value: "str | Spec") -> str:
    if isinstance(value, Spec):
        return str(value) if value.options else f"{value.name}()"
    return value if _WORD.fullmatch(value) else json.dumps(value, ensure_ascii=False)


def _flaw(text: str, at: int, problem: str) -> InputError:
    line = text.replace("\n", " ")
    return InputError(
        f"can't read the specification at character {at + 1}: {problem}\n  {line}\n  {' ' * at}^"
    )


class _Reader:
    """A reader of the form with parentheses, which keeps its position in the text."""

    def __init__(self, text: str) -> None:
        self._text, self.at = text, 0

    def call(self, depth: int = 0) -> Spec:
        name = self._match(_NAME, "write the name of a method")
        if depth > _MOST_DEPTH:
            raise _flaw(self._text, self.at, f"methods can be nested {_MOST_DEPTH} deep")
        self._expect("(")
        arguments: dict[str, str | Spec] = {}
        while not self._takes(")"):
            if arguments:
                self._expect(",")
            start = self.at
            key = self._match(_NAME, "write parameter=value")
            if key in arguments:
                raise _flaw(self._text, start, f"{key} is given twice: give it once")
            self._expect("=")
            arguments[key] = self._value(depth)
        return Spec(name, options=arguments, is_call=True)

    def _value(self, depth: int) -> "str | Spec":
        self._skip()
        if self._text.startswith('"', self.at):
            quoted = self._match(_QUOTED, "close the quotation mark")
            try:
                return str(json.loads(quoted))
            except ValueError as error:
                raise _flaw(self._text, self.at, f"not a quoted text ({error})") from error
        name = _NAME.match(self._text, self.at)
        if name is not None and self._text.startswith("(", name.end()):
            return self.call(depth + 1)
        return self._match(
            _WORD, "write a value, between quotation marks if it has commas, spaces or parentheses"
        )

    def _takes(self, mark: str) -> bool:
        self._skip()
        is_next = self._text.startswith(mark, self.at)
        self.at += is_next
        return is_next

    def _expect(self, mark: str) -> None:
        if not self._takes(mark):
            raise _flaw(self._text, self.at, f"expected {mark!r}")

    def _match(self, pattern: re.Pattern[str], problem: str) -> str:
        self._skip()
        match = pattern.match(self._text, self.at)
        if match is None:
            raise _flaw(self._text, self.at, problem)
        self.at = match.end()
        return match.group()

    def _skip(self) -> None:
        self.at = len(self._text) - len(self._text[self.at :].lstrip())
