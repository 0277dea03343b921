"""Citation markers that a model wrote, such as " [2]": which they are, and a text without them.

Prompts number their passages "[1] …", and models copy that. What counts as a marker: one number of up to
three digits in square brackets, or several, "[1, 2]" and "[1-3]"; brackets of East Asian scripts, "【1】" and
"［1］", too; one in parentheses, "([1])"; and a chain of these. The white space before it belongs to it, or,
at the start of a line, that behind it.

What only looks like one is text, and stays: what holds a 0; a link, "[1](…)"; what stands in backticks (one
inside a word is an apostrophe), or behind "=" or "{", or directly behind one small letter, a name with "_" or
an opened call, "a[1]", "f([1])"; what the question holds; and what a passage holds directly behind the same
word, "matrix[2]", or as the same list. A list stays where no passage was shown, too.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_SPACE = r"[^\S\n]"
_OPEN, _CLOSE = r"[\[【［]", r"[\]】］]"
_LIST = rf"\d{{1,3}}(?:{_SPACE}?[,;、，–—-]{_SPACE}?\d{{1,3}})*"
_ONE = rf"{_OPEN}{_SPACE}?\^?{_LIST}{_SPACE}?(?:†[^\]】］\n]{{0,40}})?{_CLOSE}"
_JOINT = rf"(?:{_SPACE}?(?:[,;&]|and){_SPACE}?|{_SPACE}*)"
_PART = rf"(?:{_ONE}|\({_ONE}(?:{_JOINT}{_ONE})*\))"
_WHOLE = rf"{_PART}(?:{_JOINT}{_PART})*"
_CHAIN = re.compile(rf"{_WHOLE}(?:(?<=\))|(?!\())")
_GROWING = re.compile(rf"(?:{_WHOLE}|\({_WHOLE})(?:{_JOINT}\({_WHOLE})?")
_BEGUN = rf"{_OPEN}(?:{_SPACE}?\^?(?:{_SPACE}|[\d,;、，–—-]){{0,60}}(?:†[^\]】］\n]{{0,40}})?)"
_CUT_OFF = re.compile(rf"{_SPACE}*{_BEGUN}\Z")
_MAY_GO_ON = re.compile(rf"(?:{_SPACE}?(?:[,;&]|an?d?))?{_SPACE}*(?:\(?{_BEGUN}|\()?")
_MAY_BEGIN = re.compile(rf"(?:\(?{_BEGUN}|\()?\Z")
_CODE = re.compile(r"(?:[={]\s*|\b[a-z]|\w*_\w*|\w\()\Z")
_TICK = re.compile(r"(?<!\w)`|`(?!\w)")
_GLUED = re.compile(r"\w+\Z")
_RANGE = re.compile(rf"(\d{{1,3}}){_SPACE}?[–—-]{_SPACE}?(\d{{1,3}})")
_NUMBER = re.compile(r"\d+")
_NEAR = 80
"""Characters before a marker that are looked at."""

Sources = Callable[[], Sequence[str]]
"""The texts that an answer may quote: the question first, then the passages found so far."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker: `text[start:end]` goes with it. One that was cut off names no numbers."""

    start: int
    end: int
    numbers: tuple[int, ...]


@dataclass(slots=True)
class Plain:
    """A text that a model wrote, which may grow, and what is left of it without its markers.

    While it grows, nothing is told of which the next characters may make a marker: what was told stays.

    Attributes:
        written: all of it so far, as it was written.
        told: how many of its characters are decided.
        markers: in what is decided, in order.
    """

    sources: Sources
    written: str = ""
    told: int = 0
    markers: tuple[Marker, ...] = ()

    def add(self, piece: str) -> str:
        """Take more text; what may be told of it now."""
        self.written += piece
        held = _undecided(self.written, self.told)
        return self._tell(_chains(self.written, self.told, held, self.sources), held)

    def end(self) -> str:
        """What is left when nothing more follows, without white space and a marker cut off at its end.

        More may be added later all the same: that white space then comes first.
        """
        end = len(self.written)
        found = _chains(self.written, self.told, end, self.sources)
        behind = max(self.told, found[-1].end if found else 0)
        cut_off = _CUT_OFF.search(self.written, behind)
        if cut_off is None:
            return self._tell(found, max(behind, len(self.written.rstrip())))
        return self._tell([*found, Marker(cut_off.start(), end, ())], end)

    def _tell(self, found: Sequence[Marker], until: int) -> str:
        # White space behind a marker at the start of a line goes with it, and is decided with it.
        start, self.told = self.told, max([until, *(each.end for each in found)])
        self.markers += tuple(found)
        return self._without(found, start, self.told)

    def _without(self, markers: Sequence[Marker], start: int, end: int) -> str:
        starts = (start, *(each.end for each in markers))
        ends = (*(each.start for each in markers), end)
        return "".join(self.written[slice(*span)] for span in zip(starts, ends, strict=True))

    @property
    def text(self) -> str:
        """What is left."""
        return self._without(self.markers, 0, len(self.written))

    @property
    def blanked(self) -> str:
        """`written` with blanks in place of the markers."""
        said = self.written
        for each in self.markers:
            said = said[: each.start] + " " * (each.end - each.start) + said[each.end :]
        return said

    def offset(self, written: int) -> int:
        """Where in `text` stands what stands at an offset of `written`; behind a marker if inside one."""
        left_out = (min(each.end, written) - each.start for each in self.markers if each.start < written)
        return written - sum(left_out)

    def written_offset(self, offset: int) -> int:
        """Where in `written` stands what stands at an offset of `text`; before a marker that stands there."""
        for each in self.markers:
            if each.start >= offset:
                break
            offset += each.end - each.start
        return offset


def plain(text: str, sources: Sources) -> Plain:
    """A whole `text`, and which markers stand in it."""
    found = Plain(sources)
    found.add(text)
    found.end()
    return found


def _undecided(text: str, start: int) -> int:
    """From where on `text` may still become a marker, or white space before one."""
    last = max(_GROWING.finditer(text, start), key=re.Match.end, default=None)
    if last is not None and _MAY_GO_ON.fullmatch(text, last.end()):
        first = last.start()
    else:
        begun = _MAY_BEGIN.search(text, max(start, len(text) - _NEAR))
        first = begun.start() if begun else len(text)
    return _skip_back(text, first, start)


def _chains(text: str, start: int, end: int, sources: Sources) -> list[Marker]:
    """The markers that end in `text[start:end]`."""
    found, num_ticks, counted = list[Marker](), 0, 0
    for chain in _CHAIN.finditer(text, start):
        numbers = _numbers(chain[0])
        num_ticks += len(_TICK.findall(text, counted, chain.start()))
        counted = chain.start()
        is_code = num_ticks % 2 == 1 or 0 in numbers
        if chain.end() <= end and not is_code and not _is_text(text, chain, sources):
            least = found[-1].end if found else start
            found.append(Marker(*_with_spaces(text, chain.start(), chain.end(), least), numbers))
    return found


def _with_spaces(text: str, first: int, last: int, least: int) -> tuple[int, int]:
    """A marker with the white space before it, or behind it at the start of a line."""
    first = _skip_back(text, first, least)
    if first == 0 or text[first - 1] == "\n":
        last += len(text[last:]) - len(text[last:].lstrip(" \t\u00a0\u3000"))
    return first, last


def _skip_back(text: str, at: int, least: int) -> int:
    while at > least and text[at - 1].isspace() and text[at - 1] != "\n":
        at -= 1
    return at


def _is_text(text: str, chain: re.Match[str], sources: Sources) -> bool:
    """Whether what looks like a marker is part of what is said, see the top of this file."""
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
    found = set(map(int, _NUMBER.findall(chain)))
    for first, last in _RANGE.findall(chain):
        found.update(range(int(first), int(last) + 1))
    return tuple(sorted(found))
