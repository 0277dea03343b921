"""Your own questions as a table: CSV with commas, or TSV with tabs, and a header.

    question,answers,supporting,hops
    Which river flows through Bonn?,Rhine | the Rhine,Bonn,1

becomes an open question with the id "1", two golds and one supporting title. The columns are the fields of
`own`. A cell of answers, options or supporting lists them with "|" between, or is a JSON list, where one
holds a "|" itself; instead of answers, there may be one `answer`, taken as it is. Empty cells count as left
out, and columns without a name are passed over.
"""

import json
from typing import Any

from pydantic import model_validator

from askance.eval.datasets.layouts import reader
from askance.eval.datasets.own import QuestionRecord, check_spelling
from askance.eval.datasets.records import table_rows

SHAPE = (
    'The columns are "question" and "answers" (with "|" between them) or "answer", with "id", "task" '
    '("open", "yes_no", "choice"), "options", "supporting", "type" and "hops" as you like.'
)
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


read = reader(TableRecord, SHAPE, rows_of=table_rows)
