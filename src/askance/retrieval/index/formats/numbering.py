"""The numbers of headings, clauses and lists, which Word computes and does not save."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from askance.retrieval.index.formats.packages import Package, whole_number

_ROMAN = (
    ("m", 1000), ("cm", 900), ("d", 500), ("cd", 400), ("c", 100), ("xc", 90), ("l", 50), ("xl", 40),
    ("x", 10), ("ix", 9), ("v", 5), ("iv", 4), ("i", 1),
)  # fmt: skip
_MAX_ROMAN, _MAX_LETTER = 3_999, 780
_MAX_LABEL_CHARACTERS = 100
_MAX_BASES = _MAX_LEVELS = 10


@dataclass(slots=True)
class ParagraphStyle:
    """The list and the level of a style of paragraphs; an empty string or None if it states none."""

    based_on: str = ""
    list_id: str = ""
    level: int | None = None


@dataclass(slots=True)
class _Level:
    """A level of a list.

    Attributes:
        template: The label, in which %1 is the number of the first level.
        restart: How many levels from the first one restart this level; None if all above it do.
        style: The style whose paragraphs have this level.
    """

    start: int = 1
    format: str = "decimal"
    template: str = ""
    restart: int | None = None
    style: str = ""
    has_digits: bool = False


def bases_of(styles: Mapping[str, ParagraphStyle], style: str) -> Iterator[str]:
    """Yield the id of a style, and of each style that it is based on."""
    for _ in range(_MAX_BASES):
        if style not in styles:
            return
        yield style
        style = styles[style].based_on


class Numbering:
    """The lists of a Word document, with the numbers that they have reached.

    Several lists can be instances of one definition. They continue each other's numbers, except at levels at
    which an instance starts again.
    """

    def __init__(self, package: Package, member: str, styles: Mapping[str, ParagraphStyle]) -> None:
        self._styles = styles
        self._levels: dict[str, dict[int, _Level]] = defaultdict(dict)
        self._own_levels: dict[str, dict[int, _Level]] = defaultdict(dict)
        self._starts: dict[str, dict[int, int]] = defaultdict(dict)
        self._definition: dict[str, str] = {}
        self._style_of_definition: dict[str, str] = {}
        self._numbers: dict[str, dict[int, int]] = defaultdict(dict)
        self._begun = set[str]()
        self._read(package, member)

    def label(self, style: str, list_id: str, level: int | None) -> str:
        """Return the label of the next paragraph, such as "1.2", or an empty string if it has none.

        Args:
            style: The id of the paragraph's style.
            list_id, level: What the paragraph itself says; empty and None if it leaves that to its style.
        """
        bases = list(bases_of(self._styles, style))
        if not list_id:
            list_id = next((self._styles[each].list_id for each in bases if self._styles[each].list_id), "")
            if not list_id:
                return ""
            linked = (self._linked_level(list_id, each) for each in bases)
            stated = (self._styles[each].level for each in bases)
            level = next((each for each in (level, *linked, *stated) if each is not None), None)
        return self._next(list_id, level or 0)

    def _next(self, list_id: str, level: int) -> str:
        definition, levels = self._definition_of(list_id), self._levels_of(list_id)
        if level not in levels:
            return ""
        numbers, starts = self._numbers[definition], self._starts[list_id]
        if list_id not in self._begun:
            self._begun.add(list_id)
            for each in starts:
                numbers.pop(each, None)
        for each in sorted(levels):
            start = starts.get(each, levels[each].start)
            restart = levels[each].restart
            if each < level:
                numbers.setdefault(each, start)
            elif each == level:
                numbers[each] = numbers[each] + 1 if each in numbers else start
            elif restart is None or level < restart:
                numbers.pop(each, None)
        if levels[level].format == "bullet":
            return "•"

        def number(match: re.Match[str]) -> str:
            index = int(match[1]) - 1
            has_digits = levels[level].has_digits or index not in levels
            return _formatted(numbers.get(index, 1), "decimal" if has_digits else levels[index].format)

        return re.sub("%([1-9])", number, levels[level].template).strip()

    def _definition_of(self, list_id: str) -> str:
        definition = self._definition.get(list_id, "")
        style = self._styles.get(self._style_of_definition.get(definition, ""))
        return self._definition.get(style.list_id, "") if style else definition

    def _levels_of(self, list_id: str) -> dict[int, _Level]:
        return self._levels[self._definition_of(list_id)] | self._own_levels[list_id]

    def _linked_level(self, list_id: str, style: str) -> int | None:
        levels = self._levels_of(list_id)
        return next((index for index, level in levels.items() if level.style == style), None)

    def _read(self, package: Package, member: str) -> None:
        levels, level, definition, list_id, index = dict[int, _Level](), _Level(), "", "", 0
        for event in package.events(member):
            if event.kind != "start":
                continue
            value, given = event.attributes.get("val", ""), event.attributes
            match event.name:
                case "abstractNum":
                    definition = given.get("abstractNumId", "")
                    levels = self._levels[definition]
                case "numStyleLink":
                    self._style_of_definition[definition] = value
                case "num":
                    list_id = given.get("numId", "")
                    levels = self._own_levels[list_id]
                case "abstractNumId":
                    self._definition[list_id] = value
                case "lvlOverride":
                    index = min(whole_number(given.get("ilvl"), 0), _MAX_LEVELS)
                case "startOverride":
                    self._starts[list_id][index] = whole_number(value, 1)
                case "lvl":
                    level = levels[min(whole_number(given.get("ilvl"), 0), _MAX_LEVELS)] = _Level()
                case "start":
                    level.start = whole_number(value, 1)
                case "numFmt":
                    level.format = value
                case "lvlText":
                    level.template = value[:_MAX_LABEL_CHARACTERS]
                case "lvlRestart":
                    level.restart = whole_number(value, 0)
                case "pStyle":
                    level.style = value
                case "isLgl":
                    level.has_digits = value not in ("0", "false")


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
