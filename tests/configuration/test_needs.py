"""The tables of docs/models.md about servers and backends are what the code says."""

import dataclasses
from contextlib import suppress
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
    "chat=1",
    "continuation=1",
    "continuation=1&logprobs=1",
    "completions=1",
    "completions=1&logprobs=1",
)


def backends():
    yield "`bundled`, `hf:…`, `gguf:…`", ALL_SIGNALS, ALL_CAPABILITIES
    for options in BACKENDS:
        read = read_options(dict(pair.split("=") for pair in options.split("&")))
        yield f"`openai:…?{options}`", read.signals, read.capabilities


def verdict(method, signals, capabilities):
    answering = ScriptedModel(signals=signals, capabilities=capabilities)
    for models, said in (({}, "yes"), ({"attend": ScriptedModel()}, "with attend")):
        with suppress(MissingAbility):
            check_needs(method, {"answer": answering, **models}, ScriptedRetriever(), ScriptedEncoder())
            return said
    return "no"


def method_table():
    yield "method", *(title for title, _, _ in backends())
    for name in EVERY_METHOD:
        yield f"`{name}`", *(verdict(make_method(name), *abilities) for _, *abilities in backends())


def option_table():
    yield "option", "default", "meaning"
    hints = get_type_hints(ServerOptions)
    for field in dataclasses.fields(ServerOptions):
        default = {"True": "1", "False": "0"}.get(str(field.default), str(field.default))
        meaning = f"{field.metadata['description']} ({describe_type(hints[field.name])})"
        yield f"`{field.name}`", default, meaning


def server_table():
    yield "`server=`", "is short for"
    for name, options in SERVERS.items():
        yield f"`{name}`", f"`{'&'.join(f'{option}={value}' for option, value in options.items())}`"


@pytest.mark.parametrize("rows", [method_table, option_table, server_table])
def test_the_page_has_the_table(rows):
    head, *lines = (f"| {' | '.join(cells)} |" for cells in rows())
    expected = "\n".join((head, "|---" * (head.count(" | ") + 1) + "|", *lines))
    assert expected in PAGE, f"docs/models.md is to have this table:\n\n{expected}\n"


def test_the_table_distinguishes_servers():
    assert len({*method_table()}) > 5
    for signals, capabilities, said in (
        (ALL_SIGNALS, ALL_CAPABILITIES, "yes"),
        (frozenset({"logprob"}), frozenset({"raw"}), "with attend"),
        (frozenset(), frozenset({"chat"}), "no"),
    ):
        assert verdict(make_method("dragin"), signals, capabilities) == said
