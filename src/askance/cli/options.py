"""Options that several commands have, and options that are made from the declarations of engine settings."""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from askance.configuration.settings import (
    SETTINGS,
    EngineConfig,
    has_entries,
    kind_of,
    option_of,
    settings_of,
)
from askance.configuration.sources import OPTION, read_config
from askance.core.errors import InputError
from askance.core.trace import Trace
from askance.evaluation.run.executor import OpenExecutor
from askance.storage.trace_file import check_writable, trace_text, write_file
from askance.terminal.console import described, out, print_plain

_JSON_HELP = "Print one JSON object and nothing else; for an error, an object with the key 'error'."
_CONFIG_HELP = (
    "Read the settings from this file instead of askance.toml and the environment: a TOML file, or a trace "
    "or a run folder whose settings to use again."
)
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
MAX_FAILURES = 20
MaxFailuresOption = Annotated[int, typer.Option(min=0, metavar="N")]
RetryFlag = Annotated[bool, typer.Option("--retry-failures")]
NewCodeFlag = Annotated[bool, typer.Option("--accept-new-code")]
WorkersOption = Annotated[str | None, typer.Option(metavar="N|DEVICES")]
RayOption = Annotated[str | None, typer.Option(metavar="ADDRESS")]


OF_ONE_QUESTION = tuple(name for name in SETTINGS if name != "in_flight")
"""The settings of commands that answer one question at a time."""


@contextmanager
def recording(otel: bool, file: Path | None = None) -> Iterator[Callable[[Trace], None]]:
    """Yield what `Engine.on_end` needs to write traces to a file and to send spans to a collector.

    Raises:
        InputError: No file can be written there.
        MissingExtra: OpenTelemetry is not installed.
    """
    listeners = list[Callable[[Trace], None]]()
    with ExitStack() as spans:
        if file is not None:
            check_writable(file)
            listeners.append(lambda trace: write_file(file, trace_text(trace)))
        if otel:
            from askance.integrations.otel import otlp_spans  # needs the extra

            listeners.append(spans.enter_context(otlp_spans()))

        def record(trace: Trace) -> None:
            for listener in listeners:
                listener(trace)

        yield record


@contextmanager
def executors(workers: str | None, ray: str | None) -> Iterator[OpenExecutor | None]:
    """Yield what makes the executors of a command, or None if its own process answers the questions.

    Raises:
        InputError: The text for the workers can't be used.
        MissingExtra: Ray is not installed.
    """
    if workers is None and ray is None:
        yield None
        return
    from askance.configuration.workers import RemoteWorker, Workers, processes, read_devices

    devices = read_devices(workers) if workers is not None else []

    def start() -> list[RemoteWorker]:
        if ray is None:
            return processes(devices)
        from askance.integrations.ray import actors  # needs the extra

        return actors(ray, devices)

    with Workers(start) as started:
        yield started.open


def with_settings(
    *names: str, kind: type[EngineConfig] = EngineConfig
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds options for settings to a command.

    The options are ``--config`` and one for each setting in `names`, or for every setting without `names`.
    The decorated function does not receive the options themselves, but the argument `sourced`, which is the
    resulting configuration with the origin of each value.

    Args:
        kind: The class of the configuration.
    """
    taken = names or tuple(settings_of(kind))
    options = {name: _option(name, kind) for name in taken}
    options |= {"config": ConfigOption, "trust_config": TrustFlag}
    by_keyword, required = inspect.Parameter.KEYWORD_ONLY, {"dataset": inspect.Parameter.empty}
    added = [
        inspect.Parameter(name, by_keyword, default=required.get(name), annotation=option)
        for name, option in options.items()
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = (each for each in signature.parameters.values() if each.name != "sourced")
        parameters = [*(each.replace(kind=by_keyword) for each in own), *added]

        @wraps(command)
        def run(**given: Any) -> None:
            values = {name: given.pop(name) for name in options}
            file, trust = values.pop("config"), bool(values.pop("trust_config"))
            flags = {
                name: by_name(name, value) if has_entries(name) else value
                for name, value in values.items()
                if value not in (None, [], ())
            }
            sourced = read_config(flags, file=file, origin=OPTION, trust=trust, kind=kind)
            with sourced.naming_origins(taken):
                command(**given, sourced=sourced)

        vars(run)["__signature__"] = signature.replace(parameters=parameters)
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def _option(name: str, kind: type[EngineConfig]) -> Any:
    """Return the annotation from which typer makes the option of a setting."""
    setting, value_type = settings_of(kind)[name], kind_of(kind, name)
    help = {**described(EngineConfig.__doc__, "Attributes"), **described(kind.__doc__, "Attributes")}[name]
    if isinstance(setting.default, str | int) and setting.default != "" and value_type is not bool:
        help += f" Default: {setting.default}."
    if has_entries(name) or isinstance(setting.default, tuple):
        value_type = list[str]
    metavar = setting.metadata["metavar"] or None
    flag = option_of(name, kind)
    flags = f"{flag}/--no-{flag[2:]}" if setting.default is True else flag
    option = typer.Option(flags, help=help, metavar=metavar, show_default=False)
    return Annotated[value_type | None, option]


def by_name(setting: str, texts: Sequence[str]) -> dict[str, str]:
    """Return the values of a repeated option by name. A model without a role gets the role "answer".

    Raises:
        InputError: A string does not have the form of the option, or a name is repeated.
    """
    option, pairs = option_of(setting), dict[str, str]()
    for text in texts:
        has_name = setting != "models" or re.match(r"[^\W\d]\w*=", text)
        name, equals, value = map(str.strip, (text if has_name else f"answer={text}").partition("="))
        if not equals or not name:
            raise InputError(f"can't read {text!r}: write {option} {SETTINGS[setting].metadata['metavar']}.")
        if name in pairs:
            raise InputError(f"{option} names {name!r} more than once: give it once.")
        pairs[name] = value
    return pairs


parameters_by_name = partial(by_name, "parameters")
"""A function that returns the parameters of options ``--set parameter=value`` by name."""


def write_out(file: Path, text: str, message: str = "") -> None:
    """Write the output file of a command atomically, and print a message (see `write_file`)."""
    write_file(file, text)
    if message:
        print_plain(out, message)
