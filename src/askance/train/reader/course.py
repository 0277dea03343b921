"""The course of a training: which rows each step learns from, and how fast."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from askance.train.reader.encoding import Encoded
from askance.train.reader.packing import Row, lone_rows, rows
from askance.train.reader.settings import ReaderSettings


@dataclass(frozen=True, slots=True)
class Course:
    """All steps, in order; the same settings and lessons give the same course.

    Attributes:
        held_out: rows that are never learned from.
        is_packed: whether lessons share rows.
    """

    steps: tuple[tuple[Row, ...], ...]
    held_out: tuple[Row, ...]
    settings: ReaderSettings
    is_packed: bool = True

    @property
    def num_tokens(self) -> int:
        """Tokens that are computed in all, each shared one once."""
        return sum(len(row) for step in self.steps for row in step)

    @property
    def num_lesson_tokens(self) -> int:
        """Tokens of all lessons, shared ones as often as they are shared."""
        return sum(len(each.ids) for step in self.steps for row in step for each in row.lessons)

    def rate(self, step: int) -> float:
        """The learning rate of a step: linear warm-up, then along a cosine to a twentieth of the greatest."""
        warm = max(1, math.ceil(self.settings.warmup * len(self.steps)))
        done = (step - warm) / max(1, len(self.steps) - warm)
        falling = 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * max(0.0, done)))
        return self.settings.peak_rate * min(1.0, (step + 1) / warm) * falling


def make_course(
    learned: Sequence[Encoded],
    held_out: Sequence[Encoded],
    settings: ReaderSettings,
    *,
    is_packed: bool = True,
) -> Course:
    """Pack the lessons anew for each epoch; what is held out is packed once.

    Args:
        is_packed: otherwise each lesson has a row of its own, and a step as many tokens as it had.
    """
    steps: list[tuple[Row, ...]] = []
    for epoch in range(settings.epochs):
        random_ = random.Random(f"{settings.seed} epoch {epoch}")
        steps += _packed(learned, settings, random_) if is_packed else _apart(learned, settings, random_)
    random_ = random.Random(f"{settings.seed} held out")
    kept = rows(held_out, settings.row_tokens, random_) if is_packed else lone_rows(held_out)
    return Course(tuple(steps), tuple(kept), settings, is_packed)


def _packed(
    learned: Sequence[Encoded], settings: ReaderSettings, random_: random.Random
) -> Iterator[tuple[Row, ...]]:
    made, size = rows(learned, settings.row_tokens, random_), settings.rows_per_step
    yield from (tuple(made[at : at + size]) for at in range(0, len(made), size))


def _apart(
    learned: Sequence[Encoded], settings: ReaderSettings, random_: random.Random
) -> Iterator[tuple[Row, ...]]:
    most_tokens = settings.rows_per_step * settings.row_tokens
    step: list[Row] = []
    for row in lone_rows(random_.sample(learned, len(learned))):
        if step and sum(map(len, step)) + len(row) > most_tokens:
            yield tuple(step)
            step = []
        step.append(row)
    yield tuple(step)


def lessons_digest(lessons: Sequence[Encoded]) -> str:
    """What tells one set of lessons from another, their order included: 32 hexadecimal digits."""
    digest = blake2b(digest_size=16)
    for lesson in lessons:
        parts = (lesson.num_prompt_tokens, lesson.num_answer_tokens)
        digest.update(f"{lesson.task} {parts} {lesson.ids}\n".encode())
    return digest.hexdigest()
