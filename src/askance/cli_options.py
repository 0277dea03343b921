"""Options that several commands take, and how what was typed is read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from askance.core.errors import InputError

JSON = "--json"
JsonFlag = Annotated[
    bool,
    typer.Option(JSON, help="Print one JSON object and nothing else; of an error, one with the key 'error'."),
]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="knob=value; may be given again.")]
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
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="In place of askance.toml and the environment: TOML like it, or what a trace or the folder of a "
        "run was made with.",
    ),
]


def knobs_by_name(settings: Sequence[str]) -> dict[str, str]:
    """The settings of --set, each ``knob=value``."""
    return _once([_pair(text, "--set knob=value") for text in settings], "--set")


def limits_by_name(settings: Sequence[str]) -> dict[str, str]:
    """The settings of --budget, each ``name=value``."""
    return _once([_pair(text, "--budget tokens=5000") for text in settings], "--budget")


def models_by_role(specs: Sequence[str]) -> dict[str, str]:
    """``[ROLE=]SPEC`` by role; without one, it is the role of the model that answers."""
    pairs = []
    for text in specs:
        role, equals, spec = text.partition("=")
        pairs.append((role, spec) if equals and role.isidentifier() else ("answer", text))
    return _once(pairs, "--model")


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
