"""Plain text and its encodings, markup, web pages, notebooks and PDF."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.retrieval.documents import SHOWN, page_pdf, row_of, sections, seen, stream, text_of, text_pdf

from askance.retrieval.index.formats import content, pdf

STREET = "Die Straße nach Zürich ist schön und führt über große Brücken."
MOSCOW = "Москва является столицей России и крупнейшим городом страны."
TEXTS = {
    "cp1252": "Le château a été détruit, où l'élève naïf reçoit ses leçons d'été.",
    "iso8859-15": STREET,
    "mac_roman": STREET,
    "cp1250": "Zażółć gęślą jaźń, łódź i źrebię są tu.",
    "iso8859-2": "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "cp1251": MOSCOW,
    "koi8-r": MOSCOW,
    "cp1253": "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας.",
    "cp1254": "İstanbul'da yaşayan şair güzel şiirler yazdı, çok ağladı.",
    "shift_jis": "東京は日本の首都であり、世界最大の都市の一つです。",
    "gb18030": "北京是中华人民共和国的首都,也是全国的政治中心。",
    "big5": "台北是中華民國的首都,也是政治與經濟中心。",
    "euc_kr": "서울은 대한민국의 수도이자 최대 도시이다.",
    "cp1256": "القاهرة هي عاصمة جمهورية مصر العربية وأكبر مدنها.",
    "cp1257": "Žąsys ir gervės išskrido, o ąžuolai dar žaliavo prie ežero.",
    **dict.fromkeys(("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"), "Zürich"),
}
WINDOWS = (
    "He wouldn’t. “It’s late,” said Ann.", "The toll is £9.", "The toll is €9…", "It is 9°C and 5 m² wide.",
    "The lock – the oldest – is closed.", "The lock Zwölf is open.", "• one\n• two", "©2024, §5, ½ µm ±3",
)  # fmt: skip
GERMAN = "Der Wächter heißt Jörg und öffnet früh die Tür."


@pytest.mark.parametrize(
    ("written", "text"),
    [
        *[(text.encode(encoding), text) for encoding, text in TEXTS.items()],
        *[(text.encode("cp1252"), text) for text in WINDOWS],
        (GERMAN.encode()[:-3], GERMAN[:-3] + "\ufffd"),
        (GERMAN.encode() + b"\xff", GERMAN + "\ufffd"),
        (GERMAN.encode() * 9 + b"J\xf6rg", GERMAN * 9 + "J\ufffdrg"),
        (b" one\r\n<b>two</b>\n", " one\r\n<b>two</b>\n"),
    ],
)
def test_text_in_any_common_encoding_is_read_and_utf8_with_few_wrong_bytes_stays_utf8(written, text):
    assert seen(row_of("a.txt", written)) == ("", text, [], {})
    if "\ufffd" in text:
        assert text_of("a.csv", b"\xef\xbb\xbftext\n" + written) == text


def test_a_late_character_decides_the_encoding_of_a_file_of_rows():
    table = b"name,town\n" + b"Ada,Bonn\n" * 50_000 + "Bob,Zürich\n".encode("latin-1")
    assert text_of("a.csv", table).endswith("name: Bob; town: Zürich")


@pytest.mark.parametrize(
    ("declared", "text", "encoding"),
    [("koi8-r", "Привет", "koi8-r"), ("windows-1251", "Привет", "utf-8"), ("iso-8859-1", "“9 €”", "cp1252"),
     ("gb2312", "北京", "gb18030"), ("punycode", "Zwölf", "cp1252"), ("unknown", "Zwölf", "cp1252")],
)  # fmt: skip
def test_the_encoding_that_a_page_declares_is_used_unless_it_is_utf8(declared, text, encoding):
    assert text_of("a.html", f"<meta charset={declared}><p>{text}".encode(encoding)) == text
    xml = f'<?xml version="1.0" encoding="{declared}"?><html><body>{text}'
    assert text_of("a.xhtml", xml.encode(encoding)) == text


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.rst", "######\nManual\n######\n\n:Author: Ada\n\nPayload\n=======\r\n\nHeavy.\n", "Manual"),
        ("a.adoc", "= Manual\nAda\n\n== Payload\n\nHeavy.\n", "Manual"),
        ("b.adoc", "= Manual\n:author: Ada\n\n== Payload\n\nHeavy.\n", "Manual"),
        ("a.org", "#+TITLE: Manual\n#+AUTHOR: Ada\n\n* Payload\nHeavy.\n", "Manual"),
        ("a.tex", "\\title{Manual}\n\\author{Ada}\n\\section*{Payload}\\label{p}\r\n\\emph{It}.\n", "Manual"),
        ("b.tex", "\\author{Ada}\n\\section[P]{Payload}\nHeavy.\n", "Payload"),
        ("a.md", "---\ntitle: 'Manual'\nauthor: Ada\n---\n\n# Payload\n\nHeavy.\n", "Manual"),
    ],
)
def test_markup_has_a_title_an_author_and_headings(name, text, title):
    row = row_of(name, text)
    assert (row.title, row.text, row.fields) == (title, text, {"author": "Ada"})
    assert [mark.section for mark in row.marks if mark.section != "Manual"] == ["Payload"]
    assert "Payload" in text[row.marks[-1].start :].splitlines()[0]


@pytest.mark.parametrize(
    ("name", "text", "sections"),
    [
        ("a.md", "intro\n\n## The *Rhine* ##\r\n# Later", ["The *Rhine*", "Later"]),
        ("a.md", "```sh\n# a comment\n```\n# Heading", ["Heading"]),
        ("a.md", "no heading\n#hashtag\n", []),
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
def test_what_only_looks_like_a_heading_is_none(name, text, sections):
    row = row_of(name, text)
    assert (row.text, [mark.section for mark in row.marks]) == (text, sections)
    assert row.title == (sections or [""])[0]


def test_a_page_has_a_title_an_author_and_sections():
    head = '<meta name=author content=Ada><meta property="og:title" content="T &amp; t"><title>T | S</title>'
    page = "<header><h1>Log</h1></header><nav><a href=/>Home</a></nav><p>Both.<h2>Tolls</h2><p>None."
    text, marks = "Log\n\nBoth.\n\nTolls\n\nNone.", [(0, "Log", "Log\n\n"), (0, "Tolls", "Tolls")]
    assert seen(row_of("a.htm", head + page)) == ("T & t", text, marks, {"author": "Ada"})
    assert seen(row_of("a.html", "<title>Rivers</title><p>Both.")) == ("Rivers", "Both.", [], {})


def test_a_notebook_has_its_headings_code_and_text_but_no_pictures():
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
    row = row_of("a.ipynb", json.dumps({"cells": cells, "nbformat": 4}))
    assert (row.title, [mark.section for mark in row.marks]) == ("Tides", ["Tides", "Locks"])
    assert re.findall(r"\w+.*", row.text) == [
        "Tides", "The moon. ![a]()", "no heading", "1", "2", "Figure>", "Sum**", "KeyError: 'x'", "Locks"
    ]  # fmt: skip
    old = [{"cell_type": "heading", "level": 2, "source": "Old"}, {"cell_type": "code", "input": "x"}]
    row = row_of("a.ipynb", json.dumps({"worksheets": [{"cells": old}]}))
    assert (row.title, row.text) == ("Old", "## Old\n\n```\nx\n```")


def test_a_pdf_has_its_title_pages_and_lines_and_parted_words_are_whole():
    pages = "The Rhine has been naviga-\nble for a\nlong time", "The Elbe"
    row = row_of("a.pdf", text_pdf(*pages, title=" Rivers "))
    assert (row.title, sections(row)) == ("Rivers", [(1, "", "The R"), (2, "", "The E")])
    lines = [line.strip() for line in row.text.splitlines() if line.strip()]
    assert lines == ["The Rhine has been navigable for a", "long time", "The Elbe"]
    files = [text_pdf(*[f"page {number}"] * 9) for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        texts = list(threads.map(text_of, ["a.pdf"] * 8, files))
    assert [text.split() for text in texts] == [["page", str(number)] * 9 for number in range(8)]


def test_the_values_of_a_form_and_the_notes_on_a_page_of_a_pdf_follow_its_text():
    box = b"<< /Type /Annot /Rect [0 0 9 9] /P 3 0 R /Subtype %s >>"
    states = b"/AP << /N << /Yes 4 0 R /Off 4 0 R >> >>"
    fields = [
        b"/Widget /FT /Tx /T (f[0]) /TU (Boat) /V (Amaranth)",
        b"/Widget /FT /Tx /T (owner) /V <FEFF004F00640069006C0065D83DDE80>",
        b"/Widget /FT /Tx /T (secret) /Ff 8192 /V (no)",
        b"/Widget /FT /Tx /T (empty)",
        b"/Widget /FT /Ch /Ff 131072 /T (port) /Opt [(Whitby) (no)] /V (Whitby)",
        b"/Widget /FT /Btn /T (insured) /V /Yes /AS /Yes " + states,
        b"/Widget /FT /Btn /T (no) /V /Off /AS /Off " + states,
    ]
    notes = [b"/Text /Contents (A note.)", b"/Popup /Contents (no)", b"/Text /F 2 /Contents (no)",
             b"/FreeText /Contents (Typed\\rhere)"]  # fmt: skip
    numbers = [b"%d 0 R" % number for number in range(6, 6 + len(fields + notes))]
    written = page_pdf(
        stream(SHOWN % b"Form"), *(box % each for each in fields + notes),
        page=b"/Annots[%s]" % b" ".join(numbers),
        catalogue=b"/AcroForm<</Fields[%s]>>" % b" ".join(numbers[: len(fields)]),
    )  # fmt: skip
    values = ["Boat: Amaranth", "owner: Odile🚀", "port: Whitby", "insured: ticked"]
    assert text_of("a.pdf", written).splitlines() == ["Form", *values, "A note.", "Typed", "here"]


def test_the_letters_of_an_arabic_ligature_are_in_order():
    letters = ["0643", "0627", "0631", "062A", "0634", "06440627", "0627"]  # as they stand from left to right
    mapped = "".join(f"<{97 + number:x}> <{letter}>\n" for number, letter in enumerate(letters))
    to_unicode = (
        "/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <ff> endcodespacerange\n"
        f"{len(letters)} beginbfchar\n{mapped}endbfchar endcmap end"
    )
    written = page_pdf(stream(SHOWN % b"abcdefg"), stream(to_unicode.encode()), font=b"/ToUnicode 6 0 R")
    assert text_of("a.pdf", written) == "الاشتراك"


def test_the_title_of_a_bookmark_is_searched_in_the_beginning_of_its_page_only():
    pages = ["a" * 5_000_000 + " Rhine", "The  RHINE and the\nElbe"]
    bookmarks = [(0, "Rhine")] * 1_000 + [(1, "rhine"), (1, "the Elbe")]
    second = len(pages[0]) + 1
    assert [(mark.start - second, mark.page, mark.section) for mark in pdf._marks(pages, bookmarks)] == [
        (-second, 1, "Rhine"), (0, 2, "Rhine"), (5, 2, "rhine"), (15, 2, "the Elbe")
    ]  # fmt: skip


def test_halves_of_characters_are_replaced_in_all_that_a_row_has():
    def row(half):
        marks, fields = (content.Mark(0, 1, half),), {half: half, "n": 7}
        return content.DocumentRow(f"a{half}", f"{half}b", f"i{half}", 1, f"s{half}", marks, fields)

    assert content.whole(row("\ud800")) == content.whole(row("\udc00")) == row("\ufffd")
    assert content.whole(content.DocumentRow("a", "b")) == content.DocumentRow("a", "b")
