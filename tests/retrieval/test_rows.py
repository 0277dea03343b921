import json
import re

import pytest

from askance.core.errors import DocumentError
from askance.retrieval.index.formats.rows import read_jsonl, read_table


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
def test_a_malformed_json_row_names_file_line_problem_and_remedy(tmp_path, row, problem):
    with pytest.raises(DocumentError) as caught:
        jsonl(tmp_path, f'{{"text": "good"}}\n{row}\n')
    message = str(caught.value)
    place = re.escape(f"{tmp_path / 'rows.jsonl'}, line 2")
    assert re.search(rf"{place}(, field (text|title|id))?: ", message)
    assert problem in message
    assert 'such as {"id": "7"' in message
    assert caught.value.exit_code == 2


def test_rows_are_read_one_by_one(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"text": "good"}\nbad\n')
    rows = read_jsonl(tmp_path / "rows.jsonl")
    assert next(rows).text == "good"
    with pytest.raises(DocumentError):
        next(rows)


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
    ("content", "place", "problem", "remedy"),
    [
        ("id\ttext\ttitle\n1\tonly two\n", "line 2", ": 2 cells under 3 columns", QUOTES),
        ('id\ttext\n1\t"quoted" and more\n', "line 2", "expected after", QUOTES),
        ('id\ttext\n1\t"never closed\n2\tmore\n', "line 3", "unexpected end", QUOTES),
        ('id\ttext\n1\t"' + "word " * 40_000, "line 2", "field larger", QUOTES),
        ("id\ttext\n\tno id\n", "line 2", ", field id: is empty, found ''", COLUMNS),
    ],
)
def test_a_malformed_tsv_row_names_file_line_problem_and_remedy(tmp_path, content, place, problem, remedy):
    with pytest.raises(DocumentError) as caught:
        tsv(tmp_path, content)
    message = str(caught.value)
    assert re.search(rf"{re.escape(str(tmp_path / 'rows.tsv'))}, {place}(, field id)?: ", message)
    assert problem in message
    assert remedy in message
