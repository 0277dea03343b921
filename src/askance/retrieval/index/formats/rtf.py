"""The reader of Rich Text Format."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from askance.core.safe_text import whole_characters
from askance.retrieval.index.formats.content import Rows, TextBuilder, UnreadableFile, check_size

MAX_GROUPS = 5_000
"""The deepest nesting of groups."""
_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+|([^\\{}\r\n]+)"
)
_LEFT_OUT = set(
    b"fonttbl colortbl stylesheet info pict objdata header headerl headerr headerf footer footerl footerr "
    b"footerf fldinst themedata datastore listtable listoverridetable rsidtbl generator xmlnstbl filetbl "
    b"revtbl shprslt upr xe tc".split()
)
_SEEN = set(b"shptxt dptxbxtext footnote fldrslt moMath moMathPara".split())
"""What a person sees although it may stand in a group that older programs skip."""
_ASIDE = set(b"shptxt dptxbxtext footnote".split())
"""Text boxes and notes, which are paragraphs of their own after the paragraph in which they are."""
_PROPERTIES_OF_MATH = re.compile(rb"m[a-zA-Z]+Pr")
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
    reader, position = _Reader(), 0
    while token := _TOKEN.search(content, position):
        reader.process(token)
        num_raw_bytes = int(token[2] or 0) if token[1] == b"bin" else 0
        position = token.end() + max(0, num_raw_bytes)
    reader.end()
    title, author = (whole_characters("".join(reader.info[name])) for name in (b"title", b"author"))
    yield reader.text.document(title, author)


@dataclass(slots=True)
class _Group:
    """The settings of a group, which end with it.

    Attributes:
        destination: The control word that says what the text of the group is; empty for text of the document.
        num_alternatives: The number of characters that stand for a Unicode character after it.
        style: The style of the paragraph.
        is_aside: True for a text box or a note, but not for the groups in it.
    """

    destination: bytes = b""
    font: int = 0
    num_alternatives: int = 1
    style: int = 0
    is_heading: bool = False
    is_table: bool = False
    is_aside: bool = False


class _Reader:
    """The state of reading: the text, the open groups, and the innermost of these."""

    def __init__(self) -> None:
        self.text = TextBuilder()
        self.info: dict[bytes, list[str]] = {b"title": [], b"author": []}
        self._group, self._open_groups = _Group(), list[_Group]()
        self._encoding, self._fonts, self._headings = "cp1252", dict[int, str](), set[int]()
        self._bytes, self._pieces, self._cells = bytearray(), list[str](), list[str]()
        self._outer, self._asides = list[list[str]](), list[str]()
        self._to_skip = 0

    def process(self, token: re.Match[bytes]) -> None:
        """Process one token."""
        word, number, hexadecimal, symbol, brace, text = token.groups()
        if brace:
            self._flush()
            self._to_skip = 0
        if brace == b"{":
            if len(self._open_groups) == MAX_GROUPS:
                raise UnreadableFile(f"more than {MAX_GROUPS:,} groups are nested")
            self._open_groups.append(self._group)
            self._group = replace(self._group, is_aside=False)
        elif brace:
            if self._group.is_aside:
                self._end_aside()
            self._group = self._open_groups.pop() if self._open_groups else self._group
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
            self._group.destination = self._group.destination or b"*"
        elif word or symbol in (b"\n", b"\r"):  # a line end after a backslash ends a paragraph
            self._control(word or b"par", int(number) if number else None)

    def end(self) -> None:
        """End the document, and all that is open in it."""
        while self._outer:
            self._end_aside()
        self._end_paragraph()

    def _end_paragraph(self) -> None:
        paragraph = self._taken()
        if self._outer:
            self._asides.append(paragraph)
        else:
            is_heading = self._group.is_heading or self._group.style in self._headings
            self.text.block(paragraph, is_heading=is_heading)
            self._append_asides()

    def _end_aside(self) -> None:
        self._asides.append(self._taken())
        self._pieces = self._outer.pop()

    def _append_asides(self) -> None:
        for aside in self._asides:
            self.text.paragraph(aside)
        self._asides.clear()

    def _taken(self) -> str:
        """Return the text of the paragraph or cell so far, and begin the next one."""
        self._flush()
        pieces, self._pieces = self._pieces, []
        return whole_characters("".join(pieces))

    def _control(self, word: bytes, number: int | None) -> None:
        value, group = number or 0, self._group
        if word in _LEFT_OUT or _PROPERTIES_OF_MATH.fullmatch(word):
            group.destination = word
        elif word in _SEEN and group.destination in (b"", b"*"):
            group.destination = b""
            if word in _ASIDE:
                self._flush()
                self._outer.append(self._pieces)
                self._pieces, group.is_aside = [], True
        elif word == b"ud" and len(self._open_groups) > 1:  # the form of a group in Unicode, after \upr
            group.destination = self._open_groups[-2].destination
        elif group.destination == b"info" and self.info.get(word) == []:
            group.destination = word
        elif word == b"f":
            self._flush()
            group.font = value
        elif word == b"fcharset":
            self._fonts[group.font] = _CHARSETS.get(value, "")
        elif word == b"ansicpg":
            self._encoding = f"cp{value}"
        elif word == b"mac":
            self._encoding = "mac_roman"
        elif word == b"uc":
            group.num_alternatives = value
        elif word == b"u":
            self._add(chr(value % 0x10000))
            self._to_skip = group.num_alternatives
        elif word == b"s" and group.destination in (b"", b"stylesheet"):
            group.style = value
        elif group.destination:
            return
        elif word == b"pard":
            group.style, group.is_heading, group.is_table = 0, False, False
        elif word == b"outlinelevel":
            group.is_heading = value < 9
        elif word == b"intbl":
            group.is_table = True
        elif word in (b"cell", b"nestcell"):
            self._cells.append(self._taken())
        elif word == b"row":
            self.text.row(self._cells)
            self._cells = []
            self._append_asides()
        elif word in (b"par", b"sect", b"page"):
            if group.is_table:
                self._add(" ")
            else:
                self._end_paragraph()

    def _add_bytes(self, content: bytes) -> None:
        skipped = min(self._to_skip, len(content))
        self._to_skip -= skipped
        self._bytes += content[skipped:]

    def _add(self, text: str) -> None:
        self._flush()
        self._add_text(text)

    def _flush(self) -> None:
        """Decode the bytes so far with the encoding of their font."""
        if not self._bytes:
            return
        content, self._bytes = bytes(self._bytes), bytearray()
        try:
            text = content.decode(self._fonts.get(self._group.font) or self._encoding, "replace")
        except LookupError:
            text = content.decode("cp1252", "replace")
        self._add_text(text)

    def _add_text(self, text: str) -> None:
        destination = self._group.destination
        if not destination:
            self._pieces.append(text)
        elif destination in self.info:
            self.info[destination].append(text)
        elif destination == b"stylesheet" and text.lower().startswith("heading "):
            self._headings.add(self._group.style)
