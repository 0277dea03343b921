"""Lessons packed so that what they share is computed once.

Questions on one paragraph repeat it, and judgements repeat their instruction. A row is a tree of tokens:
lessons that begin alike share a path from the root and then branch off. Each token sees its ancestors alone
and stands at its depth, so that every lesson is computed exactly as if it were by itself (up to rounding), in
one pass. Rows are filled up with unrelated lessons, which share nothing but the root, and so need next to no
padding.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from askance.training.reader.lesson import EncodedExample
from askance.training.reader.settings import ReaderSettings

LEAST_SHARED_TOKENS = 24
"""Lessons that share fewer tokens are not kept together for that."""
MOSTLY_SHARED = 0.7
"""Share of its tokens that a lesson must have in common to fill more than half a row with its like."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One token to be predicted: at `place` of the row, `token_id`, which counts `weight` in the loss."""

    place: int
    token_id: int
    weight: float


@dataclass(slots=True)
class PackedRow:
    """A tree of tokens, parents before children.

    Attributes:
        parents: of each token, the place of the one before it; -1 for a first token.
        depths: of each token, its position in its own lesson.
        lessons: those that are in it.
    """

    ids: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    lessons: list[EncodedExample] = field(default_factory=list)
    _children: dict[tuple[int, int], int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, lesson: EncodedExample) -> None:
        """Put a lesson into the tree, with its goals.

        A target of n tokens has the weight √n in all: by tokens alone a worked answer would count forty times
        as much as a judgement of one word; by lessons alone, the same. Half of that is the answer's where the
        target ends in one: most of what leads to it is copied, and a yes would drown in it.
        """
        place, weights = -1, _weights(lesson)
        for depth, token_id in enumerate(lesson.ids):
            if depth >= lesson.num_prompt_tokens:
                weight = weights[depth - lesson.num_prompt_tokens]
                self.goals.append(Goal(place, token_id, weight))
            place = self._child(place, token_id, depth)
        self.lessons.append(lesson)

    def num_new_tokens(self, lesson: EncodedExample) -> int:
        """By how much a lesson would make the row longer."""
        place = -1
        for depth, token_id in enumerate(lesson.ids):
            place = self._children.get((place, token_id), -2)
            if place == -2:
                return len(lesson.ids) - depth
        return 0

    @property
    def goal_weight(self) -> float:
        """Of all its goals."""
        return sum(goal.weight for goal in self.goals)

    def goals_of(self, lesson: EncodedExample) -> slice:
        """Where in `goals` those of one of its lessons stand."""
        before = self.lessons[: self.lessons.index(lesson)]
        start = sum(each.num_target_tokens for each in before)
        return slice(start, start + lesson.num_target_tokens)

    def sees(self) -> NDArray[np.bool_]:
        """Shape [tokens, tokens]: whether the one sees the other."""
        seen = np.eye(len(self.ids), dtype=np.bool_)
        for place, parent in enumerate(self.parents):
            if parent >= 0:
                seen[place] |= seen[parent]
        return seen

    def close(self) -> None:
        """Forget what only adding needs, which is most of a row's memory."""
        self._children.clear()

    def _child(self, place: int, token_id: int, depth: int) -> int:
        child = self._children.get((place, token_id))
        if child is None:
            child = self._children[place, token_id] = len(self.ids)
            self.ids.append(token_id)
            self.parents.append(place)
            self.depths.append(depth)
        return child


def _weights(lesson: EncodedExample) -> list[float]:
    """What each token of the target counts."""
    total, last = lesson.num_target_tokens**0.5, lesson.num_answer_tokens
    first = lesson.num_target_tokens - last
    if not first or not last:
        return [total / lesson.num_target_tokens] * lesson.num_target_tokens
    return [total / 2 / first] * first + [total / 2 / last] * last


def rows(lessons: Sequence[EncodedExample], row_tokens: int, random_: random.Random) -> list[PackedRow]:
    """All lessons, each in one row of at most `row_tokens` (a longer lesson has a row of its own), in random
    order.

    What begins alike stays together as far as it fits into a row where it shares most of its tokens, and into
    half of one where it shares fewer: then rows hold lessons of several kinds, and so does a step.
    """
    pieces = list(_pieces(sorted(lessons, key=lambda lesson: lesson.ids), row_tokens))
    random_.shuffle(pieces)
    open_rows: list[PackedRow] = []
    full: list[PackedRow] = []
    for piece, size in pieces:
        row = next((row for row in open_rows if len(row) + size <= row_tokens), None)
        if row is None:
            row = PackedRow()
            open_rows.append(row)
        for lesson in piece:
            row.add(lesson)
        if len(open_rows) > _OPEN_ROWS:
            full.append(open_rows.pop(max(range(len(open_rows)), key=lambda at: len(open_rows[at]))))
    made = full + open_rows
    for row in made:
        row.close()
    random_.shuffle(made)
    return made


def lone_rows(lessons: Sequence[EncodedExample]) -> list[PackedRow]:
    """A row for each lesson: for models that can't be shown several at once."""
    made = [PackedRow() for _ in lessons]
    for row, lesson in zip(made, lessons, strict=True):
        row.add(lesson)
        row.close()
    return made


@dataclass(frozen=True, slots=True)
class TrainingSchedule:
    """All steps, in order; the same settings and lessons give the same course.

    Attributes:
        held_out: rows that are never learned from.
        is_packed: whether lessons share rows.
    """

    steps: tuple[tuple[PackedRow, ...], ...]
    held_out: tuple[PackedRow, ...]
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
    learned: Sequence[EncodedExample],
    held_out: Sequence[EncodedExample],
    settings: ReaderSettings,
    *,
    is_packed: bool = True,
) -> TrainingSchedule:
    """Pack the lessons anew for each epoch; what is held out is packed once.

    Args:
        is_packed: otherwise each lesson has a row of its own, and a step as many tokens as it had.
    """
    steps: list[tuple[PackedRow, ...]] = []
    for epoch in range(settings.epochs):
        random_ = random.Random(f"{settings.seed} epoch {epoch}")
        if is_packed:
            made, size = rows(learned, settings.row_tokens, random_), settings.rows_per_step
            steps += [tuple(made[at : at + size]) for at in range(0, len(made), size)]
        else:
            steps += _apart(learned, settings, random_)
    random_ = random.Random(f"{settings.seed} held out")
    kept = rows(held_out, settings.row_tokens, random_) if is_packed else lone_rows(held_out)
    return TrainingSchedule(tuple(steps), tuple(kept), settings, is_packed)


def _apart(
    learned: Sequence[EncodedExample], settings: ReaderSettings, random_: random.Random
) -> Iterator[tuple[PackedRow, ...]]:
    most_tokens = settings.rows_per_step * settings.row_tokens
    step: list[PackedRow] = []
    for row in lone_rows(random_.sample(learned, len(learned))):
        if step and sum(map(len, step)) + len(row) > most_tokens:
            yield tuple(step)
            step = []
        step.append(row)
    yield tuple(step)


_OPEN_ROWS = 16


def _pieces(ordered: Sequence[EncodedExample], row_tokens: int) -> Iterator[tuple[list[EncodedExample], int]]:
    """Lessons that stay together, and how many tokens a row of them alone has."""
    piece: list[EncodedExample] = []
    row = PackedRow()
    for lesson in ordered:
        shared = _num_shared(piece[-1], lesson) if piece else 0
        most_tokens = row_tokens if shared > MOSTLY_SHARED * len(lesson.ids) else row_tokens // 2
        if piece and (shared < LEAST_SHARED_TOKENS or len(row) + row.num_new_tokens(lesson) > most_tokens):
            yield piece, len(row)
            piece, row = [], PackedRow()
        piece.append(lesson)
        row.add(lesson)
    if piece:
        yield piece, len(row)


def _num_shared(one: EncodedExample, other: EncodedExample) -> int:
    pairs = zip(one.ids, other.ids, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
