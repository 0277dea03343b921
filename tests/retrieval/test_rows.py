import json
import re

import pytest

from askance.core import records
from askance.retrieval.index.formats import UnreadPart, tables
from askance.retrieval.index.formats.rows import read_jsonl
from askance.retrieval.index.formats.tables import read_table


def jsonl(folder, content):
    (folder / "rows.jsonl").write_text(content, encoding="utf-8")
    return list(read_jsonl(folder / "rows.jsonl"))


def tsv(folder, content):
    (folder / "rows.tsv").write_bytes(content.encode())
    return list(read_table(folder / "rows.tsv"))


def test_json_rows(tmp_path):
    content = (
        '\ufeff{"id": "a", "title": "T", "text": "one", "more": [1]}\n\n'
        '{"id": 7, "text": " two\\u2028 "}\n'
        '{"_id": "c", "title": null, "contents": "three"}\n'
        '{"contents": "\\"Quoted title\\"\\nfour"}'
    )
    rows = [(row.line, row.id, row.title, row.text) for row in jsonl(tmp_path, content)]
    assert rows == [
        (1, "a", "T", "one"),
        (3, "7", "", " two\u2028 "),
        (4, "c", "", "three"),
        (5, None, "Quoted title", "four"),
    ]


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
def test_a_malformed_json_row_is_named_with_the_problem_and_the_remedy(tmp_path, row, problem):
    first, part, last = jsonl(tmp_path, f'{{"text": "good"}}\n{row}\n{{"text": "too"}}')
    assert (first.text, last.text, last.line) == ("good", "too", 3)
    assert isinstance(part, UnreadPart)
    assert re.fullmatch("line 2(, field (text|title|id))?", part.name)
    assert problem in part.name.removeprefix("line 2") + ": " + part.reason
    assert 'such as {"id": "7"' in part.reason


def test_of_many_malformed_rows_the_first_are_named_and_the_others_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_NAMED", 2)
    parts = jsonl(tmp_path, "bad\n" * 5)
    assert [part.name for part in parts] == ["line 1", "line 2", "3 more rows"]


def test_dpr_rows(tmp_path):
    content = (
        "id\ttext\ttitle\n"
        '1\t"Aaron ""the priest"" was, in Exodus, a prophet."\tAaron\n'
        '2\tplain text with a " inside\t"Title ""x"""\r\n'
        '3\t"two\nlines"\tAaron\n'
    )
    rows = [(row.line, row.id, row.title, row.text) for row in tsv(tmp_path, content)]
    assert rows == [
        (2, "1", "Aaron", 'Aaron "the priest" was, in Exodus, a prophet.'),
        (3, "2", 'Title "x"', 'plain text with a " inside'),
        (5, "3", "Aaron", "two\nlines"),
    ]


def test_tsv_columns_go_by_name(tmp_path):
    (row,) = tsv(tmp_path, "\ufeffTitle\tother\tTEXT\nT\tx\tbody\n\n")
    assert (row.id, row.title, row.text) == (None, "T", "body")


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
def test_a_malformed_row_of_a_table_is_named_and_the_others_are_read(tmp_path, row, name, problem, remedy):
    content = "id\ttext\ttitle\n0\tbefore\tT\n" + row + '2\t"af""ter\n"\tT\n3\tlast\tT\n'
    first, part, *others = tsv(tmp_path, content)
    assert (first.text, part.name) == ("before", name)
    assert problem in part.reason
    assert remedy in part.reason
    assert [row.text for row in others if not isinstance(row, UnreadPart)] == ['af"ter\n', "last"]


def test_a_cell_may_be_as_long_as_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "MAX_ROW_CHARACTERS", 1_000_000)
    long = "word " * 40_000
    (row,) = tsv(tmp_path, f"id\ttext\n1\t{long}\n")
    assert row.text == long
    part, row = tsv(tmp_path, 'id\ttext\n1\t"never closed\n' + f"{long}\n" * 10 + "2\tgood\n")[::11]
    assert (part.name, row.text) == ("line 2", "good")
    assert "more than 1,000,000 characters" in part.reason


def test_columns_of_the_same_name_are_numbered(tmp_path):
    (row,) = tsv(tmp_path, "text\tload\tload\na\t4\t5\n")
    assert (row.text, row.fields) == ("a", {"load": 4, "load 2": 5})
