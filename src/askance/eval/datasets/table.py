"""Your own questions as a table: CSV with commas, or TSV with tabs, and a header.

    question,answers,supporting,hops
    Which river flows through Bonn?,Rhine | the Rhine,Bonn,1

becomes an open question with the id "1", two golds and one supporting title. The columns are the fields of
`own`. A cell of answers, options or supporting lists them with "|" between, or is a JSON list, where one
holds a "|" itself; instead of answers, there may be one `answer`, taken as it is. Empty cells count as left
out, and columns without a name are passed over.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import model_validator

from askance.core.errors import DatasetError
from askance.eval.datasets import Example
from askance.eval.datasets.layouts import read_examples
from askance.eval.datasets.own import QuestionRecord, check_spelling
from askance.eval.datasets.records import opened

SHAPE = (
    'The columns are "question" and "answers" (with "|" between them) or "answer", with "id", "task" '
    '("open", "yes_no", "choice"), "options", "supporting", "type" and "hops" as you like.'
)
DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LISTS = ("answers", "options", "supporting")


class TableRecord(QuestionRecord):
    """A question of the user's, its fields spelt right and read from the texts of cells."""

    @model_validator(mode="before")
    @classmethod
    def _from_cells(cls, row: dict[str, str]) -> dict[str, Any]:
        check_spelling(row, (*cls.model_fields, "answer"))
        cells = {name: cell.strip() for name, cell in row.items() if cell.strip()}
        if "answer" in cells and "answers" in cells:
            raise ValueError("both answer and answers are filled in: leave one empty")
        answer = {"answers": [cells["answer"]]} if "answer" in cells else {}
        lists = {name: _texts(name, cells[name]) for name in _LISTS if name in cells}
        return cells | answer | lists | _whole_number(cells, "hops")


def read(path: Path) -> Iterator[Example]:
    """The questions of one file."""
    return read_examples(path, TableRecord, SHAPE, TableRecord.examples, rows_of=table_rows)


def table_rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The cells of each row by the names of the header, with the line that the row ends on.

    Raises:
        DatasetError: a file that can't be read, or is no table.
    """
    delimiter = DELIMITERS.get(path.suffix.lower())
    if delimiter is None:
        raise DatasetError(f"{path} is neither .csv nor .tsv: name it by what stands between its cells.")
    with opened(path, newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        filled = (cells for cells in reader if cells)
        try:
            header = _header(path, next(filled, []))
            for cells in filled:
                yield _row(path, f"line {reader.line_num}", header, cells)
        except csv.Error as error:
            raise DatasetError(
                f"{path}, line {reader.line_num}: {error}. A cell with quotes, the delimiter or a line break "
                'in it stands in double quotes, and a quote inside is written "".'
            ) from error


def _header(path: Path, cells: list[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    for name in names:
        if name and names.count(name) > 1:
            raise DatasetError(f"{path}, header: two columns are called {name!r}. Rename one.")
    return names


def _row(path: Path, place: str, header: list[str], cells: list[str]) -> tuple[str, dict[str, str]]:
    if len(cells) != len(header):
        raise DatasetError(
            f"{path}, {place}: {len(cells)} cell{'s' * (len(cells) != 1)} under {len(header)} columns. A "
            "cell with the delimiter in it stands in double quotes."
        )
    return place, {name: cell for name, cell in zip(header, cells, strict=True) if name}


def _texts(name: str, cell: str) -> Any:
    if not cell.startswith("["):
        return [text.strip() for text in cell.split("|")]
    try:
        return json.loads(cell)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"field {name} starts with [ but is no JSON list ({error})") from error


def _whole_number(cells: dict[str, str], name: str) -> dict[str, int]:
    """The cell as a number; what is none is left to be found by the check of the record."""
    cell = cells.get(name, "")
    return {name: int(cell)} if cell.isascii() and cell.isdigit() else {}
