"""The options that several commands take; those of the settings of an engine come from their declaration."""

import inspect
import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from askance.config import SETTINGS, EngineConfig
from askance.config_sources import OPTION, option_of, read_config
from askance.core.errors import InputError
from askance.core.parameters import described
from askance.storage.durable_files import write_atomically
from askance.terminal.console import out, print_plain

_JSON_HELP = "Print one JSON object and nothing else; of an error, one with the key 'error'."
_CONFIG_HELP = (
    "In place of askance.toml and the environment: TOML like it, or what a trace or the folder of a run was "
    "made with."
)
_HELPS = described(EngineConfig.__doc__, "Attributes")
JsonFlag = Annotated[bool, typer.Option("--json", help=_JSON_HELP)]
ConfigOption = Annotated[Path | None, typer.Option("--config", metavar="FILE", help=_CONFIG_HELP)]
# What these mean for a command is in its docstring.
NumberOption = Annotated[int | None, typer.Option(metavar="N")]
SpecOption = Annotated[str | None, typer.Option(metavar="SPEC")]
OutOption = Annotated[Path, typer.Option("--out")]


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
    metavar, least = setting.metadata["metavar"] or None, 1 if name == "in_flight" else None
    told = typer.Option(
        option_of(name), help=_HELPS[name] + default, metavar=metavar, min=least, show_default=False
    )
    return Annotated[(list[str] if kind is dict else kind) | None, told]


def flags_given(flags: dict[str, Any]) -> dict[str, Any]:
    """The settings that options were given for, as `read_config` takes them."""
    given = {name: value for name, value in flags.items() if value not in (None, [], ())}
    return {name: _TABLES[name](value) if name in _TABLES else value for name, value in given.items()}


def parameters_by_name(settings: Sequence[str]) -> dict[str, str]:
    """The settings of --set, each ``parameter=value``."""
    return _pairs(settings, "--set", "parameter=value")


def models_by_role(specs: Sequence[str]) -> dict[str, str]:
    """``[ROLE=]SPEC`` by role; without one, it is the role of the model that answers."""
    texts = [spec if re.match(r"[^\W\d]\w*=", spec) else f"answer={spec}" for spec in specs]
    return _pairs(texts, "--model", "[ROLE=]SPEC")


def _limits_by_name(limits: Sequence[str]) -> dict[str, str]:
    return _pairs(limits, "--budget", "tokens=5000")


_TABLES = {"models": models_by_role, "parameters": parameters_by_name, "budget": _limits_by_name}


def _pairs(texts: Sequence[str], option: str, form: str) -> dict[str, str]:
    """What an option was given, by name; naming one thing twice is an error, not a silent choice."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = map(str.strip, text.partition("="))
        if not equals or not name:
            raise InputError(f"can't read {text!r}: write {option} {form}.")
        if name in found:
            raise InputError(f"{option} names {name!r} more than once: give it once.")
        found[name] = value
    return found


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
        print_plain(out, told)
