"""The command line: the one table of commands, and how any of them ends."""

import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer
from typer.core import TyperGroup
from typer.main import get_group

from askance.cli_examples import add_examples
from askance.cli_options import JSON
from askance.core.activity import shown_by
from askance.core.errors import AskanceError, MachineFailure
from askance.core.machine import machine_failure
from askance.core.notes import noted
from askance.core.strict_json import json_line
from askance.core.version import VERSION
from askance.serve.activity import Activities
from askance.serve.console import err, out
from askance.text.printable import printable

COMMANDS = {
    "ask": "askance.cli_ask:ask",
    "methods": "askance.cli_methods:methods",
    "prompts": "askance.cli_methods:prompts",
    "index": "askance.cli_index:index",
    "search": "askance.cli_index:search",
    "trace": "askance.cli_trace:show_trace",
    "eval": "askance.cli_eval:evaluate",
    "grid": "askance.cli_eval:grid",
    "models": "askance.cli_models:models",
    "calibrate": "askance.cli_calibrate:calibrate",
    "presets": "askance.cli_calibrate:presets",
    "config": "askance.cli_config:config",
    "train": "askance.cli_train:train",
    "datasets": "askance.cli_datasets:datasets",
    "judge": "askance.cli_judge:judge",
    "export": "askance.cli_export:export",
    "compare": "askance.cli_runs:compare",
    "report": "askance.cli_runs:report",
}
"""Every command, as "module:function" or the group of its own commands, which is imported on use."""


class _Imported(Mapping[str, Any]):
    """`COMMANDS` as the framework's own, each imported when it is asked for: one pays for no other."""

    def __getitem__(self, name: str) -> Any:
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _command(name: str) -> Any:
    module, _, attribute = COMMANDS[name].partition(":")
    found, holder = getattr(import_module(module), attribute), typer.Typer()
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        holder.command(name)(found)
    add_examples(holder)
    return get_group(holder).commands[name]


class Commands(TyperGroup):
    """The group of commands; each runs under `exit_codes`, before the framework can swallow an interrupt."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = cast(dict[str, Any], _Imported())

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


add_examples(app)


if __name__ == "__main__":
    main()
