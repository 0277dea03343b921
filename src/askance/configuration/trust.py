"""Names in data: a file that somebody else may have written can only name what is built into askance.

A trace, the settings of a run, a preset, the manifest of an index, the note of a trained reader and an
`askance.toml` in the working folder are data. Plug-ins and ``module:Class`` run code, so only the user names
them: by an option, in the environment, in Python, in a file given with ``--config``, in the user's own
`askance.toml`, or by trusting a file with ``--trust-config``.
"""

from typing import Any

from askance.configuration.catalogue import METHODS, NAMES, PORT_OF_SETTING, TABLES
from askance.core.errors import ConfigError, InputError
from askance.core.extensions import names_code
from askance.core.spec import Spec, parse_method, parse_spec


def runs_code(setting: str, value: Any) -> bool:
    """Return whether a value names a plug-in, ``module:Class``, or code of another library.

    Nothing is imported.

    Args:
        setting: The name of the setting or, for a parameter, the parameter's name.
    """
    if isinstance(value, Spec):
        inside = any(runs_code(name, item) for name, item in value.options.items())
        return inside or (value.name not in METHODS and names_code("methods", value.name))
    if not isinstance(value, str):
        return False
    if setting == "method":
        return runs_code(setting, parse_method(value))
    if setting in NAMES:
        kind, own = NAMES[setting]
        return value not in own and names_code(kind, value)
    if setting == "linguistics":
        return value.startswith("spacy")  # a pipeline is a package, which is imported
    port = PORT_OF_SETTING.get(setting, setting)
    if port not in TABLES:
        return False
    if setting == "rerank" and value.startswith("model:"):
        return runs_code("models", value.removeprefix("model:"))
    spec, table = parse_spec(value), TABLES[port]
    return table[spec.name].is_foreign if spec.name in table else names_code(f"{port}s", spec.full_name)


def check_runs_no_code(
    setting: str, value: Any, remedy: str, error: type[InputError] = ConfigError, place: str = ""
) -> None:
    """Raise `error` if a value in data names code (see `runs_code`).

    Args:
        remedy: The end of the message, which says what to type if this code is meant to run.
        place: The beginning of the message.
    """
    if runs_code(setting, value):
        raise error(
            f"{place}{setting}={str(value)!r} names code that is not part of askance, and a file that others "
            f"may have written can't make it run. {remedy}"
        )
