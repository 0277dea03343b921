"""Checkpoints of a training run on disk, from which the same command resumes an interrupted run."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from askance.core.errors import InputError
from askance.core.safe_text import json_line
from askance.storage.durable_files import locked_folder, sync, write_atomically

_STATE, _SETTINGS, _LOCK = "checkpoint.pt", "settings.json", "lock"


@dataclass(frozen=True, slots=True, eq=False)
class TrainingState:
    """The state of a training run between two steps.

    Attributes:
        weights: The trained weights by name. All other weights are those of the base model.
        optimizer: The state of AdamW.
        curve: For each completed step, the fields of its `TrainingStatus`.
    """

    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Any]
    curve: list[tuple[Any, ...]]


class Checkpoints:
    """The checkpoint folder of an unfinished training run (see `open_checkpoints`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self) -> TrainingState | None:
        """Return the last checkpoint, or None if there is none.

        Raises:
            InputError: The checkpoint is damaged.
        """
        path = self.folder / _STATE
        if not path.exists():
            return None
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
            return TrainingState(content["weights"], content["optimizer"], content["curve"])
        except Exception as error:  # a damaged archive can fail in any way
            raise InputError(
                f"the checkpoint {path} can't be read ({type(error).__name__}): restore it, or remove the "
                "folder to start again."
            ) from error

    def save(self, state: TrainingState) -> None:
        """Replace the last checkpoint atomically.

        Raises:
            InputError: The disk is full or broken. The previous checkpoint is unchanged.
        """
        path, partial = self.folder / _STATE, self.folder / f"{_STATE}.partial"
        content = {
            "weights": {name: weights.detach() for name, weights in state.weights.items()},
            "optimizer": dict(state.optimizer),
            "curve": state.curve,
        }
        try:
            torch.save(content, partial)
            sync(partial)
            partial.replace(path)
            sync(self.folder)
        except (OSError, RuntimeError) as error:  # torch's writer raises the latter if the disk is full
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            reason = error.strerror if isinstance(error, OSError) else "the disk may be full"
            raise InputError(
                f"can't write a checkpoint into {self.folder} ({reason}), which takes "
                f"{_num_bytes(state) / 1e6:,.1f} MB: free space there, then give the same command again. The "
                "previous checkpoint is unchanged."
            ) from error


def _num_bytes(state: TrainingState) -> int:
    """Return the approximate size in bytes of the weights and of the optimizer's state."""
    moments = [value for entry in state.optimizer["state"].values() for value in entry.values()]
    tensors = [*state.weights.values(), *(value for value in moments if isinstance(value, Tensor))]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@contextmanager
def open_checkpoints(folder: Path, identity: Mapping[str, Any]) -> Iterator[Checkpoints]:
    """Lock the folder of a new or interrupted training run, and yield its checkpoints.

    Args:
        identity: All settings and inputs that the result depends on.

    Raises:
        InputError: Another process uses the folder, the folder can't be written, or the run was started with
            another identity.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_folder(folder, _LOCK))
            _check_identity(folder, json.loads(json_line(dict(identity))))
        except BlockingIOError as error:
            raise InputError(
                f"{folder} is in use by another process: wait until it has ended, or name another --out."
            ) from error
        except OSError as error:
            raise InputError(f"can't write in {folder}: {error.strerror}; name another --out.") from error
        yield Checkpoints(folder)


def _check_identity(folder: Path, identity: Mapping[str, Any]) -> None:
    path = folder / _SETTINGS
    if not path.exists() or not (folder / _STATE).exists():
        text = json.dumps(identity, indent=1) + "\n"
        write_atomically(path, text, temporary=folder / f"{_SETTINGS}.partial")
        return
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}): remove {folder} to start again.") from error
    for name in dict.fromkeys((*saved, *identity)):
        if saved.get(name) != identity.get(name):
            raise InputError(
                f"the training in {folder} was started with {name} {saved.get(name)!r}, now it is "
                f"{identity.get(name)!r}: give the same, or name another --out."
            )


def remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a finished training run, and their folder if it holds nothing else."""
    for name in (_STATE, f"{_STATE}.partial", _SETTINGS, f"{_SETTINGS}.partial", _LOCK):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
