"""A trained model with added tokens as a GGUF file: llama.cpp computes what transformers computes."""

import asyncio
import copy

import pytest
import torch

from askance.core.errors import ModelSpecError
from askance.core.types import GenerateRequest, Raw, Sampling, Want
from askance.methods.selfrag.tokens import ALL_TOKENS, ReflectionVocabulary
from askance.models.hf.load import as_model, save_parts
from askance.models.llama_cpp import load_gguf
from askance_lab.training.selfrag.trained_gguf import write_trained
from askance_lab.training.selfrag.vocabulary import add_reflection_tokens
from tests.tolerances import near


@pytest.fixture(params=["llama", "qwen"])
def trained(request, gguf_files, tmp_path):
    """A tiny model whose weights were changed after tokens were added, its folder, and its base's file."""
    source, module, tokenizer = gguf_files[request.param]
    module, tokenizer = copy.deepcopy(module), copy.deepcopy(tokenizer)
    added = add_reflection_tokens(module, tokenizer)
    torch.manual_seed(0)
    with torch.no_grad():
        for weights in module.parameters():
            weights += 0.05 * weights.std() * torch.randn_like(weights)
    (tmp_path / "made").mkdir()
    save_parts(module, tokenizer, tmp_path / "made")
    return module, tokenizer, added, tmp_path / "made", source


def test_llama_cpp_computes_what_was_trained(trained, tmp_path):
    module, tokenizer, added, folder, source = trained
    write_trained(source, tmp_path / "model.gguf", folder, added.new, matrices="F32")
    made = load_gguf(str(tmp_path / "model.gguf"), display_name="made")
    plain = as_model(module, tokenizer, name="plain")
    assert ReflectionVocabulary.of(made).ids == ReflectionVocabulary.of(plain).ids == added.ids
    ids = (*range(20, 60), added.ids["[Retrieval]"], 30, 31, added.ids["<paragraph>"])
    want = Want(entropy=True, logprob=True, token_probs=ALL_TOKENS)
    request = GenerateRequest(Raw((ids,)), Sampling(6), want, key=("t",))
    (ours,), (theirs,) = (asyncio.run(model.generate(request)) for model in (made, plain))
    assert [token.id for token in ours.tokens] == [token.id for token in theirs.tokens]
    for one, other in zip(ours.tokens, theirs.tokens, strict=True):
        assert one.entropy == near(other.entropy, "keys and values", "float16")
        assert one.probs == near(other.probs, "keys and values", "float16")


def test_a_folder_of_another_model_is_refused(trained, gguf_files, tmp_path):
    _, _, added, folder, source = trained
    (other,) = (file for file, _, _ in gguf_files.values() if file != source)
    with pytest.raises(ModelSpecError, match=r"shape|no place|lacks"):
        write_trained(other, tmp_path / "model.gguf", folder, added.new, matrices="F32")
    with pytest.raises(ModelSpecError, match="14 added tokens"):
        write_trained(source, tmp_path / "model.gguf", folder, added.new[1:], matrices="F32")
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(ModelSpecError, match="can't be read"):
        write_trained(source, tmp_path / "model.gguf", folder, added.new, matrices="F32")
