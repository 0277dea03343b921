"""The command line. Everything it knows comes from `wire`; everything it shows comes from a trace."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from askance.cli_ask import ask
from askance.cli_calibrate import calibrate, presets
from askance.cli_config import config
from askance.cli_datasets import datasets
from askance.cli_eval import evaluate, grid
from askance.cli_examples import add_examples
from askance.cli_export import export
from askance.cli_index import index, search
from askance.cli_judge import judge
from askance.cli_methods import methods, prompts
from askance.cli_models import models
from askance.cli_options import JSON
from askance.cli_runs import compare, report
from askance.cli_trace import show_trace
from askance.cli_train import train
from askance.core.activity import shown_by
from askance.core.errors import AskanceError, MachineFailure
from askance.core.machine import machine_failure
from askance.core.notes import noted
from askance.core.strict_json import json_line
from askance.core.version import VERSION
from askance.serve.activity import Activities
from askance.serve.console import err, out
from askance.text.printable import printable


class Commands(TyperGroup):
    """The group of commands; each runs under `exit_codes`, before the framework can swallow an interrupt."""

    def invoke(self, context: Any) -> Any:
        with exit_codes(as_json=JSON in context.args), noted(_Telling()), shown_by(Activities(err)):
            return super().invoke(context)


app = typer.Typer(
    cls=Commands,
    help="Retrieval-augmented generation that decides when to search, and shows why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point."""
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            _make_safe(stream)
    with exit_codes():
        try:
            app(prog_name="askance")
        finally:
            sys.stdout.flush()


def _open_what_is_closed() -> None:
    """Nothing is read from a standard stream that was closed, and what is written to it goes nowhere."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r+", encoding="utf-8"))  # noqa: SIM115


def _make_safe(stream: io.TextIOWrapper) -> None:
    """JSON and TOML are UTF-8 wherever they go; a terminal escapes what it has no character for."""
    stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")


@contextmanager
def exit_codes(*, as_json: bool = False) -> Iterator[None]:
    """Our errors print their message and exit with their code, failures of the machine with 1; Ctrl-C exits
    with 130.

    Args:
        as_json: print an object with the key ``error`` on standard output, too.
    """
    try:
        yield
    except AskanceError as error:
        raise _told(machine_failure(error) or error, as_json=as_json) from error
    except typer.TyperException as error:
        _print_error_object(error, error.format_message(), error.exit_code, wanted=as_json)
        raise
    except (MemoryError, OSError, RuntimeError, ImportError) as error:
        failure = machine_failure(error)
        if failure is None:
            raise
        raise _told(failure, as_json=as_json) from error
    except KeyboardInterrupt as error:
        _print_error_object(error, "interrupted", 130, wanted=as_json)
        err.print("interrupted", style="red")
        raise SystemExit(130) from error


def _print_error_object(error: BaseException, message: str, exit_code: int, *, wanted: bool) -> None:
    if wanted:
        told = {"type": type(error).__name__, "message": message, "exit_code": exit_code}
        print(json_line({"error": told}))


class _Telling:
    """Says on standard error what calls note, such as why one waits; the same only once."""

    def __init__(self) -> None:
        self._told = set[str]()

    def __call__(self, name: str, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            err.print(printable(text), style="yellow", markup=False, soft_wrap=True)


def _told(error: AskanceError, *, as_json: bool) -> SystemExit:
    """Print an error; gives what ends the process with its code."""
    with suppress(OSError):
        _print_error_object(error, str(error), error.exit_code, wanted=as_json)
    with suppress(OSError):
        err.print(printable(f"error: {error}"), style="red", markup=False, soft_wrap=True)
    if isinstance(error, MachineFailure):
        # What could not be written would be tried once more when the process ends, with a traceback.
        for stream in (sys.stdout, sys.stderr):
            _give_up_where_full(stream)
    return SystemExit(error.exit_code)


def _give_up_where_full(stream: TextIO) -> None:
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _version(wanted: bool) -> None:
    if wanted:
        out.print(f"askance {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options before the command."""


app.command()(ask)
app.command()(methods)
app.command()(prompts)
app.command()(index)
app.command()(search)
app.command(name="trace")(show_trace)
app.command(name="eval")(evaluate)
app.command()(grid)
app.command()(models)
app.command()(calibrate)
app.command()(presets)
app.command()(config)
app.add_typer(train, name="train")
app.command()(datasets)
app.command()(judge)
app.add_typer(export, name="export")
app.command()(compare)
app.command()(report)
add_examples(app)


if __name__ == "__main__":
    main()
