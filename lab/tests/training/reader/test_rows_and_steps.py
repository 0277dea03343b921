"""From examples to ids, rows and steps: what shares a row, what sees what, and how fast each step learns."""

import asyncio
import math
import random
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from lab.tests.training.reader.encoded_examples import (
    VOCABULARY,
    alone,
    encoded,
    full_settings,
    some_examples,
    tiny_model,
)

from askance.core.types import Raw, Span
from askance.models.hf.model import encoding_of
from askance_lab.training.reader.packing import PackedRow, TargetToken, pack_rows, single_example_rows
from askance_lab.training.reader.schedule import TrainingSchedule, make_schedule
from askance_lab.training.reader.trainable_model import TrainableModel
from askance_lab.training.reader.training_example import (
    EncodedExample,
    TrainingExample,
    encode,
    examples_digest,
)
from tests.models.tiny import tiny_module
from tests.tolerances import assert_near, near


class Letters:
    """One id a letter."""

    vocabulary = SimpleNamespace(tokenizer=SimpleNamespace(eos_token_id=0))

    def encode(self, prompt):
        return self.parts(prompt.parts)

    def parts(self, spans, at_start=True):
        return tuple(map(ord, "".join(span.text for span in spans)))


def example(prompt, target, id="d/1", task="reading"):
    return TrainingExample(task, id, Raw((Span(prompt),)), target)


def test_prompt_then_target_then_end():
    made, left_out = encode([example("ab", " c")], Letters(), 10)
    assert made == (EncodedExample("reading", "d/1", (97, 98, 32, 99, 0), 2),)
    assert made[0].num_target_tokens == 3
    assert left_out == {}


def test_the_answer_that_a_target_ends_in():
    worked = TrainingExample("reading", "d/1", Raw((Span("ab"),)), " c is d.", answer=" d.")
    (made,), _ = encode([worked], Letters(), 100)
    assert (made.num_target_tokens, made.num_answer_tokens) == (9, 4)
    (made,), _ = encode([example("ab", " c is d.")], Letters(), 100)
    assert made.num_answer_tokens == 0


def test_what_does_not_fit_is_left_out_whole_and_counted_by_task():
    examples = [example("abc", "d"), example("abcd", "e"), example("a", "bcde", task="support")]
    made, left_out = encode(examples, Letters(), 5)
    assert [each.ids for each in made] == [(97, 98, 99, 100, 0)]
    assert left_out == {"reading": 1, "support": 1}
    assert encode(examples[:2], Letters(), 3) == ((), {"reading": 2})


def test_a_model_sees_what_it_will_see_when_it_answers(llama_folder):
    from askance.models.hf.load import as_model, load_parts

    module, tokenizer = load_parts(str(llama_folder))
    (made,), _ = encode([example("The cat</s>", " sat</s> on")], encoding_of(tokenizer, module, "llama"), 100)
    model = as_model(module, tokenizer, name="llama")
    prompt, target = made.ids[: made.num_prompt_tokens], made.ids[made.num_prompt_tokens :]
    assert len(prompt) == asyncio.run(model.count(Raw((Span("The cat</s>"),))))
    assert target == (*model.tokenize(" sat</s> on"), tokenizer.eos_token_id)
    assert tokenizer.eos_token_id not in target[:-1]


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


def test_an_example_that_is_there_makes_a_row_no_longer_and_counts_twice():
    one, other = encoded((5, 6), (7, 2)), encoded((5, 6, 8), (2,))
    row = row_of(one, one)
    assert (len(row), row.target_weight) == (4, near(4 * 2**-0.5))
    row = row_of(one, other)
    assert (row.targets_of(one), row.targets_of(other)) == (slice(0, 2), slice(2, 3))
    row = row_of(one)
    longer = [one, encoded((5, 6), (7, 3, 2)), encoded((6,), (2,))]
    assert [row.num_new_tokens(each) for each in longer] == [0, 2, 2]


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
    assert [row.ids for row in packed] == [row.ids for row in pack_rows(examples, 150, random.Random(0))]
    assert [row.ids for row in packed] != [row.ids for row in pack_rows(examples, 150, random.Random(1))]
    assert sum(map(len, packed)) < 0.75 * sum(len(each.ids) for each in examples)


def test_a_lesson_longer_than_a_row_has_one_of_its_own():
    long = encoded(tuple(range(3, 50)), (2,), "long")
    packed = pack_rows([*some_examples(6), long], 40, random.Random(0))
    (own,) = [row for row in packed if long in row.examples]
    assert (len(own), len(own.examples)) == (48, 1)


def test_models_that_place_their_tokens_themselves_are_found_out():
    packed = pack_rows(some_examples(9), 128, random.Random(0))
    assert tiny_model("llama").packs_exactly(packed)
    assert tiny_model("gpt2").packs_exactly(packed)
    assert not tiny_model("bloom").packs_exactly(packed)
    assert tiny_model("bloom").packs_exactly(single_example_rows(some_examples(3))), "none shares a row"


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
    assert made.num_example_tokens == 2 * sum(len(each.ids) for each in some_examples(30))
    assert made.num_tokens == sum(len(row.ids) for step in made.steps for row in step)
    assert made.num_tokens < 0.75 * made.num_example_tokens
    assert {each.id for row in made.held_out for each in row.examples} == {f"data/{at}" for at in range(6)}
    assert ids(schedule(seed=3)) == ids(schedule(seed=3)) != ids(schedule(seed=4))


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
    assert TrainingSchedule(((),), (), full_settings(learning_rate=0.5)).learning_rate(0) == 0.5
    peaks = [full_settings(method=name, learning_rate=None).peak_learning_rate for name in ("lora", "full")]
    assert peaks == [1e-3, 1e-4]


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
