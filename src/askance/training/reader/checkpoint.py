"""What a training has come to, on the disk: the same command goes on from there, in any process later."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from askance.core.errors import InputError
from askance.core.strict_json import json_line
from askance.storage.durable_files import locked_folder, sync, write_atomically

_STATE, _SETTINGS, _LOCK = "checkpoint.pt", "settings.json", "lock"


@dataclass(frozen=True, slots=True, eq=False)
class TrainingState:
    """A training between two steps.

    Attributes:
        weights: what is learned, by name; the rest is the base's.
        optimizer: AdamW's state.
        curve: one entry a step that is done, the fields of `TrainingStatus`.
    """

    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Any]
    curve: list[tuple[Any, ...]]


class Checkpoints:
    """The folder of a training that is on its way; see `claimed`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self) -> TrainingState | None:
        """The last checkpoint, if there is one.

        Raises:
            InputError: it is damaged.
        """
        path = self.folder / _STATE
        if not path.exists():
            return None
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
            return TrainingState(content["weights"], content["optimizer"], content["curve"])
        except Exception as error:  # a damaged archive fails in any way
            raise InputError(
                f"the checkpoint {path} can't be read ({type(error).__name__}): restore it, or remove the "
                "folder to begin again."
            ) from error

    def save(self, state: TrainingState) -> None:
        """Replace the last checkpoint in one step.

        Raises:
            InputError: the disk is full or broken; the checkpoint before is as it was.
        """
        path, incoming = self.folder / _STATE, self.folder / f"{_STATE}.partial"
        content = {
            "weights": {name: each.detach() for name, each in state.weights.items()},
            "optimizer": dict(state.optimizer),
            "curve": state.curve,
        }
        try:
            torch.save(content, incoming)
            sync(incoming)
            incoming.replace(path)
            sync(self.folder)
        except (OSError, RuntimeError) as error:  # torch's writer raises the latter where the disk is full
            with suppress(OSError):
                incoming.unlink(missing_ok=True)
            reason = error.strerror if isinstance(error, OSError) else "the disk may be full"
            raise InputError(
                f"can't write a checkpoint into {self.folder} ({reason}), which takes "
                f"{_num_bytes(state) / 1e6:,.1f} MB: free space there, then give the same command again. The "
                "checkpoint before is as it was."
            ) from error


def _num_bytes(state: TrainingState) -> int:
    """Of the weights and of what the optimizer keeps of each, about."""
    kept = [value for each in state.optimizer["state"].values() for value in each.values()]
    tensors = [*state.weights.values(), *(value for value in kept if isinstance(value, Tensor))]
    return sum(each.numel() * each.element_size() for each in tensors)


@contextmanager
def claimed(folder: Path, identity: Mapping[str, Any]) -> Iterator[Checkpoints]:
    """Hold the folder of a training; begin it, or go on with it.

    Args:
        identity: all that the result depends on.

    Raises:
        InputError: another process trains there, it can't be written, or was begun with something else.
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


def _check_identity(folder: Path, now: Mapping[str, Any]) -> None:
    path = folder / _SETTINGS
    if not path.exists() or not (folder / _STATE).exists():
        text = json.dumps(now, indent=1) + "\n"
        write_atomically(path, text, temporary=folder / f"{_SETTINGS}.partial")
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}): remove {folder} to begin again.") from error
    for name in dict.fromkeys((*before, *now)):
        if before.get(name) != now.get(name):
            raise InputError(
                f"the training in {folder} was begun with {name} {before.get(name)!r}, now it is "
                f"{now.get(name)!r}: give the same, or name another --out."
            )


def remove(folder: Path) -> None:
    """Take away the folder of a finished training."""
    for name in (_STATE, f"{_STATE}.partial", _SETTINGS, f"{_SETTINGS}.partial", _LOCK):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
