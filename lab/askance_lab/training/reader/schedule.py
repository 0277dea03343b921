"""The schedule of a reader's training: the packed rows of each step."""

import random
from collections.abc import Iterator, Sequence

from askance.core.types import TokenIds
from askance_lab.training.loop.schedule import TrainingSchedule
from askance_lab.training.reader.packing import PackedRow, pack_rows, single_example_rows
from askance_lab.training.reader.settings import LanguageModelSettings
from askance_lab.training.reader.training_example import EncodedExample

SHARED_BEGINNING = 100
"""With a packing window, examples that begin with so many equal tokens stay together, such as questions about
the same passages."""


def make_schedule(
    training: Sequence[EncodedExample],
    held_out: Sequence[EncodedExample],
    settings: LanguageModelSettings,
    *,
    is_packed: bool = True,
) -> TrainingSchedule[PackedRow]:
    """Return the schedule of a training run.

    Each epoch packs the training examples into rows again, in another random order.

    Args:
        is_packed: Whether examples share rows. If not, each example gets its own row, while the token limit
            of a step stays the same.
    """
    steps: list[tuple[PackedRow, ...]] = []
    for epoch in range(settings.epochs):
        rng = random.Random(f"{settings.seed} epoch {epoch}")
        if is_packed:
            rows, size = _packed_rows(training, settings, rng), settings.rows_per_step
            steps += [tuple(rows[start : start + size]) for start in range(0, len(rows), size)]
        else:
            steps += _unpacked_steps(training, settings, rng)
    rng = random.Random(f"{settings.seed} held out")
    rows = pack_rows(held_out, settings.row_tokens, rng) if is_packed else single_example_rows(held_out)
    return TrainingSchedule(tuple(steps), tuple(rows), settings, is_packed)


def _packed_rows(
    training: Sequence[EncodedExample], settings: LanguageModelSettings, rng: random.Random
) -> list[PackedRow]:
    """Return the rows of one epoch. With a packing window, only successive examples share rows.

    The examples are shuffled, but those that begin alike for `SHARED_BEGINNING` tokens stay together.
    """
    if not settings.packing_window:
        return pack_rows(training, settings.row_tokens, rng)
    groups: dict[TokenIds, list[EncodedExample]] = {}
    for number, example in enumerate(training):
        is_long = len(example.ids) > SHARED_BEGINNING
        groups.setdefault(example.ids[:SHARED_BEGINNING] if is_long else (number,), []).append(example)
    units = list(groups.values())
    shuffled = [example for unit in rng.sample(units, len(units)) for example in unit]
    return [
        row
        for start in range(0, len(shuffled), settings.packing_window)
        for row in pack_rows(shuffled[start : start + settings.packing_window], settings.row_tokens, rng)
    ]


def _unpacked_steps(
    training: Sequence[EncodedExample], settings: LanguageModelSettings, rng: random.Random
) -> Iterator[tuple[PackedRow, ...]]:
    max_tokens = settings.rows_per_step * settings.row_tokens
    step: list[PackedRow] = []
    for row in single_example_rows(rng.sample(training, len(training))):
        if step and sum(map(len, step)) + len(row) > max_tokens:
            yield tuple(step)
            step = []
        step.append(row)
    yield tuple(step)
