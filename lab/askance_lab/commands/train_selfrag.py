"""The commands that make Self-RAG's training data, and that train its critic and its generator."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from askance.cli.options import NumberOption, OutOption, parameters_by_name, with_settings, write_out
from askance.configuration.build import recommended_in_flight
from askance.configuration.sources import SourcedConfig
from askance.core.errors import InputError
from askance.core.parameters import parse_parameters
from askance.core.ports import Needs
from askance.terminal.console import err, out, plain_table, print_plain
from askance_lab.commands.progress import AnnotationProgress, TrainingProgress
from askance_lab.commands.train import (
    check_packages,
    examples_by_name,
    print_training_report,
    show_steps,
    train,
)

if TYPE_CHECKING:
    from askance.methods.selfrag.tokens import Group
    from askance_lab.training.reader.save import TrainingReport
    from askance_lab.training.selfrag.acceptance import Acceptance
    from askance_lab.training.selfrag.group_results import GroupResult
    from askance_lab.training.selfrag.judgements import LabelledJudgement
    from askance_lab.training.selfrag.rows import SelfRagRow
    from askance_lab.training.selfrag.settings import RowSettings, SelfRagSettings

RowsOption = Annotated[list[Path] | None, typer.Option("--rows")]
DatasetOption = Annotated[list[str] | None, typer.Option("--dataset")]
AnnotatedOption = Annotated[list[Path] | None, typer.Option("--annotated", metavar="DIR")]
SetOption = Annotated[list[str] | None, typer.Option("--set")]
DryFlag = Annotated[bool, typer.Option("--dry-run")]


@train.command()
def selfrag(
    folder: OutOption,
    rows: RowsOption = None,
    dataset: DatasetOption = None,
    annotated: AnnotatedOption = None,
    model: str = "bundled:base",
    set_: SetOption = None,
    limit: NumberOption = None,
    dry: DryFlag = False,
    export: Annotated[Path | None, typer.Option()] = None,
) -> None:
    """Train a Self-RAG model: one that writes reflection tokens while it answers.

    If the command is stopped, run it again to continue. `--set` takes method, learning_rate, epochs and other
    hyperparameters: docs/train_selfrag.md lists them.

    Args:
        folder: The folder of the model; a stopped training there is continued.
        rows: A file of rows in the format of the authors' data; the option may be repeated.
        dataset: A dataset with supporting texts to make rows from, as NAME:FILE; the option may be repeated.
        annotated: A folder made by `askance annotate` to make rows from; the option may be repeated.
        model: The model to start from: bundled:base, hf:NAME, or a reader: bundled, hf:FOLDER.
        set_: A hyperparameter, as parameter=value; the option may be repeated.
        limit: Use only the first N rows of each file, and the first N questions of each dataset.
        dry: Show what would be learned, and stop.
        export: Write all rows to this file, in the same format, before training.

    Examples:
        askance train selfrag --rows mine.jsonl --out my-selfrag --dry-run
        askance train selfrag --dataset squad2:dev.json --out my-selfrag
    """
    check_packages("a Self-RAG model")
    from askance_lab.training.loop.model_folder import check_free
    from askance_lab.training.reader.train_reader import load_base
    from askance_lab.training.selfrag.rows import json_row
    from askance_lab.training.selfrag.settings import SelfRagSettings
    from askance_lab.training.selfrag.train_selfrag import train_selfrag

    settings = SelfRagSettings(**parse_parameters(SelfRagSettings, parameters_by_name(set_ or ())))
    _check_named(rows, dataset, annotated)
    check_free(folder)
    base, console = load_base(model), out if dry else err
    rows_by_file = generator_rows(rows, dataset, annotated, settings, limit)
    if export is not None:
        write_out(export, "".join(json_row(row) for some in rows_by_file.values() for row in some))

    def show(report: "TrainingReport[Any]", tokens: Counter[str]) -> None:
        from askance.methods.selfrag.tokens import ALL_TOKENS

        print_training_report(report, console)
        console.print(plain_table(("reflection token", "in training rows"), tokens.items()))
        missing = [token for token in ALL_TOKENS if not tokens[token]]
        if missing:
            print_plain(console, f"in no row, so not learned: {', '.join(missing)}", "yellow")

    def end(accepted: "Acceptance") -> None:
        _show_results(accepted.results)
        if accepted.num_written or accepted.num_unfinished:
            written = f"{accepted.num_written:,} answers written for held-out rows"
            share = f"of {written}, {accepted.well_formed:.1%} are well-formed"
            print_plain(out, f"{share}; {accepted.num_unfinished:,} more had no end")

    with TrainingProgress(err) as progress:
        report = train_selfrag(rows_by_file, base, settings, folder, progress, show, end, is_dry_run=dry)
    if not dry:
        show_steps(report, folder, "model")
        print_plain(out, f"use it: --method selfrag --model hf:{folder}")


@train.command()
def critic(
    folder: OutOption,
    rows: RowsOption = None,
    dataset: DatasetOption = None,
    annotated: AnnotatedOption = None,
    model: str = "bundled:base",
    set_: SetOption = None,
    limit: NumberOption = None,
    dry: DryFlag = False,
) -> None:
    """Train Self-RAG's critic: a model that judges passages, sentences and answers in words.

    If the command is stopped, run it again to continue. `--set` takes method, learning_rate, epochs and other
    hyperparameters: docs/train_selfrag.md lists them.

    Args:
        folder: The folder of the critic; a stopped training there is continued.
        rows: A file of rows with reflection tokens, whose labels are learned; the option may be repeated.
        dataset: A dataset with supporting texts to make rows from, as NAME:FILE; the option may be repeated.
        annotated: A folder made by `askance annotate`, whose labels are learned; the option may be repeated.
        model: The model to start from: bundled:base, hf:NAME, or a reader: bundled, hf:FOLDER.
        set_: A hyperparameter, as parameter=value; the option may be repeated.
        limit: Use only the first N rows of each file, and the first N questions of each dataset.
        dry: Show what would be learned, and stop.

    Examples:
        askance train critic --annotated annotated --out my-critic
        askance train critic --dataset squad2:dev.json --out my-critic --dry-run
    """
    check_packages("a critic")
    from askance_lab.training.loop.model_folder import check_free
    from askance_lab.training.reader.train_reader import load_base
    from askance_lab.training.selfrag.critic import CriticSettings, train_critic
    from askance_lab.training.selfrag.judgements import judgements_of_annotation, judgements_of_row

    settings = CriticSettings(**parse_parameters(CriticSettings, parameters_by_name(set_ or ())))
    _check_named(rows, dataset, annotated)
    check_free(folder)
    base, console = load_base(model), out if dry else err
    judgements: dict[str, Sequence[LabelledJudgement]] = {
        name: [judgement for row in some for judgement in judgements_of_row(row)]
        for name, some in _rows_by_file(rows, dataset, settings, limit).items()
    }
    for each in annotated or ():
        judgements[_new_name(each, judgements)] = [
            judgement for one in _annotations(each, limit) for judgement in judgements_of_annotation(one)
        ]

    def show(report: "TrainingReport[Any]", labels: Counter[str]) -> None:
        print_training_report(report, console)
        console.print(plain_table(("label", "judgements"), labels.items()))

    with TrainingProgress(err) as progress:
        report = train_critic(
            judgements, base, settings, folder, progress, show, _show_results, is_dry_run=dry
        )
    if not dry:
        show_steps(report, folder, "critic")
        print_plain(out, f"use it: --method selfrag --model critic=hf:{folder}")


@with_settings("index", "retriever", "encoder", "models", "in_flight")
def annotate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE")],
    folder: OutOption,
    sourced: SourcedConfig,
    passages: Annotated[int, typer.Option(min=1, metavar="N")] = 5,
    limit: NumberOption = None,
) -> None:
    """Have a model annotate answers: which sentences need a search, and which passages support them.

    `askance train critic` and `askance train selfrag` learn from the result. If the command is stopped, run
    it again to continue.

    Args:
        files: JSON Lines with "instruction" and "output", and optionally "input", "id", "dataset_name".
        folder: The folder of the annotations, which is created or completed.
        passages: The number of passages to judge for each sentence.
        limit: Use only the first N rows of each file.

    Examples:
        askance annotate mine.jsonl --index my-index --out annotated
        askance annotate mine.jsonl --index my-index --model hf:my-critic --out made
    """
    from askance_lab.training.selfrag.annotate import annotate_rows, annotator, check_rows, label_counts

    config = sourced.without_unused(Needs(retriever=True, roles=frozenset({"critic"})))
    config.check_retrieval(Needs(retriever=True))
    by_file = _rows_of(files, limit)
    rows = [
        replace(row, id=f"{Path(name).stem}:{row.id}") if len(files) > 1 else row
        for name, some in by_file.items()
        for row in some
    ]
    check_rows(rows)
    retriever = config.open_retriever(config.open_encoder())
    if retriever is None:
        raise InputError("no index is named: name one with --index DIR.")
    in_flight = config.in_flight or recommended_in_flight(config.answer_spec)
    made = annotator(config.load_models(), retriever, passages)
    with AnnotationProgress(err) as progress:
        annotations = asyncio.run(annotate_rows(rows, made, folder, in_flight, progress))
    counts = label_counts(annotations)
    table = [(group, label or "no label", f"{count:,}") for (group, label), count in sorted(counts.items())]
    out.print(plain_table(("group", "label", "number"), table))
    print_plain(
        out, f"{len(annotations):,} rows; learn from them: askance train selfrag --annotated {folder}"
    )


def _check_named(*sources: Sequence[Any] | None) -> None:
    if not any(sources):
        raise InputError(
            "there is nothing to learn from: give --rows FILE, --annotated DIR, or --dataset NAME:FILE to "
            "make rows from it."
        )


def generator_rows(
    files: Sequence[Path] | None,
    datasets: Sequence[str] | None,
    annotated: Sequence[Path] | None,
    settings: "SelfRagSettings",
    limit: int | None = None,
) -> "dict[str, tuple[SelfRagRow, ...]]":
    """Return the rows that a generator learns from, by the name that reports show.

    What the assembly of annotated rows leaves out is printed to standard error.
    """
    from askance_lab.training.selfrag.assembly import assembled_rows

    _check_named(files, datasets, annotated)
    rows = _rows_by_file(files, datasets, settings, limit)
    for each in annotated or ():
        made, left_out = assembled_rows(_annotations(each, limit), settings)
        rows[_new_name(each, rows)] = made
        for what, count in left_out.items():
            print_plain(err, f"{each.name}: {count:,} {what}", "yellow")
    return rows


def _rows_by_file(
    files: Sequence[Path] | None, datasets: Sequence[str] | None, settings: "RowSettings", limit: int | None
) -> "dict[str, tuple[SelfRagRow, ...]]":
    """Return the rows of files and datasets, by the name that reports show."""
    from askance_lab.training.selfrag.gold_rows import gold_rows

    rows = _rows_of(files or (), limit)
    for name, examples in examples_by_name(datasets or (), limit).items():
        rows[f"rows of {name}"] = gold_rows(name, examples, settings)
    return rows


def _rows_of(files: Sequence[Path], limit: int | None) -> "dict[str, tuple[SelfRagRow, ...]]":
    from askance_lab.training.selfrag.rows import read_rows

    rows: dict[str, tuple[SelfRagRow, ...]] = {}
    for path in files:
        rows[_new_name(path, rows)] = read_rows(path, limit)
    return rows


def _new_name(path: Path, names: Mapping[str, Any]) -> str:
    """Return the name of a file or folder, if it is not among `names`.

    Raises:
        InputError: It is.
    """
    if path.name in names:
        raise InputError(f"{path}: another file or folder of this name is given: rename one of them.")
    return path.name


def _annotations(folder: Path, limit: int | None) -> list[Any]:
    from askance_lab.training.selfrag.annotations import read_annotations

    return read_annotations(folder)[:limit]


def _show_results(results: "Mapping[Group, GroupResult]") -> None:
    from askance_lab.training.selfrag.group_results import COLUMNS, results_table

    if results:
        out.print(plain_table(COLUMNS, results_table(results)))
