"""What the text of an answer may show: no forged citation, no image, no link, no HTML, however it is cut."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from askance.serve.plain_text import PlainText, plain_text

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
PIECES = r"""
    ` `` ``` ~~~ > - 1. ![x](http://e/) [x](u) ![x][r] [r] [r]:http://e/ <img/src=x> <div> </p> <!-- <http://e/>
    [1] [2,3] \[1\] [**1**] [ ] ( 1 \ \` | |---|---| a # --- * _ &#91; &lsqb;1&rsqb; <style> <script
""".split()
TEXTS = st.lists(st.sampled_from([*PIECES, " ", "    ", "\t", "\n", "\n\n", "\r\n", "\r"]), max_size=30)


def in_pieces(text, cuts):
    """Return what the filter sends for a text that is cut after each number of characters."""
    plain, sent = PlainText(), ""
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        sent += plain.add(text[start:end])
    return sent + plain.end()


def shown(text):
    """Return the kinds of all parts of a text that CommonMark displays, and its text outside code."""
    parts = list(MARKDOWN.parse(text))
    for part in parts:  # grows
        parts += part.children or []
    return {part.type for part in parts}, "".join(part.content for part in parts if part.type == "text")


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("It is Uppsala [1]", "It is Uppsala (1)"),
        ("[1, 2] and [ 3–4 ] and [**5**] and \\[6\\]", "(1, 2) and ( 3–4 ) and (**5**) and \\(6\\)"),
        ("[2020 edition], x[i] and [sic]", "[2020 edition], x[i] and [sic]"),
        ("![x](http://e/?q) and [a][1]", "![x)(http://e/?q) and [a)(1)"),
        ("![x][r]\n\n[r]: http://e/", "![x)[r]\n\n[r): http://e/"),
        ("<img src=x> but 1 < 2 & so on", "‹img src=x> but 1 < 2 & so on"),
        ("`x[1](y)` and ``a`[1]`` are code, [1]", "`x[1](y)` and ``a`[1]`` are code, (1)"),
        ("```py\nx[1]\n<b>\n``\n```\n[1]", "```py\nx[1]\n<b>\n``\n```\n(1)"),
        ("~~~\n```\n~~~\n[1]", "~~~\n```\n~~~\n(1)"),
        ("- a\n  ```\n  x[1]\n```\n[1]", "- a\n  ```\n  x(1)\n```\n(1)"),
        ("` a\nb ` ![x](u) `\n\n`[1]`", "` a\nb ` ![x)(u) `\n\n`[1]`"),
        ("a|b\n-|-\n`|![x](u) `", "a|b\n-|-\n`|![x)(u) `"),
        ("\\` ![x](u) `", "\\` ![x)(u) `"),
        ("``` a ` ```\n[1]", "``` a ` ```\n(1)"),
        ("`" + "[1]" * 1000 + "`", "`" + "(1)" * 1000 + "`"),
        ("```" + " " * 3000 + "\n[1]", "```" + " " * 3000 + "\n(1)"),
        ("```\n" + " " * 3000 + "x\n[1]", "```\n" + " " * 3000 + "x\n(1)"),
    ],
)
def test_a_text_is_sent_without_what_a_display_would_load_or_show_as_a_citation(text, sent):
    assert plain_text(text) == sent
    assert in_pieces(text, range(1, len(text))) == sent


@given(TEXTS, st.data())
@example(["`", "\n", "![x](http://e/)", "`"], None)
def test_no_text_shows_a_link_an_image_html_or_a_citation_at_any_cut(pieces, data):
    text = "".join(pieces)
    cuts = data.draw(st.sets(st.integers(0, len(text)))) if data else range(1, len(text))
    sent = plain_text(text)
    assert in_pieces(text, sorted(cuts)) == sent
    assert len(sent) == len(text)
    kinds, outside_code = shown(sent)
    assert not kinds & {"image", "link_open", "html_inline", "html_block"}
    assert not re.search(r"\[\s*\d[\d\s,]*\]", outside_code)
