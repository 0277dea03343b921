"""Filters: conditions on the fields of a document, such as ``year >= 2020 and source = "manual"``.

    expression  = conjunction, {"or", conjunction}
    conjunction = negation, {"and", negation}
    negation    = "not", negation | "(", expression, ")" | comparison
    comparison  = field, ("=" | "!=" | "<" | "<=" | ">" | ">="), value
                | field, ["not"], "in", "(", value, {",", value}, ")"

A value is a string in quotes, a number, ``true`` or ``false``. A date is a string in ISO 8601, and strings
are ordered by their code points. A field whose name has spaces or signs stands in backquotes.

A comparison is false for a document without the field, and for a value of another type. ``!=`` and ``not in``
are the negations of ``=`` and ``in``, so they are true for a document without the field.
"""

import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

from askance.core.errors import FilterError, UnknownName, about

T = TypeVar("T")
FieldValue = str | int | float | bool
"""The value of a field."""
FieldKind = Literal["boolean", "number", "text"]
"""The type of the value of a field."""
FieldKinds = Mapping[str, tuple[FieldKind, ...]]
"""The fields of a collection by name, each with the types of its values in alphabetical order."""
Operator = Literal["=", "<", "<=", ">", ">=", "in"]

MAX_CHARACTERS = 10_000
MAX_DEPTH = 50
MAX_DIGITS = 100
_SHOWN_CHARACTERS = 40
_REMEDY = "write, for example, 'year >= 2020 and source = \"manual\"'."
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w.-]))
    | (?P<quoted>`[^`]+`)
    | (?P<word>[^\W\d][\w.-]*)
    | (?P<sign><=|>=|!=|[=<>(),])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN_NAME = re.compile(r"[^\W\d][\w.-]*")
_KEYWORDS = ("and", "or", "not", "in", "true", "false")
_ARTICLES = {"boolean": "true or false", "number": "numbers", "text": "text"}
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """A comparison of a field with values.

    Attributes:
        operator: The operator. "=" and "in" are true if the field has any of `values`.
        values: The values; a single one, except for "in".
        at: The position of the field in the text of the filter, from 0.
    """

    name: str
    operator: Operator
    values: tuple[FieldValue, ...]
    at: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        values = [_value_text(value) for value in self.values]
        listed = f"({', '.join(values)})" if self.operator == "in" else values[0]
        return f"{_name_text(self.name)} {self.operator} {listed}"

    def predicate(self) -> Callable[[FieldValue], bool]:
        """Return a function that says whether the comparison is true for a value of the field."""
        if self.operator in ("=", "in"):
            wanted = {(kind_of(value), value) for value in self.values}
            return lambda found: (kind_of(found), found) in wanted
        (limit,), is_ordered = self.values, _ORDERS[self.operator]
        return lambda found: kind_of(found) == kind_of(limit) and is_ordered(found, limit)


@dataclass(frozen=True, slots=True)
class And:
    """The condition that all of `parts` are true."""

    parts: tuple["Filter", ...]

    def __str__(self) -> str:
        return " and ".join(f"({part})" if isinstance(part, And | Or) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """The condition that at least one of `parts` is true."""

    parts: tuple["Filter", ...]

    def __str__(self) -> str:
        return " or ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """The condition that `part` is false."""

    part: "Filter"

    def __str__(self) -> str:
        return f"not ({self.part})"


Filter = FieldComparison | And | Or | Not
"""A filter. Its string is a text that `parse_filter` turns into an equal filter."""


def parse_filter(text: str) -> Filter:
    """Return the filter that a text describes (see the module).

    Raises:
        FilterError: The text is empty, longer than 10,000 characters, nested more than 50 levels deep, or not
            a filter. The message names the position.
    """
    with about("where"):
        return _Parser(text).parsed()


def all_of(*filters: Filter | None) -> Filter | None:
    """Return the filter that is true where all of `filters` are; None, which stands for no filter, is true.

    The filters stay separate conditions, so no filter can change the meaning of another.
    """
    given = [each for each in filters if each is not None]
    return And(tuple(given)) if len(given) > 1 else next(iter(given), None)


def fold(
    where: Filter,
    compare: Callable[[FieldComparison], T],
    both: Callable[[Iterable[T]], T],
    either: Callable[[Iterable[T]], T],
    negate: Callable[[T], T],
) -> T:
    """Return the translation of a filter, made by one function for each kind of node."""

    def folded(part: Filter) -> T:
        match part:
            case FieldComparison():
                return compare(part)
            case Not():
                return negate(folded(part.part))
            case And():
                return both([folded(each) for each in part.parts])
            case Or():
                return either([folded(each) for each in part.parts])

    return folded(where)


def comparisons(where: Filter) -> Iterator[FieldComparison]:
    """Yield the comparisons of a filter, in order."""
    match where:
        case FieldComparison():
            yield where
        case Not():
            yield from comparisons(where.part)
        case And() | Or():
            for part in where.parts:
                yield from comparisons(part)


def matches(where: Filter, fields: Mapping[str, FieldValue]) -> bool:
    """Return whether a document with these fields passes a filter."""

    def compared(comparison: FieldComparison) -> bool:
        return comparison.name in fields and comparison.predicate()(fields[comparison.name])

    return fold(where, compared, all, any, operator.not_)


def kind_of(value: FieldValue) -> FieldKind:
    """Return the type of a value."""
    if isinstance(value, bool):
        return "boolean"
    return "text" if isinstance(value, str) else "number"


def kinds_in(values: Iterable[tuple[str, FieldValue]]) -> dict[str, tuple[FieldKind, ...]]:
    """Return the types of the values by name, given pairs of a name and a value."""
    kinds: dict[str, set[FieldKind]] = {}
    for name, value in values:
        kinds.setdefault(name, set()).add(kind_of(value))
    return {name: tuple(sorted(found)) for name, found in sorted(kinds.items())}


def check_filter(where: Filter, fields: FieldKinds) -> None:
    """Check that a filter only names fields that exist, and compares them with values of their types.

    Raises:
        UnknownName: There is no such field. The message names the nearest one.
        FilterError: A value has a type that no value of the field has.
    """
    with about("where"):
        for comparison in comparisons(where):
            name, place = comparison.name, f"of the filter, character {comparison.at + 1}"
            if name not in fields:
                raise UnknownName("field", name, fields, place=place)
            for value in comparison.values:
                if kind_of(value) not in fields[name]:
                    held = " and ".join(_ARTICLES[kind] for kind in fields[name])
                    raise FilterError(
                        f"the filter, character {comparison.at + 1}: {comparison} compares the field "
                        f"{name!r} with {_value_text(value)}, but its values are {held}: "
                        f"{_kind_remedy(fields[name])}"
                    )


def _kind_remedy(kinds: Sequence[FieldKind]) -> str:
    forms = {"boolean": "true or false", "number": "a number without quotes", "text": "a text in quotes"}
    return f"compare it with {' or '.join(forms[kind] for kind in kinds)}."


def _value_text(value: FieldValue) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return json.dumps(value)


def _name_text(name: str) -> str:
    is_plain = _PLAIN_NAME.fullmatch(name) and name.lower() not in _KEYWORDS
    return name if is_plain else f"`{name}`"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int

    @property
    def keyword(self) -> str:
        """The keyword or sign; empty for any other token."""
        if self.kind == "word":
            return self.text.lower() if self.text.lower() in _KEYWORDS else ""
        return self.text if self.kind == "sign" else ""

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text[:_SHOWN_CHARACTERS])


class _Parser:
    """A recursive-descent parser of one text. `_next` is the token to read next."""

    def __init__(self, text: str) -> None:
        self._text = text
        if len(text) > MAX_CHARACTERS:
            raise FilterError(
                f"the filter has {len(text):,} characters, and {MAX_CHARACTERS:,} are possible: write a "
                "shorter one."
            )
        self._end, self._depth, self._at = 0, 0, 0
        self._next = _Token("start", "", 0)
        self._advance()

    def parsed(self) -> Filter:
        if self._next.kind == "end":
            raise FilterError(f"the filter is empty: {_REMEDY}")
        where = self._expression()
        if self._next.kind != "end":
            raise self._unexpected("'and', 'or' or the end")
        return where

    def _expression(self) -> Filter:
        parts = [self._conjunction()]
        while self._takes("or"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _conjunction(self) -> Filter:
        parts = [self._negation()]
        while self._takes("and"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _negation(self) -> Filter:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._flaw(
                f"the filter is nested more than {MAX_DEPTH} levels deep: write it with fewer parentheses."
            )
        where: Filter
        if self._takes("not"):
            where = Not(self._negation())
        elif self._takes("("):
            where = self._expression()
            self._expect(")")
        else:
            where = self._comparison()
        self._depth -= 1
        return where

    def _comparison(self) -> Filter:
        name, at = self._name(), self._at
        if self._takes("not"):
            self._expect("in")
            return Not(FieldComparison(name, "in", self._list(), at))
        if self._takes("in"):
            return FieldComparison(name, "in", self._list(), at)
        sign = self._next.keyword
        if sign not in ("=", "!=", *_ORDERS):
            raise self._unexpected("one of = != < <= > >= in")
        self._advance()
        value = self._value()
        if sign in _ORDERS and isinstance(value, bool):
            raise self._flaw(f"true and false have no order, so {sign} can't compare them: use =.")
        if sign == "!=":
            return Not(FieldComparison(name, "=", (value,), at))
        return FieldComparison(name, cast(Operator, sign), (value,), at)

    def _name(self) -> str:
        token = self._next
        if token.kind not in ("word", "quoted") or token.keyword:
            raise self._unexpected("the name of a field, 'not' or '('")
        self._advance()
        return token.text.strip("`")

    def _list(self) -> tuple[FieldValue, ...]:
        self._expect("(")
        values = [self._value()]
        while self._takes(","):
            values.append(self._value())
        self._expect(")")
        return tuple(values)

    def _value(self) -> FieldValue:
        token = self._next
        value: FieldValue
        if token.kind == "string":
            value = re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL)
        elif token.kind == "number":
            if len(token.text) > MAX_DIGITS or not math.isfinite(float(token.text)):
                raise self._flaw(f"the number {token} is too long or too large: write a shorter one.")
            value = int(token.text) if re.fullmatch(r"[-+]?\d+", token.text) else float(token.text)
        elif token.keyword in ("true", "false"):
            value = token.keyword == "true"
        else:
            raise self._unexpected("a value: a text or a date in quotes, a number, true or false")
        self._advance()
        return value

    def _takes(self, keyword: str) -> bool:
        is_next = self._next.keyword == keyword
        if is_next:
            self._advance()
        return is_next

    def _expect(self, keyword: str) -> None:
        if not self._takes(keyword):
            raise self._unexpected(repr(keyword))

    def _advance(self) -> None:
        """Read the next token. `_at` is then the position of the token before it."""
        self._at = self._next.at
        found = _TOKEN.match(self._text, self._end)
        if found is None or found.lastgroup is None:
            rest = self._text[self._end :]
            at = self._end + len(rest) - len(rest.lstrip())
            self._next = _Token("other", self._text[at : at + _SHOWN_CHARACTERS], at)
            if rest.lstrip()[0] in "\"'`":
                raise self._flaw(f"the quote {rest.lstrip()[0]} is never closed: close it.")
            raise self._flaw(f"{self._next} can't be read: put text and dates in quotes; {_REMEDY}")
        kind = found.lastgroup
        self._next = _Token(kind, found[kind], found.start(kind))
        self._end = found.end()

    def _unexpected(self, wanted: str) -> FilterError:
        return self._flaw(f"expected {wanted}, found {self._next}; {_REMEDY}")

    def _flaw(self, problem: str) -> FilterError:
        """Return the error for a problem at the next token, with the text around it."""
        at = self._next.at
        start, end = max(0, at - _SHOWN_CHARACTERS), at + _SHOWN_CHARACTERS
        before = f"{'…' if start else ''}{self._text[start:at]}"
        shown = f"{before}⟨here⟩{self._text[at:end]}{'…' if end < len(self._text) else ''}"
        return FilterError(f"the filter, character {at + 1}, {shown!r}: {problem}")
