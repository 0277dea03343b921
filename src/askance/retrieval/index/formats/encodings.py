"""Text files in any common encoding, checked before they are read."""

import codecs
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from askance.retrieval.index.formats.content import UnreadableFile, unreadable

GZIPPED = ".gz"
MAX_LINE_BYTES = 16_000_000
"""The longest line, so that a file of rows can be read in bounded memory."""
MAX_UNPACKED_RATIO = 250
"""The greatest ratio of unpacked to packed bytes of a .gz file; texts are packed at a ratio below 20."""
MAX_UNCHECKED_BYTES = 64_000_000
"""A .gz file that unpacks to no more than this may have any ratio."""
_BLOCK_BYTES = 1 << 20
_SAMPLE_BYTES = 1 << 16
_UTF8 = "utf-8-sig"
_DAMAGED_UTF8 = "utf_8_sig"
"""The same codec under another name, under which `core.records` replaces wrong bytes."""
_CHARACTERS_PER_WRONG_BYTE = 5
_BYTES_BEYOND_ASCII = bytes(range(0x80, 0x100))
_MARKS = {
    codecs.BOM_UTF8: _UTF8,
    re.escape(codecs.BOM_UTF32_LE): "utf-32",
    re.escape(codecs.BOM_UTF32_BE): "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    rb"(?:[^\0]\0){4}": "utf-16-le",
    rb"(?:\0[^\0]){4}": "utf-16-be",
}
_ENCODINGS = (
    "cp1252 iso8859_15 mac_roman cp1250 iso8859_2 cp1251 koi8_r iso8859_5 cp1253 cp1254 cp1255 cp1256 "
    "cp932 euc_jp iso2022_jp gb18030 big5 cp949"
).split()
_LATIN = ("cp1250", "cp1252", "cp1254", "iso8859_2", "iso8859_15", "mac_roman")
_RUN = re.compile(rb"[\x80-\x9f\xa1-\xaa\xac-\xba\xbc-\xff]{3,}")
"""Bytes beyond ASCII in a row, except no-break spaces and French quotes.

Words of other scripts are runs of them; accented Latin letters stand alone."""
_BROADER = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "shift_jis": "cp932", "euc_kr": "cp949",
    "gb2312": "gb18030", "gbk": "gb18030",
}  # fmt: skip
"""The encodings that browsers use instead of declared ones, which have fewer characters."""
_FOR_TEXT = re.compile("big5|cp|euc|gb|hz|iso|johab|koi8|mac|shift|tis|utf")
_LETTER = re.compile(rb"[a-zA-Z0-9]")
_MIN_BYTES = 32
"""With fewer bytes beyond ASCII, several encodings fit, unless the language is recognised."""
_MAX_COMPARED = 4_000
_ODD = re.compile("[\x80-\x9f\uff61-\uff9f\ue000-\uf8ff\ufffd]")
"""Controls, half-width Katakana, and characters that have no meaning."""
_WEST = ("äöüß", "àâæçèéêëîïôœùûüÿ", "áéíñóúü", "àèéìíîòóùú", "àáâãçéêíóôõúü", "åäöæøé", "áéëíïóöúü",
    "áðéíóúýþæö", "àçèéíïòóúü", "äõöü")  # fmt: skip
_LATIN_LETTERS = {
    "cp1252": _WEST,
    "cp1254": ("çğıöşü",),
    "cp1250": ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîşţ"),
    "iso8859_2": ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîşţ"),
    "cp1257": ("ąčęėįšųūž", "āčēģīķļņšūž", "äõöüšž"),
    "mac_roman": _WEST,
}
"""The letters beyond ASCII of languages, by encoding, the most common encoding first: German, French,
Spanish, Italian, Portuguese, Nordic, Dutch, Icelandic, Catalan, Estonian; Turkish; Polish, Czech, Slovak,
Hungarian, Croatian, Romanian; Lithuanian, Latvian, Estonian."""
_BEYOND_ASCII = re.compile(r"([a-zA-Z]?)([^\x00-\x7f])")
_SIGNS = "\u00a0\u00ad’‘“”«»‹›…–—·®™©°²³ªºµ"
"""Characters that stand directly after a letter in ordinary text, and are no letters of a language."""


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, and unpack it on the way if its name ends in .gz."""
    return gzip.open(path, "rb") if path.suffix.lower() == GZIPPED else path.open("rb")  # type: ignore[return-value]


def checked_encoding(path: Path) -> str:
    """Return the encoding of a text file, which is read once or twice for this, in bounded memory.

    A byte order mark decides. A file without one is UTF-8 if it is valid UTF-8, or has few wrong bytes.
    Between encodings of Latin letters, the letters of the languages decide, and charset-normalizer between
    all others.

    Raises:
        UnreadableFile: The file is binary, has a line that is too long, unpacks to far more bytes than it
            has, or its encoding can't be recognised.
        OSError: The file can't be read.
    """
    packed_bytes, num_bytes, line_bytes = path.stat().st_size, 0, 0
    marked, decoder, is_valid = "", codecs.getincrementaldecoder("utf-8")(), True
    for block in blocks_of(path):
        marked = marked if num_bytes else _marked(block)
        if marked in ("", _UTF8) and b"\0" in block:
            raise UnreadableFile(f"binary, not text (byte {num_bytes + block.index(0)} is NUL)")
        num_bytes += len(block)
        if num_bytes > max(MAX_UNCHECKED_BYTES, MAX_UNPACKED_RATIO * packed_bytes):
            raise UnreadableFile(f"unpacks to more than {MAX_UNPACKED_RATIO} times its size")
        line_bytes = _longest_line(block, line_bytes)
        is_valid = is_valid and marked in ("", _UTF8) and _is_decoded(decoder, block)
    if marked not in ("", _UTF8):
        return marked
    if is_valid and _is_decoded(decoder, b"", is_end=True):
        return _UTF8
    is_damaged_utf8, sample = _survey(blocks_of(path))
    return _DAMAGED_UTF8 if marked or is_damaged_utf8 else _recognised(sample)


def decoded(content: bytes, declared: str = "") -> str:
    """Return text without its byte order mark, with its line endings as they are.

    Args:
        declared: The encoding that the content itself declares, which is used unless the content is UTF-8.

    Raises:
        UnreadableFile: The encoding can't be recognised.
    """
    if marked := _marked(content):
        return content.decode(marked, "replace")
    encoding = _declared(declared)
    if not (encoding and re.search(b"[\0\x1b]", content)):  # UTF-16 and ISO 2022 are valid UTF-8 as well
        with suppress(UnicodeDecodeError):
            return content.decode()
    is_damaged_utf8, sample = _survey([content])
    if is_damaged_utf8:
        return content.decode("utf-8", "replace")
    if encoding:
        text = content.decode(encoding, "replace")
        if 20 * text.count("\ufffd") <= len(content) - len(content.translate(None, _BYTES_BEYOND_ASCII)):
            return text
    return content.decode(_recognised(sample), "replace")


def blocks_of(path: Path) -> Iterator[bytes]:
    """Yield the content of a file, which is unpacked on the way if its name ends in .gz.

    Raises:
        UnreadableFile: The file is a damaged .gz file.
        OSError: The file can't be read.
    """
    with unreadable("a damaged .gz file", gzip.BadGzipFile, EOFError, zlib.error), open_bytes(path) as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def _longest_line(block: bytes, before: int) -> int:
    """Return the length of the unfinished line at the end of a block.

    Args:
        before: The length of the unfinished line before the block.

    Raises:
        UnreadableFile: A line is too long.
    """
    first, last = block.find(b"\n"), block.rfind(b"\n")
    longest = before + (len(block) if first < 0 else first)
    if longest > MAX_LINE_BYTES:
        raise UnreadableFile(f"a line has more than {MAX_LINE_BYTES:,} bytes")
    return longest if first < 0 else len(block) - last - 1


def _is_decoded(decoder: codecs.IncrementalDecoder, block: bytes, is_end: bool = False) -> bool:
    with suppress(UnicodeDecodeError):
        decoder.decode(block, is_end)
        return True
    return False


def _marked(content: bytes) -> str:
    """Return the encoding that a byte order mark or four Latin characters in UTF-16 show, or nothing."""
    return next((name for mark, name in _MARKS.items() if re.match(mark, content, re.DOTALL)), "")


def _declared(name: str) -> str:
    """Return the encoding that browsers use for a declared one, or an empty string if it is unknown."""
    with suppress(LookupError, ValueError):
        known = codecs.lookup(name).name
        return _BROADER.get(known, known if _FOR_TEXT.match(known) else "")
    return ""


def _survey(blocks: Iterable[bytes]) -> tuple[bool, bytes]:
    """Return whether content is UTF-8 with few wrong bytes, and a sample of its lines beyond ASCII.

    A character that is cut at the end of the content is not wrong.
    """
    decoder, sample = codecs.getincrementaldecoder("utf-8")("ignore"), bytearray()
    num_characters = num_wrong_bytes = 0
    for block in blocks:
        num_ascii, text = len(block.translate(None, _BYTES_BEYOND_ASCII)), decoder.decode(block)
        num_characters += len(text) - num_ascii
        num_wrong_bytes += len(block) - len(text.encode())
        if len(sample) < _SAMPLE_BYTES:
            sample += b"\n".join([b"", *(line for line in block.split(b"\n") if not line.isascii())])
    num_wrong_bytes -= len(decoder.getstate()[0])
    is_damaged_utf8 = num_characters > 0 and num_characters >= _CHARACTERS_PER_WRONG_BYTE * num_wrong_bytes
    return is_damaged_utf8, bytes(sample[:_SAMPLE_BYTES])


def _recognised(sample: bytes) -> str:
    num_high, num_ascii = sum(byte > 0x7F for byte in sample), len(_LETTER.findall(sample))
    is_scattered = sum(map(len, _RUN.findall(sample))) < 0.4 * num_high
    encoding = _latin(sample) if is_scattered and num_ascii >= num_high else ""
    if not encoding:
        from charset_normalizer import from_bytes

        found = from_bytes(sample, cp_isolation=_ENCODINGS, steps=1, chunk_size=len(sample) or 1)
        matches = [match for match in found if match.encoding in _LATIN or _is_plausible(str(match))]
        is_clear = len(matches) == 1 or num_high >= _MIN_BYTES or (matches and matches[0].coherence)
        if matches and is_clear and matches[0].encoding not in _LATIN:
            encoding = matches[0].encoding
    if not encoding:
        raise UnreadableFile("neither UTF-8 nor another encoding that can be recognised; convert it to UTF-8")
    return encoding


def _is_plausible(text: str) -> bool:
    """Return whether text in another script than Latin has few characters that only a wrong encoding has."""
    text = text[:_MAX_COMPARED]
    num_odd = len(_ODD.findall(text)) + sum(a.islower() and b.isupper() for a, b in pairwise(text))
    return num_odd < 0.1 * sum(not character.isascii() for character in text)


def _latin(sample: bytes) -> str:
    """Return the encoding under which the letters beyond ASCII best fit one language, or an empty string.

    A capital letter or a sign within a word fits none. Windows-1252 is the guess if no letter decides.
    """
    best, best_share = "", 0.5
    for encoding, alphabets in _LATIN_LETTERS.items():
        counts = Counter(_BEYOND_ASCII.findall(sample.decode(encoding, "replace")))
        letters, num_odd = Counter[str](), 0
        for (before, character), number in counts.items():
            is_letter = character.isalpha() and character not in _SIGNS
            if is_letter and not (before.islower() and character.isupper()):
                letters[character.lower()] += number
            elif is_letter or character == "\ufffd" or (before and character not in _SIGNS):
                num_odd += number
        num_judged = letters.total() + num_odd
        if not num_judged and encoding == "cp1252":
            return encoding
        for alphabet in alphabets:
            share = sum(letters[letter] for letter in alphabet) / max(1, num_judged)
            if share > best_share:
                best, best_share = encoding, share
    return best
