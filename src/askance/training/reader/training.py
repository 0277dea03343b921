"""The training itself: one step after the other, each the same whether or not it was interrupted before."""

import math
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from types import FrameType

import torch

from askance.core.errors import InputError, TrainingFailed
from askance.training.reader.checkpoint import Checkpoints, TrainingState
from askance.training.reader.network import TrainableModel
from askance.training.reader.packing import PackedRow, TrainingSchedule

HELD_OUT_EVERY = 50
_SHOWN_LESSONS = 3


@dataclass(frozen=True, slots=True)
class TrainingStatus:
    """How far a training is.

    Attributes:
        loss: of the last step (nats, the mean over its goals by weight).
        num_tokens: computed until now; `total_tokens`: of the whole course.
        seconds: spent on steps until now, in earlier processes too.
        held_out: the loss on what is held out, where it was just measured.
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
        """Over the whole training."""
        return self.num_tokens / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float:
        """At that speed."""
        speed = self.tokens_per_second
        return (self.total_tokens - self.num_tokens) / speed if speed else 0.0


Listener = Callable[[TrainingStatus], None]


class Interrupted(KeyboardInterrupt):
    """A Ctrl-C, raised where everything is as it should be."""


class Interruption:
    """A Ctrl-C while weights change waits until all of them have."""

    def __init__(self) -> None:
        self._is_asked = False

    def check(self) -> None:
        """Raises Interrupted if Ctrl-C has been pressed."""
        if self._is_asked:
            raise Interrupted

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """Until the end of the block, a first Ctrl-C is raised by `check` alone, a second one at once.

        Signals reach the main thread only: elsewhere it does nothing.
        """
        self._is_asked = False
        before, is_main = (
            signal.getsignal(signal.SIGINT),
            threading.current_thread() is threading.main_thread(),
        )
        if not is_main or before is signal.SIG_IGN:
            yield
            return
        signal.signal(signal.SIGINT, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._is_asked:
            raise KeyboardInterrupt
        self._is_asked = True


class Training:
    """A course on its way."""

    def __init__(self, trainee: TrainableModel, course: TrainingSchedule, checkpoints: Checkpoints) -> None:
        self._trainee, self._course, self._checkpoints = trainee, course, checkpoints
        settings = course.settings
        self._weights = trainee.trainable
        self._optimizer = torch.optim.AdamW(
            self._weights.values(),
            lr=settings.peak_rate,
            betas=(0.9, 0.95),
            weight_decay=settings.weight_decay,
        )
        self._interruption = Interruption()
        self.curve: list[TrainingStatus] = []

    def run(self, listener: Listener) -> None:
        """All steps that are not done yet, with a checkpoint now and then, at the end, and on an interrupt.

        Raises:
            TrainingFailed: a loss or a gradient is no number; the last checkpoint stays.
            InputError: a checkpoint can't be read or written, or belongs to another course; the last one
                stays.
        """
        self._resume()
        saved_at = time.monotonic()
        try:
            with self._interruption.postponed():
                for step in range(len(self.curve), len(self._course.steps)):
                    self._learn(step)
                    listener(self.curve[-1])
                    minutes = (time.monotonic() - saved_at) / 60
                    if minutes >= self._course.settings.checkpoint_minutes:
                        self._save()
                        saved_at = time.monotonic()
                    self._interruption.check()
        except Interrupted:
            self._save()
            raise
        self._save()

    def held_out_by_task(self) -> Mapping[str, float]:
        """The loss on what is held out (nats a token), by task."""
        sums, counts = Counter[str](), Counter[str]()
        for row in self._course.held_out:
            with torch.no_grad():
                losses = self._trainee.losses(row).tolist()
            for lesson in row.lessons:
                sums[lesson.task] += sum(losses[row.goals_of(lesson)])
                counts[lesson.task] += lesson.num_target_tokens
        return {task: sums[task] / counts[task] for task in sorted(counts)}

    def _learn(self, step: int) -> None:
        begun, before = time.monotonic(), self.curve[-1] if self.curve else None
        rows = self._course.steps[step]
        for group in self._optimizer.param_groups:
            group["lr"] = self._course.rate(step)
        self._optimizer.zero_grad()
        loss = self._backward(rows)
        norm = torch.nn.utils.clip_grad_norm_(list(self._weights.values()), self._course.settings.clip)
        if not (math.isfinite(loss) and norm.isfinite()):
            raise TrainingFailed(self._broken(step, rows, loss))
        self._optimizer.step()
        standing = TrainingStatus(
            step + 1,
            len(self._course.steps),
            loss,
            (before.num_tokens if before else 0) + sum(map(len, rows)),
            self._course.num_tokens,
            (before.seconds if before else 0.0) + time.monotonic() - begun,
        )
        # From here on the step is done, also if measuring is interrupted.
        self.curve.append(standing)
        if step + 1 == len(self._course.steps) or step % HELD_OUT_EVERY == HELD_OUT_EVERY - 1:
            self.curve[-1] = replace(standing, held_out=self._held_out())

    def _backward(self, rows: tuple[PackedRow, ...]) -> float:
        weight, loss = sum(row.goal_weight for row in rows), 0.0
        for row in rows:
            self._interruption.check()
            share = self._trainee.loss(row) / weight
            share.backward()  # type: ignore[no-untyped-call]
            loss += float(share.detach())
        return loss

    def _held_out(self) -> float | None:
        rows, total = self._course.held_out, 0.0
        if not rows:
            return None
        with torch.no_grad():
            for row in rows:
                self._interruption.check()
                total += float(self._trainee.loss(row))
        return total / sum(row.goal_weight for row in rows)

    def _broken(self, step: int, rows: tuple[PackedRow, ...], loss: float) -> str:
        ids = list(dict.fromkeys(lesson.id for row in rows for lesson in row.lessons))
        more = f" and {len(ids) - _SHOWN_LESSONS} more" if len(ids) > _SHOWN_LESSONS else ""
        what = "a gradient" if math.isfinite(loss) else "the loss"
        return (
            f"{what} of step {step + 1} of {len(self._course.steps)} is no finite number, on lessons of "
            f"{', '.join(ids[:_SHOWN_LESSONS])}{more}: begin again with a lower learning_rate than "
            f"{self._course.settings.peak_rate:g}, in another folder. The last checkpoint is as it was."
        )

    def _resume(self) -> None:
        state = self._checkpoints.load()
        if state is None:
            return
        curve = [TrainingStatus(*entry) for entry in state.curve]
        self._check_course(curve)
        with torch.no_grad():
            for name, weights in self._weights.items():
                weights.copy_(state.weights[name])
        self._optimizer.load_state_dict(dict(state.optimizer))
        self.curve = curve

    def _check_course(self, curve: list[TrainingStatus]) -> None:
        """Whether rows may be shared is tried on each machine anew, and decides what a step is."""
        steps, tokens = len(self._course.steps), self._course.num_tokens
        begun = curve[-1] if curve else None
        if begun is not None and (begun.num_steps, begun.total_tokens) != (steps, tokens):
            raise InputError(
                f"the training in {self._checkpoints.folder} was begun with {begun.num_steps} steps of "
                f"{begun.total_tokens:,} tokens in all, now they are {steps} of {tokens:,}: lessons share "
                "rows on one machine and not on the other. Go on where it was begun, or name another --out."
            )

    def _save(self) -> None:
        curve = [astuple(each) for each in self.curve]
        self._checkpoints.save(TrainingState(self._weights, self._optimizer.state_dict(), curve))
