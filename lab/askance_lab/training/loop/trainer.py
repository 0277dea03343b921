"""The training loop, which computes the same steps whether or not it was interrupted."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from types import FrameType
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from askance.core.errors import AskanceError, InputError
from askance_lab.training.loop.checkpoint import Checkpoints, TrainingState
from askance_lab.training.loop.schedule import R, Row, TrainingSchedule

HELD_OUT_EVERY = 50
"""The number of steps between two measurements of the held-out loss."""
_MAX_IDS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class TrainingStatus:
    """The progress of a training run after one step.

    Attributes:
        loss: The loss of the last step: the weighted mean over its target tokens, in nats.
        num_tokens: The number of tokens computed so far.
        seconds: The time spent on steps so far, including the steps of earlier processes.
        held_out: The held-out loss, or None if it was not measured after this step.
    """

    step: int
    num_steps: int
    loss: float
    num_tokens: int
    total_tokens: int
    seconds: float
    held_out: float | None = None

    @property
    def tokens_per_second(self) -> float:
        """The mean number of tokens per second in the run so far."""
        return self.num_tokens / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float:
        """The estimated time for the remaining steps in seconds, based on the mean speed so far."""
        speed = self.tokens_per_second
        return (self.total_tokens - self.num_tokens) / speed if speed else 0.0


class TrainingFailed(AskanceError):
    """A training run stopped learning. Its last checkpoint is kept."""


OnStep = Callable[[TrainingStatus], None]
R_contra = TypeVar("R_contra", bound=Row, contravariant=True)


class Interrupted(KeyboardInterrupt):
    """An interrupt by Ctrl-C, raised between two updates of the weights."""


class DeferredInterrupt:
    """A handler of Ctrl-C that raises the interrupt only between two updates of the weights."""

    def __init__(self) -> None:
        self._is_pending = False

    def check(self) -> None:
        """Raise Interrupted if Ctrl-C has been pressed."""
        if self._is_pending:
            raise Interrupted

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer the first Ctrl-C inside the block to the next `check`.

        A second Ctrl-C raises KeyboardInterrupt immediately. Only the main thread receives signals, so this
        context manager does nothing in other threads.
        """
        self._is_pending = False
        previous = signal.getsignal(signal.SIGINT)
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or previous is signal.SIG_IGN:
            yield
            return
        signal.signal(signal.SIGINT, self._handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._is_pending:
            raise KeyboardInterrupt
        self._is_pending = True


class Trainable(Protocol[R_contra]):
    """A model that is trained on rows."""

    @property
    def trainable_weights(self) -> Mapping[str, Tensor]:
        """The weights that are trained, by name."""
        ...

    def weighted_loss(self, row: R_contra) -> Tensor:
        """Return the loss of a row, multiplied by the row's weight."""
        ...


class Trainer(Generic[R]):
    """A trainer that runs a schedule and saves checkpoints."""

    def __init__(self, model: Trainable[R], schedule: TrainingSchedule[R], checkpoints: Checkpoints) -> None:
        self._model, self._schedule, self._checkpoints = model, schedule, checkpoints
        settings = schedule.settings
        self._weights = model.trainable_weights
        self._optimizer = torch.optim.AdamW(
            self._weights.values(),
            lr=settings.peak_learning_rate,
            betas=(0.9, 0.95),
            weight_decay=settings.weight_decay,
            fused=True,  # five times as fast on a CPU
        )
        self._interrupt = DeferredInterrupt()
        self.curve: list[TrainingStatus] = []

    def run(self, on_step: OnStep) -> None:
        """Run all remaining steps, and save a checkpoint at intervals, at the end and on an interrupt.

        Raises:
            TrainingFailed: A loss or a gradient is not finite. The last checkpoint is kept.
            InputError: A checkpoint can't be read or written, or belongs to another schedule. The last
                checkpoint is kept.
        """
        self._resume()
        saved_at = time.monotonic()
        try:
            with self._interrupt.deferred():
                for step in range(len(self.curve), len(self._schedule.steps)):
                    self._train_step(step)
                    on_step(self.curve[-1])
                    minutes = (time.monotonic() - saved_at) / 60
                    if minutes >= self._schedule.settings.checkpoint_minutes:
                        self._save()
                        saved_at = time.monotonic()
                    self._interrupt.check()
        except Interrupted:
            self._save()
            raise
        self._save()

    def _train_step(self, step: int) -> None:
        started, previous = time.monotonic(), self.curve[-1] if self.curve else None
        rows = self._schedule.steps[step]
        for group in self._optimizer.param_groups:
            group["lr"] = self._schedule.learning_rate(step)
        self._optimizer.zero_grad()
        loss = self._backward(rows)
        norm = torch.nn.utils.clip_grad_norm_(list(self._weights.values()), self._schedule.settings.clip)
        if not (math.isfinite(loss) and norm.isfinite()):
            raise TrainingFailed(self._not_finite_message(step, rows, loss))
        self._optimizer.step()
        status = TrainingStatus(
            step + 1,
            len(self._schedule.steps),
            loss,
            (previous.num_tokens if previous else 0) + sum(map(len, rows)),
            self._schedule.num_tokens,
            (previous.seconds if previous else 0.0) + time.monotonic() - started,
        )
        # The step is done from here on, even if an interrupt stops the measurement below.
        self.curve.append(status)
        if step + 1 == len(self._schedule.steps) or step % HELD_OUT_EVERY == HELD_OUT_EVERY - 1:
            self.curve[-1] = replace(status, held_out=self._held_out_loss())

    def _backward(self, rows: tuple[R, ...]) -> float:
        weight, loss = sum(row.target_weight for row in rows), 0.0
        for row in rows:
            self._interrupt.check()
            row_loss = self._model.weighted_loss(row) / weight
            row_loss.backward()  # type: ignore[no-untyped-call]
            loss += float(row_loss.detach())
        return loss

    def _held_out_loss(self) -> float | None:
        rows, total = self._schedule.held_out, 0.0
        if not rows:
            return None
        with torch.no_grad():
            for row in rows:
                self._interrupt.check()
                total += float(self._model.weighted_loss(row))
        return total / sum(row.target_weight for row in rows)

    def _not_finite_message(self, step: int, rows: tuple[R, ...], loss: float) -> str:
        ids = list(dict.fromkeys(example.id for row in rows for example in row.examples))
        more = f" and {len(ids) - _MAX_IDS_SHOWN} more" if len(ids) > _MAX_IDS_SHOWN else ""
        culprit = "a gradient" if math.isfinite(loss) else "the loss"
        return (
            f"{culprit} of step {step + 1} of {len(self._schedule.steps)} is not finite, on examples from "
            f"{', '.join(ids[:_MAX_IDS_SHOWN])}{more}: start again with a lower learning_rate than "
            f"{self._schedule.settings.peak_learning_rate:g}, in another folder. The last checkpoint is "
            "unchanged."
        )

    def _resume(self) -> None:
        state = self._checkpoints.load()
        if state is None:
            return
        curve = [TrainingStatus(*fields) for fields in state.curve]
        self._check_schedule(curve)
        with torch.no_grad():
            for name, weights in self._weights.items():
                weights.copy_(state.weights[name])
        self._optimizer.load_state_dict(dict(state.optimizer))
        self.curve = curve

    def _check_schedule(self, curve: list[TrainingStatus]) -> None:
        """Raise InputError if the checkpoint belongs to another schedule.

        The schedules of two machines can differ, because not every machine can pack rows.
        """
        steps, tokens = len(self._schedule.steps), self._schedule.num_tokens
        last = curve[-1] if curve else None
        if last is not None and (last.num_steps, last.total_tokens) != (steps, tokens):
            raise InputError(
                f"the training in {self._checkpoints.folder} was started with {last.num_steps} steps of "
                f"{last.total_tokens:,} tokens in all, now there are {steps} of {tokens:,}: examples share "
                "rows on one machine and not on the other. Resume on the first one, or name another --out."
            )

    def _save(self) -> None:
        curve = [astuple(status) for status in self.curve]
        self._checkpoints.save(TrainingState(self._weights, self._optimizer.state_dict(), curve))
