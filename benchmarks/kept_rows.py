"""A durable file of results, one per question, for measurements that are not evaluation runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from askance.evaluation.run.result_file import open_results

Row = dict[str, Any]
_ROW = TypeAdapter(Row)


@contextmanager
def kept_rows(folder: Path, settings: Row) -> Iterator[tuple[dict[str, Row], Callable[[Row], None]]]:
    """Open or create ``FOLDER/questions.jsonl``, whose first line contains the settings.

    Yields the results of the finished questions by id, and a function that adds a result.

    Raises:
        RunFolderError: As for `open_results`.
    """
    with open_results(folder / "questions.jsonl", settings, _ROW) as (rows, append):
        by_id = {row["id"]: row for row in rows}

        def add(row: Row) -> None:
            append([row])
            by_id[row["id"]] = row

        yield by_id, add
