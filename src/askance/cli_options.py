"""The options that several commands take; those of the settings of an engine come from their declaration."""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from askance.config import SETTINGS, EngineConfig
from askance.config_sources import OPTION, option_of, read_config
from askance.core.errors import InputError
from askance.core.knobs import described
from askance.runtime.durable import write_atomically
from askance.serve.console import out, tell

_JSON_HELP = "Print one JSON object and nothing else; of an error, one with the key 'error'."
_CONFIG_HELP = (
    "In place of askance.toml and the environment: TOML like it, or what a trace or the folder of a run was "
    "made with."
)
_HELPS = described(EngineConfig.__doc__, "Attributes")
JsonFlag = Annotated[bool, typer.Option("--json", help=_JSON_HELP)]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="knob=value; may be given again.")]
ConfigOption = Annotated[Path | None, typer.Option("--config", metavar="FILE", help=_CONFIG_HELP)]
# What these mean for a command is in its docstring.
NumberOption = Annotated[int | None, typer.Option(metavar="N")]
SpecOption = Annotated[str | None, typer.Option(metavar="SPEC")]
OutOption = Annotated[Path, typer.Option("--out")]
RequiredOption = Annotated[str, typer.Option()]


def with_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each of these settings of an engine, or for all, and ``--config``.

    The command takes `sourced`, the configuration with its origins, in their place.
    """
    taken = names or tuple(SETTINGS)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [each for each in signature.parameters.values() if each.name != "sourced"]
        options = [_parameter(name, _option(name)) for name in taken]
        options.append(_parameter("config", ConfigOption))

        @wraps(command)
        def run(**given: Any) -> None:
            flags = flags_given({name: given.pop(name) for name in taken})
            sourced = read_config(flags, file=given.pop("config"), origin=OPTION)
            with sourced.told(taken):
                command(**given, sourced=sourced)

        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *options)]
        vars(run)["__signature__"] = signature.replace(parameters=parameters)
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _option(name: str) -> Any:
    """The option of a setting, as typer takes it."""
    setting = SETTINGS[name]
    kind = setting.metadata["kind"]
    default = f" Otherwise {setting.default}." if isinstance(setting.default, str | int) else ""
    told = typer.Option(
        option_of(name),
        help=_HELPS[name] + default,
        metavar=setting.metadata["metavar"] or None,
        min=1 if name == "in_flight" else None,
        show_default=False,
    )
    return Annotated[(list[str] if kind is dict else kind) | None, told]


def flags_given(flags: dict[str, Any]) -> dict[str, Any]:
    """The settings that options were given for, as `read_config` takes them."""
    found = {name: value for name, value in flags.items() if value not in (None, [], ())}
    if "models" in found:
        found["models"] = models_by_role(found["models"])
    if "knobs" in found:
        found["knobs"] = knobs_by_name(found["knobs"])
    if "budget" in found:
        found["budget"] = _once([_pair(text, "--budget tokens=5000") for text in found["budget"]], "--budget")
    return found


def knobs_by_name(settings: Sequence[str]) -> dict[str, str]:
    """The settings of --set, each ``knob=value``."""
    return _once([_pair(text, "--set knob=value") for text in settings], "--set")


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


def write_out(file: Path, text: str, told: str = "") -> None:
    """Write the file that a command makes, whole or not at all, and say what it is.

    Raises:
        InputError: it can't be written.
    """
    try:
        write_atomically(file, text)
    except OSError as error:
        raise InputError(f"can't write {file}: {error.strerror}. Name another file.") from error
    if told:
        tell(out, told)
