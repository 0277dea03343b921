"""Each hostile file is read, or skipped with a reason, whatever it does to the process that reads it."""

import json
import re
from contextlib import closing

import pytest
from tests.retrieval.documents import cell, docx, epub, odf, ods, ods_row, pptx, rows, word, xlsx
from tests.retrieval.hostile import EITHER, FILES, WORD, content_of, row

from askance.retrieval.index.formats import content, encodings, opendocument, packages, spreadsheets
from askance.retrieval.index.formats.content import DocumentRow, UnreadableFile
from askance.retrieval.index.reader_process import ReaderProcess, ReadingLimits


@pytest.fixture(scope="module")
def readers():
    """Return a reader for files that have to be read, and one for those that may take too long."""
    with (
        closing(ReaderProcess(ReadingLimits(20, 2))) as patient,
        closing(ReaderProcess(ReadingLimits(3, 1))) as hasty,
    ):
        yield patient, hasty


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_read_or_skipped(name, readers, tmp_path):
    right, path, reason = FILES[name][1], tmp_path / name, ""
    path.write_bytes(content_of(name))
    try:
        found = list(readers[right != WORD].read(path))
    except UnreadableFile as error:
        found, reason = [], str(error)
    texts = [f"{each.title} {each.text} {each.fields}" for each in found if isinstance(each, DocumentRow)]
    assert reason or any(WORD in text for text in texts)
    assert name in EITHER or (not reason if right == WORD else right in reason), reason
    assert len(reason) < 500
    assert "root:" not in "".join(texts), "a file outside was read"


def pairs(*cells):
    return [("a.odt", ods(ods_row(*cells))), ("a.ods", ods(ods_row(*cells)))]


TEXT, TABLE = (spreadsheets, "MAX_TEXT_CHARACTERS", 1_000), (spreadsheets, "MAX_TABLE_CHARACTERS", 40_000)
LONG, SPACES = (content, "MAX_TEXT_CHARACTERS", 1_000), (opendocument, "MAX_TEXT_CHARACTERS", 1_000)
FAR, STREAMED = "".join(map(row, ("A1", "XFD2", "XFD3", "XFD4"), "abcd")), '<dimension ref="A1:XFD1048576"/>'
SPACED = '<p>a<s text:c="100"/>b</p>' * 11
SHARED = "<row>" + '<c t="s"><v>0</v></c>' * 11 + "</row>", f"<si><t>{'x' * 100}</t></si>"
KEYS = json.dumps([{f"key {number}": 1} for number in range(10_000)])
BOUNDS = {
    "a row of more than 1,000 characters": (TEXT, [
        *pairs(cell("x" * 100, 11)), *pairs(cell("x" * 100, 6), cell("y" * 100, 6)),
        ("a.xlsx", xlsx(*SHARED))]),
    "a table of 16,385 columns": (TEXT, pairs(cell("", 16_384), cell("x"))),
    "a table of 16,000,001 columns": (TEXT, pairs(cell("", 16_000) * 1_000, cell("x"))),
    "a table of 16,501 columns": (TEXT, pairs(cell("x"), cell("", 16_000), cell("y", 500))),
    "more than 40,000 cells and characters": (TABLE, [
        ("a.ods", ods(ods_row(cell("", 16_000), cell("x")) * 3)), ("a.xlsx", xlsx(FAR)),
        ("a.xlsx", xlsx(FAR, before=STREAMED))]),
    "more than 1,000 repeated spaces": (SPACES, [("a.odt", odf(SPACED)), ("a.ods", ods(SPACED))]),
    "10,000 different keys in 10,000 objects": (LONG, [("a.json", KEYS)]),
    "more than 1,000 characters of text": (LONG, [
        ("a.json", json.dumps({"a" * 100: [1] * 20})), ("a.csv", "1,2\n" * 500)]),
    "a line has more than 100 bytes": (
        (encodings, "MAX_LINE_BYTES", 100), [("a.jsonl", json.dumps({"text": "long " * 50}))]),
    "too large": ((packages, "MAX_PACKAGE_BYTES", 1_000_000), [("a.pptx", pptx(*["<p/>"] * 1_000))]),
    "too large (0 MB; up to 0 MB": ((packages, "MAX_PACKAGE_BYTES", 100), [("a.docx", docx(word("x")))]),
    "too large (": ((packages, "MAX_MEMBER_BYTES", 10_000), [
        ("a.epub", epub("<p>x", item='properties="nav"', contents="<nav/>" + " " * 10_000))]),
}  # fmt: skip


@pytest.mark.parametrize("reason", BOUNDS)
def test_a_file_beyond_a_bound_is_refused(reason, monkeypatch):
    bound, files = BOUNDS[reason]
    monkeypatch.setattr(*bound)
    for file in files:
        with pytest.raises(UnreadableFile, match=re.escape(reason)):
            rows(*file)
