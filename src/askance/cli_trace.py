"""The command that shows recorded traces: of one answer, or of a question of a run."""

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from askance.core.errors import InputError
from askance.core.trace import AnyEvent
from askance.runtime.trace_file import read_trace
from askance.serve.console import out


def show_trace(
    file: Annotated[
        Path,
        typer.Argument(help="A trace of `askance ask --trace`, or the folder of a run of `askance eval`."),
    ],
    question: Annotated[
        str | None, typer.Option(metavar="ID", help="Which question of the run; records.jsonl has the ids.")
    ] = None,
) -> None:
    """Show a recorded trace."""
    from askance.serve.terminal import print_trace

    if file.is_dir():
        events = _trace_of_question(file, question)
    elif question is None:
        events = read_trace(file)
    else:
        raise InputError(
            f"--question {question!r} is for the folder of a run, and {file} is none: leave it out, or name "
            "the folder that `askance eval --out` wrote."
        )
    print_trace(events, out)


def _trace_of_question(folder: Path, id: str | None) -> tuple[AnyEvent, ...]:
    from askance.eval.recorded_run import read_run

    run = read_run(folder)
    if id is None:
        such_as = f", such as --question {run.records[0].id}" if run.records else ""
        raise InputError(f"{folder} is a run with a trace for each question: name one{such_as}.")
    record = next((record for record in run.records if record.id == id), None)
    if record is None:
        near = get_close_matches(id, [record.id for record in run.records], n=1)
        remedy = f"did you mean {near[0]!r}?" if near else "records.jsonl there has the ids."
        raise InputError(f"the run {folder} has no finished question {id!r}: {remedy}")
    return run.trace(record)
