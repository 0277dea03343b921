"""The two layouts that the file of any dataset may have: its authors', and FlashRAG's (see `flashrag`).

A question of StrategyQA is answered by yes or no, however FlashRAG writes its answer: true, "Yes", "False".
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from askance.core.errors import DatasetError
from askance.core.types import Task
from askance.eval.datasets import Example
from askance.eval.datasets.flashrag import SHAPE, FlashragRecord
from askance.eval.datasets.records import Record, checked, rows

_YES_NO = {"true": "yes", "false": "no", "yes": "yes", "no": "no"}

R = TypeVar("R", bound=Record)


def read_examples(
    path: Path,
    kind: type[R],
    shape: str,
    examples: Callable[[R, int], Iterable[Example]],
    *,
    rows_of: Callable[[Path], Iterable[tuple[str, Any]]] = rows,
    task: Task | None = None,
    official_option: str = "",
) -> Iterator[Example]:
    """The questions of a file in either layout, record by record.

    Args:
        kind: a record in the authors' layout.
        shape: what one looks like, for the message.
        examples: makes examples of it and its place in the file, from 1.
        rows_of: gives the rows of a file, each with its place.
        task: of all questions, if it is not the record that tells.
        official_option: an option that was given and says something about the authors' layout only.

    Raises:
        DatasetError: as for `rows` and `checked`; a record of FlashRAG's, but an option it has no use for.
    """
    for number, (place, row) in enumerate(rows_of(path), start=1):
        where = f"{path}, {place}"
        if not isinstance(row, dict) or "golden_answers" not in row:
            yield from examples(checked(row, kind, shape, where), number)
        elif official_option:
            raise DatasetError(
                f"{where}: the option {official_option} has no meaning in FlashRAG's layout: leave it out, "
                "or name the file that the dataset's authors publish."
            )
        else:
            yield from checked(_with_task(row, task), FlashragRecord, SHAPE, where).examples(number)


def _with_task(row: dict[str, Any], task: Task | None) -> dict[str, Any]:
    answers = row["golden_answers"]
    if task == "yes_no" and isinstance(answers, list):
        answers = [_YES_NO.get(str(answer).lower(), answer) for answer in answers]
    return row | {"golden_answers": answers} | ({"task": task} if task else {})
