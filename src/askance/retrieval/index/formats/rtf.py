"""The reader of Rich Text Format."""

import re
from pathlib import Path

from askance.retrieval.index.formats.content import Rows, TextBuilder, UnreadableFile, check_size

MAX_GROUPS = 5_000
"""The deepest nesting of groups."""
_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+|([^\\{}\r\n]+)"
)
_LEFT_OUT = set(
    b"fonttbl colortbl stylesheet info pict object header headerl headerr headerf footer footerl footerr "
    b"footerf fldinst themedata datastore listtable listoverridetable rsidtbl generator xmlnstbl filetbl "
    b"revtbl".split()
)
_CHARACTERS = {
    b"tab": "\t", b"line": "\n", b"emdash": "—", b"endash": "–", b"lquote": "‘", b"rquote": "’",
    b"ldblquote": "“", b"rdblquote": "”", b"bullet": "•", b"emspace": " ", b"enspace": " ", b"~": "\u00a0",
    b"_": "-", b"\\": "\\", b"{": "{", b"}": "}",
}  # fmt: skip
_CHARSETS = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gb18030", 136: "big5", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250",
}  # fmt: skip
"""The encodings of the character sets that fonts have (specification 1.9.1, "fcharset")."""


def read_rtf(path: Path) -> Rows:
    """Yield the file as one row, with its headings as sections.

    Raises:
        UnreadableFile: The file is no RTF, or too large.
    """
    check_size(path.stat().st_size)
    content = path.read_bytes()
    if not content.lstrip().startswith(b"{\\rtf"):
        raise UnreadableFile("damaged, or no RTF")
    reader = _Reader()
    for token in _TOKEN.finditer(content):
        reader.process(token)
    reader.end_paragraph()
    title, author = ("".join(reader.info[name]) for name in (b"title", b"author"))
    yield reader.text.document(title, author)


class _Reader:
    """The state of reading: the text, and what holds in each open group.

    A group is (destination, font, number of characters that stand for a Unicode character, style of the
    paragraph, whether it is a heading, whether it is in a table).
    """

    def __init__(self) -> None:
        self.text = TextBuilder()
        self.info: dict[bytes, list[str]] = {b"title": [], b"author": []}
        self._groups: list[tuple[bytes, int, int, int, bool, bool]] = []
        self._destination, self._font, self._num_alternatives = b"", 0, 1
        self._encoding, self._fonts, self._headings = "cp1252", dict[int, str](), set[int]()
        self._style = 0
        self._bytes, self._pieces, self._cells = bytearray(), list[str](), list[str]()
        self._to_skip, self._is_heading, self._is_table = 0, False, False

    def process(self, token: re.Match[bytes]) -> None:
        """Process one token."""
        word, number, hexadecimal, symbol, brace, text = token.groups()
        if brace:
            self._flush()
        if brace == b"{":
            if len(self._groups) == MAX_GROUPS:
                raise UnreadableFile(f"more than {MAX_GROUPS:,} groups are nested")
            paragraph = self._style, self._is_heading, self._is_table
            self._groups.append((self._destination, self._font, self._num_alternatives, *paragraph))
            self._to_skip = 0
        elif brace:
            if self._groups:
                group = self._groups.pop()
                self._destination, self._font, self._num_alternatives = group[:3]
                self._style, self._is_heading, self._is_table = group[3:]
            self._to_skip = 0
        elif hexadecimal:
            self._add_bytes(bytes([int(hexadecimal, 16)]))
        elif text:
            self._add_bytes(text)
        elif (word or symbol) in _CHARACTERS:
            if self._to_skip:  # the alternative of a Unicode character, which may be a control word
                self._to_skip -= 1
            else:
                self._add(_CHARACTERS[word or symbol])
        elif symbol == b"*":
            self._destination = self._destination or b"*"
        elif word or symbol in (b"\n", b"\r"):  # a line end after a backslash ends a paragraph
            self._control(word or b"par", int(number) if number else None)

    def end_paragraph(self) -> None:
        """End a paragraph or a row."""
        self._flush()
        paragraph, self._pieces = "".join(self._pieces), []
        if self._is_heading or self._style in self._headings:
            self.text.heading(paragraph)
        else:
            self.text.paragraph(paragraph)

    def _control(self, word: bytes, number: int | None) -> None:
        value = number or 0
        if word in _LEFT_OUT:
            self._destination = word
        elif word == b"footnote" and self._destination == b"*":
            self._destination = b""
            self._add(" ")
        elif self._destination == b"info" and self.info.get(word) == []:
            self._destination = word
        elif word == b"f":
            self._flush()
            self._font = value
        elif word == b"fcharset":
            self._fonts[self._font] = _CHARSETS.get(value, "")
        elif word == b"ansicpg":
            self._encoding = f"cp{value}"
        elif word == b"mac":
            self._encoding = "mac_roman"
        elif word == b"uc":
            self._num_alternatives = value
        elif word == b"u":
            self._add(chr(value % 0x10000))
            self._to_skip = self._num_alternatives
        elif word == b"s" and self._destination in (b"", b"stylesheet"):
            self._style = value
        elif self._destination:
            return
        elif word == b"pard":
            self._style, self._is_heading, self._is_table = 0, False, False
        elif word == b"outlinelevel":
            self._is_heading = value < 9
        elif word == b"intbl":
            self._is_table = True
        elif word in (b"cell", b"nestcell"):
            self._flush()
            self._cells.append("".join(self._pieces))
            self._pieces = []
        elif word == b"row":
            self.text.row(self._cells)
            self._cells = []
        elif word in (b"par", b"sect", b"page"):
            if self._is_table:
                self._add(" ")
            else:
                self.end_paragraph()

    def _add_bytes(self, content: bytes) -> None:
        skipped = min(self._to_skip, len(content))
        self._to_skip -= skipped
        self._bytes += content[skipped:]

    def _add(self, text: str) -> None:
        self._flush()
        if not self._destination:
            self._pieces.append(text)
        elif self._destination in self.info:
            self.info[self._destination].append(text)

    def _flush(self) -> None:
        """Decode the bytes so far with the encoding of their font."""
        if not self._bytes:
            return
        content, self._bytes = bytes(self._bytes), bytearray()
        try:
            text = content.decode(self._fonts.get(self._font) or self._encoding, "replace")
        except LookupError:
            text = content.decode("cp1252", "replace")
        if not self._destination:
            self._pieces.append(text)
        elif self._destination in self.info:
            self.info[self._destination].append(text)
        elif self._destination == b"stylesheet" and text.lower().startswith("heading "):
            self._headings.add(self._style)
