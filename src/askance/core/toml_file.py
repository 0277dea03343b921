"""TOML files written by users, read with errors that name the problem."""

import tomllib
from pathlib import Path
from typing import Any

from askance.core.errors import InputError


def read_toml(path: Path, what: str, error: type[InputError], remedy: str) -> dict[str, Any]:
    """Return the parsed content of a TOML file.

    Args:
        what: The name of the file in messages, such as "the configuration".
        error: The type of error to raise.

    Raises:
        InputError: The file can't be read, or is not UTF-8 or not TOML; raised as `error`.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as flaw:
        raise error(f"can't read {what} {path}: {flaw.strerror or flaw}. {remedy}") from flaw
    except UnicodeDecodeError as flaw:
        raise error(f"{what} {path} is not UTF-8: convert it to UTF-8.") from flaw
    except (ValueError, RecursionError) as flaw:  # a number may have too many digits
        raise error(f"{what} {path} is not TOML ({flaw}): correct it.") from flaw
