"""Choices that hang on rounding are told from those that do not."""

import asyncio

import pytest

pytest.importorskip("torch")

import torch

from askance.core.types import GenerateRequest, Raw, Sampling, Span
from askance.inference.decoding import TokenSampler
from askance.models.hf.logits import rows_of
from tests.choices import watched_choices
from tests.tolerances import tolerance


def chosen(logits, **sampling):
    sampler = TokenSampler(Sampling(1, **sampling), ("k",), 0, "m")
    return sampler.sample(rows_of(torch.tensor([logits]))[0])


@pytest.mark.parametrize(("gap", "is_clear"), [(1.9, False), (2.1, True)])
def test_a_greedy_choice_is_clear_where_the_gap_is_larger_than_both_may_be_off(gap, is_clear):
    most = tolerance("float32", "thirty layers")
    with watched_choices() as choices:
        chosen([1.0, 1.0 + gap * most])
    assert choices.are_clear("thirty layers") == is_clear


def test_a_sampled_choice_is_clear_away_from_the_edges_of_a_token():
    with watched_choices() as choices:
        drawn = [chosen([0.0, 0.0, 0.0], temperature=1.0)]
        assert choices.are_clear("thirty layers")
        drawn.append(chosen([0.0, 0.0, 0.0], temperature=1.0))
    assert drawn[0] == drawn[1], "watching draws no number"
    assert len(choices.margins) == 2
    (margin, _) = choices.margins
    assert 0 < margin < 1


def test_choices_of_a_model_are_seen_and_not_changed(llama):
    async def written():
        return await llama.generate(GenerateRequest(Raw((Span("The cat"),)), Sampling(8), key=("k",)))

    (alone,) = asyncio.run(written())
    with watched_choices() as choices:
        (watched,) = asyncio.run(written())
    assert watched.text == alone.text or not choices.are_clear("two layers")
    assert len(choices.margins) == watched.generated_tokens
    asyncio.run(written())
    assert len(choices.margins) == watched.generated_tokens, "only meanwhile"
