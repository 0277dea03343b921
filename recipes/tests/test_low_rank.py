"""What a trained Self-RAG model learned, as a small adapter."""

import json
import re
from types import SimpleNamespace

import pytest
import torch
from tests.models.tiny import byte_level_tokenizer, save_tiny

from askance.core.errors import AskanceError, InputError
from askance.methods.selfrag.tokens import ALL_TOKENS
from askance.models.hf.adapter import merge, open_adapter
from askance.models.hf.load import load_parts, save_parts
from askance_lab.training.selfrag.vocabulary import add_reflection_tokens
from recipes.selfrag import low_rank
from recipes.selfrag.low_rank import main, write_low_rank

RANK = 2


@pytest.fixture
def tied_folder(tmp_path):
    """A tiny model that uses the same weights for its input and its output, as the bundled one does."""
    return save_tiny(tmp_path / "tied", "llama", byte_level_tokenizer(), tie_word_embeddings=True)


@pytest.fixture
def trained(tied_folder, tmp_path, monkeypatch):
    """A model whose matrices differ from those of the base by products of rank 2, and the base's folder."""
    base, _ = load_parts(str(tied_folder))
    monkeypatch.setattr(low_rank, "load_base", lambda spec, device: SimpleNamespace(module=base))
    module, tokenizer = load_parts(str(tied_folder))
    added = add_reflection_tokens(module, tokenizer)
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weights in module.named_parameters():
            if name.endswith("proj.weight"):
                rows, columns = weights.shape
                weights += torch.randn(rows, RANK) @ torch.randn(RANK, columns)
        module.get_input_embeddings().weight[list(added.ids.values())] += 1.0
    save_parts(module, tokenizer, tmp_path / "made")
    return tmp_path / "made"


def test_a_sufficient_rank_keeps_all_but_the_rounding_of_float16(trained, tied_folder, tmp_path):
    assert 0.1 < write_low_rank(trained, tmp_path / "smaller", 1) < 0.9
    lost = write_low_rank(trained, tmp_path / "small", RANK)
    half = torch.finfo(torch.float16).eps
    assert lost < 4 * half
    module, tokenizer = load_parts(str(tied_folder))
    merged = merge(open_adapter(tmp_path / "small"), module, tokenizer, "base").state_dict()
    expected, learned = load_parts(str(trained))
    assert tokenizer.get_vocab() == learned.get_vocab()
    for name, weights in expected.state_dict().items():
        difference = (merged[name] - weights).norm()
        assert difference <= 4 * half * weights.norm(), name
    assert list(json.loads((tmp_path / "small" / "added_tokens.json").read_text())) == list(ALL_TOKENS)


@pytest.mark.parametrize(
    ("rank", "message"),
    [
        ("0", "--rank 0: a positive number"),
        ("-3", "--rank -3: a positive number"),
        ("4096", "--rank 4096: model.layers.0."),
    ],
)
def test_a_rank_that_is_none_and_a_model_of_another_base(trained, qwen_folder, tmp_path, rank, message):
    with pytest.raises(AskanceError, match="does not fit bundled:base: name a model trained"):
        main([str(qwen_folder), "--out", str(tmp_path / "out")])
    with pytest.raises(AskanceError, match=re.escape(message)):
        main([str(trained), "--out", str(tmp_path / "out"), f"--rank={rank}"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("part", ["model.norm.weight", "model.embed_tokens.weight"])
def test_a_model_all_of_whose_weights_were_trained(trained, tmp_path, part):
    module, tokenizer = load_parts(str(trained))
    with torch.no_grad():
        module.get_parameter(part)[0] += 1.0
    save_parts(module, tokenizer, tmp_path / "full")
    with pytest.raises(InputError, match=f"{part} does not fit bundled:base: .* with method=lora"):
        write_low_rank(tmp_path / "full", tmp_path / "out", RANK)
    assert not (tmp_path / "out").exists()
