"""Finding and removing citation markers, such as " [2]", in generated text.

Prompts number their passages "[1] …", and models copy these numbers into their answers. A marker is one of:

- one or more numbers of up to three digits in square brackets, such as "[1]", "[1, 2]" or "[1-3]";
- the same in East Asian brackets, such as "【1】" or "［1］", or in additional parentheses, such as "([1])";
- a sequence of such markers, such as "[1][2]".

The white space before a marker is part of it. At the start of a line, so is the white space after the marker.

Some text looks like a marker but is kept:

- brackets that contain the number 0;
- a link, such as "[1](…)";
- text between backticks, which is code (a backtick inside a word counts as an apostrophe);
- text directly after "=", "{", a single lowercase letter, a name with "_" or the opening parenthesis of a
  call, which is also code, such as "a[1]" or "f([1])";
- text that also occurs in the question;
- text that also occurs in a passage after the same word, such as "matrix[2]";
- several numbers in one pair of brackets, if they also occur in a passage or if no passage was shown.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter

_SPACE = r"[^\S\n]"
_OPEN, _CLOSE = r"[\[【［]", r"[\]】］]"
_LIST = rf"\d{{1,3}}(?:{_SPACE}?[,;、，–—-]{_SPACE}?\d{{1,3}})*"
_ONE = rf"{_OPEN}{_SPACE}?\^?{_LIST}{_SPACE}?(?:†[^\]】］\n]{{0,40}})?{_CLOSE}"
_JOINT = rf"(?:{_SPACE}?(?:[,;&]|and){_SPACE}?|{_SPACE}*)"
_PART = rf"(?:{_ONE}|\({_ONE}(?:{_JOINT}{_ONE}){{0,50}}\))"
_WHOLE = rf"{_PART}(?:{_JOINT}{_PART}){{0,50}}"  # bounded, since each new token reads it again
_CHAIN = re.compile(rf"{_WHOLE}(?:(?<=\))|(?!\())")
_GROWING = re.compile(rf"(?:{_WHOLE}|\({_WHOLE})(?:{_JOINT}\({_WHOLE})?")
_OPENED = rf"{_OPEN}(?:{_SPACE}?\^?(?:{_SPACE}|[\d,;、，–—-]){{0,60}}(?:†[^\]】］\n]{{0,40}})?)"
_CUT_OFF = re.compile(rf"{_OPENED}\Z")
_MAY_CONTINUE = re.compile(rf"(?:{_SPACE}?(?:[,;&]|an?d?))?{_SPACE}*(?:\(?{_OPENED}|\()?")
_MAY_BEGIN = re.compile(rf"(?:\(?{_OPENED}|\()?\Z")
_CODE = re.compile(r"(?:[={]\s*|\b[a-z]|\w*_\w*|\w\()\Z")
_TICK = re.compile(r"(?<!\w)`|`(?!\w)")
_GLUED = re.compile(r"\w+\Z")
_RANGE = re.compile(rf"(\d{{1,3}}){_SPACE}?[–—-]{_SPACE}?(\d{{1,3}})")
_NUMBER = re.compile(r"\d+")
_BLANK = re.compile(r"[ \t\u00a0\u3000]*")
_NEAR = 80
"""The number of preceding characters that are examined to decide whether text is a marker."""

Sources = Callable[[], Sequence[str]]
"""A function that returns the strings an answer may quote: the question, then the passages found so far."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker at `text[start:end]`, including its white space. A marker that was cut off has no numbers."""

    start: int
    end: int
    numbers: tuple[int, ...]


@dataclass(slots=True)
class UnmarkedText:
    """Generated text that arrives in pieces, and whose markers are removed.

    Text is withheld as long as the next characters could turn it into a marker, so released text is final.

    Attributes:
        written: The generated text so far, with its markers.
        num_decided: The number of characters of `written` already classified as text or marker.
        markers: The markers in the classified part, in order.
    """

    sources: Sources
    written: str = ""
    num_decided: int = 0
    markers: tuple[Marker, ...] = ()
    _num_removed: list[int] = field(default_factory=lambda: [0])
    _ticks: tuple[int, int] = (0, 0)

    def add(self, piece: str) -> str:
        """Append text, and return the text that can be released now."""
        self.written += piece
        held = _undecided(self.written, self.num_decided)
        return self._release(self._chains(held), held)

    def end(self) -> str:
        """Return the text that is still withheld at the end of a generation.

        Trailing white space and a cut-off marker are left out. If more text is added later, this white space
        comes before the new text.
        """
        end = len(self.written)
        markers = self._chains(end)
        last_end = max(self.num_decided, markers[-1].end if markers else 0)
        cut_off = _CUT_OFF.search(self.written, last_end)
        if cut_off is None:
            return self._release(markers, max(last_end, len(self.written.rstrip())))
        start = _skip_back(self.written, cut_off.start(), last_end)
        return self._release([*markers, Marker(start, end, ())], end)

    def _chains(self, end: int) -> list[Marker]:
        """Return the markers that end in the undecided text before `end`."""
        text, start, markers = self.written, self.num_decided, list[Marker]()
        for chain in _CHAIN.finditer(text, start):
            if chain.end() > end:
                break
            numbers, (num_ticks, counted) = _numbers(chain[0]), self._ticks
            num_ticks += len(_TICK.findall(text, counted, chain.start()))
            self._ticks = num_ticks, chain.start()
            is_code = num_ticks % 2 == 1 or 0 in numbers
            if not is_code and not _is_text(text, chain, self.sources):
                least = markers[-1].end if markers else start
                markers.append(Marker(*_with_spaces(text, chain.start(), chain.end(), least), numbers))
        return markers

    def _release(self, markers: Sequence[Marker], until: int) -> str:
        # White space after a marker at the start of a line is part of the marker, so it is decided as well.
        start, self.num_decided = self.num_decided, max([until, *(marker.end for marker in markers)])
        self.markers += tuple(markers)
        lengths = (marker.end - marker.start for marker in markers)
        self._num_removed += [*accumulate(lengths, initial=self._num_removed[-1])][1:]
        return self._without(markers, start, self.num_decided)

    def _without(self, markers: Sequence[Marker], start: int, end: int) -> str:
        starts = (start, *(marker.end for marker in markers))
        ends = (*(marker.start for marker in markers), end)
        return "".join(self.written[slice(*span)] for span in zip(starts, ends, strict=True))

    @property
    def text(self) -> str:
        """The text without its markers."""
        return self._without(self.markers, 0, len(self.written))

    @property
    def blanked(self) -> str:
        """The text as it was written, with each character of a marker replaced by a space."""
        characters = [*self.written]
        for marker in self.markers:
            characters[marker.start : marker.end] = " " * (marker.end - marker.start)
        return "".join(characters)

    def offset(self, written: int) -> int:
        """Convert an offset in `written` to an offset in `text`.

        All offsets inside a marker become the offset from which the marker was removed.
        """
        index = bisect_left(self.markers, written, key=attrgetter("start"))
        inside = max(self.markers[index - 1].end - written, 0) if index else 0
        return written - self._num_removed[index] + inside

    def written_offset(self, offset: int) -> int:
        """Convert an offset in `text` to an offset in `written`.

        If a marker was removed at `offset`, the result is the offset before the marker.
        """
        for marker in self.markers:
            if marker.start >= offset:
                break
            offset += marker.end - marker.start
        return offset


def without_markers(text: str, sources: Sources) -> UnmarkedText:
    """Return a complete text as `UnmarkedText`, with its markers removed."""
    unmarked = UnmarkedText(sources)
    unmarked.add(text)
    unmarked.end()
    return unmarked


def _undecided(text: str, start: int) -> int:
    """Return the offset from which `text` may still become part of a marker."""
    last = max(_GROWING.finditer(text, start), key=re.Match.end, default=None)
    if last is not None and _MAY_CONTINUE.fullmatch(text, last.end()):
        first = last.start()
    else:
        opening = _MAY_BEGIN.search(text, max(start, len(text) - _NEAR))
        first = opening.start() if opening else len(text)
    return _skip_back(text, first, start)


def _with_spaces(text: str, first: int, last: int, least: int) -> tuple[int, int]:
    """Return the span of a marker, extended by the white space that is part of the marker."""
    first = _skip_back(text, first, least)
    if first == 0 or text[first - 1] == "\n":
        last += len(_BLANK.match(text, last)[0])  # type: ignore[index]  # it matches anything
    return first, last


def _skip_back(text: str, index: int, least: int) -> int:
    line = text[max(least, text.rfind("\n", least, index) + 1) : index]
    return index - len(line) + len(line.rstrip())


def _is_text(text: str, chain: re.Match[str], sources: Sources) -> bool:
    """Return whether an apparent marker is ordinary text (see the module's docstring)."""
    before = text[max(0, chain.start() - _NEAR) : chain.start()]
    if _CODE.search(f"{before}(" if chain[0].startswith("(") else before):
        return True
    question, *passages = sources()
    is_list = len(_NUMBER.findall(chain[0])) > len(re.findall(_OPEN, chain[0]))
    if chain[0] in question or (is_list and not passages):
        return True
    word = _GLUED.search(before)
    quoted = chain[0] if is_list else f"{word[0]}{chain[0]}" if word else ""
    return bool(quoted) and any(quoted in passage for passage in passages)


def _numbers(chain: str) -> tuple[int, ...]:
    numbers = set(map(int, _NUMBER.findall(chain)))
    for first, last in _RANGE.findall(chain):
        numbers.update(range(int(first), int(last) + 1))
    return tuple(sorted(numbers))
