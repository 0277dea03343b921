"""The commands that write recorded runs in the formats of other evaluations."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from askance.core.errors import InputError
from askance.runtime.durable import write_atomically
from askance.runtime.trace_file import check_writable
from askance.serve.console import out
from askance.text.printable import printable

if TYPE_CHECKING:
    from askance.eval.recorded_run import RecordedRun

export = typer.Typer(
    help="Write a run in the format of another evaluation.", no_args_is_help=True, add_completion=False
)

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A folder written by `askance eval`.")]
OutOption = Annotated[Path, typer.Option("--out", help="The file to write; there must be none yet.")]


@export.command()
def alce(
    run: RunArgument,
    file: OutOption,
    dataset: Annotated[
        str | None, typer.Option(help="asqa:FILE; otherwise the file that the run was asked from.")
    ] = None,
) -> None:
    """Write a run over ASQA as ALCE's eval.py reads it (JSON)."""
    from askance.eval.export import alce as exported
    from askance.eval.recorded_run import read_run

    _check_free(file)
    found = read_run(run)
    _write(file, exported(found, dataset or found.settings.dataset), found)


@export.command()
def factscore(run: RunArgument, file: OutOption) -> None:
    """Write a run over biographies as FActScore reads it (JSON Lines)."""
    from askance.eval.export import factscore as exported
    from askance.eval.recorded_run import read_run

    _check_free(file)
    found = read_run(run)
    _write(file, exported(found), found)


def _check_free(file: Path) -> None:
    check_writable(file)
    if file.exists():
        raise InputError(f"won't write {file}: it is there already. Name another --out, or move it away.")


def _write(file: Path, text: str, run: "RecordedRun") -> None:
    try:
        write_atomically(file, text)
    except OSError as error:
        raise InputError(f"can't write {file}: {error.strerror}. Name another file.") from error
    of = "" if run.is_complete else f" of {run.settings.num_questions:,}"
    told = f"{len(run.records):,}{of} questions: {file}"
    out.print(printable(told), markup=False, soft_wrap=True)
