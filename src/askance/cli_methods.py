"""The commands that say what there is to choose from: methods with their knobs, and sets of prompts."""

import dataclasses
import math
from typing import Annotated, Any, get_type_hints

import typer
from rich.table import Table
from rich.text import Text

from askance.core.errors import InputError
from askance.core.extensions import known_names, packages_of_plugins
from askance.core.knobs import describe_type, knob_range, name_of
from askance.core.ports import Method, Needs
from askance.core.strict_json import json_line
from askance.serve.console import err, out
from askance.text.printable import printable
from askance.wire import DEFAULT_METHOD, METHODS, READINGS, plain_method
from askance.wordings import WORDINGS, open_wording
from askance.wordings.airrag import AIRRAG_WORDINGS, open_airrag_wording, shown_prompts

CONTINUES, ATTENTION = "continuation", "attention"
NEEDS = {
    "logprob": "it tells the log-probabilities of its tokens",
    CONTINUES: "it goes on from a text: raw, or the beginning of an answer in its chat format",
    "raw": "it goes on from a text without any chat format",
    ATTENTION: "it shows its attention, or another model does (--model attend=bundled)",
}
"""What a method may need of a model, in the words of the list."""


def methods(
    name: Annotated[str | None, typer.Argument(help="A method to show with all its knobs.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the names or, with NAME, the JSON Schema of its knobs.")
    ] = False,
) -> None:
    """List the methods: when each searches, and what it needs. With NAME: its knobs, paper and page.

    NAME may be that of a plug-in, or module:Class.
    """
    known_methods = known_names("methods", METHODS)
    if as_json:
        print(json_line({"methods": known_methods} if name is None else knob_schema(plain_method(name))))
        return
    if name is not None:
        _show(name)
        return
    table = Table("method", "searches", "needs of its model", box=None, pad_edge=False, header_style="bold")
    for known in known_methods:
        shown = Text(known, style="bold").append(" (default)" * (known == DEFAULT_METHOD), style="not bold")
        try:
            method = plain_method(known)
        except InputError as error:  # a plug-in's, which does not keep the others from being listed
            err.print(printable(f"{known}: {error}"), style="yellow", markup=False, soft_wrap=True)
            continue
        table.add_row(shown, told_of(method, "searches"), ", ".join(_needs(method.needs)) or "any model")
    out.print(table)
    bare = [known for known in METHODS if not plain_method(known).needs.retriever]
    told = [f"{need}: {meaning}" for need, meaning in NEEDS.items()]
    told += [
        f"Further readings, each a profile of the method it is named after: {', '.join(READINGS)}.",
        f"All but {', '.join(bare)} search: they need an index.",
        "One with its knobs: askance methods NAME",
    ]
    out.print(Text("\n".join(("", *told)), style="dim"))


def _show(name: str) -> None:
    method = plain_method(name)
    summary = (method.__doc__ or "").strip().split("\n\n")[0]
    needs = method.needs
    wanted = [f"{need} ({NEEDS[need]})" if need in NEEDS else need for need in _needs(needs)]
    wanted += ["an index"] * needs.retriever
    out.print(Text(name, style="bold").append(f"  {' '.join(summary.split())}", style="not bold"))
    rows = [
        ("searches", told_of(method, "searches")),
        ("needs", "; ".join(wanted) or "any model"),
        ("paper", told_of(method, "paper")),
        ("page", f"docs/methods/{name_of(type(method))}.md" if name in METHODS | READINGS else ""),
    ]
    facts = Table(box=None, pad_edge=False, show_header=False)
    for row in filter(lambda row: row[1], rows):
        facts.add_row(*map(Text, row))
    out.print(facts)
    out.print(Text("\nknobs, each set by --set knob=value", style="bold"))
    out.print(_knob_table(type(method)))


def told_of(method: object, name: str) -> str:
    """What a method says of itself under a name; a method of somebody's own need not."""
    return str(getattr(method, name, ""))


def knob_schema(method: Method) -> dict[str, Any]:
    """The JSON Schema of a method's knobs; one that is a record is written as text, by its name."""
    cls = type(method)
    hints: dict[str, Any] = get_type_hints(cls) if dataclasses.is_dataclass(cls) else {}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name_of(cls),
        "type": "object",
        "properties": {field.name: _knob_schema(field, hints[field.name]) for field in _knobs(cls)},
        "additionalProperties": False,
    }


def _knob_schema(field: dataclasses.Field[Any], hint: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter

    is_record = dataclasses.is_dataclass(hint)
    low, high = knob_range(field)
    bounds = {"minimum": low, "maximum": high}
    default = str(field.default) if is_record else field.default
    return {
        **({"type": "string"} if is_record else TypeAdapter(hint).json_schema()),
        **{name: bound for name, bound in bounds.items() if math.isfinite(bound)},
        "description": field.metadata.get("help", ""),
        "default": default if not isinstance(default, float) or math.isfinite(default) else str(default),
    }


def _knobs(cls: type[Any]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()


def _knob_table(cls: type[Any]) -> Table:
    table = Table("knob", "default", "meaning, and its values", box=None, pad_edge=False, header_style="dim")
    hints: dict[str, Any] = get_type_hints(cls) if _knobs(cls) else {}
    for field in sorted(_knobs(cls), key=lambda field: field.kw_only is True):
        default = field.default
        shown = str(default).lower() if default is None or isinstance(default, bool) else str(default)
        meaning = f"{field.metadata.get('help', '')} ({describe_type(hints[field.name])}{_bounds(field)})"
        table.add_row(*map(Text, (field.name, shown, meaning)))
    return table


def _bounds(field: dataclasses.Field[Any]) -> str:
    low, high = knob_range(field)
    if math.isinf(low):
        return ""
    return f", {low:g} or more" if math.isinf(high) else f", {low:g} to {high:g}"


def _needs(needs: Needs) -> list[str]:
    """What of `NEEDS` a method asks for."""
    of_its_own = {"attention": "attention of its own"}
    wanted = [of_its_own.get(signal, signal) for signal in sorted(needs.signals)]
    wanted += sorted(needs.capabilities)
    return wanted + [CONTINUES] * bool(needs.one_of) + [ATTENTION] * needs.attention


def prompts(
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
    for known, package in packages_of_plugins("prompts", WORDINGS.keys() | AIRRAG_WORDINGS).items():
        table.add_row(*map(Text, map(printable, (known, "", package))))
    out.print(table)
