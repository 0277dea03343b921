"""The commands for single questions: search documents, ask a question, show a trace."""

import asyncio
import dataclasses
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from askance.ask import Result, check_question
from askance.cli.options import OF_ONE_QUESTION, JsonFlag, OtelFlag, recording, with_settings, write_out
from askance.configuration.server import ServerConfig
from askance.configuration.sources import DEFAULT, SourcedConfig
from askance.core.errors import InputError
from askance.core.notes import before_doing, shown_by
from askance.core.ports import Needs
from askance.core.safe_text import json_line, printable, printable_record
from askance.core.trace import AnyEvent, Noted
from askance.storage.trace_file import check_writable, event_record, read_trace
from askance.terminal.console import out, plain_table, print_plain
from askance.terminal.live_view import LiveView
from askance.terminal.trace_view import print_trace


@with_settings(*OF_ONE_QUESTION)
def ask(
    question: Annotated[str, typer.Argument()],
    sourced: SourcedConfig,
    as_json: JsonFlag = False,
    trace: Path | None = None,
    otel: OtelFlag = False,
) -> None:
    """Answer a question, search when the method decides to, and show why.

    Args:
        question: The question to answer, or - to read it from standard input.
        trace: Write the trace, which records every step, to this file (JSON Lines).

    Examples:
        askance ask "Who wrote The Third Man?" --index sample-index
        askance ask "Who wrote it?" --index my-index --method single --trace why.jsonl
    """
    if question == "-":
        question = sys.stdin.buffer.read().decode(errors="surrogateescape").strip()
    check_question(question)
    with recording(otel, trace) as on_end:
        if as_json:
            result = dataclasses.replace(sourced.for_method().open_to_answer(), on_end=on_end).ask(question)
            print(json_line(_answer_record(result, trace)))
            return
        view = LiveView(out)
        with before_doing(lambda: view.echo(question)):
            engine = dataclasses.replace(sourced.for_method().open_to_answer(), on_end=on_end)
        with shown_by(None), view:
            engine.ask(question, listener=view)
    if trace is not None:
        print_plain(out, f"trace: {trace}", "dim")


def _answer_record(result: Result, path: Path | None) -> dict[str, Any]:
    return {
        "answer": result.answer.text,
        "short_answer": result.answer.short,
        "confidence": result.answer.confidence,
        "abstained": result.answer.abstained,
        "source": result.answer.source,
        "citations": [dataclasses.asdict(citation) for citation in result.answer.citations],
        "unsupported": [dataclasses.asdict(each) for each in result.answer.unsupported],
        "checked_by": result.answer.checked_by,
        "usage": dataclasses.asdict(result.usage),
        "notes": [event.text for event in result.trace.events if isinstance(event, Noted)],
        "decisions": [event_record(decision) for decision in result.trace.decisions],
        "trace_path": None if path is None else str(path),
    }


def show_trace(
    file: Annotated[Path, typer.Argument()],
    question: Annotated[str | None, typer.Option(metavar="ID")] = None,
    html: Annotated[Path | None, typer.Option(metavar="OUT")] = None,
    beside: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
) -> None:
    """Show a recorded trace: every decision, search and text of the model.

    Args:
        file: A trace file of `askance ask --trace`, or a run folder of `askance eval`.
        question: The id of a question of the run; records.jsonl lists the ids.
        html: Write a web page to this file instead, which needs no network. A run without --question becomes
            a page of all its questions.
        beside: With --html: a second trace file or run folder, to be shown beside the first.

    Examples:
        askance trace why.jsonl --html why.html
        askance trace runs/dragin --question bridge-01
    """
    sources = [file] if beside is None else [file, beside]
    if question is not None and not any(source.is_dir() for source in sources):
        raise InputError(
            f"--question {question!r} needs the folder of a run, and {file} is not one: leave it out, or "
            "name the folder that `askance eval --out` wrote."
        )
    if beside is not None and html is None:
        raise InputError(f"--beside {beside} needs a page: add --html OUT.")
    if html is not None:
        check_writable(html)
        if file.is_dir() and question is None and beside is None:
            from askance.evaluation.run.recorded_run import read_run
            from askance.viewer.run_page import run_page

            write_out(html, run_page(read_run(file)), f"page: {html}")
            return
    traces = [
        _trace_of_question(source, question) if source.is_dir() else read_trace(source) for source in sources
    ]
    if html is None:
        print_trace(traces[0], out)
        return
    from askance.viewer.page import standalone_page

    write_out(html, standalone_page(traces, [source.name for source in sources]), f"page: {html}")


def _trace_of_question(folder: Path, id: str | None) -> tuple[AnyEvent, ...]:
    from askance.evaluation.run.recorded_run import read_run

    run = read_run(folder)
    records = {record.id: record for record in run.records}
    if id in records:
        return run.trace(records[id])
    if id is None:
        hint = f", such as --question {next(iter(records))}" if records else ""
        raise InputError(f"{folder} is a run with a trace for each question: name one{hint}.")
    near = get_close_matches(id, records, n=1)
    remedy = f"did you mean {near[0]!r}?" if near else "records.jsonl there has the ids."
    raise InputError(f"the run {folder} has no finished question {id!r}: {remedy}")


@with_settings("index", "retriever", "rerank", "where", "encoder")
def search(
    query: Annotated[str, typer.Argument()],
    sourced: SourcedConfig,
    k: Annotated[int, typer.Option("-k", min=1)] = 3,
    as_json: JsonFlag = False,
) -> None:
    """Search an index, and show the best passages.

    Args:
        query: The words to search for.
        k: The number of passages to show, at most.

    Examples:
        askance search "suspension bridges" --index sample-index
        askance search "bridges" --index my-index -k 10 --retriever hybrid --json
    """
    needs = Needs(retriever=True)
    config = sourced.without_unused(needs)
    config.check_retrieval(needs)
    retriever = config.open_retriever(config.open_encoder())
    if retriever is None:
        raise InputError("no index is named: name one with --index DIR.")
    hits = asyncio.run(retriever.search(query, k))
    if as_json:
        print(json_line({"query": query, "hits": [dataclasses.asdict(hit) for hit in hits]}))
        return
    for hit in printable_record(hits):
        head = Text().append(f"{hit.rank}. ", style="dim").append(hit.passage.title, style="bold")
        score = f"{hit.score:.2f}" if config.retriever_spec == "bm25" else f"{hit.score:.4f}"
        out.print(head.append(f" {score}  {hit.passage.location}", style="dim"), soft_wrap=True)
        indented = Padding(Text(hit.passage.text), (0, 0, 0, 3), expand=False)
        out.print(indented, soft_wrap=not out.is_terminal)
    if not hits:
        out.print("nothing found")


@with_settings(kind=ServerConfig)
def config(sourced: SourcedConfig, as_json: JsonFlag = False) -> None:
    """Show every setting with its origin: a default, askance.toml, the environment, or an option.

    `--json` prints the configuration as traces and run folders store it, with the origins.

    Examples:
        askance config
        askance config --method single --set passages=5 --json
    """
    rows = list(sourced.lines())
    if as_json:
        origins = {key: origin for key, _, origin in rows}
        print(json_line({"config": sourced.config.stored(), "origins": origins}))
        return
    table = plain_table(["setting", "value", "from"], ())
    for key, value, origin in rows:
        cells = (key, "none" if value in (None, ()) else str(value), origin)
        table.add_row(*map(Text, map(printable, cells)), style="dim" if origin == DEFAULT else "")
    out.print(table)
