"""The JSON values of a streamed answer, out of its bytes as they come.

Unlike the client's own stream, it reads answers of servers that stream nothing, too, and makes no object of
each event.
"""

import json
import re
from collections.abc import Iterator

_LINE_END = re.compile(rb"\r\n|\n|\r")
_FIELD = b"data:"
_DONE = b"[DONE]"
_OPENINGS = (b"{", b"[")


class Values:
    """Cuts server-sent events out of bytes, however these are divided.

    An answer in one piece, which no line of an event looks like, is one value.

    Attributes:
        is_done: the server has said that nothing follows.
    """

    def __init__(self) -> None:
        self.is_done = False
        self._begun: list[bytes] = []
        self._fields: list[bytes] = []
        self._is_one_piece: bool | None = None

    def take(self, raw: bytes) -> Iterator[object]:
        """The values that are complete with this, to be read before there is more.

        Raises:
            json.JSONDecodeError, UnicodeDecodeError: an event that is no JSON.
        """
        if self._is_one_piece is None and (bare := raw.lstrip()):
            self._is_one_piece = bare.startswith(_OPENINGS)
        if self._is_one_piece or (b"\n" not in raw and b"\r" not in raw):
            self._begun.append(raw)
            return
        for line in self._lines(raw):
            if line.startswith(_FIELD):
                self._fields.append(line[len(_FIELD) :])
            elif not line and self._fields:
                yield from self._event()

    def rest(self) -> Iterator[object]:
        """What is complete since nothing follows: an answer in one piece. An event without an end is none.

        Raises:
            json.JSONDecodeError, UnicodeDecodeError: it is no JSON.
        """
        if self._is_one_piece:
            yield json.loads(b"".join(self._begun).decode())
        elif b"".join(self._begun) == b"\r" and self._fields:
            yield from self._event()

    def _lines(self, raw: bytes) -> list[bytes]:
        whole = b"".join((*self._begun, raw))
        lines = _LINE_END.split(whole)
        begun = lines.pop()
        if whole.endswith(b"\r"):  # perhaps half of a line's end
            begun = lines.pop() + b"\r"
        self._begun = [begun] if begun else []
        return lines

    def _event(self) -> Iterator[object]:
        data = b"\n".join(self._fields)
        self._fields.clear()
        self.is_done = self.is_done or data.strip().startswith(_DONE)
        if not self.is_done:
            yield json.loads(data.decode())
