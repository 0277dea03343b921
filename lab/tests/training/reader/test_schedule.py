"""Steps, and how fast each learns."""

import math

import pytest
from lab.tests.training.reader.encoded_examples import encoded, full_settings, some_examples

from askance_lab.training.reader.schedule import TrainingSchedule, make_schedule
from askance_lab.training.reader.training_example import examples_digest
from tests.tolerances import near


def schedule(**settings):
    return make_schedule(some_examples(30), some_examples(6, seed=1), full_settings(**settings))


def ids(schedule):
    return [[example.id for row in step for example in row.examples] for step in schedule.steps]


def test_every_epoch_learns_all_examples_packed_anew():
    made = schedule(epochs=2)
    learned = [id for step in ids(made) for id in step]
    half = len(learned) // 2
    assert sorted(learned[:half]) == sorted(learned[half:]) == sorted(each.id for each in some_examples(30))
    assert learned[:half] != learned[half:]
    assert all(len(step) == 2 for step in made.steps[: len(made.steps) // 2 - 1])


def test_the_same_settings_give_the_same_course():
    assert ids(schedule(seed=3)) == ids(schedule(seed=3))
    assert ids(schedule(seed=3)) != ids(schedule(seed=4))


def test_tokens():
    made = schedule(epochs=2)
    examples = some_examples(30)
    assert made.num_example_tokens == 2 * sum(len(each.ids) for each in examples)
    assert made.num_tokens == sum(len(row.ids) for step in made.steps for row in step)
    assert made.num_tokens < 0.75 * made.num_example_tokens


def test_what_is_held_out_is_in_no_step():
    made = schedule()
    assert {each.id for row in made.held_out for each in row.examples} == {f"data/{at}" for at in range(6)}
    assert make_schedule(some_examples(3), (), full_settings()).held_out == ()


def test_examples_apart():
    settings = full_settings(rows_per_step=1, row_tokens=100)
    examples = some_examples(30)
    made = make_schedule(examples, examples[:2], settings, is_packed=False)
    assert sorted(id for step in ids(made) for id in step) == sorted(each.id for each in examples)
    assert {len(row.examples) for step in made.steps for row in step} == {1}
    assert {len(step) for step in made.steps} <= {1, 2}
    assert all(sum(map(len, step)) <= 100 for step in made.steps)
    assert made.num_tokens == made.num_example_tokens
    assert len(made.held_out) == 2
    assert (made.is_packed, schedule().is_packed) == (False, True)


def test_the_rate_rises_then_falls_to_a_twentieth():
    made = TrainingSchedule(tuple(((),) * 100), (), full_settings(learning_rate=0.8, warmup=0.04))
    assert [made.learning_rate(step) for step in range(4)] == near([0.2, 0.4, 0.6, 0.8])
    assert made.learning_rate(4) == near(0.8)
    assert made.learning_rate(52) == near(0.8 * 0.525)
    assert made.learning_rate(99) == near(0.8 * (0.05 + 0.475 * (1 + math.cos(math.pi * 95 / 96))))
    assert all(made.learning_rate(step) > made.learning_rate(step + 1) for step in range(4, 99))


@pytest.mark.parametrize(("method", "rate"), [("lora", 1e-3), ("full", 1e-4)])
def test_the_greatest_rate_where_none_is_set(method, rate):
    assert full_settings(method=method, learning_rate=None).peak_learning_rate == rate


def test_one_step_is_all_warm_up():
    made = TrainingSchedule(((),), (), full_settings(learning_rate=0.5))
    assert made.learning_rate(0) == 0.5


def test_the_digest_tells_examples_and_their_order_apart():
    one, other = encoded((5, 6), (7, 2)), encoded((5, 6, 7), (2,))
    digests = {examples_digest(each) for each in ([one], [other], [one, other], [other, one], [])}
    assert len(digests) == 5
    assert examples_digest([one]) == examples_digest([encoded((5, 6), (7, 2), id="y")])
    assert all(len(each) == 32 for each in digests)


def test_with_a_packing_window_equal_examples_share_a_row_only_within_it():
    examples = [each for each in some_examples(6) for _ in range(5)]

    def most_copies_in_a_row(**settings):
        made = make_schedule(examples, (), full_settings(**settings))
        assert sorted(id for step in ids(made) for id in step) == sorted(each.id for each in examples)
        return max(
            [example.id for example in row.examples].count(example.id)
            for step in made.steps
            for row in step
            for example in row.examples
        )

    assert most_copies_in_a_row() == 5
    assert most_copies_in_a_row(packing_window=1) == 1
    assert ids(schedule(packing_window=7)) == ids(schedule(packing_window=7))


def test_with_a_packing_window_examples_that_begin_alike_stay_together():
    beginnings = [tuple(range(100 * number, 100 * number + 100)) for number in range(5, 25)]
    examples = [
        encoded((*beginning, 1), (2, last), id=f"{number}-{last}")
        for last in (3, 4, 5)
        for number, beginning in enumerate(beginnings)
    ]
    made = make_schedule(examples, (), full_settings(packing_window=30, row_tokens=128))
    rows = [row for step in made.steps for row in step]
    assert len(rows) == len(beginnings)
    assert {len(row.examples) for row in rows} == {3}
    apart = make_schedule(examples, (), full_settings(packing_window=1, row_tokens=128))
    assert len([row for step in apart.steps for row in step]) == len(examples)
