import io
import re
import sys

import pypdf
import pytest
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from askance.core.errors import DocumentError, MissingExtra
from askance.core.installing import install_line
from askance.retrieval.formats import read_html, read_markdown, read_pdf, read_plain

PAGE = """<html><head><title>Rivers of Germany</title><script>var secret = 1;</script></head>
<body><nav><a href="/">Home</a></nav><article><h1>Rivers of Germany</h1>
<p>The Rhine flows through Bonn &amp; Cologne, and the <b>Elbe</b> through Dresden on its way to the sea.</p>
<p>Both of them are long rivers, and both of them have been used for the transport of goods.</p>
</article></body></html>"""


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def pdf(*pages, title="", password=""):
    writer = pypdf.PdfWriter()
    font = DictionaryObject(
        {
            NameObject(k): NameObject(v)
            for k, v in {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Times-Roman"}.items()
        }
    )
    for text in pages:
        page = writer.add_blank_page(300, 300)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    if title:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    content = io.BytesIO()
    writer.write(content)
    return content.getvalue()


def test_plain_text_stays_as_it_is(tmp_path):
    assert read_plain(written(tmp_path / "a.txt", "\ufeff one\r\n<b>two</b>\n")) == (
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
    assert read_markdown(written(tmp_path / "a.md", text)) == (title, text)


def test_html_gives_title_and_main_text(tmp_path):
    title, text = read_html(written(tmp_path / "a.html", PAGE))
    assert title == "Rivers of Germany"
    assert "flows through Bonn & Cologne, and the Elbe through Dresden" in text
    assert "secret" not in text
    assert "<" not in text


def test_html_without_main_text_gives_what_can_be_seen(tmp_path):
    page = "<head><title>T &amp; t</title><style>p {}</style><body><p>hi</p><script>no</script><p>there"
    title, text = read_html(written(tmp_path / "a.htm", page))
    assert title == "T & t"
    assert text.split() == ["hi", "there"]


def test_pdf_gives_the_text_of_all_pages(tmp_path):
    title, text = read_pdf(written(tmp_path / "a.pdf", pdf("The Rhine", "The Elbe", title=" Rivers ")))
    assert (title, text.split()) == ("Rivers", ["The", "Rhine", "The", "Elbe"])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pdf("secret", password="word"), "encrypted PDF"),
        (b"hello, I am no PDF", "can't be read"),
        (pdf("some text here")[:300], "can't be read"),
        (pdf(""), "without text"),
    ],
)
def test_an_unusable_pdf_says_why(tmp_path, content, reason):
    with pytest.raises(DocumentError, match=reason):
        read_pdf(written(tmp_path / "a.pdf", content))


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    with pytest.raises(MissingExtra, match=f"trafilatura.*{re.escape(install_line('html'))}"):
        read_html(written(tmp_path / "a", "x"))
