"""Checksums in JSON itself: a line of records, traces or judgements carries one of all else that is in it.

    {"checksum": "1f0c93ab5d7e2a44", "number": 1, "id": "q1", …}

A wrong bit is found wherever the line is read. Lines that were written before there were checksums are known
by what they begin with, which no single wrong bit makes of a line that has one.
"""

import hashlib
import re

from askance.runtime.append_only import whole_lines

_CHECKSUM = re.compile(rb'\{"checksum": "([0-9a-f]{16})", ')


def checksum(content: bytes) -> str:
    """16 hexadecimal digits that stand for some bytes."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def sealed(text: bytes) -> bytes:
    """The JSON object `text` with the checksum of what follows as its first field."""
    rest = text[1:]
    return b'{"checksum": "' + checksum(rest).encode() + b'", ' + rest


def unsealed(text: bytes, *, old: bytes | tuple[bytes, ...]) -> bytes:
    """What `sealed` was given.

    Args:
        old: what a text begins with that was written before there were checksums; it is given as it is.

    Raises:
        ValueError: the text is damaged; the message says what is wrong with it.
    """
    if text.startswith(old):
        return text
    found = _CHECKSUM.match(text)
    if found is None:
        raise ValueError("it does not begin with a checksum")
    rest = text[found.end() :]
    if checksum(rest).encode() != found[1]:
        raise ValueError("its checksum is not that of its content")
    return b"{" + rest


def _is_sealed(text: bytes) -> bool:
    found = _CHECKSUM.match(text)
    return found is not None and checksum(text[found.end() :]).encode() == found[1]


class DamagedLine(ValueError):
    """A line that is not what was written; the message says what is wrong with it.

    Attributes:
        number: the line's, from 1.
    """

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number


def unsealed_lines(content: bytes, *, old: bytes | tuple[bytes, ...]) -> tuple[list[bytes], int]:
    """What `sealed` was given for each whole line of a file that only grows, and how many bytes these have.

    A line without its line break was being written when its writer stopped, and is left out.

    Raises:
        DamagedLine: a line, or its line break, is damaged.
    """
    whole = whole_lines(content)
    lines, opened = whole.split(b"\n")[:-1], []
    for number, line in enumerate(lines, start=1):
        try:
            opened.append(unsealed(line, old=old))
        except ValueError as error:
            raise DamagedLine(number, str(error)) from error
    if _is_sealed(content[len(whole) : -1]):
        raise DamagedLine(len(lines) + 1, "its line break is damaged")
    return opened, len(whole)
