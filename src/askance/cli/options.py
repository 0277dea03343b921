"""Options that several commands have, and options that are made from the declarations of engine settings."""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from askance.configuration.settings import SETTINGS, EngineConfig
from askance.configuration.sources import OPTION, option_of, read_config
from askance.core.errors import InputError
from askance.core.trace import Trace
from askance.storage.durable_files import write_atomically
from askance.storage.trace_file import write_trace
from askance.terminal.console import described, out, print_plain

_JSON_HELP = "Print one JSON object and nothing else; for an error, an object with the key 'error'."
_CONFIG_HELP = (
    "Read the settings from this file instead of askance.toml and the environment: a TOML file, or a trace "
    "or a run folder whose settings to use again."
)
_HELPS = described(EngineConfig.__doc__, "Attributes")
JsonFlag = Annotated[bool, typer.Option("--json", help=_JSON_HELP)]
_TRUST_HELP = (
    "Let askance.toml in the working folder, and a trace or run folder given with --config, name plug-ins "
    "and module:Class, whose code then runs."
)
TrustFlag = Annotated[bool, typer.Option("--trust-config", help=_TRUST_HELP)]
ConfigOption = Annotated[Path | None, typer.Option("--config", metavar="FILE", help=_CONFIG_HELP)]
_OTEL_HELP = (
    "Send OpenTelemetry spans of every question, texts included, to the collector that the standard OTEL_ "
    "variables name."
)
OtelFlag = Annotated[bool, typer.Option("--otel", help=_OTEL_HELP)]
# The docstring of each command explains these options.
NumberOption = Annotated[int | None, typer.Option(metavar="N")]
SpecOption = Annotated[str | None, typer.Option(metavar="SPEC")]
OutOption = Annotated[Path, typer.Option("--out")]


@contextmanager
def span_export(is_wanted: bool) -> Iterator[Callable[[Trace], None] | None]:
    """Yield what `Engine.on_end` needs to send spans to a collector, or None if that is not wanted.

    Raises:
        MissingExtra: OpenTelemetry is not installed.
    """
    if not is_wanted:
        yield None
        return
    from askance.integrations.otel import otlp_spans  # needs the extra

    with otlp_spans() as record:
        yield record


@contextmanager
def kept_trace(trace: Trace, path: Path | None) -> Iterator[Trace]:
    """Write the trace at the end, even if the question failed or was interrupted."""
    try:
        yield trace
    finally:
        if path is not None and trace.events:
            write_trace(trace, path)


def with_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds options for engine settings to a command.

    The options are ``--config`` and one for each engine setting in `names`, or for every engine setting if
    `names` is empty. The decorated function does not receive the options themselves, but the argument
    `sourced`, which is the resulting configuration with the origin of each value.
    """
    taken = names or tuple(SETTINGS)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [each for each in signature.parameters.values() if each.name != "sourced"]
        options = [_parameter(name, _option(name)) for name in taken]
        options += [_parameter("config", ConfigOption), _parameter("trust_config", TrustFlag)]

        @wraps(command)
        def run(**given: Any) -> None:
            flags = flags_given({name: given.pop(name) for name in taken})
            file, trust = given.pop("config"), given.pop("trust_config")
            sourced = read_config(flags, file=file, origin=OPTION, trust=trust)
            with sourced.naming_origins(taken):
                command(**given, sourced=sourced)

        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *options)]
        vars(run)["__signature__"] = signature.replace(parameters=parameters)
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    default = False if annotation is TrustFlag else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _option(name: str) -> Any:
    """Return the annotation from which typer makes the option of a setting."""
    setting = SETTINGS[name]
    kind = setting.metadata["kind"]
    has_default = isinstance(setting.default, str | int) and kind is not bool
    default = f" Default: {setting.default}." if has_default else ""
    metavar, least = setting.metadata["metavar"] or None, 1 if name == "in_flight" else None
    option = typer.Option(
        option_of(name), help=_HELPS[name] + default, metavar=metavar, min=least, show_default=False
    )
    return Annotated[(list[str] if kind is dict else kind) | None, option]


def flags_given(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that were given as options, in the form that `read_config` takes."""
    given = {name: value for name, value in flags.items() if value not in (None, [], ())}
    return {name: _TABLES[name](value) if name in _TABLES else value for name, value in given.items()}


def parameters_by_name(settings: Sequence[str]) -> dict[str, str]:
    """Return the parameters that options ``--set parameter=value`` give, by name."""
    return _pairs(settings, "--set", "parameter=value")


def models_by_role(specs: Sequence[str]) -> dict[str, str]:
    """Return the models that options ``--model [ROLE=]SPEC`` give, by role. The default role is "answer"."""
    texts = [spec if re.match(r"[^\W\d]\w*=", spec) else f"answer={spec}" for spec in specs]
    return _pairs(texts, "--model", "[ROLE=]SPEC")


def _limits_by_name(limits: Sequence[str]) -> dict[str, str]:
    return _pairs(limits, "--budget", "tokens=5000")


_TABLES = {"models": models_by_role, "parameters": parameters_by_name, "budget": _limits_by_name}


def _pairs(texts: Sequence[str], option: str, form: str) -> dict[str, str]:
    """Return the values of a repeated option by name.

    Raises:
        InputError: A string does not have the form `form`, or a name is repeated.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = map(str.strip, text.partition("="))
        if not equals or not name:
            raise InputError(f"can't read {text!r}: write {option} {form}.")
        if name in pairs:
            raise InputError(f"{option} names {name!r} more than once: give it once.")
        pairs[name] = value
    return pairs


def write_out(file: Path, text: str, message: str = "") -> None:
    """Write the output file of a command atomically, and print a message.

    Raises:
        InputError: The file can't be written.
    """
    try:
        write_atomically(file, text)
    except OSError as error:
        raise InputError(f"can't write {file}: {error.strerror}. Name another file.") from error
    if message:
        print_plain(out, message)
