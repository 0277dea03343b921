"""The fingerprint of a model changes with everything that its answers depend on, and nothing else."""

import pytest

pytest.importorskip("torch")

import torch
from tests.models.tiny import byte_level_tokenizer, save_tiny, sentencepiece_tokenizer, tiny_module

from askance.models.hf import load_hf
from askance.models.hf.fingerprint import _row_sums, model_fingerprint
from askance.models.hf.model import encoding_of


def made(module=None, tokenizer=None):
    module = module or tiny_module("llama")
    return model_fingerprint(module, encoding_of(tokenizer or sentencepiece_tokenizer(), module, "tiny"))


def test_it_is_the_same_wherever_the_files_lie(tmp_path):
    models = [load_hf(str(save_tiny(tmp_path / name, "llama", sentencepiece_tokenizer()))) for name in "ab"]
    assert models[0].fingerprint == models[1].fingerprint
    assert models[0].fingerprint != load_hf(str(tmp_path / "a"), dtype="bfloat16").fingerprint


@pytest.mark.parametrize("at", [0, 1, -1])
def test_each_single_number_counts(at):
    module = tiny_module("llama")
    with torch.no_grad():
        module.model.layers[1].mlp.up_proj.weight.view(-1)[at] += 1e-3
    assert made(module) != made()


@pytest.mark.parametrize(
    "settings", [{"rms_norm_eps": 1e-4}, {"rope_parameters": {"rope_theta": 500.0, "rope_type": "default"}}]
)
def test_so_does_what_is_done_with_them(settings):
    assert made(tiny_module("llama", **settings)) != made()


def other_template(tokenizer):
    tokenizer.chat_template += " "


def another_token(tokenizer):
    tokenizer.add_tokens(["Rhine"])


def another_end(tokenizer):
    known = tokenizer.get_vocab()
    tokenizer.eos_token = next(text for text in ("[INST]", "<|im_start|>") if text in known)


@pytest.mark.parametrize("change", [other_template, another_token, another_end])
@pytest.mark.parametrize("make", [sentencepiece_tokenizer, byte_level_tokenizer])
def test_so_does_how_text_is_read(make, change):
    tokenizer = make()
    change(tokenizer)
    assert made(tokenizer=tokenizer) != made(tokenizer=make())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_are_not_copied_for_it(dtype):
    weights = torch.zeros(64, 64, dtype=dtype)
    cpu = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[cpu], profile_memory=True) as used:
        _row_sums(weights)
    assert max(each.self_cpu_memory_usage for each in used.key_averages()) < weights.nbytes
