"""The readers of web pages, and of HTML inside other documents."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from askance.retrieval.index.formats.content import Rows, TextBuilder, check_size
from askance.retrieval.index.formats.encodings import decoded
from askance.retrieval.index.formats.office_elements import LOWERED, RAISED
from askance.retrieval.index.formats.packages import whole_number

_UNSEEN = {"script", "style", "template", "noscript", "title", "annotation", "annotation-xml"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = _HEADINGS | set(
    "address article aside blockquote body button caption center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form frameset header hgroup hr html legend li listing main menu nav ol "
    "optgroup option p plaintext pre search section summary tbody tfoot thead ul xmp".split()
)
_LINKS, _NAVIGATION, _HIDDEN = 1, 2, 3
"""What is left out of an element: lists of links; all, as it is navigation; all, as nobody sees it."""
_REGIONS = set("aside div dl footer form header nav ol section table ul".split())
_NAVIGATION_ROLES = {"menu", "menubar", "navigation", "search", "toolbar"}
_COOKIE_BANNER = re.compile(
    r"(?:cookie|gdpr|privacy).{0,3}(?:banner|bar\b|box|consent|dialog|modal|notice|overlay|popup)|cookiebot|onetrust",
    re.IGNORECASE,
)
_LINK_LIST = re.compile(
    r"nav|menu|breadcrumb|sidebar|pagination|pager|masthead|share|social|skip|toolbar|(?<!\S)(?:header|footer)(?!\S)",
    re.IGNORECASE,
)
"""Names that authors give to regions in which the links lead elsewhere."""
_LINK_SHARE = 0.8
"""The share of a block's letters in links above which it is a list of links."""
_PERMALINKS = ("¶", "#", "§")
"""The text of links from a heading to itself."""
_AUTHOR = {"author", "dc.creator", "dcterms.creator", "article:author"}
_SCRIPTS = {"sup": RAISED, "sub": LOWERED}
MAX_SPAN = 1_000
"""How many columns or rows a cell can span, as in browsers."""
MAX_REPEATED_CELL = 1_000
"""The longest cell that is repeated, in characters."""
MAX_REPEATED_CHARACTERS = 1_000_000
"""The text of the rows with repeated cells in a page; in further rows none is repeated."""
_NO_LETTER = re.compile(r"[\W_]+")
_SPACE = re.compile(r"\s+")
_DECLARED = re.compile(rb"""(?:charset\s*=\s*|<\?xml[^>]*encoding\s*=\s*)["']?\s*([-\w:]+)""", re.IGNORECASE)
_HEAD_BYTES = 4096
_NO_ELEMENT = re.compile(
    r"<(script|style)\b(?![^<>]*/>).*?(?:</\1\b[^<>]*>?|\Z)|<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?][^>]*(?:>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
"""Scripts, style sheets, comments and declarations; what does not end reaches to the end of the page."""
_TAG_START = re.compile(r"<[a-zA-Z/]")


def read_html(path: Path) -> Rows:
    """Yield the page as one row, with its title and visible text, and its headings as sections.

    Navigation, cookie banners, and lists of links in headers, footers and the like are left out, unless the
    page has nothing else or they never end. Superscripts are characters: "10⁵".

    Raises:
        UnreadableFile: The page is too large, or in an encoding that can't be recognised.
    """
    check_size(path.stat().st_size)
    page = decoded_page(path.read_bytes())
    parser = _parsed(page, TextBuilder(), leaves_out_navigation=True)
    row = parser.text.document(parser.title, parser.author)
    if parser.kind == _NAVIGATION or not row.text:
        parser = _parsed(page, TextBuilder())
        row = parser.text.document(parser.title, parser.author)
    yield row


def decoded_page(content: bytes, declared: str = "") -> str:
    """Return a page as text, in UTF-8 or in the encoding that is declared or recognised.

    Args:
        declared: The encoding that the message declares in which the page was sent.
    """
    found = _DECLARED.search(content[:_HEAD_BYTES])
    return decoded(content, declared or (found[1].decode("ascii") if found else ""))


def add_page(text: TextBuilder, page: str) -> None:
    """Append the visible text of a page, with its navigation, to a document."""
    _parsed(page, text)


def _parsed(page: str, text: TextBuilder, *, leaves_out_navigation: bool = False) -> "_Visible":
    """Return the parser after it has read a page and appended its visible text to a document.

    `HTMLParser` looks for the end of each comment and tag in the whole rest of the page, so the page is given
    to it without comments, and with an end of its last tag.
    """
    parser = _Visible(text, leaves_out_navigation)
    page = _NO_ELEMENT.sub("", page)
    has_open_tag = _TAG_START.search(page, page.rfind(">") + 1)
    parser.feed(page + ">" if has_open_tag else page)
    parser.close()
    parser.end_block()
    return parser


@dataclass(slots=True)
class _Region:
    """An open element whose content is left out, as a whole or in part.

    Attributes:
        kind: What is left out: `_LINKS`, `_NAVIGATION` or `_HIDDEN`.
        num_open: The number of open elements of the same name that it has, including itself.
    """

    tag: str
    kind: int
    num_open: int = 1


@dataclass(slots=True)
class _Table:
    """An open table.

    Attributes:
        cells: The cells of its row so far, with the numbers of columns and rows that they span.
        below: The cells that reach into the next row, by column, with the number of rows left.
    """

    cells: list[tuple[str, int, int]] = field(default_factory=list)
    below: dict[int, tuple[str, int]] = field(default_factory=dict)


class _Visible(HTMLParser):
    """A parser that collects the visible text of a page."""

    def __init__(self, text: TextBuilder, leaves_out_navigation: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.text = text
        self.author = ""
        self._leaves_out_navigation = leaves_out_navigation
        self._shared_title, self._title_pieces = "", list[str]()
        self._pieces, self._links = list[str](), list[str]()
        self._regions = list[_Region]()
        self._tables, self._spans = [_Table()], (1, 1)
        self._is_cell = self._is_heading = self._is_title = self._is_pre = self._is_link = False
        self._script = dict[int, int]()
        self._num_repeated = 0

    @property
    def title(self) -> str:
        """The title for other sites, or else the first title that is not empty."""
        return self._shared_title or "".join(self._title_pieces)

    @property
    def kind(self) -> int:
        """The kind of the region in which the page so far ends; 0 outside of all regions."""
        return self._regions[-1].kind if self._regions else 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in _UNSEEN:
            self._is_title = tag == "title" and not self._title_pieces
        elif tag == "body":
            self._regions.clear()  # an unclosed title ends here
        elif tag == "meta":
            self._add_metadata(given)
        elif tag == "br":
            self._pieces.append("\n")
        elif tag == "a":
            self._is_link = given.get("href", "mailto:").partition(":")[0] not in ("mailto", "tel")
        elif tag in _SCRIPTS:
            self._script = _SCRIPTS[tag]
        elif tag in ("td", "th"):
            self._end_cell()
            self._spans, self._is_cell = (_span(given, "colspan"), _span(given, "rowspan")), True
        elif tag == "tr":
            self._end_row()
        elif tag == "table":
            self._end_row() if len(self._tables) > 1 else self.end_block()
            self._tables.append(_Table())
        elif tag in _BLOCKS or "-" in tag:
            self._block_starts()
            self._is_heading, self._is_pre = tag in _HEADINGS, tag == "pre"
        self._open_region(tag, given)

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._is_title = False
        elif tag == "a":
            self._is_link = False
        elif tag in _SCRIPTS:
            self._script = {}
        elif tag in ("td", "th"):
            self._end_cell()
        elif tag == "tr":
            self._end_row()
        elif tag == "table" and len(self._tables) > 1:
            self._end_row()
            self._tables.pop()
        elif tag in _BLOCKS or "-" in tag:
            self._block_starts()
            self._is_heading = self._is_pre = False
        self._close_region(tag)

    def handle_data(self, data: str) -> None:
        if self._is_title:
            self._title_pieces.append(data)
        elif self.kind < _NAVIGATION and not (self._is_link and data in _PERMALINKS):
            if self._script.keys() >= set(map(ord, data)):
                data = data.translate(self._script)
            self._pieces.append(data if self._is_pre else _SPACE.sub(" ", data))
            if self._is_link:
                self._links.append(data)

    def end_block(self) -> None:
        """Append the block so far to the text."""
        lines, self._pieces = "".join(self._pieces).split("\n"), []
        text = "\n".join(line.rstrip() if self._is_pre else line.strip(" \t") for line in lines)
        if self._is_heading or not self._is_list_of_links(text):
            self.text.block(text, is_heading=self._is_heading)

    def _add_metadata(self, given: Mapping[str, str]) -> None:
        name, content = (given.get("name") or given.get("property", "")).lower(), given.get("content", "")
        if name == "og:title":
            self._shared_title = content
        elif name in _AUTHOR and "://" not in content:
            self.author = self.author or content

    def _open_region(self, tag: str, given: Mapping[str, str]) -> None:
        for region in self._regions:
            region.num_open += region.tag == tag and tag not in _UNSEEN
        kind = _HIDDEN if tag in _UNSEEN else 0
        if self._leaves_out_navigation and tag in _REGIONS:
            names, role = f"{given.get('id')} {given.get('class')}", given.get("role", "").lower()
            if tag == "nav" or role in _NAVIGATION_ROLES or _COOKIE_BANNER.search(names):
                kind = _NAVIGATION
            elif tag in ("header", "footer", "aside") or _LINK_LIST.search(names):
                kind = _LINKS
        if kind > self.kind:
            self._regions.append(_Region(tag, kind))

    def _close_region(self, tag: str) -> None:
        for number, region in enumerate(self._regions):
            region.num_open -= region.tag == tag
            if not region.num_open:
                del self._regions[number:]
                return

    def _is_list_of_links(self, text: str) -> bool:
        """Return whether a block has hardly more than links, where such blocks are left out."""
        links, self._links = "".join(self._links), []
        if self.kind != _LINKS:
            return False
        return len(_NO_LETTER.sub("", links)) > _LINK_SHARE * len(_NO_LETTER.sub("", text))

    def _block_starts(self) -> None:
        if len(self._tables) > 1:
            self._pieces.append(" ")
        else:
            self.end_block()

    def _end_cell(self) -> None:
        """Append the open cell, or the text outside of all cells as one."""
        cell, self._pieces = " ".join("".join(self._pieces).split()), []
        if self._is_cell or cell:
            self._tables[-1].cells.append((cell, *self._spans))
        self._spans, self._is_cell = (1, 1), False

    def _end_row(self) -> None:
        """Append a row, in which a cell is repeated for each column and row that it spans."""
        self._end_cell()
        table, row, below = self._tables[-1], list[str](), dict[int, tuple[str, int]]()
        if not table.cells:
            return

        def add(cell: str, num_rows: int) -> None:
            if num_rows > 1:
                below[len(row)] = cell, num_rows - 1
            row.append(cell)

        is_alone = len(table.cells) == 1 and not table.below
        for cell, num_columns, num_rows in table.cells:
            while len(row) in table.below:
                add(*table.below.pop(len(row)))
            can_repeat = len(cell) <= MAX_REPEATED_CELL and self._num_repeated < MAX_REPEATED_CHARACTERS
            is_repeated = can_repeat and not is_alone and len(row) < MAX_SPAN
            for _ in range(num_columns if is_repeated else 1):
                add(cell, num_rows if can_repeat else 1)
        for column, (cell, num_rows) in sorted(table.below.items()):
            row += [""] * (column - len(row))
            add(cell, num_rows)
        if len(row) > len(table.cells):
            self._num_repeated += len(row) + sum(map(len, row))
        can_repeat = self._num_repeated < MAX_REPEATED_CHARACTERS
        table.cells, table.below = [], below if can_repeat else {}
        if not self._is_list_of_links(" ".join(row)):
            self.text.row(row)


def _span(given: Mapping[str, str], name: str) -> int:
    return max(1, min(MAX_SPAN, whole_number(given.get(name), 1)))
