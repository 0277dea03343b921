"""The folder of a trained model, which is written as a whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from askance.core.errors import InputError
from askance.models.bundled import atomic_folder


@contextmanager
def model_folder(out: Path, what: str = "model") -> Iterator[Path]:
    """Yield a temporary folder beside `out`, which is then renamed to `out`, or removed after an error.

    Args:
        what: The name of what is written, for the error message.

    Raises:
        InputError: The folder can't be written. The last checkpoint is kept.
    """
    try:
        with atomic_folder(out) as partial:
            yield partial
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"can't write the {what} into {out}: {reason}. Free space, then give the same command again: no "
            "step has to be computed again."
        ) from error


def check_free(out: Path) -> None:
    """Check that the folder for a trained model does not exist.

    Raises:
        InputError: A file or folder of that name exists.
    """
    if out.exists():
        raise InputError(
            f"{out} is there already: name another --out, or remove it if it is not needed any more."
        )
