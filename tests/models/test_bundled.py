"""The bundled model: the choice of its engine, its conversion for torch, and its packing for llama.cpp.

A tiny model with tiny adapters replaces what is shipped; its weights in llama.cpp equal those of torch.
"""

import json
import re
import resource
import sys

import gguf
import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import load_file, save_file
from tests.models.llama.calls import check_same, ids_of, written
from tests.models.tiny import save_adapter, save_tiny_gguf
from tests.models.tiny_gguf import as_stored, gguf_name
from tests.tolerances import assert_near, near, tolerance

from askance.configuration.build import load_model
from askance.core.errors import MissingAbility, MissingExtra, ModelSpecError, ParameterError
from askance.core.installing import embedded_line, install_line
from askance.core.types import Want
from askance.methods.selfrag.tokens import ALL_TOKENS, ReflectionVocabulary
from askance.models import bundled as module
from askance.models.bundled import cache_folder
from askance.models.hf import HfModel, adapter
from askance.models.hf.adapter import torch_folder
from askance.models.hf.fingerprint import weights_fingerprint
from askance.models.hf.load import load_parts
from askance.models.hf.noise import quiet
from askance.models.llama_cpp import LlamaModel, load_gguf
from askance.models.llama_cpp.packing import pack
from askance.models.loaders import load_bundled_model as load
from askance.models.local.encoding import chat_template_digest

ADDED, CONFIG, WEIGHTS = "added_tokens.json", "adapter_config.json", "adapter_model.safetensors"
BOUND = "one layer, keys and values", "float16"
HALF_A_STEP = tolerance("steps", "rounded to 8 bits")
ROUNDING = tolerance("float32", "formula")


@pytest.fixture
def tiny_package(tmp_path, monkeypatch):
    """Replace the packaged model by a tiny one, with an empty cache; return the model's file."""
    folder = tmp_path / "tiny_llm"
    folder.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module, "_PACKAGE", "tiny_llm")
    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path / "cache"))
    return save_tiny_gguf(folder / module._FILE)


@pytest.fixture
def replaced(tiny_package, tmp_path, monkeypatch):
    """Return a function that replaces a shipped adapter by a random one for the tiny model."""

    def replace(constant, base=tiny_package, base_spec="bundled:base", **settings):
        folder = save_adapter(tmp_path / constant, str(base), base_spec=base_spec, **settings)
        monkeypatch.setattr(module, constant, folder)
        return folder

    return replace


@pytest.fixture
def reader(replaced):
    """Return a plain adapter in float16. Transformers also writes the tokens of the base beside it."""
    folder = replaced("READER", target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "down_proj"])
    halves = {name: each.half() for name, each in load_file(folder / WEIGHTS).items()}
    save_file(halves, folder / WEIGHTS)
    (folder / ADDED).write_text('{"<|im_end|>": 2, "<tool_call>": 9}')
    return folder


@pytest.fixture
def selfrag(replaced):
    return replaced("SELFRAG", tokens=ALL_TOKENS)


def edit(path, **fields):
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def logits(model):
    with torch.inference_mode():
        return model._backend.module(torch.tensor([[5, 90, 200, 31, 7]])).logits


def cached():
    folder = cache_folder() / "models"
    return {path.name for path in folder.iterdir() if path.is_dir()} if folder.exists() else set()


def test_where_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("ASKANCE_CACHE")
    assert cache_folder().name == "askance"
    monkeypatch.setattr(module, "_PACKAGE", "no_such_package")
    with pytest.raises(ModelSpecError, match=re.escape(embedded_line())):
        load(engine="torch")


def test_the_first_layers_do_in_torch_what_they_do_in_llama_cpp(few_layers, few_layers_gguf):
    assert few_layers.context_tokens == few_layers_gguf.context_tokens == 8192
    ids = few_layers.tokenize("The capital of France is the city of <|im_end|>", at_start=True)
    assert ids == few_layers_gguf.tokenize("The capital of France is the city of <|im_end|>", at_start=True)
    found, expected = (written(model, ids) for model in (few_layers, few_layers_gguf))
    check_same([found], [expected], ("thirty layers", "8 bits"))


def test_llama_cpp_is_used_unless_torch_is_asked_for(reader, tiny_package):
    engines = {
        "bundled": LlamaModel,
        "bundled:base": LlamaModel,
        "bundled:base?engine=llama.cpp": LlamaModel,
        "bundled?engine=torch": HfModel,
        "bundled:base?dtype=float32": HfModel,
        f"bundled:base?adapter={reader}": HfModel,
    }
    models = {spec: load_model(spec) for spec in engines}
    assert {spec: type(model) for spec, model in models.items()} == engines
    assert [model.name for model in models.values()][:4] == ["bundled", *["bundled:base"] * 2, "bundled"]
    packed, plain, same, converted, *_ = (model.fingerprint for model in models.values())
    assert plain == same
    assert len({packed, plain, converted}) == 3
    assert models["bundled:base"]._weights.path == tiny_package
    flash = load_model("bundled?attention=0")
    assert models["bundled"].signals - flash.signals == {"attention"}
    assert packed.replace("plain", "flash") == flash.fingerprint
    own, shipped = logits(models[f"bundled:base?adapter={reader}"]), logits(models["bundled?engine=torch"])
    assert torch.equal(own, shipped)
    assert torch.equal(logits(load_model(f"hf:{reader}")), shipped)


@pytest.mark.parametrize(
    ("spec", "error", "told"),
    [
        ("bundled?engine=jax", ParameterError, r"engine='jax': expected llama\.cpp or torch"),
        ("bundled:base?attention=no", ParameterError, "attention='no': expected 0 or 1"),
        ("bundled?engine=llama.cpp&dtype=float32", ModelSpecError, r"\?dtype= needs torch and engine=llama"),
        ("bundled?engine=torch&attention=0", ModelSpecError, r"\?engine=torch needs torch and attention= ll"),
        ("bundled?attention=0&dtype=float32", ModelSpecError, r"\?dtype= needs torch and attention= llama"),
        ("bundled:selfrag?adapter=x", ModelSpecError, "has an adapter already: write bundled:base"),
    ],
)
def test_what_does_not_go_together_is_refused(tiny_package, spec, error, told):
    with pytest.raises(error, match=told):
        load_model(spec)


def test_a_conversion_for_torch_changes_nothing(tiny_package):
    read, converted = load_parts(str(tiny_package)), load_parts(str(torch_folder()))
    assert weights_fingerprint(read[0]) == weights_fingerprint(converted[0])
    assert chat_template_digest(read[1]) == chat_template_digest(converted[1])
    assert all(weights.requires_grad for weights in converted[0].parameters())
    ours, theirs = (HfModel(*parts, name="tiny") for parts in (read, converted))
    text = "The river Rhine flows through <|im_end|> 中 \n\n  Cologne."
    assert torch.equal(logits(ours), logits(theirs))
    assert ours.tokenize(text) == theirs.tokenize(text)
    assert ours._vocabulary.control == theirs._vocabulary.control
    assert ours._vocabulary.end_ids == theirs._vocabulary.end_ids
    assert ours.capabilities == theirs.capabilities


def test_a_disk_that_is_full(tiny_package):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(ModelSpecError, match=r"can't be written: .*File too large.*take 600 MB, and \d+"):
            load("base", engine="torch")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert load("base", engine="torch").name == "bundled:base"


def test_the_adapter_that_ships_is_merged_once_and_needs_no_peft_again(reader, monkeypatch):
    from peft import PeftModel

    with quiet():
        unmerged = PeftModel.from_pretrained(load_parts(str(torch_folder()))[0], reader)
    with torch.inference_mode():
        expected = unmerged(torch.tensor([[5, 90, 200, 31, 7]])).logits
    merged, plain = load(engine="torch"), load("base", engine="torch")
    assert_near(logits(merged), expected, "thirty layers")
    assert (logits(merged) - logits(plain)).abs().max() > 0.1
    assert merged.tokenize("the <think> river") == plain.tokenize("the <think> river")
    assert merged._vocabulary.end_ids == plain._vocabulary.end_ids
    assert len(cached()) == 2
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "peft", None)
        patch.setattr(adapter, "open_adapter", lambda folder: pytest.fail("merged again"))
        assert torch.equal(logits(load(engine="torch")), logits(merged))
    edit(reader / CONFIG, lora_alpha=48)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "peft", None)
        with pytest.raises(MissingExtra, match=re.escape(install_line("local"))):
            load(engine="torch")
    assert not torch.equal(logits(load(engine="torch")), logits(merged))
    assert len(cached()) == 3


def test_an_adapter_for_another_model_leaves_nothing(replaced, llama_folder):
    replaced("READER", base=llama_folder, base_spec="hf:llama")
    with pytest.raises(ModelSpecError, match=r"was trained on 'hf:llama' .*not on 'bundled:base'"):
        load(engine="torch")
    assert cached() == set()


def test_a_packed_adapter_does_what_it_does_in_torch(reader, tiny_package, tmp_path):
    pack(tiny_package, tmp_path / "whole.gguf", reader, matrices="F32")
    models = load_gguf(str(tmp_path / "whole.gguf")), load_gguf(str(tiny_package))
    in_torch = load(engine="torch"), load("base", engine="torch")
    ours, plain, theirs, plain_in_torch = (
        written(model, ids_of(0, 60), want=Want(logprob=True, entropy=True, attention="heads"))
        for model in (*models, *in_torch)
    )
    check_same([ours, plain], [theirs, plain_in_torch], BOUND)
    assert [token.entropy for token in ours.tokens] != near([t.entropy for t in plain.tokens], *BOUND)


def weights_in(path):
    tensors = gguf.GGUFReader(path).tensors
    return {each.name: gguf.dequantize(each.data, each.tensor_type) for each in tensors}


def weights_in_torch(model):
    """Return the weights of a torch model with the names and the row order of llama.cpp."""
    found = model._backend.module
    weights = {
        gguf_name(name): as_stored(name, each, found.config) for name, each in found.state_dict().items()
    }
    weights.pop("output.weight")  # those of the first layer
    return weights


def test_what_is_packed_once_are_the_weights_that_peft_merges(reader, tiny_package, tmp_path, monkeypatch):
    """They are exact in float32, and within half a step in 8 bits."""
    pack(tiny_package, tmp_path / "whole.gguf", reader, matrices="F32")
    whole, plain = weights_in(tmp_path / "whole.gguf"), weights_in(tiny_package)
    packed, expected = weights_in(load()._weights.path), weights_in_torch(load(dtype="float32"))
    monkeypatch.setattr("askance.models.llama_cpp.packing.pack", lambda *_, **__: pytest.fail("packed again"))
    assert load()._weights.path.exists()
    assert whole.keys() == packed.keys() == expected.keys()
    changed = {name for name in whole if not np.array_equal(whole[name], plain[name])}
    assert changed == {
        f"blk.0.{part}.weight" for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_down")
    }
    for name, weights in expected.items():
        assert whole[name] == near(weights, "formula", "float32")
        step = np.abs(weights).max(axis=-1, keepdims=True) / 127
        off = np.abs(packed[name].reshape(weights.shape) - weights)
        assert np.all(off <= HALF_A_STEP * step + ROUNDING), name


@pytest.mark.parametrize("matrices", ["Q8_0", "Q4_0"])
def test_types_are_those_wanted_and_metadata_is_copied(tiny_package, tmp_path, matrices):
    pack(tiny_package, tmp_path / "packed.gguf", matrices=matrices)
    ours, theirs = (gguf.GGUFReader(path) for path in (tmp_path / "packed.gguf", tiny_package))
    types = {tensor.name: tensor.tensor_type.name for tensor in ours.tensors}
    assert types.pop("blk.0.ffn_down.weight") == "F32"  # rows of 48 numbers, which are no blocks of 32
    assert {name for name, kind in types.items() if kind == "F32"} == {
        "token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"
    }  # fmt: skip
    assert {kind for kind in types.values() if kind != "F32"} == {matrices}
    copied, source = (
        {name: (each.types, each.contents()) for name, each in reader.fields.items() if "GGUF." not in name}
        for reader in (ours, theirs)
    )
    file_type = gguf.LlamaFileType[f"MOSTLY_{matrices}"]
    assert copied.pop("general.file_type") == ([gguf.GGUFValueType.UINT32], file_type)
    assert copied == source


@pytest.mark.parametrize("length", [100, 3_000, -100])
def test_a_base_that_is_not_all_there(reader, tiny_package, length):
    part = tiny_package.with_suffix(".part")
    part.write_bytes(tiny_package.read_bytes()[:length])
    part.replace(tiny_package)
    with pytest.raises(ModelSpecError, match=r"is damaged, or not all of it is there: .*Fetch it again"):
        load(engine="llama.cpp")
    assert cached() == set()
    with pytest.raises(ModelSpecError, match=r"can't be loaded: .*Fetch it again"):
        load("base", engine="llama.cpp")


def test_an_adapter_that_adds_tokens_does_in_both_engines_what_peft_does(selfrag, tiny_package, tmp_path):
    pack(tiny_package, tmp_path / "whole.gguf", selfrag, matrices="F32")
    ours, theirs = load_gguf(str(tmp_path / "whole.gguf")), load_model("bundled:selfrag?dtype=float32")
    ids = ReflectionVocabulary.of(ours).ids
    assert ids == ReflectionVocabulary.of(theirs).ids == json.loads((selfrag / ADDED).read_text())
    for following in (ids["[Retrieval]"], 30):
        prompt, want = (*range(20, 60), following), Want(token_probs=ALL_TOKENS)
        one, other = (written(model, prompt, 1, want).tokens[0].probs for model in (ours, theirs))
        assert one == near(other, *BOUND)
    rows = weights_in(tmp_path / "whole.gguf")["token_embd.weight"][-len(ids) :]
    (trained,) = (each for name, each in load_file(selfrag / WEIGHTS).items() if "trainable_tokens" in name)
    assert np.array_equal(rows, trained.float().numpy())


def test_the_shipped_model_with_tokens_is_another_model(selfrag, reader):
    *others, model = (load_model(f"bundled{name}") for name in ("", ":base", ":selfrag"))
    assert len({each.fingerprint for each in (*others, model)}) == 3
    assert model.name == "bundled:selfrag"
    assert ReflectionVocabulary.of(model).ids.keys() == set(ALL_TOKENS)
    for each in others:
        with pytest.raises(MissingAbility, match=r"lacks all reflection tokens: use .*\(bundled:selfrag,"):
            ReflectionVocabulary.of(each)


def test_tokens_for_a_base_with_another_vocabulary(selfrag):
    ids = {token: id + 1 for token, id in json.loads((selfrag / ADDED).read_text()).items()}
    (selfrag / ADDED).write_text(json.dumps(ids))
    edit(selfrag / CONFIG, trainable_token_indices={"embed_tokens": list(ids.values())})
    with pytest.raises(ModelSpecError, match=r"gets the id \d+ and not \d+: name the base"):
        load_model("bundled:selfrag?dtype=float32")
