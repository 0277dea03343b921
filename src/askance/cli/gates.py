"""The commands that record signals, and measure gates and guards on recorded outcomes."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from askance.cli.options import JsonFlag, OutOption, with_settings, write_out
from askance.cli.runs import show_sections
from askance.configuration.evaluation import open_gates, open_score, read_dataset
from askance.configuration.presets import preset_text
from askance.configuration.sources import SourcedConfig
from askance.core.errors import InputError
from askance.core.parameters import method_spec
from askance.core.ports import language_model
from askance.core.safe_text import json_line, printable_record
from askance.evaluation.choose import outcomes
from askance.evaluation.choose.gates import measure_gates, trained_router
from askance.evaluation.report.gates import gate_chart, gate_section
from askance.evaluation.report.tables import counted
from askance.evaluation.report.writers import markdown
from askance.methods.loops.adaptive_rag import AdaptiveRag
from askance.storage.trace_file import check_writable
from askance.terminal.console import err, out, print_plain
from askance.terminal.progress import WritingProgress


def gates(
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...")] = None,
    recorded: Annotated[list[Path] | None, typer.Option(metavar="FILE")] = None,
    dev: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    metric: str = "accuracy",
    gate: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    chart: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    router: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    as_json: JsonFlag = False,
    as_markdown: Annotated[bool, typer.Option("--markdown")] = False,
) -> None:
    """Measure when a search would have been worth it: every gate and guard on the same recorded questions.

    No model is needed. Thresholds are chosen by cross-validation, or on the questions of --dev.

    Args:
        files: Files with outcomes (docs/gates.md shows the format), or folders of `askance signals`. Each is
            measured alone and, if there are several, all together.
        recorded: One more file with outcomes; may be repeated.
        dev: A file with other outcomes, on which the thresholds are chosen.
        metric: The metric by which short answers are scored.
        gate: Measure only this gate or guard, of the catalogue, a plug-in or module:function; may be
            repeated.
        chart: Write a chart of score against searches to this file (SVG); of several files, it shows all.
        router: Train a router for `adaptive_rag` on all questions, and write it to this file as a preset
            (TOML).
        as_markdown: Print Markdown.

    Examples:
        askance gates --recorded outcomes.jsonl --chart gates.svg
        askance gates --recorded test.jsonl.gz --dev dev.jsonl.gz --metric f1
    """
    for file in filter(None, (chart, router)):
        check_writable(file)
    paths = [*(files or ()), *(recorded or ())]
    if not paths:
        raise InputError(
            "no outcomes are named: give a file (docs/gates.md shows one), or a folder of `askance signals`."
        )
    score, (known, guards) = open_score(metric), open_gates(gate or ())
    parts = {str(path): outcomes.read_outcomes(path) for path in paths}
    if len(parts) > 1:
        parts["all together"] = tuple(outcome for found in parts.values() for outcome in found)
    given = () if dev is None else outcomes.read_outcomes(dev), metric, score, known, guards, gate or ()
    results = [measure_gates(name, found, *given) for name, found in parts.items()]
    if chart is not None:
        write_out(chart, gate_chart(results[-1]))
    if router is not None:
        settings = trained_router([*parts.values()][-1], score, known)
        trained = f"trained on {counted(results[-1].num_questions)} of {', '.join(map(str, paths))}"
        write_out(router, preset_text(AdaptiveRag, settings, [trained]))
    sections = printable_record([gate_section(each) for each in results])
    if as_json:
        print(json_line({"outcomes": results}))
    elif as_markdown:
        print("\n\n".join(map(markdown, sections)))
    else:
        show_sections(sections)


@with_settings()
def signals(
    dataset: Annotated[str, typer.Option()],
    folder: OutOption,
    sourced: SourcedConfig,
    limit: Annotated[int | None, typer.Option(min=1)] = None,
    samples: Annotated[int, typer.Option(min=0)] = 5,
    also: Annotated[list[str] | None, typer.Option(metavar="METHOD")] = None,
) -> None:
    """Record for each question what the model answers from memory and after one search, with all signals.

    `askance gates` reads what is recorded. If the command is stopped, run it again to continue.

    Args:
        dataset: The questions: sample, jsonl:FILE, csv:FILE …; `askance datasets` lists the names.
        folder: The folder for the outcomes.
        limit: The number of questions to use, at most, from the first.
        samples: The number of answers to sample from memory; 0 for none.
        also: Another method whose answers to record; may be repeated.

    Examples:
        askance signals --dataset sample --index sample-index --out signals
        askance gates signals
    """
    config = replace(sourced.for_method(), method="single")
    examples = read_dataset(dataset, limit)
    engine = replace(config.open(), abstaining=None, is_strict=False)
    others = {name: replace(engine, method=config.make(name)) for name in also or ()}
    model = language_model(engine.models["answer"])
    if missing := outcomes.lacking(model):
        lacks = f"{model.name} gives no {', no '.join(missing)}"
        print_plain(err, f"{lacks}: gates that read these can't be measured", "yellow")
    header = {
        "dataset": dataset,
        "model": [model.name, model.fingerprint],
        "index": engine.retriever.fingerprint if engine.retriever else "",
        "method": str(method_spec(engine.method, is_whole=True)),
        "seed": config.seed,
        "samples": samples,
        "also": [str(method_spec(each.method, is_whole=True)) for each in others.values()],
    }
    recorder, in_flight = outcomes.SignalRecorder(engine, samples, others), config.questions_in_flight
    with WritingProgress(err, "recording signals") as progress:
        recording = outcomes.record_signals(recorder, examples, folder, header, in_flight, progress)
        failures = asyncio.run(recording)
    for name, error in failures.items():
        print_plain(err, f"failed: question {name}: {error}", "yellow")
    print_plain(out, f"outcomes: {folder / outcomes.OUTCOMES}; measure gates: askance gates {folder}")
