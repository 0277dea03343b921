"""The command that answers a question."""

import asyncio
import dataclasses
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from askance.ask import Engine, Result, check_question
from askance.cli_options import JsonFlag
from askance.cli_settings import with_settings
from askance.config import SETTINGS
from askance.config_sources import Sourced
from askance.core.activity import before_doing, shown_by
from askance.core.errors import QuestionError
from askance.core.strict_json import json_line
from askance.core.trace import Noted, Trace
from askance.runtime.trace_file import check_writable
from askance.serve.console import out
from askance.text.printable import printable


@with_settings(*(name for name in SETTINGS if name != "in_flight"))
def ask(
    question: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    sourced: Sourced,
    as_json: JsonFlag = False,
    trace: Annotated[Path | None, typer.Option(help="Write the trace to this file (JSON Lines).")] = None,
) -> None:
    """Answer a question, searching when the method decides to, and show why."""
    question = _question_from_input() if question == "-" else question
    check_question(question)
    if trace is not None:
        check_writable(trace)
    config = sourced.for_method()
    if as_json:
        _ask_as_json(config.open(), question, trace)
    else:
        _ask_on_screen(config.open, question, trace)


def _question_from_input() -> str:
    try:
        return sys.stdin.buffer.read().decode().strip()
    except UnicodeDecodeError as error:
        raise QuestionError(
            f"the question on standard input is not UTF-8 ({error}): convert it to UTF-8."
        ) from error


def _ask_on_screen(open_named: Callable[[], Engine], question: str, path: Path | None) -> None:
    from askance.serve.live_view import LiveView

    view = LiveView(out)
    with before_doing(lambda: view.echo(question)):
        engine = open_named()
    with shown_by(None), view, _kept(Trace(view), path) as trace:
        asyncio.run(engine.answer(question, trace=trace))
    if path is not None:
        out.print(printable(f"trace: {path}"), style="dim", markup=False, soft_wrap=True)


def _ask_as_json(engine: Engine, question: str, path: Path | None) -> None:
    with _kept(Trace(), path) as trace:
        result = asyncio.run(engine.answer(question, trace=trace))
    print(json_line(_answer_record(result, trace, path)))


def _answer_record(result: Result, trace: Trace, path: Path | None) -> dict[str, Any]:
    from askance.runtime.trace_file import event_record

    return {
        "answer": result.answer.text,
        "short_answer": result.answer.short,
        "citations": [dataclasses.asdict(citation) for citation in result.answer.citations],
        "usage": dataclasses.asdict(result.usage),
        "notes": [event.text for event in trace.events if isinstance(event, Noted)],
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
