"""Rows: what shares, what sees what, and that nothing is computed otherwise than alone."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from askance.training.reader.network import TrainableModel
from askance.training.reader.packing import Goal, PackedRow, lone_rows, rows
from tests.models.tiny import tiny_module
from tests.tolerances import assert_near, near
from tests.training.reader.encoded import VOCABULARY, alone, encoded, full_settings, some_lessons, trainee


def row_of(*lessons):
    row = PackedRow()
    for lesson in lessons:
        row.add(lesson)
    return row


def test_a_row_by_hand():
    row = row_of(encoded((5, 6), (7, 2)), encoded((5, 6, 8), (2,)))
    assert row.ids == [5, 6, 7, 2, 8, 2]
    assert row.parents == [-1, 0, 1, 2, 1, 4]
    assert row.depths == [0, 1, 2, 3, 2, 3]
    root = 2**-0.5
    assert row.goals == [Goal(1, 7, root), Goal(2, 2, root), Goal(4, 2, 1.0)]
    assert row.goal_weight == near(2 * root + 1)
    assert row.sees().astype(int).tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0],
        [1, 1, 0, 0, 1, 0],
        [1, 1, 0, 0, 1, 1],
    ]


def test_an_answer_counts_as_much_as_all_that_leads_to_it():
    lesson = replace(encoded((5,), (6, 7, 8, 9, 2)), num_answer_tokens=2)
    weights = [goal.weight for goal in row_of(lesson).goals]
    half = 5**0.5 / 2
    assert weights == near([half / 3] * 3 + [half / 2] * 2)
    whole = row_of(replace(lesson, num_answer_tokens=5))
    assert [goal.weight for goal in whole.goals] == near([5**-0.5] * 5)


def test_how_much_longer_a_lesson_makes_a_row():
    row = row_of(encoded((5, 6), (7, 2)))
    assert row.num_new_tokens(encoded((5, 6), (7, 2))) == 0
    assert row.num_new_tokens(encoded((5, 6), (7, 3, 2))) == 2
    assert row.num_new_tokens(encoded((6,), (2,))) == 2


def test_a_lesson_twice_is_computed_once_and_counts_twice():
    lesson = encoded((5, 6), (7, 2))
    row = row_of(lesson, lesson)
    assert len(row) == 4
    assert row.goal_weight == near(4 * 2**-0.5)


def test_the_goals_of_a_lesson():
    one, other = encoded((5, 6), (7, 2)), encoded((5, 6, 8), (2,))
    row = row_of(one, other)
    assert (row.goals_of(one), row.goals_of(other)) == (slice(0, 2), slice(2, 3))


CASES = {
    "unlike": (encoded((5, 6, 7), (8, 2)), encoded((9, 10), (11, 12, 2))),
    "branches": (encoded((5, 6, 7), (8, 2)), encoded((5, 6, 9), (10, 2)), encoded((5, 6, 9), (11, 2))),
    "twice": (encoded((5, 6), (7, 2)), encoded((5, 6), (7, 2))),
    "one goes on from another": (encoded((5, 6), (7,)), encoded((5, 6, 7, 8), (9, 2)), encoded((5,), (6, 7))),
    "many": some_lessons(9),
}


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "gpt2"])
@pytest.mark.parametrize("lessons", CASES.values(), ids=CASES)
def test_losses_and_gradients_are_those_of_each_lesson_alone(model_type, lessons):
    module = tiny_module(model_type, vocabulary=VOCABULARY)
    student = TrainableModel(module, full_settings())
    row = row_of(*lessons)
    for lesson in lessons:
        found = student.losses(row)[row.goals_of(lesson)]
        assert_near(found, alone(module, lesson), "two layers")
    packed = gradients(module, student.loss(row))
    apart = gradients(
        module, sum(alone(module, each).sum() * each.num_target_tokens**-0.5 for each in lessons)
    )
    largest = max(float(each.abs().max()) for each in apart)
    for mine, theirs in zip(packed, apart, strict=True):
        assert_near(mine / largest, theirs / largest, "two layers")


def gradients(module, loss):
    module.zero_grad()
    loss.backward()
    return [weights.grad.clone() for weights in module.parameters()]


def test_all_lessons_are_in_rows_once_and_rows_are_short_enough():
    lessons = some_lessons(60)
    packed = rows(lessons, 150, random.Random(0))
    assert Counter(each.id for row in packed for each in row.lessons) == Counter(each.id for each in lessons)
    assert max(map(len, packed)) <= 150
    assert sum(map(len, packed)) < 0.75 * sum(len(each.ids) for each in lessons)


def test_a_lesson_longer_than_a_row_has_one_of_its_own():
    long = encoded(tuple(range(3, 50)), (2,), "long")
    packed = rows([*some_lessons(6), long], 40, random.Random(0))
    (own,) = [row for row in packed if long in row.lessons]
    assert (len(own), len(own.lessons)) == (48, 1)


def test_the_same_seed_packs_the_same_rows_and_another_one_others():
    def packed(seed):
        return [row.ids for row in rows(some_lessons(30), 120, random.Random(seed))]

    assert packed(0) == packed(0)
    assert packed(0) != packed(1)


def test_nothing_gives_no_rows():
    assert rows([], 100, random.Random(0)) == []


def test_rows_of_single_lessons():
    lessons = some_lessons(3)
    made = lone_rows(lessons)
    assert [row.ids for row in made] == [list(each.ids) for each in lessons]
    assert all(row.depths == list(range(len(row))) for row in made)


def test_models_that_place_their_tokens_themselves_are_found_out():
    packed = rows(some_lessons(9), 128, random.Random(0))
    assert trainee("llama").packs_exactly(packed)
    assert trainee("gpt2").packs_exactly(packed)
    assert not trainee("bloom").packs_exactly(packed)


def test_without_company_there_is_nothing_to_find_out():
    assert trainee("bloom").packs_exactly(lone_rows(some_lessons(3)))
