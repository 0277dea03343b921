"""Text files in any common encoding, checked before they are read."""

import codecs
import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from askance.retrieval.index.formats.content import UnreadableFile

GZIPPED = ".gz"
MAX_LINE_BYTES = 16_000_000
"""The longest line, so that a file of rows can be read in bounded memory."""
MAX_UNPACKED_RATIO = 250
"""The greatest ratio of unpacked to packed bytes of a .gz file; texts are packed at a ratio below 20."""
MAX_UNCHECKED_BYTES = 64_000_000
"""A .gz file that unpacks to no more than this may have any ratio."""
_BLOCK_BYTES = 1 << 20
_SAMPLE_BYTES = 1 << 16
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_ENCODINGS = (
    "cp1252 iso8859_15 mac_roman cp1250 iso8859_2 cp1251 koi8_r iso8859_5 cp1253 cp1254 cp1255 cp1256 "
    "cp932 euc_jp iso2022_jp gb18030 big5 cp949"
).split()
_LATIN = ("", "cp1250", "cp1252", "iso8859_2", "iso8859_15")
_TWO_BYTES = ("cp932", "euc_jp", "gb18030", "big5", "cp949")
_RUN = re.compile(rb"[\x80-\xff]{2,}")
"""Bytes beyond ASCII in a row. Letters of two bytes stand in runs; accented Latin letters stand alone."""
_LATIN_LETTERS = (
    ("cp1252", "äöüß", "àâæçèéêëîïôœùûüÿ", "áéíñóúü", "àèéìíîòóùú", "àáâãçéêíóôõúü", "åäöæøé", "áéëíïóöúü",
     "áðéíóúýþæö"),
    ("cp1250", "ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîşţ"),
    ("iso8859_2", "ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áéíóöőúüű", "čćđšž"),
)  # fmt: skip
"""The letters beyond ASCII of languages, by encoding, the most common first: German, French, Spanish,
Italian, Portuguese, Nordic, Dutch, Icelandic; Polish, Czech, Slovak, Hungarian, Croatian, Romanian."""


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, and unpack it on the way if its name ends in .gz."""
    return gzip.open(path, "rb") if path.suffix.lower() == GZIPPED else path.open("rb")  # type: ignore[return-value]


def checked_encoding(path: Path) -> str:
    """Return the encoding of a text file, which is read once for this, in bounded memory.

    A byte order mark decides. A file without one that is valid UTF-8 is UTF-8. For all others,
    charset-normalizer compares common encodings. Between encodings of Latin letters, which it often
    confuses, the letters of the languages decide.

    Raises:
        UnreadableFile: The file is binary, has a line that is too long, unpacks to far more bytes than it
            has, or its encoding can't be recognised.
        OSError: The file can't be read.
    """
    packed_bytes, num_bytes, line_bytes = path.stat().st_size, 0, 0
    encoding, decoder, sample = "", codecs.getincrementaldecoder("utf-8")(), bytearray()
    for block in blocks_of(path):
        if num_bytes == 0:
            encoding = next((name for mark, name in _MARKS.items() if block.startswith(mark)), "")
        if encoding in ("", "utf-8-sig") and b"\0" in block:
            raise UnreadableFile(f"binary, not text (byte {num_bytes + block.index(0)} is NUL)")
        num_bytes += len(block)
        if num_bytes > max(MAX_UNCHECKED_BYTES, MAX_UNPACKED_RATIO * packed_bytes):
            raise UnreadableFile(f"unpacks to more than {MAX_UNPACKED_RATIO} times its size")
        line_bytes = _longest_line(block, line_bytes)
        if not encoding.startswith("utf"):
            try:
                if not sample:
                    decoder.decode(block)
            except UnicodeDecodeError:
                sample += b"\n"
            if sample and len(sample) < _SAMPLE_BYTES:
                sample += b"\n".join(line for line in block.split(b"\n") if not line.isascii())
    if encoding or not (sample or _is_cut(decoder)):
        return encoding or "utf-8-sig"
    if not sample:  # only the last character of the file is incomplete
        with open_bytes(path) as file:
            sample += file.read(_SAMPLE_BYTES)
    return _recognised(bytes(sample[:_SAMPLE_BYTES]), path)


def decoded(content: bytes, declared: str = "") -> str:
    """Return text without its byte order mark, with its line endings as they are.

    Args:
        declared: The encoding that the content itself declares, which is used unless the content is UTF-8.

    Raises:
        UnreadableFile: The encoding can't be recognised.
    """
    marked = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")
    for encoding in filter(None, (marked, declared)):
        try:
            return content.decode(encoding).removeprefix("\ufeff")
        except (ValueError, LookupError):  # not a UnicodeDecodeError of each encoding that can be declared
            continue
    sample = b"\n".join(line for line in content.split(b"\n") if not line.isascii())[:_SAMPLE_BYTES]
    return content.decode(_recognised(sample), "replace")


def blocks_of(path: Path) -> Iterator[bytes]:
    """Yield the content of a file, which is unpacked on the way if its name ends in .gz.

    Raises:
        UnreadableFile: The file is a damaged .gz file.
        OSError: The file can't be read.
    """
    try:
        with open_bytes(path) as file:
            while block := file.read(_BLOCK_BYTES):
                yield block
    except Exception as error:  # EOFError, zlib.error, or BadGzipFile, which has no number
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UnreadableFile(f"a damaged .gz file ({error})") from error


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


def _is_cut(decoder: codecs.IncrementalDecoder) -> bool:
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return True
    return False


def _recognised(sample: bytes, path: Path | None = None) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_isolation=_ENCODINGS, steps=1, chunk_size=len(sample) or 1).best()
    encoding = "" if best is None else best.encoding
    high_bytes = sum(byte > 0x7F for byte in sample)
    is_scattered = sum(map(len, _RUN.findall(sample))) < 0.4 * high_bytes
    if encoding in _LATIN or (encoding in _TWO_BYTES and is_scattered):
        encoding = _latin(sample)
    if not encoding:
        raise UnreadableFile("neither UTF-8 nor another encoding that can be recognised; convert it to UTF-8")
    return encoding


def _latin(sample: bytes) -> str:
    """Return the encoding under which the letters beyond ASCII best fit one language, or an empty string."""
    best, best_share = "", 0.5
    for encoding, *alphabets in _LATIN_LETTERS:
        letters = re.findall(r"[^\W\d_\x00-\x7f]|[\x80-\x9f]", sample.decode(encoding, "replace").lower())
        for alphabet in alphabets:
            share = sum(letter in alphabet for letter in letters) / (len(letters) or 1)
            if share > best_share:
                best, best_share = encoding, share
    return best
