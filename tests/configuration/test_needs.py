"""The tables of docs/models.md about servers and backends are what the code says."""

import dataclasses
from pathlib import Path
from typing import get_type_hints

import pytest

from askance.ask import check_needs
from askance.configuration.methods import make_method
from askance.core.errors import MissingAbility
from askance.core.parameters import describe_type
from askance.models.openai.options import SERVERS, ServerOptions, read_options
from askance.models.scripted import ALL_CAPABILITIES, ALL_SIGNALS, ScriptedEncoder, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.laboratory import EVERY_METHOD

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
BACKENDS = (
    "?chat=1",
    "?continuation=1",
    "?continuation=1&logprobs=1",
    "?completions=1",
    "?completions=1&logprobs=1",
)


def table(headings, rows):
    lines = (headings, ["---"] * len(headings), *rows)
    return "\n".join(
        "|" + "|".join(f" {cell} " if cell != "---" else cell for cell in line) + "|" for line in lines
    )


def variants():
    return ((f"`{name}`", make_method(name)) for name in EVERY_METHOD)


def backends():
    yield "`bundled`, `hf:…`, `gguf:…`", ALL_SIGNALS, ALL_CAPABILITIES
    for options in BACKENDS:
        read = read_options(dict(pair.split("=") for pair in options[1:].split("&") if pair))
        yield f"`openai:…{options}`", read.signals, read.capabilities


def verdict(method, signals, capabilities):
    answering = ScriptedModel(signals=signals, capabilities=capabilities)
    for models, said in (({}, "yes"), ({"attend": ScriptedModel()}, "with attend")):
        try:
            check_needs(method, {"answer": answering, **models}, ScriptedRetriever(), ScriptedEncoder())
        except MissingAbility:
            continue
        return said
    return "no"


def method_table():
    columns = list(backends())
    rows = [
        (shown, *(verdict(method, signals, capabilities) for _, signals, capabilities in columns))
        for shown, method in variants()
    ]
    return table(("method", *(title for title, _, _ in columns)), rows)


def option_table():
    hints = get_type_hints(ServerOptions)
    rows = [
        (
            f"`{field.name}`",
            {"True": "1", "False": "0"}.get(str(field.default), f"{field.default}"),
            f"{field.metadata['description']} ({describe_type(hints[field.name])})",
        )
        for field in dataclasses.fields(ServerOptions)
    ]
    return table(("option", "default", "meaning"), rows)


def server_table():
    rows = [
        (f"`{name}`", f"`{'&'.join(f'{option}={value}' for option, value in options.items())}`")
        for name, options in SERVERS.items()
    ]
    return table(("`server=`", "is short for"), rows)


@pytest.mark.parametrize("made", [method_table, option_table, server_table])
def test_the_page_has_the_table(made):
    expected = made()
    assert expected in PAGE, f"docs/models.md is to have this table:\n\n{expected}\n"


def test_the_table_tells_servers_apart():
    assert len(set(method_table().splitlines()[2:])) > 5
    assert verdict(make_method("dragin"), *next(backends())[1:]) == "yes"
    assert verdict(make_method("dragin"), frozenset({"logprob"}), frozenset({"raw"})) == "with attend"
    assert verdict(make_method("dragin"), frozenset(), frozenset({"chat"})) == "no"
