"""The commands that say what there is to choose from: each lists one kind of name, some show one of them."""

import asyncio
import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Annotated, Any, get_type_hints

import typer
from rich.table import Table
from rich.text import Text

from askance.cli.options import JsonFlag
from askance.core.errors import InputError
from askance.core.extensions import known_names, packages_of_plugins, passed_over
from askance.core.parameters import describe_type, name_of, parameter_range
from askance.core.ports import Method, Needs
from askance.core.strict_json import json_line
from askance.evaluation.datasets import DATASETS, Dataset, Example, read_dataset
from askance.evaluation.metrics import METRICS
from askance.loaders import RETRIEVERS
from askance.models.checking import CheckReport, check
from askance.models.registry import MODEL_KINDS
from askance.presets import shipped
from askance.prompts import AIRRAG_WORDINGS, WORDINGS, open_airrag_wording, open_wording, shown_prompts
from askance.registry import DEFAULT_METHOD, METHODS, READINGS, plain_method
from askance.terminal.console import Row, err, out, plain_table, tell
from askance.text.printable import printable, printable_record

CONTINUES, ATTENTION = "continuation", "attention"
NEEDS = {
    "logprob": "it tells the log-probabilities of its tokens",
    CONTINUES: "it goes on from a text: raw, or the beginning of an answer in its chat format",
    "raw": "it goes on from a text without any chat format",
    ATTENTION: "it shows its attention, or another model does (--model attend=bundled)",
}
"""What a method may need of a model, in the words of the list."""


def _list(kind: str, headings: Sequence[str], rows: Iterable[Row], own: Collection[str]) -> None:
    """Print a table of all of a kind, such as "metrics": the rows, and what plug-ins offer beside them.

    Args:
        own: the names that are askance's own.
    """
    listed, blanks = [*rows], [""] * (len(headings) - 2)
    named, offered = {str(row[0]) for row in listed}, packages_of_plugins(kind, own)
    listed += [(name, *blanks, package) for name, package in offered.items() if name not in named]
    out.print(plain_table(headings, listed))
    for told in passed_over(kind, own):
        tell(err, told, "yellow")


def methods(
    name: Annotated[str | None, typer.Argument()] = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """List the methods: when each searches, and what it needs. With NAME: its parameters, paper and page.

    NAME may be that of a plug-in, or module:Class.

    Args:
        name: A method to show with all its parameters.
        as_json: Print the names or, with NAME, the JSON Schema of its parameters.

    Examples:
        askance methods
        askance methods dragin
    """
    known_methods = known_names("methods", METHODS)
    if as_json:
        print(json_line({"methods": known_methods} if name is None else parameter_schema(plain_method(name))))
    elif name is not None:
        _show_method(name)
    else:
        _list_methods(known_methods)


def _list_methods(known_methods: Iterable[str]) -> None:
    rows: list[Row] = []
    for known in known_methods:
        shown = Text(known, style="bold").append(" (default)" * (known == DEFAULT_METHOD), style="not bold")
        try:
            method = plain_method(known)
        except InputError as error:  # a plug-in's, which does not keep the others from being listed
            tell(err, f"{known}: {error}", "yellow")
            continue
        rows.append((shown, told_of(method, "searches"), ", ".join(_needs(method.needs)) or "any model"))
    _list("methods", ("method", "searches", "needs of its model"), rows, METHODS | READINGS)
    bare = [known for known in METHODS if not plain_method(known).needs.retriever]
    told = [f"{need}: {meaning}" for need, meaning in NEEDS.items()]
    told += [
        f"Further readings, each a profile of the method it is named after: {', '.join(READINGS)}.",
        f"All but {', '.join(bare)} search: they need an index.",
        "One with its parameters: askance methods NAME",
    ]
    out.print(Text("\n".join(("", *told)), style="dim"))


def _show_method(name: str) -> None:
    method = plain_method(name)
    summary = (method.__doc__ or "").strip().split("\n\n")[0]
    wanted = [f"{need} ({NEEDS[need]})" if need in NEEDS else need for need in _needs(method.needs)]
    wanted += ["an index"] * method.needs.retriever
    rows = {
        "searches": told_of(method, "searches"),
        "needs": "; ".join(wanted) or "any model",
        "paper": told_of(method, "paper"),
        "page": f"docs/methods/{name_of(type(method))}.md" if name in METHODS | READINGS else "",
    }
    out.print(Text(name, style="bold").append(f"  {' '.join(summary.split())}", style="not bold"))
    out.print(plain_table((), [(fact, value) for fact, value in rows.items() if value]))
    out.print(Text("\nparameters, each set by --set parameter=value", style="bold"))
    headings = ("parameter", "default", "meaning, and its values")
    out.print(plain_table(headings, _parameter_rows(type(method)), style="dim"))


def told_of(method: object, name: str) -> str:
    """What a method says of itself under a name; a method of somebody's own need not."""
    return str(getattr(method, name, ""))


def parameter_schema(method: Method) -> dict[str, Any]:
    """The JSON Schema of a method's parameters; one that is a record is written as text, by its name."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name_of(type(method)),
        "type": "object",
        "properties": {
            field.name: _parameter_schema(field, hint) for field, hint in _parameters(type(method))
        },
        "additionalProperties": False,
    }


def _parameter_schema(field: dataclasses.Field[Any], hint: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter

    is_record, default = dataclasses.is_dataclass(hint), field.default
    if is_record or default in (math.inf, -math.inf):
        default = str(default)
    schema = {"type": "string"} if is_record else TypeAdapter(hint).json_schema()
    bounds = zip(("minimum", "maximum"), parameter_range(field), strict=True)
    schema |= {name: bound for name, bound in bounds if math.isfinite(bound)}
    return {**schema, "description": field.metadata.get("help", ""), "default": default}


def _parameters(cls: type[Any]) -> list[tuple[dataclasses.Field[Any], Any]]:
    """The parameters of a method with their types."""
    hints: dict[str, Any] = get_type_hints(cls)
    known = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return [(each, hints[each.name]) for each in known]


def _parameter_rows(cls: type[Any]) -> Iterable[Row]:
    for field, hint in sorted(_parameters(cls), key=lambda parameter: parameter[0].kw_only is True):
        default, (low, high) = field.default, parameter_range(field)
        shown = str(default).lower() if default is None or isinstance(default, bool) else str(default)
        bounds = f", {low:g} or more" if math.isinf(high) else f", {low:g} to {high:g}"
        values = describe_type(hint) + (bounds if math.isfinite(low) else "")
        yield field.name, shown, f"{field.metadata.get('help', '')} ({values})"


def _needs(needs: Needs) -> list[str]:
    """What of `NEEDS` a method asks for."""
    of_its_own = {"attention": "attention of its own"}
    wanted = [of_its_own.get(signal, signal) for signal in sorted(needs.signals)]
    wanted += sorted(needs.capabilities)
    return wanted + [CONTINUES] * bool(needs.one_of) + [ATTENTION] * needs.attention


def prompts(name: Annotated[str | None, typer.Argument()] = None) -> None:
    """List the prompt sets, or print one whole in the file format, to start from.

    Args:
        name: A set to print as a file, or a file to check.

    Examples:
        askance prompts
        askance prompts hotpotqa
    """
    if name is not None:
        print(shown_prompts(name), end="")
        return
    num_examples = {each: len(open_wording(each).demos) for each in WORDINGS}
    num_examples |= {each: open_airrag_wording(each).examples for each in AIRRAG_WORDINGS}
    known = WORDINGS | AIRRAG_WORDINGS
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
        for (method, profile), parameters in preset.entries.items():
            told = ", ".join(f"{parameter}={value}" for parameter, value in parameters.items())
            tell(out, f"  {f'{method} {profile}'.strip():<18} {told}")


def retrievers() -> None:
    """List the ways to search an index, and the retrievers of plug-ins.

    Examples:
        askance retrievers
        askance search "bridges" --index my-index --retriever hybrid
    """
    rows = [(f"{name}:DIR", f"by {kind.what}") for name, kind in RETRIEVERS.items()]
    rows.append(("…?rerank=cross-encoder:NAME", "what one of these finds is reranked"))
    _list("retrievers", ("spec", "what it searches by"), rows, RETRIEVERS)


def encoders() -> None:
    """List the kinds of encoders, which turn texts into vectors.

    Examples:
        askance encoders
        askance index notes/ --out my-index --encoder bundled
    """
    own = {name: kind for name, kind in MODEL_KINDS.items() if kind.encoder}
    rows = [(kind.spec.partition("[")[0], kind.what) for kind in own.values()]
    _list("encoders", ("spec", "what it is"), rows, own)


def metrics() -> None:
    """List the metrics of evaluations.

    Examples:
        askance metrics
        askance eval --dataset sample --index @gold --metric f1 --out runs/f1
    """
    rows = [(each.spec, _first_line(each.function), each.reads) for each in METRICS.values()]
    _list("metrics", ("metric", "what it is", "reads"), rows, METRICS)


def _first_line(function: Callable[..., Any]) -> str:
    """Of its docstring."""
    return (function.__doc__ or "").partition("\n")[0].rstrip(".")


def models(
    spec: Annotated[str | None, typer.Option("--check", metavar="SPEC")] = None, as_json: JsonFlag = False
) -> None:
    """List the kinds of models and whether they can be used here, or try one model.

    A model is right, and the exit code 0, when all that it declares works.

    Args:
        spec: Try everything that this model might be able to do.

    Examples:
        askance models
        askance models --check openai:qwen2.5:7b@http://localhost:11434/v1
    """
    if spec is not None:
        _check_model(spec, as_json)
    elif as_json:
        keys = ("spec", "what", "missing", "install")
        told = [(kind.spec, kind.what, kind.missing, kind.install()) for kind in MODEL_KINDS.values()]
        told += [(*entry, [], "") for entry in packages_of_plugins("models", MODEL_KINDS).items()]
        print(json_line({"models": [dict(zip(keys, each, strict=True)) for each in told]}))
    else:
        kinds = MODEL_KINDS.values()
        listed = [(kind.spec, kind.what, "not installed" if kind.missing else "ready") for kind in kinds]
        _list("models", ("spec", "what it is", "here"), listed, MODEL_KINDS)
        for name, kind in MODEL_KINDS.items():
            if kind.missing:
                tell(out, f"{name} needs: {kind.install()}")


def _check_model(spec: str, as_json: bool) -> None:
    report = asyncio.run(check(spec))
    if as_json:
        print(json_line({**dataclasses.asdict(report), "is_right": report.is_right}))
    else:
        _show_report(report)
    if not report.is_right:
        raise typer.Exit(1)


def _show_report(report: CheckReport) -> None:
    tell(out, f"{report.model}, window of {report.context_tokens:,} tokens", "bold")
    table = plain_table(("what", "declared", "works", ""), (), style="dim")
    for finding in report.findings:
        declared = {True: "yes", False: "no", None: "always"}[finding.is_declared]
        works = {True: "yes", False: "no", None: "not tried"}[finding.works]
        note = f"declare it: ?{finding.declare}" if finding.works and finding.declare else finding.why
        cells = (finding.ability, declared, works, printable(note))
        table.add_row(*map(Text, cells), style="red" if finding.is_declared and not finding.works else "")
    out.print(table)
    verdict = "all that is declared works" if report.is_right else "not all that is declared works"
    out.print(Text(verdict, style="green" if report.is_right else "red"))


def datasets(spec: Annotated[str | None, typer.Argument(metavar="NAME:FILE")] = None) -> None:
    """List the datasets that can be read, or show what is in a file of one.

    Args:
        spec: A file to read, and to say what is in it.

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
    grounded = sum(bool(example.grounds.supporting or example.grounds.facts) for example in examples)
    told = f"{supported:,} with supporting titles, {grounded:,} with supporting texts or facts"
    tell(out, f"{spec}: {len(examples):,} questions, {told}")
    out.print(_counts("kind", (example.kind or "(none)" for example in examples)))
    out.print(_counts("hops", (str(example.hops or "(not known)") for example in examples)))
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
    out.print(plain_table((), [(Text(name, style="dim"), told) for name, told in rows.items() if told]))


def _counts(heading: str, values: Iterable[str]) -> Table:
    return plain_table((heading, "questions"), sorted(Counter(values).items()))
