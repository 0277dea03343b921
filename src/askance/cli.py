"""The command line. Everything it knows comes from `wire`; everything it shows comes from a trace."""

import asyncio
import dataclasses
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, TextIO, get_type_hints

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from askance.ask import Result, check_question
from askance.cli_calibrate import calibrate, presets
from askance.cli_datasets import datasets
from askance.cli_eval import evaluate, grid
from askance.cli_export import export
from askance.cli_index import index, search
from askance.cli_judge import judge
from askance.cli_models import models
from askance.cli_options import (
    JSON,
    BudgetOption,
    CacheOption,
    EncoderOption,
    IndexOption,
    JsonFlag,
    ModelOption,
    PresetOption,
    RetrieverOption,
    SetOption,
    budget_of,
    knobs_by_name,
    models_by_role,
)
from askance.cli_runs import compare, report
from askance.cli_trace import show_trace
from askance.cli_train import train
from askance.core.activity import shown_by
from askance.core.errors import AskanceError, MachineFailure, QuestionError
from askance.core.knobs import describe_type
from askance.core.machine import machine_failure
from askance.core.notes import noted
from askance.core.strict_json import json_line
from askance.core.trace import Trace
from askance.core.version import VERSION
from askance.loading import DEFAULT_RETRIEVER
from askance.runtime.trace_file import check_writable
from askance.serve.activity import Activities
from askance.serve.console import err, out
from askance.text.printable import printable
from askance.wire import (
    DEFAULT_METHOD,
    METHODS,
    Engine,
    method_class,
    open_engine,
)
from askance.wordings import WORDINGS, open_wording
from askance.wordings.airrag import AIRRAG_WORDINGS, open_airrag_wording, shown_prompts


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


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    index: IndexOption = None,
    retriever: RetrieverOption = DEFAULT_RETRIEVER,
    encoder: EncoderOption = None,
    method: Annotated[str, typer.Option(help="See `askance methods`.")] = DEFAULT_METHOD,
    model: ModelOption = None,
    set_: SetOption = None,
    prompts: Annotated[str | None, typer.Option(help="A set of `askance prompts`, or a prompt file.")] = None,
    preset: PresetOption = None,
    seed: Annotated[int, typer.Option(help="Makes a model's random choices repeatable.")] = 0,
    budget: BudgetOption = None,
    cache: CacheOption = None,
    as_json: JsonFlag = False,
    trace: Annotated[Path | None, typer.Option(help="Write the trace to this file (JSON Lines).")] = None,
) -> None:
    """Answer a question, searching when the method decides to, and show why."""
    question = _question_from_input() if question == "-" else question
    check_question(question)
    if trace is not None:
        check_writable(trace)
    engine = open_engine(
        method=method,
        model=models_by_role(model or ()),
        index=index,
        seed=seed,
        knobs=knobs_by_name(set_ or ()),
        prompts=prompts,
        preset=preset,
        budget=budget_of(budget or ()),
        cache=cache,
        retriever=retriever,
        encoder=encoder,
    )
    if as_json:
        _ask_as_json(engine, question, trace)
    else:
        _ask_on_screen(engine, question, trace)


def _question_from_input() -> str:
    try:
        return sys.stdin.buffer.read().decode().strip()
    except UnicodeDecodeError as error:
        raise QuestionError(
            f"the question on standard input is not UTF-8 ({error}): convert it to UTF-8."
        ) from error


def _ask_on_screen(engine: Engine, question: str, path: Path | None) -> None:
    from askance.serve.terminal import LiveView

    with LiveView(out) as view, _kept(Trace(view), path) as trace:
        asyncio.run(engine.answer_into(trace, question))
    if path is not None:
        out.print(printable(f"trace: {path}"), style="dim", markup=False, soft_wrap=True)


def _ask_as_json(engine: Engine, question: str, path: Path | None) -> None:
    with _kept(Trace(), path) as trace:
        result = asyncio.run(engine.answer_into(trace, question))
    print(json_line(_answer_record(result, trace, path)))


def _answer_record(result: Result, trace: Trace, path: Path | None) -> dict[str, Any]:
    from askance.runtime.trace_file import event_record

    return {
        "answer": result.answer.text,
        "short_answer": result.answer.short,
        "citations": [dataclasses.asdict(citation) for citation in result.answer.citations],
        "usage": dataclasses.asdict(result.usage),
        "decisions": [event_record(decision) for decision in trace.decisions],
        "trace_path": None if path is None else str(path),
    }


@contextmanager
def _kept(trace: Trace, path: Path | None) -> Iterator[Trace]:
    """Write the trace at the end, also when the question failed or was interrupted."""
    from askance.runtime.trace_file import write_trace

    try:
        yield trace
    finally:
        if path is not None and trace.events:
            write_trace(trace, path)


@app.command()
def methods() -> None:
    """List the methods with their papers, knobs and needs."""
    for name in METHODS:
        cls = method_class(name)
        mark = ", the default" if name == DEFAULT_METHOD else ""
        out.print(f"[bold]{name}[/bold]{mark}  [dim]{cls.paper}[/dim]")
        out.print(f"  {(cls.__doc__ or '').strip().splitlines()[0]}", markup=False)
        out.print(f"  needs: {_needs(cls)}", markup=False)
        out.print(_knob_table(cls))


@app.command(name="prompts")
def show_prompts(
    name: Annotated[str | None, typer.Argument(help="A set to print as a file, or a file to check.")] = None,
) -> None:
    """List the prompt sets, or print one whole in the file format, to start from."""
    if name is not None:
        print(shown_prompts(name), end="")
        return
    table = Table("set", "examples", "for", box=None, pad_edge=False, header_style="bold")
    for known, purpose in WORDINGS.items():
        table.add_row(*map(Text, (known, str(len(open_wording(known).demos)), purpose)))
    for known, purpose in AIRRAG_WORDINGS.items():
        table.add_row(*map(Text, (known, str(open_airrag_wording(known).examples), purpose)))
    out.print(table)


app.command()(index)
app.command()(search)
app.command(name="trace")(show_trace)
app.command(name="eval")(evaluate)
app.command()(grid)
app.command()(models)
app.command()(calibrate)
app.command()(presets)
app.add_typer(train, name="train")
app.command()(datasets)
app.command()(judge)
app.add_typer(export, name="export")
app.command()(compare)
app.command()(report)


def _knob_table(cls: type[Any]) -> Table:
    table = Table(box=None, padding=(0, 1), show_header=False)
    table.add_column(no_wrap=True)
    hints = get_type_hints(cls)
    for field in sorted(dataclasses.fields(cls), key=lambda field: field.kw_only is True):
        meaning = f"{field.metadata.get('help', '')} ({describe_type(hints[field.name])})"
        table.add_row(*map(Text, (f"  {field.name}", f"{field.default}", meaning)))
    return table


def _needs(cls: type[Any]) -> str:
    needs = cls().needs
    wanted = [*sorted(needs.signals), *sorted(needs.capabilities)]
    wanted += [needs.choice] if needs.choice else []
    wanted += ["attention (its own, or of a model in the role attend)"] if needs.attention else []
    wanted += ["an index"] if needs.retriever else []
    return ", ".join(wanted) or "any model"


if __name__ == "__main__":
    main()
