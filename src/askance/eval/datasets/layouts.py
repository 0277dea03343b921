"""The two layouts that the file of any dataset may have: its authors', and FlashRAG's (see `flashrag`).

A question of StrategyQA is answered by yes or no, however FlashRAG writes its answer: true, "Yes", "False".
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from askance.core.errors import DatasetError
from askance.core.types import Task
from askance.eval.datasets import Example
from askance.eval.datasets.flashrag import SHAPE, FlashragRecord
from askance.eval.datasets.records import Asking, checked, rows

_YES_NO = {"true": "yes", "false": "no", "yes": "yes", "no": "no"}

Rows = Callable[[Path], Iterable[tuple[str, Any]]]
"""Gives the rows of a file, each with its place."""


def reader(
    kind: type[Asking],
    shape: str,
    *,
    rows_of: Rows = rows,
    task: Task | None = None,
    has_flashrag: bool = True,
    official_option: str = "",
) -> Callable[[Path], Iterator[Example]]:
    """What reads the questions of a file in either layout, record by record.

    Args:
        kind: a record in the authors' layout.
        shape: what one looks like, for the message.
        task: of all questions, if it is not the record that tells.
        has_flashrag: whether a record may be in FlashRAG's layout.
        official_option: an option that was given and says something about the authors' layout only.

    The function raises DatasetError as `rows` and `checked` do, and where a record of FlashRAG's meets an
    option that it has no use for.
    """

    def read(path: Path) -> Iterator[Example]:
        for number, (place, row) in enumerate(rows_of(path), start=1):
            where = f"{path}, {place}"
            if not has_flashrag or not isinstance(row, dict) or "golden_answers" not in row:
                yield from checked(row, kind, shape, where).examples(number)
            elif official_option:
                raise DatasetError(
                    f"{where}: the option {official_option} has no meaning in FlashRAG's layout: leave it "
                    "out, or name the file that the dataset's authors publish."
                )
            else:
                yield checked(_with_task(row, task), FlashragRecord, SHAPE, where).example(number)

    return read


def _with_task(row: dict[str, Any], task: Task | None) -> dict[str, Any]:
    answers = row["golden_answers"]
    if task == "yes_no" and isinstance(answers, list):
        answers = [_YES_NO.get(str(answer).lower(), answer) for answer in answers]
    return row | {"golden_answers": answers} | ({"task": task} if task else {})
