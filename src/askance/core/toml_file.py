"""TOML files that a user wrote, read with an error that says what is wrong with one."""

import tomllib
from pathlib import Path
from typing import Any

from askance.core.errors import InputError


def read_toml(path: Path, what: str, error: type[InputError], remedy: str) -> tuple[dict[str, Any], str]:
    """What a file holds, and its text.

    Args:
        what: it is, such as "the configuration", for messages.
        error: is raised.
        remedy: where the file can't be read.

    Raises:
        InputError: as `error`; it can't be read, is not UTF-8 or not TOML.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        return tomllib.loads(text), text
    except OSError as flaw:
        raise error(f"can't read {what} {path}: {flaw.strerror or flaw}. {remedy}") from flaw
    except UnicodeDecodeError as flaw:
        raise error(f"{what} {path} is not UTF-8: convert it to UTF-8.") from flaw
    except (ValueError, RecursionError) as flaw:  # a number may have too many digits
        raise error(f"{what} {path} is not TOML ({flaw}): correct it.") from flaw
