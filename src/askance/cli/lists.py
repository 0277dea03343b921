"""The commands that list what is available: methods, models, datasets, metrics and so on."""

import asyncio
import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, get_type_hints

import typer
from rich.text import Text

from askance.cli.options import JsonFlag
from askance.configuration.build import check_model
from askance.configuration.catalogue import (
    AIRRAG_PROMPT_SETS,
    DATASETS,
    DEFAULT_METHOD,
    ENCODERS,
    METHODS,
    METRICS,
    MODELS,
    NAMES,
    PROMPT_SETS,
    READINGS,
    RETRIEVERS,
    Kind,
)
from askance.configuration.evaluation import metric_function, read_dataset
from askance.configuration.methods import make_method, method_class, parameter_schema
from askance.configuration.presets import shipped
from askance.configuration.prompts import open_prompts, prompts_toml
from askance.core.errors import InputError
from askance.core.extensions import LABORATORY, known_names, packages_of_plugins, passed_over
from askance.core.parameters import describe_type, parameter_range
from askance.core.ports import Method, Needs
from askance.core.safe_text import json_line, printable_record
from askance.evaluation.datasets import Dataset, Example
from askance.methods.airrag.prompts import AirragPromptTemplate
from askance.models.checking import CheckReport
from askance.terminal.console import Row, err, out, plain_table, print_plain

CONTINUES, ATTENTION = "continuation", "attention"
NEEDS = {
    "logprob": "it returns the log-probabilities of its tokens",
    CONTINUES: "it continues a text: raw, or the beginning of an answer in its chat format",
    "raw": "it continues a text without any chat format",
    ATTENTION: "it returns its attention, or another model does (--model attend=bundled)",
}
"""The abilities that a method may need of a model, with their explanations."""


def _list(
    kind: str,
    headings: Sequence[str],
    rows: Iterable[Row],
    own: Collection[str],
    left_out: Sequence[str] = (),
) -> None:
    """Print a table of all entries of a kind, such as "metrics", including those of plug-ins.

    Args:
        own: The names that askance itself defines.
        left_out: The names of plug-ins to leave out.
    """
    listed, blanks = [*rows], [""] * (len(headings) - 2)
    named = {*left_out, *(str(row[0]) for row in listed)}
    plugins = packages_of_plugins(kind, own).items()
    listed += [(name, *blanks, package) for name, package in plugins if name not in named]
    out.print(plain_table(headings, listed))
    for warning in passed_over(kind, own):
        print_plain(err, warning, "yellow")


def methods(
    name: Annotated[str | None, typer.Argument()] = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """List the methods: when each one searches, and what it needs. With NAME, show one method in detail.

    NAME may also be the method of a plug-in, or module:Class.

    Args:
        name: The method to show with its parameters, paper and documentation page.
        as_json: Print the names of the methods or, with NAME, the JSON Schema of its parameters.

    Examples:
        askance methods
        askance methods dragin
    """
    if name is not None:
        print(json_line(parameter_schema(method_class(name)))) if as_json else _show_method(name)
        return
    if as_json:
        print(json_line({"methods": known_names("methods", METHODS)}))
        return
    made = dict[str, Method]()
    for name in known_names("methods", METHODS):
        try:
            made[name] = make_method(name)
        except InputError as error:  # a broken plug-in must not prevent the listing of the other methods
            print_plain(err, f"{name}: {error}", "yellow")
    variants = [name for name in made if name.endswith(("_paper", "_authors"))]
    listed = {name: method for name, method in made.items() if name not in variants}
    bare = [name for name, method in listed.items() if name in METHODS and not method.needs.retriever]
    rows: list[Row] = []
    for name, method in listed.items():
        shown = Text(name, style="bold").append(" (default)" * (name == DEFAULT_METHOD), style="not bold")
        needs = ", ".join(_needs(method.needs)) or "any model"
        rows.append((shown, getattr(method, "searches", ""), needs))
    _list("methods", ("method", "searches", "needs of its model"), rows, METHODS, left_out=variants)
    notes = [
        *(f"{need}: {meaning}" for need, meaning in NEEDS.items()),
        f"Variants by the paper and the authors' code: {', '.join(variants)}.",
        f"All methods except {', '.join(bare)} search: they need an index.",
        "Show a method with its parameters: askance methods NAME",
    ]
    out.print(Text("\n".join(("", *notes)), style="dim"))


def _show_method(name: str) -> None:
    method = make_method(name)
    summary = (method.__doc__ or "").strip().split("\n\n")[0]
    wanted = [f"{need} ({NEEDS[need]})" if need in NEEDS else need for need in _needs(method.needs)]
    wanted += ["an index"] * method.needs.retriever
    page = name.removesuffix("_authors").removesuffix("_paper")  # variants share the page of their method
    rows = {
        "searches": getattr(method, "searches", ""),
        "needs": "; ".join(wanted) or "any model",
        "paper": getattr(method, "paper", ""),
        "page": f"docs/methods/{page}.md" if name in (*METHODS, *LABORATORY["methods"]) else "",
    }
    out.print(Text(name, style="bold").append(f"  {' '.join(summary.split())}", style="not bold"))
    out.print(plain_table((), [(fact, value) for fact, value in rows.items() if value]))
    out.print(Text("\nparameters (set them with --set parameter=value)", style="bold"))
    headings = ("parameter", "default", "meaning, and its values")
    out.print(plain_table(headings, _parameter_rows(type(method)), style="dim"))


def _parameter_rows(cls: type[Any]) -> Iterable[Row]:
    hints = get_type_hints(cls)
    known = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    for field in sorted(known, key=lambda field: field.kw_only is True):
        default, (low, high) = field.default, parameter_range(field)
        shown = str(default).lower() if default is None or isinstance(default, bool) else str(default)
        bounds = f", {low:g} or more" if math.isinf(high) else f", {low:g} to {high:g}"
        values = describe_type(hints[field.name]) + (bounds if math.isfinite(low) else "")
        kind, own = NAMES.get(field.name, ("", ()))
        values += "".join(f"; {each}: {package}" for each, package in packages_of_plugins(kind, own).items())
        yield field.name, shown, f"{field.metadata.get('description', '')} ({values})"


def _needs(needs: Needs) -> list[str]:
    """Return the abilities that a method needs, by their names in `NEEDS` if they have one."""
    of_its_own = {"attention": "attention of its own"}
    wanted = [of_its_own.get(signal, signal) for signal in sorted(needs.signals)]
    wanted += sorted(needs.capabilities)
    return wanted + [CONTINUES] * bool(needs.one_of) + [ATTENTION] * needs.attention


def prompts(name: Annotated[str | None, typer.Argument()] = None) -> None:
    """List the prompt sets, or print one as a file that you can edit.

    Args:
        name: A prompt set to print as a file, or a prompt file to check.

    Examples:
        askance prompts
        askance prompts hotpotqa
    """
    if name is not None:
        print(prompts_toml(name), end="")
        return
    num_examples = {each: len(open_prompts(each).demos) for each in PROMPT_SETS}
    num_examples |= {each: open_prompts(each, AirragPromptTemplate).examples for each in AIRRAG_PROMPT_SETS}
    known = PROMPT_SETS | AIRRAG_PROMPT_SETS
    rows = [(each, str(num_examples[each]), purpose) for each, purpose in known.items()]
    _list("prompts", ("set", "examples", "for"), rows, known)


def presets() -> None:
    """List the presets that ship with askance.

    Examples:
        askance presets
        askance ask "Who wrote it?" --index my-index --preset bundled
    """
    for name, preset in shipped().items():
        out.print(Text(name, style="bold").append(f"  {preset.about}", style="not bold dim"), soft_wrap=True)
        for method, parameters in preset.entries.items():
            values = ", ".join(f"{parameter}={value}" for parameter, value in parameters.items())
            print_plain(out, f"  {method:<18} {values}")


def retrievers() -> None:
    """List the retrievers, which are the ways to search an index, including those of plug-ins.

    Examples:
        askance retrievers
        askance search "bridges" --index my-index --retriever hybrid
    """
    _list_kinds("retrievers", ("spec", "what it searches by"), RETRIEVERS)


def encoders() -> None:
    """List the kinds of encoders, which turn texts into vectors.

    Examples:
        askance encoders
        askance index notes/ --out my-index --encoder bundled
    """
    _list_kinds("encoders", ("spec", "what it is"), ENCODERS)


def _list_kinds(port: str, headings: Sequence[str], kinds: Mapping[str, Kind]) -> None:
    _list(port, headings, [(kind.form or name, kind.what) for name, kind in kinds.items()], kinds)


def metrics() -> None:
    """List the metrics that `askance eval` can compute, and the ways to read short answers.

    Examples:
        askance metrics
        askance eval --dataset sample --index sample-index --metric f1 --out runs/f1
    """
    rows = []
    for name, metric in METRICS.items():
        summary = (metric_function(metric).__doc__ or "").partition("\n")[0]
        what = summary.removeprefix("Return ").rstrip(".")
        rows.append((f"{name}{metric.parameter}", what, metric.reads))
    _list("metrics", ("metric", "what it is", "reads"), rows, METRICS)
    named = ", ".join(known_names("readings", READINGS))
    out.print(Text(f"\nReadings of short answers, which --reading names: {named}.", style="dim"))


def models(
    spec: Annotated[str | None, typer.Option("--check", metavar="SPEC")] = None, as_json: JsonFlag = False
) -> None:
    """List the kinds of models and whether they are installed, or check one model.

    The exit code of a check is 0 if all abilities that the model declares work.

    Args:
        spec: Check this model by trying everything that a model may be able to do.

    Examples:
        askance models
        askance models --check openai:qwen2.5:7b@http://localhost:11434/v1
    """
    if spec is not None:
        report = asyncio.run(check_model(spec))
        if as_json:
            print(json_line({**dataclasses.asdict(report), "is_right": report.is_right}))
        else:
            _show_report(report)
        if not report.is_right:
            raise typer.Exit(1)
    elif as_json:
        keys = ("spec", "what", "missing", "install")
        values = [(kind.form, kind.what, kind.missing, kind.install()) for kind in MODELS.values()]
        values += [(*entry, [], "") for entry in packages_of_plugins("models", MODELS).items()]
        print(json_line({"models": [dict(zip(keys, each, strict=True)) for each in values]}))
    else:
        kinds = MODELS.values()
        listed = [(kind.form, kind.what, "not installed" if kind.missing else "ready") for kind in kinds]
        _list("models", ("spec", "what it is", "here"), listed, MODELS)
        for name, kind in MODELS.items():
            if kind.missing:
                print_plain(out, f"{name} needs: {kind.install()}")


def _show_report(report: CheckReport) -> None:
    print_plain(out, f"{report.model}, window of {report.context_tokens:,} tokens", "bold")
    table = plain_table(("ability", "declared", "works", ""), (), style="dim")
    yes_no: dict[bool | None, str] = {True: "yes", False: "no"}
    for finding in printable_record(report).findings:
        declared, works = yes_no.get(finding.is_declared, "always"), yes_no.get(finding.works, "not tried")
        note = f"declare it: ?{finding.declare}" if finding.works and finding.declare else finding.why
        style = "red" if finding.is_declared and not finding.works else ""
        table.add_row(*map(Text, (finding.ability, declared, works, note)), style=style)
    out.print(table)
    verdict = f"{'all' if report.is_right else 'not all'} declared abilities work"
    out.print(Text(verdict, style="green" if report.is_right else "red"))


def datasets(spec: Annotated[str | None, typer.Argument(metavar="NAME:FILE")] = None) -> None:
    """List the datasets that can be read, or show the contents of a dataset file.

    Args:
        spec: A dataset file to read and summarise.

    Examples:
        askance datasets
        askance datasets jsonl:mine.jsonl
    """
    if spec is None:
        headings = ("dataset", "questions; kinds of file; licence; source")
        _list("datasets", headings, map(_dataset_row, DATASETS.values()), DATASETS)
    else:
        _show_examples(spec, printable_record(read_dataset(spec)))


def _dataset_row(dataset: Dataset) -> Row:
    spec, bracket, options = dataset.spec.partition("[")
    facts = "; ".join(filter(None, (" or ".join(dataset.layouts), dataset.licence)))
    cell = Text(dataset.what)
    for line in filter(None, (facts, dataset.source)):
        cell.append(f"\n{line}", style="dim")
    return f"{spec}\n  {bracket}{options}" if options else spec, cell


def _show_examples(spec: str, examples: Sequence[Example]) -> None:
    supported = sum(bool(example.supporting_titles) for example in examples)
    all_facts = [example.supporting_facts for example in examples]
    grounded = sum(bool(facts.supporting or facts.facts) for facts in all_facts)
    counts = f"{supported:,} with supporting titles, {grounded:,} with supporting texts or facts"
    print_plain(out, f"{spec}: {len(examples):,} questions, {counts}")
    kinds = Counter(example.kind or "(none)" for example in examples)
    hops = Counter(str(example.hops or "(not known)") for example in examples)
    out.print(plain_table(("kind", "questions"), sorted(kinds.items())))
    out.print(plain_table(("hops", "questions"), sorted(hops.items())))
    out.print("first", style="bold")
    first, question = examples[0], examples[0].question
    rows = {
        "id": question.id,
        "question": question.text,
        "task": question.task,
        "options": " | ".join(question.options),
        "golds": " | ".join(first.golds),
        "supporting": " | ".join(first.supporting_titles),
    }
    out.print(plain_table((), [(Text(name, style="dim"), value) for name, value in rows.items() if value]))
