"""The single constructs of documents in constructs.txt, each with the whole text that has to be read.

A line has the name of a construct, its source, which is the inside of a document, and its text. Line ends,
tabs and outer or special spaces are written as ⏎, ⇥, ␣ and ⍽. In Office files, {text} is a run, {^text} and
{_text} are scripts, and [text] is a run of an equation.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.retrieval.documents import docx, odf, pptx

_SPACES = str.maketrans("⏎⇥␣⍽", "\n\t \u00a0")
_RUNS = {
    r"\{\^(.*?)\}": r'<r><rPr><vertAlign w:val="superscript"/></rPr><t>\1</t></r>',
    r"\{_(.*?)\}": r'<r><rPr><vertAlign w:val="subscript"/></rPr><t>\1</t></r>',
    r"\{(.*?)\}": r"<r><t>\1</t></r>",
    r"\[(.*?)\]": r"<m:r><m:t>\1</m:t></m:r>",
}


class Construct(NamedTuple):
    """A construct of a format, which is named by the extension of its files."""

    suffix: str
    name: str
    source: str
    text: str


def constructs() -> Iterator[Construct]:
    """Yield each construct."""
    suffix = ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            suffix = line[2:]
        else:
            name, _, rest = line.partition(": ")
            source, _, text = rest.rpartition("=>")
            yield Construct(suffix, name, *(each.strip().translate(_SPACES) for each in (source, text)))


def document_of(suffix: str, source: str) -> bytes:
    """Return a document that holds a construct."""
    if suffix in ("docx", "pptx"):
        for short, run in _RUNS.items():
            source = re.sub(short, run, source)
        return docx(source) if suffix == "docx" else pptx(source)
    if suffix == "rtf":
        source = rf"{{\rtf1\ansi {source}\par}}"
    if suffix == "html":
        source = f"<!DOCTYPE html><title>t</title><body>{source}</body>"
    return odf(source) if suffix == "odt" else source.encode()
