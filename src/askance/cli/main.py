"""The command line: the one table of commands, and how any of them ends."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from textwrap import dedent
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup
from typer.main import get_group

from askance.core.errors import AskanceError, MachineFailure, machine_failure
from askance.core.notes import noted, shown_by
from askance.core.parameters import described
from askance.core.strict_json import json_line
from askance.core.version import VERSION
from askance.terminal.console import err, out, print_plain
from askance.terminal.progress import Activities

COMMANDS = {
    "ask": "askance.cli.ask:ask",
    "methods": "askance.cli.lists:methods",
    "prompts": "askance.cli.lists:prompts",
    "index": "askance.cli.ask:index",
    "search": "askance.cli.ask:search",
    "trace": "askance.cli.ask:show_trace",
    "eval": "askance.cli.evaluate:evaluate",
    "grid": "askance.cli.evaluate:grid",
    "models": "askance.cli.lists:models",
    "retrievers": "askance.cli.lists:retrievers",
    "encoders": "askance.cli.lists:encoders",
    "calibrate": "askance.cli.train:calibrate",
    "presets": "askance.cli.lists:presets",
    "config": "askance.cli.ask:config",
    "train": "askance.cli.train:train",
    "datasets": "askance.cli.lists:datasets",
    "metrics": "askance.cli.lists:metrics",
    "judge": "askance.cli.evaluate:judge",
    "export": "askance.cli.runs:export",
    "compare": "askance.cli.runs:compare",
    "report": "askance.cli.runs:report",
}
"""Every command, as "module:function" or the group of its own commands, which is imported on use."""


@cache
def _command(name: str) -> Any:
    found, holder = resolve_name(COMMANDS[name]), typer.Typer()
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        holder.command(name)(found)
    command = get_group(holder).commands[name]
    explain(command)
    return command


def explain(command: Any) -> None:
    """Take a command's help from its docstring, and that of its own commands: what it does, the help of its
    options from "Args:", and the "Examples:" that the help ends with.
    """
    told, _, examples = (command.help or "").partition("\n\nExamples:\n")
    command.help = told.partition("\n\nArgs:\n")[0]
    command.epilog = f"Examples:\n{dedent(examples)}" if examples else None
    helps = described(told, "Args")
    for parameter in command.params:
        parameter.help = helps.get(parameter.name, parameter.help)
    for own in getattr(command, "commands", {}).values():
        explain(own)


class Commands(TyperGroup):
    """The group of commands; each runs under `exit_codes`, before the framework can swallow an interrupt."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        explain(self)
        self.commands = dict.fromkeys(COMMANDS, cast(Any, None))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command, imported when it is asked for: one pays for no other."""
        return _command(cmd_name) if cmd_name in COMMANDS else None

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        tells_once = cache(lambda name, text: print_plain(err, text, "yellow"))  # why one waits, for example
        with exit_codes(as_json="--json" in ctx.args), noted(tells_once), shown_by(Activities(err)):
            return super().invoke(ctx)


app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def main() -> None:
    """Entry point."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed: nothing is read from it, what is written goes nowhere
            setattr(sys, name, Path(os.devnull).open("r+", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # JSON and TOML are UTF-8 wherever they go; a terminal escapes what it has no character for.
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")
    with exit_codes():
        try:
            app(prog_name="askance")
        finally:
            sys.stdout.flush()


@contextmanager
def exit_codes(*, as_json: bool = False) -> Iterator[None]:
    """Our errors print their message and exit with their code, failures of the machine with 1; Ctrl-C exits
    with 130.

    Args:
        as_json: print an object with the key ``error`` on standard output, too.
    """
    try:
        yield
    except typer.TyperException as error:  # which typer prints for people
        _print_error_object(error, error.format_message(), error.exit_code, wanted=as_json)
        raise
    except KeyboardInterrupt as error:
        _print_error_object(error, "interrupted", 130, wanted=as_json)
        err.print("interrupted", style="red")
        raise SystemExit(130) from error
    except (AskanceError, MemoryError, OSError, RuntimeError, ImportError) as error:
        told = machine_failure(error) or error
        if not isinstance(told, AskanceError):
            raise
        with suppress(OSError):
            _print_error_object(told, str(told), told.exit_code, wanted=as_json)
        with suppress(OSError):
            print_plain(err, f"error: {told}", "red")
        if isinstance(told, MachineFailure):
            _leave_unwritten()
        raise SystemExit(told.exit_code) from error


def _print_error_object(error: BaseException, message: str, exit_code: int, *, wanted: bool) -> None:
    if wanted:
        told = {"type": type(error).__name__, "message": message, "exit_code": exit_code}
        print(json_line({"error": told}))


def _leave_unwritten() -> None:
    """Give up what can't be written: it would be tried once more when the process ends, with a traceback."""
    for stream in (sys.stdout, sys.stderr):
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
    """Retrieval-augmented generation that decides when to search, and shows why.

    Examples:
        askance index @sample --out sample-index
        askance ask "Where was Ingmar Bergman born?" --index sample-index
    """


if __name__ == "__main__":
    main()
