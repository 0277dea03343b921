import base64
import json
import re
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from askance.retrieval.index import formats
from askance.retrieval.index.formats import UnreadableFile, content
from askance.retrieval.index.formats import pdf as pdf_reader

PAGE = """<html><head><title>Rivers of Germany</title><script>var secret = 1;</script></head>
<body><nav><a href="/">Home</a></nav><article><h1>Rivers of Germany</h1>
<p>The Rhine flows through Bonn &amp; Cologne, and the <b>Elbe</b> through Dresden on its way to the sea.</p>
<p>Both of them are long rivers, and both of them have been used for the transport of goods.</p>
</article></body></html>"""


ENCRYPTED = zlib.decompress(
    base64.b85decode(
        "c-oCoO^?$s5WV|X%%w-"
        "x<8NDvdSG`eAwXMo7cOWIc04XcRkBJ`X_r6Afqwvh1UJAEQ4S=E9KU(*c|32izFNHy7m6*uegE>62|(!6C)PBKuZKP#TN<E|RJ2p"
        "x=)7dhC8I8%IC93ldwL+?>$s%@<Cp!h8$mGsdY2FI0dys9;C?1mXVS|!#(lqKKRw{&y_pI0KhI)(Lx=u2v{g|nmCoN%-"
        "o=;wV?7oxaQZ@h?@z`9)wce2HZ$k<Agd)P#@|r49Y2DQz6wFhpo4WX)beV#AL~r`?HIcphs^j5G^wC=7-"
        "bv0m#z1~ORvdU=jz%jW1<wUgk*h+R^$|dP%&kx+BP9NSsQ-`4GHTAwMu9OwvM78i<nX9B%IY*`cyO-"
        "s?NqoEv!bYds|A0DA3Qtc^s%P1k3RG0c(shP~aI8_3~4t`-7Qqh6&-"
        "%G3(ASX=d0s#ND2TX|A`s&s1CCo4y}GO#$#%UFkvm`oF4iHIWjgVtm%g8%(B7tyPhf^HK#X!t#G8HR$WE9iARWFu#*NjByyJfoLb"
        "$VsU-5Vm|<Vyun`"
    )
)
"""An empty page under a password."""


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def title_and_text(path):
    """Return title and text of the one row of a whole file."""
    (row,) = formats.READERS[path.suffix](path)
    return row.title, row.text


def pdf(*pages, title=""):
    """Write a PDF with one page per text; a line break starts a new line of the page."""
    kids = " ".join(f"{number} 0 R" for number in range(4, 4 + 2 * len(pages), 2))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman >>",
    ]
    for text in pages:
        lines = " ".join(f"({line}) Tj 0 -14 Td" for line in text.split("\n"))
        stream = f"BT /F1 12 Tf 20 200 Td {lines} ET"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents {len(objects) + 2} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    return pdf_of(*objects, f"<< /Title ({title}) >>")


def pdf_of(*objects):
    """Write a PDF of these objects: the catalogue first, the properties last."""
    content, places = "%PDF-1.4\n", []
    for number, each in enumerate(objects, start=1):
        places.append(len(content))
        content += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size, start = len(objects) + 1, len(content)
    content += f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n"
    content += f"<< /Size {size} /Root 1 0 R /Info {len(objects)} 0 R >>\nstartxref\n{start}\n%%EOF\n"
    return content.encode()


def page_of(stream, font, annotations="", form="", *more):
    """Write a PDF of one page with a font, which is object 3, and further objects from number 6 on."""
    return pdf_of(
        f"<< /Type /Catalog /Pages 2 0 R {form} >>",
        "<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica {font} >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents 5 0 R"
        f" /Resources << /Font << /F1 3 0 R >> >> /Annots [{annotations}] >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        *more,
        "<< >>",
    )


def test_plain_text_stays_as_it_is(tmp_path):
    assert title_and_text(written(tmp_path / "a.txt", "\ufeff one\r\n<b>two</b>\n")) == (
        "",
        " one\r\n<b>two</b>\n",
    )


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("intro\n\n## The *Rhine* ##\r\n# Later", "The *Rhine*"),
        ("```sh\n# a comment\n```\n# Heading", "Heading"),
        ("no heading\n#hashtag\n", ""),
    ],
)
def test_markdown_takes_its_title_from_the_first_heading(tmp_path, text, title):
    assert title_and_text(written(tmp_path / "a.md", text)) == (title, text)


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.rst", "######\nManual\n######\n\n:Author: Ada\n\nPayload\n=======\r\n\nHeavy.\n", "Manual"),
        ("a.adoc", "= Manual\nAda\n\n== Payload\n\nHeavy.\n", "Manual"),
        ("b.adoc", "= Manual\n:author: Ada\n\n== Payload\n\nHeavy.\n", "Manual"),
        ("a.org", "#+TITLE: Manual\n#+AUTHOR: Ada\n\n* Payload\nHeavy.\n", "Manual"),
        (
            "a.tex",
            "\\title{Manual}\n\\author{Ada}\n\\section*{Payload}\\label{p}\r\n\\emph{Heavy}.\n",
            "Manual",
        ),
        ("b.tex", "\\author{Ada}\n\\section[P]{Payload}\nHeavy.\n", "Payload"),
        ("a.md", "---\ntitle: 'Manual'\nauthor: Ada\n---\n\n# Payload\n\nHeavy.\n", "Manual"),
    ],
)
def test_markup_has_a_title_an_author_and_headings(tmp_path, name, text, title):
    path = written(tmp_path / name, text)
    (row,) = formats.READERS[path.suffix](path)
    assert (row.title, row.text, row.fields) == (title, text, {"author": "Ada"})
    assert [mark.section for mark in row.marks if mark.section != "Manual"] == ["Payload"]
    assert "Payload" in text[row.marks[-1].start :].splitlines()[0]


@pytest.mark.parametrize(
    ("name", "text", "sections"),
    [
        ("a.tex", "\\section{The \\emph{Rhine}} It is long.\n", ["The \\emph{Rhine}"]),
        ("a.tex", "\\section{A 5\\% \\{share\\}\nof it}\n", ["A 5\\% \\{share\\} of it"]),
        ("a.tex", "\\newcommand{\\x}[1]{\\section{#1}}\n\\section{}\n", []),
        ("a.tex", "\\begin{verbatim}\n\\section{No}\n\\end{verbatim}\\section{Yes}\n", ["Yes"]),
        ("a.tex", "\\begin{lstlisting}\n\\section{No}\n", []),
        ("a.rst", ">>> for i in x:\n...  print(i)\n...\n1\n\n>>> f()\n-------\n", []),
        ("a.rst", "=====\nMonth\n=====\n\nMay\nJune\n=====\n\nFAQ\n===\n\nto be\n---\n", ["Month", "FAQ"]),
        ("a.adoc", "== A\n----\n== no\n----\n\n```sh\n= no\n```\n\n== B\r\n....\n= no\n", ["A", "B"]),
        ("a.org", "* A\n#+BEGIN_SRC sh\n* no\n#+END_EXAMPLE\n* no\n  #+END_SRC\n* B\n", ["A", "B"]),
    ],
)
def test_what_only_looks_like_a_heading_is_none(tmp_path, name, text, sections):
    (row,) = formats.READERS[f".{name.partition('.')[2]}"](written(tmp_path / name, text))
    assert [mark.section for mark in row.marks] == sections
    assert row.text == text


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.md", "# a" + " " * 1_000_000 + "b"),
        ("a.md", "# a" + " #" * 500_000 + "b"),
        ("a.md", "---\ntitle: " + " " * 1_000_000 + "a\u2028b\n---"),
        ("a.rst", "a" * 1_000_000 + "\n" + "=" * 1_000_000 + " " * 1_000_000 + "b"),
        ("a.adoc", "-" * 1_000_000 + " " * 1_000_000 + "b"),
        ("a.adoc", "".join("-" * n + "\n" for n in range(4, 1_000))),
        ("a.org", "#+begin_src\n" * 100_000 + " " * 1_000_000 + "b"),
        ("a.tex", "\\begin{verbatim}" * 100_000),
        ("a.tex", "\\section{" * 100_000 + "\\section{}" * 100_000),
        ("a.tex", "\\section[" * 100_000 + "]{" * 100_000),
        ("a.tex", "\\section{" + ("\\section{}" * 30 + ("{" + "a" * 300 + "}") * 300) * 10),
    ],
)
def test_the_length_of_a_line_of_markup_does_not_matter(tmp_path, name, line):
    """A pattern that tries each way to divide the line would not end."""
    title, text = title_and_text(written(tmp_path / name, f"{line}\n"))
    assert text == f"{line}\n"
    assert len(title) < len(line)


def test_the_footnotes_of_a_page_of_docutils_are_main_text(tmp_path):
    note = '<aside class="footnote brackets" role="doc-footnote"><p>The Rhine rises in the Alps.</p></aside>'
    page = PAGE.replace("</article>", f"{note}</article>")
    _, text = title_and_text(written(tmp_path / "a.html", page))
    assert text.endswith("The Rhine rises in the Alps.")


def test_html_gives_title_and_main_text(tmp_path):
    title, text = title_and_text(written(tmp_path / "a.html", PAGE))
    assert title == "Rivers of Germany"
    assert "flows through Bonn & Cologne, and the Elbe through Dresden" in text
    assert "secret" not in text
    assert "<" not in text


def test_html_without_main_text_gives_what_can_be_seen(tmp_path):
    page = "<head><title>T &amp; t</title><style>p {}</style><body><p>hi</p><script>no</script><p>there"
    title, text = title_and_text(written(tmp_path / "a.htm", page))
    assert title == "T & t"
    assert text.split() == ["hi", "there"]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("", ("", "")),
        ("<!-- nothing -->", ("", "")),
        ('<?xml version="1.0" encoding="latin-1"?><html><body>K\u00f6ln', ("", "K\u00f6ln")),
        ("<body>one <!-- no --> two<br>three", ("", "one two three")),
    ],
)
def test_odd_pages(tmp_path, page, expected):
    title, text = title_and_text(written(tmp_path / "a.html", page))
    assert (title, " ".join(text.split())) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<script src='x.js'/><p>one</p><script>no</script>", "one"),
        ("<script>if ('<!--') no</script><p>one</p><STYLE>no</style >", "one"),
        ("<p>one</p><!-- <p>no</p> --><![CDATA[ no > ]]><?no a?><p>two", "one two"),
        ("<p>a < b <!-- no <p>no", "a < b"),
        ("<p>one</p><script>no <p>no</p>", "one"),
        ("<template>no<template>no</template><p>one", "one"),
        ("<p>one <b", "one"),
    ],
)
def test_what_cannot_be_seen_is_left_out(tmp_path, page, expected):
    assert title_and_text(written(tmp_path / "a.html", page))[1].split() == expected.split()


@pytest.mark.parametrize(
    "start",
    ["<!--", "<![CDATA[", "<?", "<!", "<a ", "</a", "<a b='", "<a =", "<script>", "<script", "<template>"],
)
def test_a_page_of_what_never_ends_is_read(tmp_path, start):
    """A parser that looks for each end in the whole rest of the page would not end."""
    for end in ("", "</noscript>" * 50_000):
        page = "<p>one</p>" + start * 50_000 + end
        assert title_and_text(written(tmp_path / "a.html", page))[1] == "one"


def test_pdf_gives_the_text_of_all_pages(tmp_path):
    title, text = title_and_text(written(tmp_path / "a.pdf", pdf("The Rhine", "The Elbe", title=" Rivers ")))
    assert (title, text.split()) == ("Rivers", ["The", "Rhine", "The", "Elbe"])


def test_lines_of_a_pdf_end_as_those_of_other_texts_and_parted_words_are_whole(tmp_path):
    _, text = title_and_text(
        written(tmp_path / "a.pdf", pdf("The Rhine has been naviga-\nble for a\nlong time"))
    )
    assert text.rstrip() == "The Rhine has been navigable for a\nlong time"


def test_the_values_of_a_form_and_the_notes_on_a_page_of_a_pdf_follow_its_text(tmp_path):
    states = "/AP << /N << /Yes 5 0 R /Off 5 0 R >> >>"
    box = "/Type /Annot /Rect [0 0 9 9] /P 4 0 R /Subtype"
    fields = [
        f"<< {box} /Widget /FT /Tx /T (f[0]) /TU (Boat) /V (Amaranth) >>",
        f"<< {box} /Widget /FT /Tx /T (owner) /V <FEFF004F00640069006C0065D83DDE80> >>",
        f"<< {box} /Widget /FT /Tx /T (secret) /Ff 8192 /V (no) >>",
        f"<< {box} /Widget /FT /Tx /T (empty) >>",
        f"<< {box} /Widget /FT /Ch /Ff 131072 /T (port) /Opt [(Whitby) (no)] /V (Whitby) >>",
        f"<< {box} /Widget /FT /Btn /T (insured) /V /Yes /AS /Yes {states} >>",
        f"<< {box} /Widget /FT /Btn /T (no) /V /Off /AS /Off {states} >>",
    ]
    notes = [
        f"<< {box} /Text /Contents (A note.) >>",
        f"<< {box} /Popup /Contents (no) >>",
        f"<< {box} /Text /F 2 /Contents (no) >>",
        f"<< {box} /FreeText /Contents (Typed\\rhere) >>",
    ]
    numbers = [f"{number} 0 R" for number in range(6, 6 + len(fields + notes))]
    form = f"/AcroForm << /Fields [{' '.join(numbers[: len(fields)])}] >>"
    stream = "BT /F1 12 Tf 20 200 Td (Form) Tj ET"
    content = page_of(stream, "", " ".join(numbers), form, *fields, *notes)
    _, text = title_and_text(written(tmp_path / "a.pdf", content))
    values = ["Boat: Amaranth", "owner: Odile🚀", "port: Whitby", "insured: ticked"]
    assert text.splitlines() == ["Form", *values, "A note.", "Typed", "here"]


def test_the_letters_of_an_arabic_ligature_are_in_order(tmp_path):
    letters = ["0643", "0627", "0631", "062A", "0634", "06440627", "0627"]  # as they stand from left to right
    mapped = "".join(f"<{97 + number:x}> <{letter}>\n" for number, letter in enumerate(letters))
    to_unicode = (
        "/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <ff> endcodespacerange\n"
        f"{len(letters)} beginbfchar\n{mapped}endbfchar endcmap end"
    )
    stream = "BT /F1 12 Tf 20 200 Td (abcdefg) Tj ET"
    cmap = f"<< /Length {len(to_unicode)} >>\nstream\n{to_unicode}\nendstream"
    content = page_of(stream, "/ToUnicode 6 0 R", "", "", cmap)
    assert title_and_text(written(tmp_path / "a.pdf", content))[1] == "الاشتراك"


def test_pdfs_are_read_in_many_threads_at_a_time(tmp_path):
    paths = [written(tmp_path / f"{number}.pdf", pdf(*[f"page {number}"] * 9)) for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        texts = [text for _, text in threads.map(title_and_text, paths)]
    assert [text.split() for text in texts] == [["page", str(number)] * 9 for number in range(8)]


def test_the_title_of_a_bookmark_is_searched_in_the_beginning_of_its_page_only():
    pages = ["a" * 5_000_000 + " Rhine", "The  RHINE and the\nElbe"]
    bookmarks = [(0, "Rhine")] * 1_000 + [(1, "rhine"), (1, "the Elbe")]
    marks = list(pdf_reader._marks(pages, bookmarks))
    second = len(pages[0]) + 1
    assert [(mark.start - second, mark.page, mark.section) for mark in marks] == [
        (-second, 1, "Rhine"),
        (0, 2, "Rhine"),
        (5, 2, "rhine"),
        (15, 2, "the Elbe"),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (ENCRYPTED, "encrypted PDF"),
        (b"hello, I am no PDF", "can't be read"),
        (pdf("some text here")[:300], "can't be read"),
        (pdf(""), "without text"),
    ],
)
def test_an_unusable_pdf_says_why(tmp_path, content, reason):
    with pytest.raises(UnreadableFile, match=reason):
        title_and_text(written(tmp_path / "a.pdf", content))


def test_a_notebook_has_its_headings_code_and_text_but_no_pictures(tmp_path):
    picture = "data:image/png;base64," + "iVBOR" * 1_000
    outputs = [
        {"output_type": "stream", "text": ["1\n", "\x1b[31m2\x1b[0m\n"]},
        {"output_type": "display_data", "data": {"image/png": "iVBOR", "text/plain": "<Figure>"}},
        {"output_type": "execute_result", "data": {"text/markdown": "**Sum**", "text/plain": "no"}},
        {"output_type": "error", "ename": "KeyError", "evalue": "'x'", "traceback": ["no"]},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Tides\n", f"The moon. ![a]({picture})\n"], "attachments": {}},
        {"cell_type": "code", "source": "# no heading\n'''\n```\n'''", "outputs": outputs},
        {"cell_type": "markdown", "source": "## Locks"},
    ]
    written(tmp_path / "a.ipynb", json.dumps({"cells": cells, "nbformat": 4}))
    (row,) = formats.read_file(tmp_path / "a.ipynb")
    assert (row.title, [mark.section for mark in row.marks]) == ("Tides", ["Tides", "Locks"])
    assert re.findall(r"\w+.*", row.text) == [
        "Tides", "The moon. ![a]()", "no heading", "1", "2", "Figure>", "Sum**", "KeyError: 'x'", "Locks"
    ]  # fmt: skip
    old = [{"cell_type": "heading", "level": 2, "source": "Old"}, {"cell_type": "code", "input": "x"}]
    written(tmp_path / "a.ipynb", json.dumps({"worksheets": [{"cells": old}]}))
    assert title_and_text(tmp_path / "a.ipynb") == ("Old", "## Old\n\n```\nx\n```")
    for bad in ("", "{", "[]", '{"cells": 7}', '{"cells": [7]}', '{"cells": [{}]}', "[" * 100_000):
        with pytest.raises(UnreadableFile, match="no notebook"):
            title_and_text(written(tmp_path / "a.ipynb", bad))


def test_halves_of_characters_are_replaced_in_all_that_a_row_has():
    def row(half):
        marks, fields = (content.Mark(0, 1, half),), {half: half, "n": 7}
        return formats.DocumentRow(f"a{half}", f"{half}b", f"i{half}", 1, f"s{half}", marks, fields)

    assert content.whole(row("\ud800")) == content.whole(row("\udc00")) == row("\ufffd")
    assert content.whole(formats.DocumentRow("a", "b")) == formats.DocumentRow("a", "b")
