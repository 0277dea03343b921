"""Rows: what shares, what sees what, and that nothing is computed otherwise than alone."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from lab.tests.training.reader.encoded_examples import (
    VOCABULARY,
    alone,
    encoded,
    full_settings,
    some_examples,
    tiny_model,
)

from askance_lab.training.reader.packing import PackedRow, TargetToken, pack_rows, single_example_rows
from askance_lab.training.reader.trainable_model import TrainableModel
from tests.models.tiny import tiny_module
from tests.tolerances import assert_near, near


def row_of(*examples):
    row = PackedRow()
    for example in examples:
        row.add(example)
    return row


def test_a_row_by_hand():
    row = row_of(encoded((5, 6), (7, 2)), encoded((5, 6, 8), (2,)))
    assert row.ids == [5, 6, 7, 2, 8, 2]
    assert row.parents == [-1, 0, 1, 2, 1, 4]
    assert row.positions == [0, 1, 2, 3, 2, 3]
    root = 2**-0.5
    assert row.targets == [TargetToken(1, 7, root), TargetToken(2, 2, root), TargetToken(4, 2, 1.0)]
    assert row.target_weight == near(2 * root + 1)
    assert row.attention_mask().astype(int).tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0],
        [1, 1, 0, 0, 1, 0],
        [1, 1, 0, 0, 1, 1],
    ]


def test_an_answer_counts_as_much_as_all_that_leads_to_it():
    example = replace(encoded((5,), (6, 7, 8, 9, 2)), num_answer_tokens=2)
    weights = [target.weight for target in row_of(example).targets]
    half = 5**0.5 / 2
    assert weights == near([half / 3] * 3 + [half / 2] * 2)
    whole = row_of(replace(example, num_answer_tokens=5))
    assert [target.weight for target in whole.targets] == near([5**-0.5] * 5)


def test_how_much_longer_an_example_makes_a_row():
    row = row_of(encoded((5, 6), (7, 2)))
    assert row.num_new_tokens(encoded((5, 6), (7, 2))) == 0
    assert row.num_new_tokens(encoded((5, 6), (7, 3, 2))) == 2
    assert row.num_new_tokens(encoded((6,), (2,))) == 2


def test_a_lesson_twice_is_computed_once_and_counts_twice():
    example = encoded((5, 6), (7, 2))
    row = row_of(example, example)
    assert len(row) == 4
    assert row.target_weight == near(4 * 2**-0.5)


def test_the_goals_of_an_example():
    one, other = encoded((5, 6), (7, 2)), encoded((5, 6, 8), (2,))
    row = row_of(one, other)
    assert (row.targets_of(one), row.targets_of(other)) == (slice(0, 2), slice(2, 3))


CASES = {
    "unlike": (encoded((5, 6, 7), (8, 2)), encoded((9, 10), (11, 12, 2))),
    "branches": (encoded((5, 6, 7), (8, 2)), encoded((5, 6, 9), (10, 2)), encoded((5, 6, 9), (11, 2))),
    "twice": (encoded((5, 6), (7, 2)), encoded((5, 6), (7, 2))),
    "one goes on from another": (encoded((5, 6), (7,)), encoded((5, 6, 7, 8), (9, 2)), encoded((5,), (6, 7))),
    "many": some_examples(9),
}


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "gpt2"])
@pytest.mark.parametrize("examples", CASES.values(), ids=CASES)
def test_losses_and_gradients_are_those_of_each_lesson_alone(model_type, examples):
    module = tiny_module(model_type, vocabulary=VOCABULARY)
    model = TrainableModel(module, full_settings())
    row = row_of(*examples)
    for example in examples:
        found = model.token_losses(row)[row.targets_of(example)]
        assert_near(found, alone(module, example), "two layers")
    packed = gradients(module, model.weighted_loss(row))
    apart = gradients(
        module, sum(alone(module, each).sum() * each.num_target_tokens**-0.5 for each in examples)
    )
    largest = max(float(each.abs().max()) for each in apart)
    for mine, theirs in zip(packed, apart, strict=True):
        assert_near(mine / largest, theirs / largest, "two layers")


def gradients(module, loss):
    module.zero_grad()
    loss.backward()
    return [weights.grad.clone() for weights in module.parameters()]


def test_all_examples_are_in_rows_once_and_rows_are_short_enough():
    examples = some_examples(60)
    packed = pack_rows(examples, 150, random.Random(0))
    assert Counter(each.id for row in packed for each in row.examples) == Counter(
        each.id for each in examples
    )
    assert max(map(len, packed)) <= 150
    assert sum(map(len, packed)) < 0.75 * sum(len(each.ids) for each in examples)


def test_a_lesson_longer_than_a_row_has_one_of_its_own():
    long = encoded(tuple(range(3, 50)), (2,), "long")
    packed = pack_rows([*some_examples(6), long], 40, random.Random(0))
    (own,) = [row for row in packed if long in row.examples]
    assert (len(own), len(own.examples)) == (48, 1)


def test_the_same_seed_packs_the_same_rows_and_another_one_others():
    def packed(seed):
        return [row.ids for row in pack_rows(some_examples(30), 120, random.Random(seed))]

    assert packed(0) == packed(0)
    assert packed(0) != packed(1)


def test_nothing_gives_no_rows():
    assert pack_rows([], 100, random.Random(0)) == []


def test_rows_of_single_examples():
    examples = some_examples(3)
    made = single_example_rows(examples)
    assert [row.ids for row in made] == [list(each.ids) for each in examples]
    assert all(row.positions == list(range(len(row))) for row in made)


def test_models_that_place_their_tokens_themselves_are_found_out():
    packed = pack_rows(some_examples(9), 128, random.Random(0))
    assert tiny_model("llama").packs_exactly(packed)
    assert tiny_model("gpt2").packs_exactly(packed)
    assert not tiny_model("bloom").packs_exactly(packed)


def test_without_company_there_is_nothing_to_find_out():
    assert tiny_model("bloom").packs_exactly(single_example_rows(some_examples(3)))
