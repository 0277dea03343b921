"""The options of the settings of an engine, made of their declaration, and the configuration they lead to."""

import inspect
from collections.abc import Callable
from dataclasses import Field
from functools import wraps
from typing import Annotated, Any, get_args, get_type_hints

import typer

from askance.cli_options import ConfigOption, knobs_by_name, limits_by_name, models_by_role
from askance.config import SETTINGS, EngineConfig
from askance.config_sources import OPTION, option_of, read_config

_HINTS = get_type_hints(EngineConfig, include_extras=True)


def with_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each of these settings of an engine, or for all, and ``--config``.

    The command takes `sourced`, the configuration with its origins, in their place.
    """
    taken = names or tuple(SETTINGS)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = list(signature.parameters.values())
        place = [each.name for each in own].index("sourced")
        options = [_parameter(name, _option(name)) for name in taken] + [_parameter("config", ConfigOption)]

        @wraps(command)
        def run(**given: Any) -> None:
            flags = {name: given.pop(name) for name in taken}
            sourced = read_config(flags_given(flags), file=given.pop("config"), origin=OPTION)
            with sourced.told():
                command(**given, sourced=sourced)

        parameters = [*own[:place], *options, *own[place + 1 :]]
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        vars(run)["__signature__"] = signature.replace(parameters=parameters)
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def flags_given(flags: dict[str, Any]) -> dict[str, Any]:
    """The settings that options were given for, as `read_config` takes them."""
    found = {name: value for name, value in flags.items() if value not in (None, [], ())}
    for name, read in (("models", models_by_role), ("knobs", knobs_by_name), ("budget", limits_by_name)):
        if name in found:
            found[name] = read(found[name])
    return found


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _option(name: str) -> Any:
    """The option of a setting, as typer takes it."""
    setting: Field[Any] = SETTINGS[name]
    is_number = int in (_HINTS[name], *get_args(_HINTS[name])) or name == "in_flight"
    kind = list[str] if name in ("models", "knobs", "budget") else int if is_number else str
    default = f" Otherwise {setting.default}." if isinstance(setting.default, str | int) else ""
    told = typer.Option(
        option_of(name),
        help=setting.metadata["help"] + default,
        metavar=setting.metadata["metavar"] or None,
        min=1 if name == "in_flight" else None,
        show_default=False,
    )
    return Annotated[kind | None, told]
