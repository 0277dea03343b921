"""The text of an answer, without what a display of Markdown would load, link or show as a citation."""

import re
from dataclasses import dataclass

_MOST_HELD = 2_000
"""The number of characters after which what may still become code is sent as text that is not code."""
_FILL = r"[\s*_\\,;\d–-]"
_MARKER = rf"\[(?P<number>{_FILL}{{0,20}}\d{_FILL}{{0,20}})\]"
_SPECIAL = re.compile(
    rf"(?P<end>\r\n?|\n)|(?P<run>`+)|\\[\\`]|{_MARKER}"
    r"|(?P<link>\](?=[(:[]))|(?P<tag><(?=[A-Za-z/!?]))|(?P<entity>&(?=#|[lr](?:brack|sqb);))"
)
_REPLACED = {"link": ")", "tag": "‹", "entity": "＆"}
_BEGUN = re.compile(rf"(?:(?<!`)`+|\r|\\|\[{_FILL}{{0,41}}|\]|<|&[a-z]{{0,6}})\Z")
_LINE, _END = re.compile(r"[^\r\n]*"), re.compile(r"\r\n?|\n")
_CONTAINERS = re.compile(r"[ \t>*+\-\d.)]*")
_RUN = re.compile(r"`+")
_FENCE = re.compile(r"`{3,}|~{3,}")
_NOT_YET = ("", "`", "``", "~", "~~")
_CLOSING = re.compile(r" {0,3}(`*|~*)[ \t]*")


@dataclass(slots=True)
class PlainText:
    """A filter for the text of an answer, which arrives in pieces; any pieces of a text give the same result.

    Outside code, numbers in square brackets get parentheses, the text of a link and the label of a reference
    lose their closing bracket, and tags and character references their first character, to one that looks
    alike. An image would send what its address contains to another server as soon as it is displayed. Each
    character is replaced by one, so the offsets of citations stay valid.

    Code is only what CommonMark reads as code in any case: blocks whose fences begin a line, and spans within
    a line. After a fence in a list or a quotation, nothing counts as code; nor does anything between a lone
    run of backticks and the next blank line, nor a span with a ``|``, which may be two cells of a table.
    """

    _held: str = ""
    _is_new_line: bool = True
    _is_code_line: bool = False
    _fence: str = ""
    _has_lone_run: bool = False
    _has_code: bool = True

    def add(self, piece: str) -> str:
        """Append text, and return what can be sent now."""
        return self._send(self._held + piece, is_end=False)

    def end(self) -> str:
        """Return what was held back."""
        return self._send(self._held, is_end=True)

    def _send(self, text: str, is_end: bool) -> str:
        pieces, start, known = list[str](), 0, len(text) if is_end else _known(text)
        while start < known:
            if self._is_new_line and not self._begin_line(text, start, is_end):
                break
            self._is_new_line = False
            piece, end = self._next(text, start, known, is_end)
            if end == start:
                break
            pieces.append(piece)
            start = end
        self._held = text[start:]
        return "".join(pieces)

    def _begin_line(self, text: str, start: int, is_end: bool) -> bool:
        """Decide whether a line is one of a code block, and return False if more of it is needed."""
        line = text[start : _LINE.match(text, start, start + _MOST_HELD + 1).end()]  # type: ignore[union-attr]
        is_long = len(line) > _MOST_HELD
        is_whole = is_long or is_end or start + len(line) < len(text)
        if self._fence:
            closing = _CLOSING.fullmatch(line)
            if closing and not is_whole:
                return False
            if closing and is_long:
                self._has_code, self._fence = False, ""
            self._is_code_line = self._has_code
            if closing and closing[1].startswith(self._fence):
                self._fence = ""
            return True
        in_container = _CONTAINERS.match(line).end()  # type: ignore[union-attr]
        fence, rest = _FENCE.match(line, in_container), line[in_container:]
        is_open = (fence and not in_container) or rest in _NOT_YET
        if is_open and not is_whole:
            return False
        if not line.strip(" \t"):
            self._has_lone_run = False
        if (fence and in_container) or (is_open and is_long):
            self._has_code = False
        elif fence and self._has_code and (rest[0] == "~" or "`" not in line[fence.end() :]):
            self._fence = fence[0]
        self._is_code_line = bool(self._fence)
        return True

    def _next(self, text: str, start: int, known: int, is_end: bool) -> tuple[str, int]:
        """Return what can be sent next and its end in the text, which is `start` if that is not yet known."""
        found = (_END if self._is_code_line else _SPECIAL).search(text, start)
        if found is None or found.start() >= known:
            return text[start:known], known
        if found.start() > start:
            return text[start : found.start()], found.start()
        if found.lastgroup == "run":
            return self._code_span(text, found, is_end)
        if found.lastgroup == "number":
            return f"({found['number']})", found.end()
        if found.lastgroup in _REPLACED:
            return _REPLACED[found.lastgroup], found.end()
        self._is_new_line = found[0][0] in "\r\n"
        return found[0], found.end()

    def _code_span(self, text: str, run: re.Match[str], is_end: bool) -> tuple[str, int]:
        """Return what `_next` does for a run of backticks."""
        if self._has_code and not self._has_lone_run and len(run[0]) <= _MOST_HELD:
            most = run.end() + _MOST_HELD
            line_end = _LINE.match(text, run.end(), most).end()  # type: ignore[union-attr]
            runs = _RUN.finditer(text, run.end(), line_end)
            closing = next((each for each in runs if len(each[0]) == len(run[0])), None)
            end = closing.end() if closing else line_end
            if end == len(text) < most and not is_end:
                return "", run.start()
            if closing and end < most and "|" not in text[run.end() : end]:
                return text[run.start() : end], end
        self._has_lone_run = True
        return run[0], run.end()


def _known(text: str) -> int:
    """Return the length of a text without its end that may be the beginning of something special."""
    begun = _BEGUN.search(text, max(0, len(text) - _MOST_HELD))
    return begun.start() if begun else len(text)


def plain_text(text: str) -> str:
    """Return a complete answer as `PlainText` sends it."""
    plain = PlainText()
    return plain.add(text) + plain.end()
