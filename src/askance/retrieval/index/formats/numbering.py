"""The numbers of headings, clauses and lists, which Word computes and does not save."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple
from xml.etree.ElementTree import Element

from askance.retrieval.index.formats.packages import Package, whole_number

_ROMAN = (
    ("m", 1000), ("cm", 900), ("d", 500), ("cd", 400), ("c", 100), ("xc", 90), ("l", 50), ("xl", 40),
    ("x", 10), ("ix", 9), ("v", 5), ("iv", 4), ("i", 1),
)  # fmt: skip
_MAX_ROMAN, _MAX_LETTER = 3_999, 780
_MAX_LABEL_CHARACTERS = 100
_MAX_BASES = _MAX_LEVELS = 10


Properties = dict[str, str]
"""The values of the elements in a style, or in a level of a list, by their names."""


def properties_of(element: Element) -> Properties:
    """Return the values of the elements in a style or in a level of a list."""
    return {each.tag: each.get("val", "") for each in element.iter()}


def bases_of(styles: Mapping[str, Properties], style: str) -> Iterator[str]:
    """Yield the id of a style, and of each style that it is based on."""
    for _ in range(_MAX_BASES):
        if style not in styles:
            return
        yield style
        style = styles[style].get("basedOn", "")


class _List(NamedTuple):
    """A list, which is an instance of a definition.

    Attributes:
        levels: The levels, those of the definition or its own.
        starts: The first numbers of the levels at which it starts again.
    """

    definition: str = ""
    levels: Mapping[int, Properties] = {}
    starts: Mapping[int, int] = {}


class Numbering:
    """The lists of a Word document, with the numbers that they have reached.

    Several lists can be instances of one definition. They continue each other's numbers, except at levels at
    which an instance starts again.
    """

    def __init__(self, package: Package, member: str, styles: Mapping[str, Properties]) -> None:
        numbering = package.tree(member)
        definitions = {each.get("abstractNumId", ""): each for each in numbering.iter("abstractNum")}
        lists = {each.get("numId", ""): each for each in numbering.iter("num")}
        names = {id: properties_of(each).get("abstractNumId", "") for id, each in lists.items()}
        self._styles, self._lists = styles, dict[str, _List]()
        for id, name in names.items():
            link = properties_of(definitions[name]).get("numStyleLink") if name in definitions else None
            name = names.get(styles[link].get("numId", ""), "") if link in styles else name
            starts = {
                _index(each): whole_number(start.get("val"), 1)
                for each in lists[id].iter("lvlOverride")
                for start in each.iter("startOverride")
            }
            inherited = _levels_in(definitions[name]) if name in definitions else {}
            self._lists[id] = _List(name, inherited | _levels_in(lists[id]), starts)
        self._numbers: dict[str, dict[int, int]] = defaultdict(dict)
        self._begun = set[str]()

    def label(self, paragraph: Properties) -> str:
        """Return the label of the next paragraph, such as "1.2", or an empty string if it has none.

        Args:
            paragraph: The style ("pStyle"), the list ("numId") and the level ("ilvl") that it states. It
                leaves to its style what it does not state.
        """
        bases = [] if paragraph.get("numId") else list(bases_of(self._styles, paragraph.get("pStyle", "")))
        stated = [paragraph, *(self._styles[each] for each in bases)]
        list_id = next(filter(None, (each.get("numId") for each in stated)), "")
        linked = (
            {"ilvl": str(index)}
            for each in bases
            for index, given in self._lists.get(list_id, _List()).levels.items()
            if given.get("pStyle") == each
        )
        levels = (each["ilvl"] for each in chain(stated[:1], linked, stated[1:]) if "ilvl" in each)
        return self._next(list_id, whole_number(next(levels, ""), 0))

    def _next(self, list_id: str, level: int) -> str:
        definition, levels, starts = self._lists.get(list_id, _List())
        if level not in levels:
            return ""
        numbers = self._numbers[definition]
        if list_id not in self._begun:
            self._begun.add(list_id)
            for each in starts:
                numbers.pop(each, None)
        for each in sorted(levels):
            start = starts.get(each, whole_number(levels[each].get("start"), 1))
            if each < level:
                numbers.setdefault(each, start)
            elif each == level:
                numbers[each] = numbers[each] + 1 if each in numbers else start
            elif "lvlRestart" not in levels[each] or level < whole_number(levels[each]["lvlRestart"], 0):
                numbers.pop(each, None)
        template, format = levels[level].get("lvlText", ""), levels[level].get("numFmt")
        has_digits = levels[level].get("isLgl", "0") not in ("0", "false")

        def number(match: re.Match[str]) -> str:
            index = int(match[1]) - 1
            decimal = has_digits or index not in levels
            return _formatted(numbers.get(index, 1), "" if decimal else levels[index].get("numFmt", ""))

        return "•" if format == "bullet" else re.sub("%([1-9])", number, template[:_MAX_LABEL_CHARACTERS]).strip()


def _levels_in(element: Element) -> dict[int, Properties]:
    return {_index(each): properties_of(each) for each in element.iter("lvl")}


def _index(element: Element) -> int:
    return min(whole_number(element.get("ilvl"), 0), _MAX_LEVELS)


def _formatted(number: int, format: str) -> str:
    """Return a number as digits, or as letters or Roman digits if it has some."""
    written = str(number)
    if format == "none":
        written = ""
    elif format == "decimalZero":
        written = f"{number:02}"
    elif format.endswith("Letter") and 0 < number <= _MAX_LETTER:
        written = chr(ord("a") + (number - 1) % 26) * ((number + 25) // 26)
    elif format.endswith("Roman") and 0 < number <= _MAX_ROMAN:
        written = ""
        for digits, value in _ROMAN:
            written += digits * (number // value)
            number %= value
    return written.upper() if format.startswith("upper") else written
