"""The command line: the table of commands, and the handling of their errors and exit codes."""

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

from askance.core.errors import AskanceError, InputError, machine_failure
from askance.core.extensions import LABORATORY, find_extension, known_names, plugins
from askance.core.notes import noted, shown_by
from askance.core.safe_text import json_line
from askance.core.version import VERSION
from askance.terminal.console import described, err, out, print_plain
from askance.terminal.progress import Activities

COMMANDS = {
    "ask": "askance.cli.ask:ask",
    "chat": "askance.cli.chat:chat",
    "mcp": "askance.cli.serve:mcp",
    "methods": "askance.cli.lists:methods",
    "prompts": "askance.cli.lists:prompts",
    "index": "askance.cli.index:index",
    "search": "askance.cli.ask:search",
    "serve": "askance.cli.serve:serve",
    "trace": "askance.cli.ask:show_trace",
    "eval": "askance.cli.evaluate:evaluate",
    "grid": "askance.cli.evaluate:grid",
    "reproduce": "askance.cli.reproduce:reproduce",
    "models": "askance.cli.lists:models",
    "retrievers": "askance.cli.lists:retrievers",
    "encoders": "askance.cli.lists:encoders",
    "calibrate": "askance.cli.calibrate:calibrate",
    "signals": "askance.cli.gates:signals",
    "gates": "askance.cli.gates:gates",
    "presets": "askance.cli.lists:presets",
    "config": "askance.cli.ask:config",
    "datasets": "askance.cli.lists:datasets",
    "metrics": "askance.cli.lists:metrics",
    "merge": "askance.cli.runs:merge",
    "judge": "askance.cli.evaluate:judge",
    "export": "askance.cli.runs:export",
    "compare": "askance.cli.runs:compare",
    "report": "askance.cli.runs:report",
    "advise": "askance.cli.advise:advise",
}
"""The "module:name" of the function or group of every command, which is imported on first use.

Plug-ins add commands through entry points of the group ``askance.commands``, which name a function or a group
of typer.
"""


@cache
def _built_in(name: str) -> Any:
    return _made(name, resolve_name(COMMANDS[name]))


def _plugged_in(name: str) -> Any:
    """Return the command of a plug-in, or None if there is none of that name.

    A plug-in that can't be used stops no other command. Its own command says what is wrong with it.
    """
    if name not in {*plugins("commands"), *LABORATORY["commands"]}:
        return None
    try:
        extension = find_extension("commands", name)
        return _made(name, extension and extension.target)
    except Exception as error:  # somebody else's code may raise anything
        known = isinstance(error, AskanceError)
        return _failing(name, error if known else InputError(f"the plug-in {name!r} is no command: {error}"))


def _made(name: str, target: Any, **settings: Any) -> Any:
    """Return the command that typer makes of a function or of a group."""
    holder = typer.Typer()
    if isinstance(target, typer.Typer):
        holder.add_typer(target, name=name)
    else:
        holder.command(name, context_settings=settings)(target)
    command = get_group(holder).commands[name]
    explain(command)
    return command


def _failing(name: str, error: Exception) -> Any:
    """Return a command that takes all arguments, and raises an error."""

    def fail() -> None:
        raise error

    fail.__doc__ = str(error)
    return _made(name, fail, ignore_unknown_options=True, allow_extra_args=True, help_option_names=[])


def explain(command: Any) -> None:
    """Set the help of a command and its subcommands from their docstrings.

    "Args:" becomes the help of the options, and "Examples:" the end of the help.
    """
    text, _, examples = (command.help or "").partition("\n\nExamples:\n")
    command.help = text.partition("\n\nArgs:\n")[0]
    command.epilog = f"Examples:\n{dedent(examples)}" if examples else None
    helps = described(text, "Args")
    for parameter in command.params:
        parameter.help = helps.get(parameter.name, parameter.help)
    for own in getattr(command, "commands", {}).values():
        explain(own)


class Commands(TyperGroup):
    """The group of all commands. Every command runs under `exit_codes`, so typer can't swallow Ctrl-C."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        explain(self)
        self.commands = dict.fromkeys(COMMANDS, cast(Any, None))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command. To save time, the module of a command is imported only when it is used."""
        return _built_in(cmd_name) if cmd_name in COMMANDS else _plugged_in(cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, those of plug-ins included."""
        return known_names("commands", COMMANDS)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the user named."""
        # Notes give, for example, the reason for a wait.
        print_once = cache(lambda name, text: print_plain(err, text, "yellow"))
        with exit_codes(as_json="--json" in ctx.args), noted(print_once), shown_by(Activities(err)):
            return super().invoke(ctx)


app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def main() -> None:
    """Run the command line. This function is the entry point of the program."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # a closed stream: input is empty, and output is discarded
            setattr(sys, name, Path(os.devnull).open("r+", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # JSON and TOML are always UTF-8; a terminal escapes characters that it can't show. In a question,
            # bytes that are not UTF-8 become characters that `check_question` refuses.
            errors = "surrogateescape" if stream is sys.stdin else "backslashreplace"
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors=errors)
    with exit_codes():
        try:
            app(prog_name="askance")
        finally:
            sys.stdout.flush()


@contextmanager
def exit_codes(*, as_json: bool = False) -> Iterator[None]:
    """Print the message of an error and exit with its code.

    Failures of the machine, such as a full disk, exit with 1, and Ctrl-C with 130.

    Args:
        as_json: Whether to also print an object with the key ``error`` on standard output.
    """
    try:
        yield
    except typer.TyperException as error:  # typer prints its message
        names = {each.name for each in getattr(getattr(error, "cmd", None), "params", ())}
        if "unexpected extra argument" in error.message and (texts := names & {"question", "query"}):
            error.message += f": put the {min(texts)} in quotes"
        _print_error_object(error, error.format_message(), error.exit_code, wanted=as_json)
        raise
    except KeyboardInterrupt as error:
        _print_error_object(error, "interrupted", 130, wanted=as_json)
        err.print("interrupted", style="red")
        raise SystemExit(130) from error
    except (AskanceError, MemoryError, OSError, RuntimeError, ImportError) as error:
        reported = machine_failure(error) or error
        if not isinstance(reported, AskanceError):
            raise
        with suppress(OSError):
            _print_error_object(reported, str(reported), reported.exit_code, wanted=as_json)
        with suppress(OSError):
            print_plain(err, f"error: {reported}", "red")
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # Python would try again at exit, and print a traceback
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise SystemExit(reported.exit_code) from error


def _print_error_object(error: BaseException, message: str, exit_code: int, *, wanted: bool) -> None:
    if wanted:
        fields = {"type": type(error).__name__, "message": message, "exit_code": exit_code}
        print(json_line({"error": fields}))


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
