"""Training: it learns, can be stopped and gone on with anywhere, and stops by itself when numbers break."""

import math
import os
import signal
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from lab.tests.training.reader.encoded_examples import full_settings, some_examples, tiny_model

from askance.core.errors import InputError
from askance_lab.training.loop.checkpoint import open_checkpoints
from askance_lab.training.loop.trainer import HELD_OUT_EVERY, Trainer, TrainingFailed, TrainingStatus
from askance_lab.training.reader.schedule import make_schedule
from askance_lab.training.reader.train_reader import losses_by_task
from tests.tolerances import assert_near, near


def nobody(status):
    pass


def run(folder, on_step=nobody, *, model=None, **settings):
    """One training in a process's life; gives the training and the trained weights."""
    made = make_schedule(some_examples(24), some_examples(6, seed=1), full_settings(**settings))
    model = model or tiny_model(**settings)
    with open_checkpoints(folder, {}) as checkpoints:
        trainer = Trainer(model, made, checkpoints)
        trainer.run(on_step)
    return trainer, weights_of(model)


def weights_of(model):
    return {name: each.detach().clone() for name, each in model.trainable_weights.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A training that nothing stopped."""
    return run(tmp_path_factory.mktemp("whole") / "t", epochs=2)


def without_time(curve):
    return [replace(each, seconds=0.0) for each in curve]


def assert_same(found, whole):
    (trainer, weights), (other, expected) = found, whole
    assert without_time(trainer.curve) == without_time(other.curve)
    assert weights.keys() == expected.keys()
    for name, each in weights.items():
        assert_near(each, expected[name], "same steps again")


def test_the_curve(whole):
    trainer, _ = whole
    steps = len(trainer.curve)
    assert [each.step for each in trainer.curve] == list(range(1, steps + 1))
    assert {each.num_steps for each in trainer.curve} == {steps}
    assert trainer.curve[-1].num_tokens == trainer.curve[-1].total_tokens
    assert all(one.num_tokens < other.num_tokens for one, other in pairwise(trainer.curve))
    assert all(one.seconds < other.seconds for one, other in pairwise(trainer.curve))
    assert steps < HELD_OUT_EVERY
    assert [each.held_out is None for each in trainer.curve] == [True] * (steps - 1) + [False]


def test_losses_are_means_over_targets_by_weight_and_fall(whole, tmp_path):
    examples, held_out = some_examples(24), some_examples(6, seed=1)
    model = tiny_model()
    total, weight = 0.0, 0.0
    for row in make_schedule(examples, (), full_settings(epochs=2)).steps[0]:
        for loss, target in zip(model.token_losses(row).tolist(), row.targets, strict=True):
            total, weight = total + target.weight * loss, weight + target.weight
    assert whole[0].curve[0].loss == near(total / weight, "formula", "float32")
    trainer, _ = run(tmp_path / "t", model=model, epochs=8)
    losses = [each.loss for each in trainer.curve]
    assert losses[0] > 3.5
    assert sum(losses[-3:]) / 3 < 0.5 * losses[0]
    by_task = {}
    for row in make_schedule((), held_out, full_settings()).held_out:
        for example in row.examples:
            found = model.token_losses(row)[row.targets_of(example)].tolist()
            by_task.setdefault(example.task, []).extend(found)
    measured = losses_by_task(model, make_schedule((), held_out, full_settings()).held_out)
    assert list(measured) == ["reading", "relevance"]
    for task, losses in by_task.items():
        assert measured[task] == near(sum(losses) / len(losses), "formula", "float32")
    assert losses_by_task(model, ()) == {}


def test_speed_and_time_left():
    status, unmoved = TrainingStatus(2, 4, 1.0, 100, 300, 5.0), TrainingStatus(1, 1, 1.0, 0, 0, 0.0)
    assert (status.tokens_per_second, status.seconds_left) == (20.0, 10.0)
    assert (unmoved.tokens_per_second, unmoved.seconds_left) == (0.0, 0.0)


class Gone(Exception):
    """Takes a training away without a checkpoint."""


def gone_after(step):
    def on_step(status):
        if status.step == step:
            raise Gone

    return on_step


@pytest.mark.parametrize("minutes", [0.0, 5.0])
def test_stopped_at_any_step_it_ends_the_same(tmp_path, whole, minutes):
    """With a checkpoint each step, and with none before the end."""
    for step in (2, 3, 5):
        with pytest.raises(Gone):
            run(tmp_path / "t", gone_after(step), epochs=2, checkpoint_minutes=minutes)
    assert_same(run(tmp_path / "t", epochs=2, checkpoint_minutes=minutes), whole)


def test_an_interrupt_waits_until_nothing_is_half_done(tmp_path, whole):
    """It comes while a row is computed; what is saved is the step before, whole."""
    model = tiny_model()
    losses = model.token_losses
    rows_computed = 0

    def interrupted(row):
        nonlocal rows_computed
        rows_computed += 1
        if rows_computed == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return losses(row)

    model.token_losses = interrupted
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "t", model=model, epochs=2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert rows_computed == 4
    seen = []
    found = run(tmp_path / "t", seen.append, epochs=2)
    assert seen[0].step in (2, 3)
    assert_same(found, whole)


def test_a_second_interrupt_does_not_wait(tmp_path):
    def stopping(status):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "t", stopping)
    assert not (tmp_path / "t" / "checkpoint.pt").exists()


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_no_number_stops_it_and_leaves_the_last_checkpoint(tmp_path, what):
    model = tiny_model()
    loss = model.weighted_loss
    calls = 0

    def broken(row):
        nonlocal calls
        calls += 1
        if calls <= 4:
            return loss(row)
        return loss(row) * math.nan if what == "loss" else _RootOfNothing.apply(loss(row))

    model.weighted_loss = broken
    with pytest.raises(TrainingFailed) as failed:
        run(tmp_path / "t", model=model, checkpoint_minutes=0)
    text = str(failed.value)
    made = make_schedule(some_examples(24), (), full_settings())
    ids = list(dict.fromkeys(example.id for row in made.steps[2] for example in row.examples))
    assert text.startswith(f"{'the loss' if what == 'loss' else 'a gradient'} of step 3 of {len(made.steps)}")
    assert ", ".join(ids[:3]) in text
    assert "lower learning_rate than 0.01, in another folder" in text
    assert all(each.isfinite().all() for each in model.trainable_weights.values())
    with open_checkpoints(tmp_path / "t", {}) as checkpoints:
        state = checkpoints.load()
    assert len(state.curve) == 2
    assert all(each.isfinite().all() for each in state.weights.values())


class _RootOfNothing(torch.autograd.Function):
    """A finite value with a gradient that is no number, as square roots have at 0."""

    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * math.nan


def test_a_finished_training_has_nothing_to_do_and_other_rows_are_refused(tmp_path, whole):
    run(tmp_path / "t", epochs=2)
    seen = []
    assert_same(run(tmp_path / "t", seen.append, epochs=2), whole)
    assert seen == []
    examples = some_examples(24), some_examples(6, seed=1), full_settings(epochs=2)
    apart, packed = make_schedule(*examples, is_packed=False), make_schedule(*examples)
    told = (
        f"t was started with {len(packed.steps)} steps of {packed.num_tokens:,} tokens in all, now there are "
        f"{len(apart.steps)} of {apart.num_tokens:,}: examples share rows on one machine"
    )
    with open_checkpoints(tmp_path / "t", {}) as checkpoints, pytest.raises(InputError, match=told):
        Trainer(tiny_model(), apart, checkpoints).run(nobody)
