"""The commands that have to do with thresholds: finding them, and listing those that are known."""

import asyncio
import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from askance.choosing import DEFAULT_METHOD
from askance.cli_options import JsonFlag
from askance.cli_settings import with_settings
from askance.config_sources import Sourced
from askance.core.errors import InputError
from askance.core.strict_json import json_line
from askance.presets import preset_text, shipped
from askance.runtime.trace_file import check_writable
from askance.serve.console import err, out
from askance.text.printable import printable, printable_record
from askance.wire import make_method, own_prompts, with_preset, with_prompts

if TYPE_CHECKING:
    from askance.train.calibrate import Calibration


@with_settings()
def calibrate(
    dataset: Annotated[
        str, typer.Option(help="Questions: sample, jsonl:FILE, csv:FILE … See `askance datasets`.")
    ],
    sourced: Sourced,
    searches: Annotated[float, typer.Option(min=0, help="Searches wanted, a question on average.")] = 2.0,
    limit: Annotated[int, typer.Option(min=1, help="Most questions used, the first ones.")] = 40,
    knob: Annotated[str | None, typer.Option(help="The knob to turn, if not the method's own.")] = None,
    trials: Annotated[int, typer.Option(min=1, help="Most values tried; each asks every question.")] = 7,
    file: Annotated[Path | None, typer.Option("--out", help="Write a preset to this file (TOML).")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the threshold that leads to a wanted number of searches a question."""
    from askance.eval.datasets import read_dataset
    from askance.serve.progress import CalibrationProgress
    from askance.train.calibrate import calibrate as find_threshold
    from askance.train.calibrate import chosen_knob

    config = sourced.for_method()
    method = config.method or DEFAULT_METHOD
    knobs = with_prompts(method, config.knobs, config.prompts)
    settings = {**own_prompts(method, config.answering), **with_preset(method, knobs, "", config.preset)}
    made = make_method(method, settings)
    name = chosen_knob(type(made), knob).name
    config.check_retrieval(made)
    if file is not None:
        check_writable(file)
    questions = [example.question for example in read_dataset(dataset, limit)]
    encoder = config.open_encoder()
    searched = config.open_retriever(encoder)
    engine = config.engine(made, config.load_models(), searched, encoder)
    with CalibrationProgress(err, name, len(questions)) as progress:
        work = find_threshold(
            engine, questions, searches,
            knob=knob, max_trials=trials, in_flight=config.questions_in_flight, progress=progress,
        )  # fmt: skip
        found = asyncio.run(work)
    if file is not None and found.value is not None:
        _write_preset(file, found, settings, dataset)
    _show_as_json(found) if as_json else _show(found, file)
    if found.value is None:
        raise typer.Exit(1)


def presets() -> None:
    """List the presets that ship with askance."""
    for name, preset in shipped().items():
        out.print(Text(name, style="bold").append(f"  {preset.about}", style="not bold dim"), soft_wrap=True)
        for method, profile, knobs in preset.entries():
            place = f"{method} {profile}".strip()
            told = ", ".join(f"{knob}={value}" for knob, value in knobs.items())
            out.print(Text(f"  {place:<18} {told}"), soft_wrap=True)


def _show_as_json(found: "Calibration") -> None:
    print(json_line(dataclasses.asdict(found)))


def _show(found: "Calibration", file: Path | None) -> None:
    found = printable_record(found)
    for failure in found.failures:
        told = f"failed: question {failure.question_id} at {found.knob}={failure.value:g}: {failure.error}"
        err.print(told, style="yellow", markup=False, soft_wrap=True)
    out.print(_table(found))
    left_out = found.num_questions - found.num_counted
    if left_out:
        told = f"{left_out} of {found.num_questions} questions failed at least once and count nowhere above."
        out.print(told, style="yellow", markup=False, soft_wrap=True)
    if found.value is None or found.interval is None:
        out.print(found.remark, style="red", markup=False, soft_wrap=True)
        return
    low, high = found.interval
    leads = "should give" if found.remark else "gives"
    out.print(
        f"{found.knob}={found.value:g} {leads} {found.wanted:g} searches a question with {found.title} "
        f"on {found.model} (95 % interval {low:g} to {high:g}, {found.num_counted} questions)",
        markup=False, soft_wrap=True,
    )  # fmt: skip
    if found.remark:
        out.print(found.remark, style="yellow", markup=False, soft_wrap=True)
    if found.is_interval_cut:
        told = "an end of the interval is the last value tried: it may be wider. More questions narrow it."
        out.print(told, style="yellow", markup=False, soft_wrap=True)
    use = f"--set {found.knob}={found.value:g}"
    out.print(f"use it: {use}" if file is None else f"use it: {use}, or --preset {printable(str(file))}",
              markup=False, soft_wrap=True)  # fmt: skip


def _table(found: "Calibration") -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in (found.knob, "searches a question", "95 % interval", "tokens"):
        table.add_column(heading, justify="right")
    for row in found.table:
        low, high = row.searches_interval
        cells = (f"{row.value:g}", f"{row.searches:.2f}", f"{low:.2f} to {high:.2f}", f"{row.tokens:,.0f}")
        table.add_row(*cells)
    return table


def _write_preset(file: Path, found: "Calibration", settings: dict[str, Any], dataset: str) -> None:
    from askance.runtime.durable import write_atomically

    low, high = found.interval or (0.0, 0.0)
    comments = [
        f"askance calibrate, {datetime.now(UTC):%Y-%m-%d}: {found.wanted:g} searches a question",
        f"model {found.model}; {found.num_counted} questions of {dataset}",
        f"95 % interval of {found.knob}: {low:g} to {high:g}",
    ]
    settings = {**settings, found.knob: found.value}
    try:
        write_atomically(
            file, preset_text(type(make_method(found.method_name, settings)), settings, comments)
        )
    except OSError as error:
        raise InputError(f"can't write {file}: {error.strerror}. Name another file.") from error
