"""Rows: JSON Lines, JSON, CSV and TSV, of which malformed ones are named."""

import json
import re

import pytest
from tests.retrieval.documents import row_of, rows

from askance.core import records
from askance.retrieval.index.build import build_index
from askance.retrieval.index.formats import read_file, tables
from askance.retrieval.index.formats import rows as rows_reader
from askance.retrieval.index.formats.content import UnreadableFile, UnreadPart

JSON_ROWS = (
    '\ufeff{"id": "a", "title": "T", "text": "one", "more": [1]}\n\n'
    '{"id": 7, "text": " two\\u2028 "}\n'
    '{"_id": "c", "title": null, "contents": "three"}\n'
    '{"contents": "\\"Quoted title\\"\\nfour"}'
)
DPR_ROWS = (
    "id\ttext\ttitle\n"
    '1\t"Aaron ""the priest"" was, in Exodus, a prophet."\tAaron\n'
    '2\tplain text with a " inside\t"Title ""x"""\r\n'
    '3\t"two\nlines"\tAaron\n'
)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", JSON_ROWS, [(1, "a", "T", "one"), (3, "7", "", " two\u2028 "), (4, "c", "", "three"),
                                (5, None, "Quoted title", "four")]),
        ("a.tsv", DPR_ROWS, [(2, "1", "Aaron", 'Aaron "the priest" was, in Exodus, a prophet.'),
                             (3, "2", 'Title "x"', 'plain text with a " inside'),
                             (5, "3", "Aaron", "two\nlines")]),
        ("a.tsv", "\ufeffTitle\tother\tTEXT\nT\tx\tbody\n\n", [(2, None, "T", "body")]),
        ("a.csv", 'id,title,text\n7,Bonn,"Bonn, a city"\n', [(2, "7", "Bonn", "Bonn, a city")]),
        ("a.csv", 'Stadt;Fluss\nK\xf6ln;"Rhein; und\nmehr"\n;\nBonn;\n'.encode("latin-1"),
         [(3, None, "a", "Stadt: Köln; Fluss: Rhein; und mehr"), (5, None, "a", "Stadt: Bonn")]),
        ("a.csv", 'name,town\r"Ada","Bonn"\r"Bo","Ulm"\r',
         [(2, None, "Ada", "name: Ada; town: Bonn"), (3, None, "Bo", "name: Bo; town: Ulm")]),
        ("a.csv", "1,2\n3,4\n", [(0, None, "", "1 | 2\n3 | 4")]),
        ("a.csv", "a" * 1_000 + ",b\n1,2\n", [(2, None, "a", "a" * 1_000 + ": 1; b: 2")]),
        ("a.csv", "a" * 1_001 + ",b\n1,2\n", [(0, None, "", "a" * 1_001 + " | b\n1 | 2")]),
        ("a.json", '[{"name": "Ada", "age": 36}, {"name": "Bob"}]',
         [(1, None, "Ada", "name: Ada; age: 36"), (2, None, "Bob", "name: Bob")]),
        ("a.json", '{"title": "T", "a": 1}', [(0, None, "T", "title: T\na: 1")]),
    ],
)  # fmt: skip
def test_rows_have_their_lines_ids_and_titles(name, content, expected):
    found = rows(name, content)
    assert [(row.line, row.id, row.title, row.text) for row in found] == expected
    sections = [mark.section for row in found for mark in row.marks]
    assert sections == [f"row {row.line}" for row in found if row.line and ": " in row.text]


def test_parquet_has_the_rows_of_json_lines(tmp_path):
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    columns = {
        "_id": ["a", None, "c"],
        "title": ["T", "U", None],
        "contents": ["one", None, "three"],
        "year": [1999, 2000, None],
        "when": pyarrow.array([0, 1, 2], pyarrow.timestamp("s")),
        "picture": [b"x", b"y", b"z"],
    }
    file = tmp_path / "corpus.parquet"
    parquet.write_table(pyarrow.table(columns), file)
    first, flaw, last = read_file(file)
    assert (first.id, first.title, first.text, first.line) == ("a", "T", "one", 1)
    assert first.fields == {"year": 1999}
    assert flaw.name == "row 2, field text"
    assert flaw.reason.startswith("missing. A row is a JSON object")
    assert (last.id, last.title, last.text, last.fields) == ("c", "", "three", {})
    report = build_index([tmp_path], tmp_path / "index")
    assert (report.documents, [each.source for each in report.skipped]) == (2, [f"{file}, row 2, field text"])
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(UnreadableFile, match="Parquet that can't be read"):
        list(read_file(file))


def test_parquet_without_its_package_is_skipped_and_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "find_spec", lambda name: None)
    (tmp_path / "corpus.parquet").write_bytes(b"PAR1")
    with pytest.raises(UnreadableFile, match="needs the package 'pyarrow'"):
        list(read_file(tmp_path / "corpus.parquet"))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("{", ": is no JSON (Expecting property name"),
        ('{"text": "a"} x', ": is no JSON (Extra data"),
        ("[1]", ": not an object, found [1]"),
        ('"text"', ": not an object, found 'text'"),
        ("null", ": not an object, found None"),
        ('{"id": "1"}', ", field text: missing"),
        ('{"text": 5}', ", field text: not a string, found 5"),
        ('{"text": "a", "title": {}}', ", field title: not a string, found {}"),
        ('{"text": "a", "id": true}', ", field id: not a string or a whole number, found True"),
        ('{"text": "a", "id": 1.5}', ", field id: not a string or a whole number, found 1.5"),
        ('{"text": "a", "id": ""}', ", field id: is empty, found ''"),
        (json.dumps({"text": "a", "id": "x" * 513}), ", field id: has 513 characters"),
        ('{"text": "a \\ud800 b"}', ", field text: holds half of a character"),
        ("[" * 100_000, ": is no JSON (maximum recursion"),
        ('{"text": "a", "id": ' + "9" * 5000 + "}", "digits"),
    ],
)
def test_a_malformed_json_row_is_named_with_the_problem_and_the_remedy(row, problem):
    first, part, last = rows("a.jsonl", f'{{"text": "good"}}\n{row}\n{{"text": "too"}}')
    assert (first.text, last.text, last.line) == ("good", "too", 3)
    assert isinstance(part, UnreadPart)
    assert re.fullmatch("line 2(, field (text|title|id))?", part.name)
    assert problem in part.name.removeprefix("line 2") + ": " + part.reason
    assert 'such as {"id": "7"' in part.reason


QUOTES, COLUMNS = "stands in double quotes", "The first line names the columns"


@pytest.mark.parametrize(
    ("row", "name", "problem", "remedy"),
    [
        ("1\tonly two\n", "line 3", "2 cells under 3 columns", QUOTES),
        ('1\t"quoted" and more\tT\n', "line 3", "expected after", QUOTES),
        ('1\t"never closed\tT\n', "line 3", "expected after", QUOTES),
        ('1\t"closed\nlate" and more\tT\n', "line 3", "expected after", QUOTES),
        ("\tno id\tT\n", "line 3, field id", "is empty, found ''", COLUMNS),
    ],
)
def test_a_malformed_row_of_a_table_is_named_and_the_others_are_read(row, name, problem, remedy):
    content = "id\ttext\ttitle\n0\tbefore\tT\n" + row + '2\t"af""ter\n"\tT\n3\tlast\tT\n'
    first, part, *others = rows("a.tsv", content)
    assert (first.text, part.name) == ("before", name)
    assert problem in part.reason
    assert remedy in part.reason
    assert [row.text for row in others if not isinstance(row, UnreadPart)] == ['af"ter\n', "last"]


def test_a_cell_may_be_as_long_as_a_line(monkeypatch):
    monkeypatch.setattr(records, "MAX_ROW_CHARACTERS", 1_000_000)
    long = "word " * 40_000
    assert row_of("a.tsv", f"id\ttext\n1\t{long}\n").text == long
    part, row = rows("a.tsv", 'id\ttext\n1\t"never closed\n' + f"{long}\n" * 10 + "2\tgood\n")[::11]
    assert (part.name, row.text) == ("line 2", "good")
    assert "more than 1,000,000 characters" in part.reason


def test_columns_of_the_same_name_are_numbered_and_of_many_malformed_rows_the_first_are_named(monkeypatch):
    row = row_of("a.tsv", "text\tload\tload\na\t4\t5\n")
    assert (row.text, row.fields) == ("a", {"load": 4, "load 2": 5})
    monkeypatch.setattr(tables, "MAX_NAMED", 2)
    assert [part.name for part in rows("a.jsonl", "bad\n" * 5)] == ["line 1", "line 2", "3 more rows"]


def test_json_that_is_nested_too_deep_for_its_lines_is_refused(monkeypatch):
    value = 7
    for _ in range(5_000):
        value = [value]
    monkeypatch.setattr(rows_reader.json, "loads", lambda _: value)  # which permits more in some versions
    with pytest.raises(UnreadableFile, match="JSON that can't be read"):
        rows("a.json", "[")
