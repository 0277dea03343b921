"""Filters: how their text is parsed and checked, and the SQL that finds the documents that pass.

    expression  = conjunction, {"or", conjunction}
    conjunction = negation, {"and", negation}
    negation    = "not", negation | "(", expression, ")" | comparison
    comparison  = field, ("=" | "!=" | "<" | "<=" | ">" | ">="), value
                | field, ["not"], "in", "(", value, {",", value}, ")"

A value is a string in quotes, a number, ``true`` or ``false``. A date is a string in ISO 8601, and strings
are ordered by their code points. A field whose name has spaces or signs stands in backquotes.

A comparison is false for a document without the field, and for a value of another type. ``!=`` and ``not in``
are the negations of ``=`` and ``in``, so they are true for a document without the field.

In an SQLite database of documents, `fields` has the name and the value of each field, and the number of the
document. A field in `KNOWN_FIELDS` is only in the view `NAME_fields`, which has those in `fields`, too.
"""

import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, cast

from askance.core.errors import FilterError, UnknownName, about
from askance.core.filters import (
    KEYWORDS,
    PLAIN_NAME,
    Compound,
    FieldComparison,
    FieldKind,
    FieldKinds,
    FieldValue,
    Filter,
    Operator,
    value_text,
)
from askance.core.ports import FilteringRetriever, Retriever
from askance.core.safe_text import whole_characters

MAX_CHARACTERS = 10_000
MAX_DEPTH = 50
MAX_DIGITS = 100
_SHOWN_CHARACTERS = 40
_REMEDY = "write, for example, 'year >= 2020 and source = \"manual\"'."
_TOKEN = re.compile(
    rf"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w.-]))
    | (?P<keyword>(?i:{"|".join(KEYWORDS)})(?![\w.-])|[<>!]=|[=<>(),])
    | (?P<name>`[^`]+`|{PLAIN_NAME})
    | (?P<end>\Z)
    | (?P<other>.+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ORDERS = ("<", "<=", ">", ">=")
_KINDS: Mapping[FieldKind, tuple[str, str]] = {
    "boolean": ("true or false", "true or false"),
    "number": ("numbers", "a number without quotes"),
    "text": ("text", "a text in quotes"),
}
"""What the values of each type are called, and how one is written."""
STORAGE_CLASSES: Mapping[str, FieldKind] = {"integer": "boolean", "blob": "number", "text": "text"}
"""The type of the value that each storage class of SQLite stands for."""
KNOWN_FIELDS = ("title", "source", "path", "type", "date")
"""The fields that documents have by themselves."""
_JOINED_PARTS = 500
"""The number of conditions that are joined in one pair of parentheses. SQLite limits the depth to 1,000."""


def parse_filter(text: str) -> Filter:
    """Return the filter that a text describes (see the module).

    Raises:
        FilterError: The text is empty, longer than 10,000 characters, nested more than 50 levels deep, or not
            a filter. The message names the position.
    """
    with about("where"):
        return _Parser(text).parsed()


def check_filter(where: Filter, fields: FieldKinds) -> None:
    """Check that a filter only names fields that exist, and compares them with values of their types.

    Raises:
        UnknownName: There is no such field. The message names the nearest one.
        FilterError: A value has a type that no value of the field has.
    """
    if isinstance(where, Compound):
        for part in where.parts:
            check_filter(part, fields)
        return
    name, place = where.name, f"the filter, character {where.at + 1}"
    with about("where"):
        if name not in fields:
            raise UnknownName("field", name, fields, place=f"of {place}")
        for value in where.values:
            if kind_of(value) not in fields[name]:
                names, forms = zip(*(_KINDS[kind] for kind in fields[name]), strict=True)
                raise FilterError(
                    f"{place}: {where} compares the field {name!r} with {value_text(value)}, but its values "
                    f"are {' and '.join(names)}: compare it with {' or '.join(forms)}."
                )


def filtered_retriever(retriever: Retriever, where: str | Filter | None) -> Retriever:
    """Return a retriever that searches only the documents that pass a filter.

    Args:
        retriever: The retriever, which is returned unchanged if `where` is None.
        where: The filter, or its text.

    Raises:
        FilterError: The text is not a filter, a value has the wrong type, or the retriever can't filter.
        UnknownName: The documents have no field of that name.
    """
    if where is None:
        return retriever
    where = parse_filter(where) if isinstance(where, str) else where
    fields: FieldKinds | None = getattr(retriever, "fields", None)
    if fields is None:
        with about("where"):
            raise FilterError(
                f"the retriever {retriever.name} can't apply the filter {where}: leave the filter out, or "
                "search an index that this version of `askance index` made."
            )
    check_filter(where, fields)
    return cast(FilteringRetriever, retriever).filtered(where)


def kind_of(value: FieldValue) -> FieldKind:
    """Return the type of a value."""
    if isinstance(value, bool):
        return "boolean"
    return "text" if isinstance(value, str) else "number"


def field_kinds(fields: Iterable[tuple[str, FieldKind]]) -> dict[str, tuple[FieldKind, ...]]:
    """Return the names of fields, each with the types of its values, from all pairs of both."""
    kinds: dict[str, tuple[FieldKind, ...]] = {}
    for name, kind in sorted({*fields}):
        kinds[name] = (*kinds.get(name, ()), kind)
    return kinds


def sql_condition(where: Filter) -> tuple[str, list[str | bool | bytes]]:
    """Return the condition in SQL that the `number` of a document passes a filter, with its parameters.

    No value and no other name of a field than a known one is part of the SQL.
    """
    parameters: list[str | bool | bytes] = []

    def parameter(value: str | bool | bytes) -> str:
        parameters.append(value)
        return f"?{len(parameters)}"

    def condition(part: Filter, is_true: bool) -> str:
        """Return the condition that a part of the filter is true, or that it is false."""
        if isinstance(part, Compound) and part.operator == "not":
            return condition(part.parts[0], not is_true)
        if isinstance(part, Compound):
            sign = " AND " if (part.operator == "and") == is_true else " OR "
            # The longest condition stands first and alone. Otherwise a deep one fills SQLite's parser stack.
            longest, *rest = sorted((condition(each, is_true) for each in part.parts), key=len, reverse=True)
            while len(rest) > 1:
                starts = range(0, len(rest), _JOINED_PARTS)
                rest = [f"({sign.join(rest[start : start + _JOINED_PARTS])})" for start in starts]
            return f"({sign.join([longest, *rest])})"
        name = parameter(part.name)
        values = ", ".join(parameter(stored(value)) for value in part.values)
        test = f"IN ({values})"
        if part.operator in _ORDERS:
            test = f"{part.operator} {values} AND typeof(value) = typeof({values})"
        view = f"{part.name}_fields" if part.name in KNOWN_FIELDS else "fields"
        found = f"SELECT document FROM {view} WHERE name = {name} AND value {test}"
        return f"number {'' if is_true else 'NOT '}IN ({found})"

    return condition(where, True), parameters


def stored(value: FieldValue) -> str | bool | bytes:
    """Return a value as the database has it. Values compare there as in Python, also very large numbers.

    A number is the greatest float that is not above it, with its bits in an order in which bytes compare, and
    then the rest, which only a whole number of more than 53 bits can have.
    """
    if isinstance(value, str | bool):
        return value
    near = float(value)
    near = math.nextafter(near, -math.inf) if near > value else near
    bits = int.from_bytes(struct.pack(">d", near + 0.0))  # 0.0 in place of -0.0
    ordered = bits ^ (2**64 - 1 if bits >> 63 else 2**63)
    rest = int(value) - int(near)
    num_bytes = (rest.bit_length() + 7) // 8
    return ordered.to_bytes(8) + bytes([num_bytes]) + rest.to_bytes(num_bytes)


class _Parser:
    """A recursive-descent parser of one text.

    `_kind`, `_word` and `_at` are the kind, the text and the position of the token to read next.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARACTERS:
            raise FilterError(
                f"the filter has {len(text):,} characters, and {MAX_CHARACTERS:,} are possible: write a "
                "shorter one."
            )
        if text != whole_characters(text):
            raise FilterError("the filter holds half of a character (a lone surrogate): leave it out.")
        self._text, self._end, self._depth = text, 0, 0
        self._advance()

    def parsed(self) -> Filter:
        if self._kind == "end":
            raise FilterError(f"the filter is empty: {_REMEDY}")
        where = self._expression()
        if self._kind != "end":
            raise self._unexpected("'and', 'or' or the end")
        return where

    def _expression(self) -> Filter:
        return self._junction("or", lambda: self._junction("and", self._negation))

    def _junction(self, operator: Literal["and", "or"], part: Callable[[], Filter]) -> Filter:
        parts = [part()]
        while self._takes(operator):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Compound(operator, tuple(parts))

    def _negation(self) -> Filter:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._flaw(
                f"the filter is nested more than {MAX_DEPTH} levels deep: write it with fewer parentheses."
            )
        where: Filter
        if self._takes("not"):
            where = Compound("not", (self._negation(),))
        elif self._takes("("):
            where = self._expression()
            self._expect(")")
        else:
            where = self._comparison()
        self._depth -= 1
        return where

    def _comparison(self) -> Filter:
        if self._kind != "name":
            raise self._unexpected("the name of a field, 'not' or '('")
        name, at = self._word.strip("`"), self._at
        self._advance()
        if self._takes("in"):
            return FieldComparison(name, "in", self._list(), at)
        if self._takes("not"):
            self._expect("in")
            return Compound("not", (FieldComparison(name, "in", self._list(), at),))
        sign = self._word
        if sign not in ("=", "!=", *_ORDERS):
            raise self._unexpected("one of = != < <= > >= in")
        self._advance()
        value = self._value()
        if sign in _ORDERS and isinstance(value, bool):
            raise self._flaw(f"true and false have no order, so {sign} can't compare them: use =.")
        if sign == "!=":
            return Compound("not", (FieldComparison(name, "=", (value,), at),))
        return FieldComparison(name, cast(Operator, sign), (value,), at)

    def _list(self) -> tuple[FieldValue, ...]:
        self._expect("(")
        values = [self._value()]
        while self._takes(","):
            values.append(self._value())
        self._expect(")")
        return tuple(values)

    def _value(self) -> FieldValue:
        word = self._word
        value: FieldValue = word == "true"
        if self._kind == "string":
            value = re.sub(r"\\(.)", r"\1", word[1:-1], flags=re.DOTALL)
        elif self._kind == "number":
            if len(word) > MAX_DIGITS or not math.isfinite(float(word)):
                raise self._flaw(f"the number {self._shown} is too long or too large: write a shorter one.")
            value = int(word) if re.fullmatch(r"[-+]?\d+", word) else float(word)
        elif word not in ("true", "false"):
            raise self._unexpected("a value: a text or a date in quotes, a number, true or false")
        self._advance()
        return value

    def _takes(self, keyword: str) -> bool:
        is_next = self._word == keyword
        if is_next:
            self._advance()
        return is_next

    def _expect(self, keyword: str) -> None:
        if not self._takes(keyword):
            raise self._unexpected(repr(keyword))

    def _advance(self) -> None:
        token = _TOKEN.match(self._text, self._end)
        assert token is not None  # `other` matches what nothing else does
        self._kind, self._end = token.lastgroup or "", token.end()
        self._word, self._at = token[self._kind], token.start(self._kind)
        if self._kind == "keyword":
            self._word = self._word.lower()
        if self._kind == "other":
            if self._word[0] in "\"'`":
                raise self._flaw(f"the quote {self._word[0]} is never closed: close it.")
            raise self._flaw(f"{self._shown} can't be read: put text and dates in quotes; {_REMEDY}")

    @property
    def _shown(self) -> str:
        return "the end" if self._kind == "end" else repr(self._word[:_SHOWN_CHARACTERS])

    def _unexpected(self, wanted: str) -> FilterError:
        return self._flaw(f"expected {wanted}, found {self._shown}; {_REMEDY}")

    def _flaw(self, problem: str) -> FilterError:
        """Return the error for a problem at the next token, with the text around it."""
        start, end = max(0, self._at - _SHOWN_CHARACTERS), self._at + _SHOWN_CHARACTERS
        before = f"{'…' if start else ''}{self._text[start : self._at]}"
        shown = f"{before}⟨here⟩{self._text[self._at : end]}{'…' if end < len(self._text) else ''}"
        return FilterError(f"the filter, character {self._at + 1}, {shown!r}: {problem}")
