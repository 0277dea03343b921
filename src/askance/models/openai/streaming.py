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
MOST_EVENT_BYTES = 64 << 20
"""The size of an event or of an answer in one piece: 16,000 tokens with 20 alternatives take some 40 MB."""
_MOST_SHOWN = 1_000
"""Bytes kept of what is no event."""


class NoJson(ValueError):
    """What can't be read as JSON; `beginning` is how it begins."""

    def __init__(self, what: str, raw: bytes) -> None:
        super().__init__(what)
        self.beginning = raw[:_MOST_SHOWN].strip().decode(errors="replace")


def read_json(raw: bytes) -> object:
    """The value of a JSON text. A number with more digits than Python reads is infinite, or nearly so.

    Raises:
        NoJson: it is none, or too deep to be read.
    """
    try:
        text = raw.decode()
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            raise
        except ValueError:  # of int, for its digits
            return json.loads(text, parse_int=float)
    except (ValueError, RecursionError) as error:
        raise NoJson("no JSON", raw) from error


class Values:
    """Cuts server-sent events out of bytes, however these are divided.

    An answer in one piece, which no line of an event looks like, is one value.

    Attributes:
        is_done: the server has said that nothing follows.
    """

    def __init__(self) -> None:
        self.is_done = False
        self._has_event, self._num_bytes, self._beginning = False, 0, b""
        self._begun: list[bytes] = []
        self._fields: list[bytes] = []
        self._is_one_piece: bool | None = None

    def take(self, raw: bytes) -> Iterator[object]:
        """The values that are complete with this, to be read before there is more.

        Raises:
            NoJson: an event that is no JSON, or too long.
        """
        if len(self._beginning) < _MOST_SHOWN:
            self._beginning += raw[:_MOST_SHOWN]
        self._num_bytes += len(raw)
        if self._num_bytes > MOST_EVENT_BYTES:
            raise NoJson(f"an event of more than {MOST_EVENT_BYTES >> 20} MiB", self._beginning)
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
            NoJson: it is no JSON, or there was no event in it.
        """
        if self._is_one_piece:
            yield read_json(b"".join(self._begun))
            return
        if b"".join(self._begun) == b"\r" and self._fields:
            yield from self._event()
        elif not self._has_event and self._beginning.strip():
            raise NoJson("no JSON", self._beginning)

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
        self._has_event, self._num_bytes = True, 0
        self.is_done = self.is_done or data.strip().startswith(_DONE)
        if not self.is_done:
            yield read_json(data)
