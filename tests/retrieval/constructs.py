"""Single constructs of documents, each with the text that has to be read, and what is no text.

A construct is the inside of a body. `CONSTRUCTS` has, by format, the name of the construct, its source, the
pieces of text that have to be found in this order, and pieces that must not be found.
"""

from collections.abc import Iterator

from tests.retrieval.hostile import archive

_WORD_SPACES = " ".join(
    f'xmlns:{name}="http://schemas.openxmlformats.org/{space}"'
    for name, space in {
        "w": "wordprocessingml/2006/main",
        "r": "officeDocument/2006/relationships",
        "m": "officeDocument/2006/math",
        "a": "drawingml/2006/main",
        "wp": "drawingml/2006/wordprocessingDrawing",
        "mc": "markup-compatibility/2006",
    }.items()
) + (
    ' xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
    'xmlns:v="urn:schemas-microsoft-com:vml"'
)
_ODF_SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text", "table")
) + (
    ' xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" '
    'xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"'
)
Construct = tuple[str, str, tuple[str, ...], tuple[str, ...]]


def _run(text: str) -> str:
    return f"<w:r><w:t>{text}</w:t></w:r>"


def _paragraph(inside: str) -> str:
    return f"<w:p>{inside}</w:p>"


def _box(text: str) -> str:
    return f"<wps:txbx><w:txbxContent>{_paragraph(_run(text))}</w:txbxContent></wps:txbx>"


def _shape(text: str) -> str:
    body = f"<p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody>"
    return f"<p:sp><p:nvSpPr><p:nvPr/></p:nvSpPr>{body}</p:sp>"


DOCX: list[Construct] = [
    ("runs of one word", _paragraph(_run("quok") + _run("ka")), ("quokka",), ()),
    ("a tab", _paragraph(_run("quokka") + "<w:r><w:tab/></w:r>" + _run("wombat")), ("quokka\twombat",), ()),
    ("a line break", _paragraph(_run("quokka") + "<w:r><w:br/></w:r>" + _run("b")), ("quokka\nb",), ()),
    (
        "a hyphen that does not break",
        _paragraph(_run("well") + "<w:r><w:noBreakHyphen/></w:r>" + _run("known")),
        ("well-known",),
        (),
    ),
    ("a link", _paragraph(f"<w:hyperlink>{_run('quokka')}</w:hyperlink>"), ("quokka",), ()),
    ("inserted text", _paragraph(f"<w:ins>{_run('quokka')}</w:ins>"), ("quokka",), ()),
    (
        "deleted text",
        _paragraph("<w:del><w:r><w:delText>wombat</w:delText></w:r></w:del>" + _run("quokka")),
        ("quokka",),
        ("wombat",),
    ),
    (
        "moved text",
        _paragraph(f"<w:moveFrom>{_run('old place')}</w:moveFrom>")
        + _paragraph(f"<w:moveTo>{_run('new place')}</w:moveTo>"),
        ("new place",),
        ("old place",),
    ),
    (
        "a content control",
        f"<w:sdt><w:sdtContent>{_paragraph(_run('quokka'))}</w:sdtContent></w:sdt>",
        ("quokka",),
        (),
    ),
    (
        "a content control in a line",
        _paragraph(f"<w:sdt><w:sdtContent>{_run('quokka')}</w:sdtContent></w:sdt>"),
        ("quokka",),
        (),
    ),
    ("a smart tag", _paragraph(f"<w:smartTag>{_run('quokka')}</w:smartTag>"), ("quokka",), ()),
    ("custom XML", f"<w:customXml>{_paragraph(_run('quokka'))}</w:customXml>", ("quokka",), ()),
    (
        "a simple field",
        _paragraph(f'<w:fldSimple w:instr="DATE">{_run("quokka")}</w:fldSimple>'),
        ("quokka",),
        ("DATE",),
    ),
    (
        "a field in parts",
        _paragraph(
            '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGEREF x</w:instrText></w:r>'
            f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{_run("quokka")}'
            '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
        ),
        ("quokka",),
        ("PAGEREF",),
    ),
    (
        "a text box with its alternative",
        _paragraph(
            f"<w:r><mc:AlternateContent><mc:Choice>{_box('quokka')}</mc:Choice>"
            f"<mc:Fallback>{_box('quokka')}</mc:Fallback></mc:AlternateContent></w:r>"
        ),
        ("quokka",),
        ("quokka\n\nquokka",),
    ),
    (
        "a text box of older programs",
        _paragraph(
            "<w:r><w:pict><v:shape><v:textbox><w:txbxContent>"
            f"{_paragraph(_run('quokka'))}</w:txbxContent></v:textbox></v:shape></w:pict></w:r>"
        ),
        ("quokka",),
        (),
    ),
    (
        "a table in a table",
        f"<w:tbl><w:tr><w:tc>{_paragraph(_run('outer'))}<w:tbl><w:tr><w:tc>{_paragraph(_run('inner'))}"
        f"</w:tc></w:tr></w:tbl></w:tc><w:tc>{_paragraph(_run('beside'))}</w:tc></w:tr></w:tbl>",
        ("outer", "inner", "beside"),
        (),
    ),
    (
        "an empty corner",
        f"<w:tbl><w:tr><w:tc><w:p/></w:tc><w:tc>{_paragraph(_run('one'))}</w:tc></w:tr></w:tbl>",
        (" | one",),
        (),
    ),
    (
        "an equation",
        _paragraph(_run("so ") + "<m:oMath><m:r><m:t>a=b</m:t></m:r></m:oMath>" + _run(" holds")),
        ("so a=b holds",),
        (),
    ),
    (
        "a fraction",
        _paragraph(
            "<m:oMath><m:f><m:num><m:r><m:t>12 km</m:t></m:r></m:num><m:den><m:r><m:t>4 h</m:t></m:r>"
            "</m:den></m:f></m:oMath>"
        ),
        ("12 km", "/", "4 h"),
        ("12 km4 h",),
    ),
    (
        "ruby",
        _paragraph(
            f"<w:r><w:ruby><w:rt>{_run('reading')}</w:rt><w:rubyBase>{_run('quokka')}</w:rubyBase>"
            "</w:ruby></w:r>"
        ),
        ("quokka",),
        (),
    ),
    (
        "a heading",
        '<w:p><w:pPr><w:outlineLvl w:val="0"/></w:pPr>' + _run("quokka") + "</w:p>",
        ("quokka",),
        (),
    ),
]

ODT: list[Construct] = [
    ("a span", "<text:p>quok<text:span>ka</text:span></text:p>", ("quokka",), ()),
    (
        "a span in a span",
        "<text:p><text:span>quok<text:span>ka</text:span></text:span></text:p>",
        ("quokka",),
        (),
    ),
    ("a link", '<text:p><text:a xlink:href="x">quokka</text:a></text:p>', ("quokka",), ()),
    (
        "a link in a span",
        '<text:p><text:span>a <text:a xlink:href="x">quokka</text:a></text:span></text:p>',
        ("a quokka",),
        (),
    ),
    ("spaces", '<text:p>a<text:s text:c="3"/>b</text:p>', ("a   b",), ()),
    ("a tab", "<text:p>a<text:tab/>b</text:p>", ("a\tb",), ()),
    ("a line break", "<text:p>a<text:line-break/>b</text:p>", ("a\nb",), ()),
    ("a heading", '<text:h text:outline-level="1">quokka</text:h>', ("quokka",), ()),
    (
        "a list",
        "<text:list><text:list-item><text:p>quokka</text:p></text:list-item></text:list>",
        ("quokka",),
        (),
    ),
    (
        "the header of a list",
        "<text:list><text:list-header><text:p>quokka</text:p></text:list-header></text:list>",
        ("quokka",),
        (),
    ),
    (
        "a list in a list",
        "<text:list><text:list-item><text:p>a</text:p><text:list><text:list-item><text:p>quokka</text:p>"
        "</text:list-item></text:list></text:list-item></text:list>",
        ("a", "quokka"),
        (),
    ),
    (
        "a list in a cell",
        "<table:table><table:table-row><table:table-cell><text:list><text:list-item><text:p>quokka</text:p>"
        "</text:list-item></text:list></table:table-cell></table:table-row></table:table>",
        ("quokka",),
        (),
    ),
    (
        "a table in a table",
        "<table:table><table:table-row><table:table-cell><text:p>outer</text:p><table:table><table:table-row>"
        "<table:table-cell><text:p>inner</text:p></table:table-cell></table:table-row></table:table>"
        "</table:table-cell></table:table-row></table:table>",
        ("outer", "inner"),
        (),
    ),
    (
        "an empty corner",
        "<table:table><table:table-row><table:table-cell/><table:table-cell><text:p>one</text:p>"
        "</table:table-cell></table:table-row></table:table>",
        (" | one",),
        (),
    ),
    (
        "an index",
        "<text:table-of-content><text:index-body><text:p>quokka</text:p></text:index-body>"
        "</text:table-of-content>",
        ("quokka",),
        (),
    ),
    (
        "ruby",
        "<text:p><text:ruby><text:ruby-base>quokka</text:ruby-base><text:ruby-text>reading</text:ruby-text>"
        "</text:ruby></text:p>",
        ("quokka",),
        (),
    ),
    (
        "a numbered paragraph",
        "<text:numbered-paragraph><text:p>quokka</text:p></text:numbered-paragraph>",
        ("quokka",),
        (),
    ),
    ("a section", "<text:section><text:p>quokka</text:p></text:section>", ("quokka",), ()),
    (
        "a text box",
        "<text:p><draw:frame><draw:text-box><text:p>quokka</text:p></draw:text-box></draw:frame></text:p>",
        ("quokka",),
        (),
    ),
    (
        "a note",
        "<text:p>text<text:note><text:note-citation>1</text:note-citation><text:note-body>"
        "<text:p>quokka</text:p></text:note-body></text:note></text:p>",
        ("text", "quokka"),
        (),
    ),
    (
        "a comment",
        "<text:p>quokka<office:annotation><dc:creator>x</dc:creator><text:p>wombat</text:p>"
        "</office:annotation></text:p>",
        ("quokka",),
        ("wombat",),
    ),
    (
        "a deletion",
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>wombat</text:p></text:deletion>"
        "</text:changed-region></text:tracked-changes><text:p>quokka</text:p>",
        ("quokka",),
        ("wombat",),
    ),
    ("a field", "<text:p><text:page-number>7</text:page-number> quokka</text:p>", ("7 quokka",), ()),
]

PPTX: list[Construct] = [
    ("runs of one word", "<p:sp><p:txBody><a:p><a:r><a:t>quok</a:t></a:r><a:r><a:t>ka</a:t></a:r></a:p>"
     "</p:txBody></p:sp>", ("quokka",), ()),
    ("a group", f"<p:grpSp>{_shape('quokka')}</p:grpSp>", ("quokka",), ()),
    ("a connector", "<p:cxnSp><p:txBody><a:p><a:r><a:t>quokka</a:t></a:r></a:p></p:txBody></p:cxnSp>",
     ("quokka",), ()),
    ("a field", "<p:sp><p:txBody><a:p><a:fld><a:t>quokka</a:t></a:fld></a:p></p:txBody></p:sp>",
     ("quokka",), ()),
    (
        "a table with an empty corner",
        "<p:graphicFrame><a:tbl><a:tr><a:tc><a:txBody><a:p/></a:txBody></a:tc><a:tc><a:txBody><a:p><a:r>"
        "<a:t>one</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl></p:graphicFrame>",
        (" | one",),
        (),
    ),
    (
        "alternative content",
        f"<mc:AlternateContent><mc:Choice>{_shape('quokka')}</mc:Choice><mc:Fallback>{_shape('wombat')}"
        "</mc:Fallback></mc:AlternateContent>",
        ("quokka",),
        ("wombat",),
    ),
    ("a line break", "<p:sp><p:txBody><a:p><a:r><a:t>a</a:t></a:r><a:br/><a:r><a:t>b</a:t></a:r></a:p>"
     "</p:txBody></p:sp>", ("a\nb",), ()),
]  # fmt: skip

HTML: list[Construct] = [
    ("a definition list", "<dl><dt>quokka</dt><dd>a small marsupial</dd></dl>", ("quokka", "a small"), ()),
    ("an aside", "<p>text</p><aside><p>quokka</p></aside>", ("text", "quokka"), ()),
    ("a caption", "<figure><img src=x><figcaption>quokka</figcaption></figure>", ("quokka",), ()),
    ("the caption of a table", "<table><caption>quokka</caption><tr><td>a</table>", ("quokka", "a"), ()),
    ("an address", "<address>quokka street</address>", ("quokka street",), ()),
    (
        "a footer with text",
        "<p>text</p><footer><p>written by quokka</p></footer>",
        ("written by quokka",),
        (),
    ),
    ("loose text", "loose quokka<p>text</p>and more", ("loose quokka", "text", "and more"), ()),
    ("line breaks", "<p>first quokka<br>second line</p>", ("first quokka", "second line"), ()),
    ("preformatted text", "<pre>a  quokka\n  b</pre>", ("a  quokka\n  b",), ()),
    ("a quotation", "<blockquote>quokka</blockquote>", ("quokka",), ()),
    ("details", "<details><summary>more</summary><p>quokka</p></details>", ("more", "quokka"), ()),
    ("a list in a list", "<ul><li>a<ul><li>quokka</li></ul></li></ul>", ("a", "quokka"), ()),
    ("an ordered list", "<ol><li>quokka</li></ol>", ("quokka",), ()),
    ("an empty corner", "<table><tr><td></td><td>one</td></tr></table>", (" | one",), ()),
    ("cells without an end", "<table><tr><td>a<td>quokka<tr><td>b</table>", ("a | quokka", "b"), ()),
    ("parts of one word", "<p>quok<b>ka</b></p>", ("quokka",), ()),
    ("entities", "<p>quokka&nbsp;&amp; wombat&mdash;both</p>", ("quokka", "& wombat—both"), ()),
    ("a heading", "<h2>quokka</h2><p>text</p>", ("quokka", "text"), ()),
    ("a script", "<p>quokka</p><script>wombat()</script>", ("quokka",), ("wombat",)),
    ("a template", "<p>quokka</p><template>wombat</template>", ("quokka",), ("wombat",)),
    ("nested blocks", "<div><div><p>quokka</p></div></div>", ("quokka",), ()),
]
CONSTRUCTS = {"docx": DOCX, "odt": ODT, "pptx": PPTX, "html": HTML}


def constructs() -> Iterator[tuple[str, Construct]]:
    """Yield each construct with its format."""
    for suffix, listed in CONSTRUCTS.items():
        for construct in listed:
            yield suffix, construct


def document_of(suffix: str, inside: str) -> bytes:
    """Return a document that holds a construct, between two sentences on a web page."""
    match suffix:
        case "docx":
            body = f"<w:document {_WORD_SPACES}><w:body>{inside}</w:body></w:document>"
            return archive({"word/document.xml": body})
        case "odt":
            body = f"<office:body><office:text>{inside}</office:text></office:body>"
            content = f"<office:document-content {_ODF_SPACES}>{body}</office:document-content>"
            return archive({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content})
        case "pptx":
            spaces = _WORD_SPACES.replace("xmlns:w=", "xmlns:p=")
            slide = f"<p:sld {spaces}><p:cSld><p:spTree>{inside}</p:spTree></p:cSld></p:sld>"
            relations = '<R><Relationship Id="r1" Target="slides/s.xml"/></R>'
            main = f'<p:presentation {spaces}><p:sldId r:id="r1"/></p:presentation>'
            return archive(
                {
                    "ppt/presentation.xml": main,
                    "ppt/_rels/presentation.xml.rels": relations,
                    "ppt/slides/s.xml": slide,
                }
            )
        case _:
            return f"<!DOCTYPE html><title>t</title><body>{inside}</body>".encode()
