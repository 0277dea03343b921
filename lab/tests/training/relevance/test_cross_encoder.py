"""The cross-encoder that is trained: its loss, its batches, and a resumed run."""

import pytest
import torch
from lab.tests.training.relevance.test_pairs import example, pairs_of
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from askance_lab.training.relevance.cross_encoder import (
    PairBatch,
    TrainableCrossEncoder,
    encode_pairs,
    make_schedule,
    pairs_digest,
)
from askance_lab.training.relevance.settings import RelevanceSettings
from tests.models.tiny_cross_encoder import save_cross_encoder
from tests.tolerances import assert_near, near

SETTINGS = RelevanceSettings(precision="float32", learning_rate=3e-3, epochs=3, pairs_per_step=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_cross_encoder(tmp_path_factory.mktemp("cross"))


@pytest.fixture(scope="module")
def pairs(folder):
    made = pairs_of([example(number) for number in range(10)], negatives=1)
    return encode_pairs(made.training, AutoTokenizer.from_pretrained(folder), 100)


def model(folder, settings=SETTINGS):
    return TrainableCrossEncoder(AutoModelForSequenceClassification.from_pretrained(folder), settings)


def test_the_loss_is_the_sum_over_the_pairs_and_padding_changes_nothing(folder, pairs):
    trained = model(folder)
    by_length = sorted(pairs, key=lambda pair: len(pair.ids))
    four = (*by_length[:2], *by_length[-2:])
    assert len({len(pair.ids) for pair in four}) > 1
    alone = torch.cat([trained.logits([pair]) for pair in four])
    assert_near(trained.logits(four), alone, "two layers")
    labels = torch.tensor([float(pair.label) for pair in four])
    expected = binary_cross_entropy_with_logits(alone, labels, reduction="sum").item()
    assert trained.weighted_loss(PairBatch(four)).item() == near(expected, "two layers", "float32")
    assert trained.scores(four, batch_pairs=3) == near(alone.tolist(), "two layers", "float32")


def test_word_embeddings_are_trained_only_if_wanted(folder):
    names = model(folder).trainable_weights.keys()
    assert "classifier.weight" in names
    assert not any("word_embeddings" in name for name in names)
    wanted = RelevanceSettings(trains_embeddings=True)
    assert any("word_embeddings" in name for name in model(folder, wanted).trainable_weights)


def test_the_schedule_has_every_pair_once_an_epoch(pairs):
    made = make_schedule(pairs, pairs[:3], SETTINGS)
    assert len(made.steps) == 3 * len(pairs) // 4
    for epoch in range(3):
        steps = made.steps[5 * epoch : 5 * (epoch + 1)]
        seen = [pair for (batch,) in steps for pair in batch.examples]
        assert pairs_digest(sorted(seen, key=lambda pair: pair.ids)) == pairs_digest(
            sorted(pairs, key=lambda pair: pair.ids)
        )
    assert [len(batch.examples) for batch in made.held_out] == [3]
    assert made.steps == make_schedule(pairs, pairs[:3], SETTINGS).steps
