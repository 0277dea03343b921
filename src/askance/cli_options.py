"""Options that several commands take, and how what was typed is read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from askance.core.errors import InputError
from askance.core.knobs import parse_knobs
from askance.loading import DEFAULT_MODEL
from askance.runtime.limit import Budget

IndexOption = Annotated[Path | None, typer.Option("--index", help="Folder made by `askance index`.")]
RetrieverOption = Annotated[
    str,
    typer.Option(help="How to search the index: bm25 (words), dense (vectors) or hybrid (both)."),
]
EncoderOption = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help="What turns texts into vectors, for methods that need it: bundled, hf:NAME or hf:DIRECTORY. "
        "Vectors are searched with the encoder that the index names, unless one is given.",
    ),
]
JSON = "--json"
JsonFlag = Annotated[
    bool,
    typer.Option(JSON, help="Print one JSON object and nothing else; of an error, one with the key 'error'."),
]
ModelOption = Annotated[
    list[str] | None,
    typer.Option(help="[ROLE=]SPEC, see `askance models`; may be given once a role. Otherwise bundled."),
]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="knob=value; may be given again.")]
BudgetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--budget", help="tokens=N, calls=N or seconds=N: the most a question may cost; may be given again."
    ),
]
InFlightOption = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Questions asked at the same time; otherwise as many as suit the model."
    ),
]
CacheOption = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="FILE",
        help="Keep what models and index give, for when they are asked the same again.",
    ),
]
PresetOption = Annotated[
    str | None, typer.Option(help="Fills knobs that are not --set: a name of `askance presets`, or a file.")
]


def knobs_by_name(settings: Sequence[str]) -> dict[str, str]:
    """The settings of --set, each ``knob=value``."""
    return _once([_pair(text, "--set knob=value") for text in settings], "--set")


def budget_of(settings: Sequence[str]) -> Budget:
    """The settings of --budget, each ``name=value``."""
    named = _once([_pair(text, "--budget tokens=5000") for text in settings], "--budget")
    return Budget(**parse_knobs(Budget, named))


def models_by_role(specs: Sequence[str]) -> dict[str, str]:
    """``[ROLE=]SPEC`` by role; the answering model is the default one unless named."""
    pairs = []
    for text in specs:
        role, equals, spec = text.partition("=")
        pairs.append((role, spec) if equals and role.isidentifier() else ("answer", text))
    return {"answer": DEFAULT_MODEL, **_once(pairs, "--model")}


def _once(pairs: Sequence[tuple[str, str]], option: str) -> dict[str, str]:
    """The pairs as a mapping; naming one thing twice is an error, not a silent choice."""
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{option} names {twice!r} more than once: give it once.")
    return dict(pairs)


def _pair(text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"can't read {text!r}: write {form}.")
    return name.strip(), value.strip()
