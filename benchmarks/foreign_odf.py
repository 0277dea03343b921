"""Flat OpenDocument files: the sources that LibreOffice opens and converts."""

from collections.abc import Iterable

from benchmarks.foreign_content import AUTHOR, HEADER, PRICES, Content, Handbook

_NAMESPACES = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in (
        ("office", "office"), ("text", "text"), ("table", "table"), ("style", "style"), ("draw", "drawing"),
        ("fo", "xsl-fo-compatible"), ("svg", "svg-compatible"), ("meta", "meta"),
        ("presentation", "presentation"), ("number", "datastyle"), ("of", "of"),
    )
)  # fmt: skip


def _document(kind: str, title: str, styles: str, body: str) -> str:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document {_NAMESPACES} office:version="1.2" '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/" '
        f'office:mimetype="application/vnd.oasis.opendocument.{kind}">'
        f"<office:meta><dc:title>{title}</dc:title><meta:initial-creator>{AUTHOR}</meta:initial-creator>"
        f"<dc:creator>{AUTHOR}</dc:creator></office:meta>{styles}<office:body><office:{kind}>{body}"
        f"</office:{kind}></office:body></office:document>"
    )


def _paragraph(text: str) -> str:
    return f"<text:p>{text}</text:p>"


def _row(cells: Iterable[str]) -> str:
    return f"<table:table-row>{''.join(cells)}</table:table-row>"


def _table(rows: Iterable[Iterable[str]]) -> str:
    cells = ((f"<table:table-cell>{_paragraph(cell)}</table:table-cell>" for cell in row) for row in rows)
    columns = '<table:table-column table:number-columns-repeated="2"/>'
    return f"<table:table>{columns}{''.join(map(_row, cells))}</table:table>"


def flat_text(book: Handbook) -> str:
    """Return a text of two pages."""
    heading = '<text:h text:style-name="{}" text:outline-level="1">{}</text:h>'
    body = (
        heading.format("Heading_20_1", book.payload)
        + _paragraph(book.body)
        + f"<text:list><text:list-item>{_paragraph(book.item)}</text:list-item></text:list>"
        + _table(book.table)
        + heading.format("NewPage", book.range)
        + f'<text:p>{book.last}.<text:note text:note-class="footnote"><text:note-citation>1'
        f"</text:note-citation><text:note-body>{_paragraph(book.note)}</text:note-body></text:note></text:p>"
    )
    styles = (
        '<office:styles><style:style style:name="Heading_20_1" style:display-name="Heading 1" '
        'style:family="paragraph" style:default-outline-level="1"/></office:styles><office:automatic-styles>'
        '<style:style style:name="NewPage" style:family="paragraph" style:parent-style-name="Heading_20_1">'
        '<style:paragraph-properties fo:break-before="page"/></style:style></office:automatic-styles>'
    )
    return _document("text", book.title, styles, body)


def flat_spreadsheet(content: Content, has_sheets: bool) -> str:
    """Return a workbook of one or two sheets, with a formula and a date."""

    def text(cell: str) -> str:
        return f'<table:table-cell office:value-type="string">{_paragraph(cell)}</table:table-cell>'

    def number(value: float) -> str:
        return (
            f'<table:table-cell table:formula="of:={value}*1" office:value-type="float" '
            f'office:value="{value}">{_paragraph(str(value))}</table:table-cell>'
        )

    models = content.table(sheet="Models", author=AUTHOR) if has_sheets else content.table()
    rows = _row(map(text, HEADER)) + "".join(
        _row((text(name), number(load), text(remark))) for name, load, remark in models
    )
    sheets = f'<table:table table:name="Models">{rows}</table:table>'
    if has_sheets:
        article, price, since = content.prices(content.title, AUTHOR)
        date = (
            f'<table:table-cell table:style-name="Date" office:value-type="date" office:date-value="{since}">'
            f"{_paragraph(since)}</table:table-cell>"
        )
        row = _row((text(article), number(price), date))
        sheets += f'<table:table table:name="Prices">{_row(map(text, PRICES))}{row}</table:table>'
    styles = (
        '<office:automatic-styles><number:date-style style:name="D"><number:year number:style="long"/>'
        '<number:text>-</number:text><number:month number:style="long"/><number:text>-</number:text>'
        '<number:day number:style="long"/></number:date-style><style:style style:name="Date" '
        'style:family="table-cell" style:data-style-name="D"/></office:automatic-styles>'
    )
    return _document("spreadsheet", content.title, styles, sheets)


def flat_presentation(content: Content) -> str:
    """Return a presentation of two slides, the first with a table, the second with notes."""
    book = content.handbook(pages=("p. 1", "p. 2"))
    place = 'svg:width="20cm" svg:height="4cm" svg:x="2cm" svg:y="{}cm"'

    def box(kind: str, y: int, *texts: str) -> str:
        return (
            f'<draw:frame presentation:style-name="pr1" presentation:class="{kind}" {place.format(y)}>'
            f"<draw:text-box>{''.join(map(_paragraph, texts))}</draw:text-box></draw:frame>"
        )

    table = f"<draw:frame {place.format(12)}>{_table(book.table)}</draw:frame>"
    notes = f"<presentation:notes>{box('notes', 12, book.note)}</presentation:notes>"
    master = 'draw:master-page-name="Plain"'
    body = (
        f'<draw:page draw:name="one" {master}>{box("title", 1, book.payload)}'
        f"{box('outline', 6, book.body, book.item)}{table}</draw:page>"
        f'<draw:page draw:name="two" {master}>{box("title", 1, book.range)}'
        f"{box('outline', 6, book.last)}{notes}</draw:page>"
    )
    styles = (
        '<office:styles><style:style style:name="Plain-title" style:family="presentation"/></office:styles>'
        '<office:automatic-styles><style:page-layout style:name="PM"/><style:style style:name="pr1" '
        'style:family="presentation" style:parent-style-name="Plain-title"/></office:automatic-styles>'
        '<office:master-styles><style:master-page style:name="Plain" style:page-layout-name="PM"/>'
        "</office:master-styles>"
    )
    return _document("presentation", book.title, styles, body)
