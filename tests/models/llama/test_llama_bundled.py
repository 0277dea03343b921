"""The bundled model in llama.cpp: the choice of engine, and weights that equal those of torch."""

import asyncio
import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch")

from safetensors.torch import load_file, save_file
from tests.contracts.model_contract import ModelContract, computed, run
from tests.models.tiny import save_adapter, save_tiny_gguf
from tests.models.tiny_gguf import as_stored, gguf_name
from tests.tolerances import near, tolerance

from askance.configuration.build import load_model
from askance.core.errors import MissingAbility, ModelSpecError, ParameterError
from askance.core.types import GenerateRequest, Raw, Sampling, Span, Want
from askance.methods.selfrag.tokens import ALL_TOKENS, ReflectionVocabulary
from askance.models import bundled as module
from askance.models.hf import HfModel
from askance.models.llama_cpp import LlamaModel, load_gguf
from askance.models.llama_cpp.packing import GgufFile, pack, read_lora
from askance.models.loaders import load_bundled_model as load

ADDED = "added_tokens.json"
ALL = Want(logprob=True, entropy=True, attention="heads")


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
def tiny_reader(tiny_package, tmp_path, monkeypatch):
    """Replace the shipped adapter by one that also changes queries and keys."""
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "down_proj"]
    folder = save_adapter(
        tmp_path / "reader", str(tiny_package), base_spec="bundled:base", target_modules=targets
    )
    monkeypatch.setattr(module, "READER", folder)
    return folder


@pytest.fixture
def tiny_selfrag(tiny_package, tmp_path, monkeypatch):
    """Replace the shipped adapter with reflection tokens by a tiny one."""
    folder = save_adapter(
        tmp_path / "selfrag", str(tiny_package), base_spec="bundled:base", tokens=ALL_TOKENS
    )
    monkeypatch.setattr(module, "SELFRAG", folder)
    return folder


def written(model):
    ids = tuple(10 + number * 7 % 200 for number in range(60))
    (generation,) = run(model.generate(GenerateRequest(Raw((ids,)), Sampling(8), ALL, key=("a",))))
    return computed(generation)


BOUND = "one layer, keys and values", "float16"
HALF_A_STEP = tolerance("steps", "rounded to 8 bits")
ROUNDING = tolerance("float32", "formula")


def same(ours, theirs):
    return [token.id for token in ours] == [token.id for token in theirs] and all(
        one.entropy == near(other.entropy, *BOUND)
        and (one.attention is None or one.attention == near(other.attention, *BOUND))
        for one, other in zip(ours, theirs, strict=True)
    )


def test_an_adapter_does_what_it_does_in_torch(tiny_reader, tiny_package, tmp_path):
    pack(tiny_package, tmp_path / "merged.gguf", tiny_reader, matrices="F32", embeddings="F32")
    ours = written(load_gguf(str(tmp_path / "merged.gguf")))
    assert same(ours, written(load(engine="torch")))
    assert same(written(load_gguf(str(tiny_package))), written(load("base", engine="torch")))
    assert not same(ours, written(load("base", engine="torch")))


def weights_in(path):
    import gguf

    tensors = gguf.GGUFReader(path).tensors
    return {each.name: gguf.dequantize(each.data, each.tensor_type) for each in tensors}


def in_torch(model):
    """Return the weights of a torch model with the names and the row order of llama.cpp."""
    module = model._backend.module
    weights = {
        gguf_name(name): as_stored(name, each, module.config) for name, each in module.state_dict().items()
    }
    weights.pop("output.weight")  # those of the first layer
    return weights


def test_what_is_packed_are_the_weights_of_torch_in_8_bits(tiny_reader):
    packed, expected = weights_in(load(engine="llama.cpp")._weights.path), in_torch(load(dtype="float32"))
    assert packed.keys() == expected.keys()
    for name, weights in expected.items():
        step = np.abs(weights).max(axis=-1, keepdims=True) / 127
        off = np.abs(packed[name].reshape(weights.shape) - weights)
        assert np.all(off <= HALF_A_STEP * step + ROUNDING), name


def test_in_float32_they_are_what_peft_merges(tiny_reader, tiny_package, tmp_path):
    pack(tiny_package, tmp_path / "whole.gguf", tiny_reader, matrices="F32", embeddings="F32")
    merged, plain = weights_in(tmp_path / "whole.gguf"), weights_in(tiny_package)
    expected = in_torch(load(dtype="float32"))
    assert merged.keys() == expected.keys()
    assert all(merged[name] == near(expected[name], "formula", "float32") for name in merged)
    changed = {name for name in merged if not np.array_equal(merged[name], plain[name])}
    assert changed == {
        f"blk.0.{part}.weight" for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_down")
    }


def test_the_plain_model_is_the_file_of_the_package(tiny_package, tmp_path):
    assert load("base", engine="llama.cpp")._weights.path == tiny_package
    assert not (tmp_path / "cache").exists()


def test_metadata_and_tokenizer_are_copied(tiny_package, tmp_path):
    import gguf

    pack(tiny_package, tmp_path / "packed.gguf", matrices="Q4_0", embeddings="Q8_0")
    ours, theirs = (
        {
            name: (field.types, field.contents())
            for name, field in gguf.GGUFReader(path).fields.items()
            if not name.startswith("GGUF.")
        }
        for path in (tmp_path / "packed.gguf", tiny_package)
    )
    assert ours.pop("general.file_type") == ([gguf.GGUFValueType.UINT32], gguf.LlamaFileType.MOSTLY_Q4_0)
    assert ours == theirs


@pytest.mark.parametrize(("matrices", "embeddings"), [("Q8_0", ""), ("Q4_0", "Q8_0"), ("Q4_0", "Q4_0")])
def test_what_has_which_type(tiny_package, tmp_path, matrices, embeddings):
    import gguf

    pack(tiny_package, tmp_path / "packed.gguf", matrices=matrices, embeddings=embeddings)
    types = {
        tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(tmp_path / "packed.gguf").tensors
    }
    assert types.pop("token_embd.weight") == (embeddings or "F32")
    assert types.pop("blk.0.ffn_down.weight") == "F32"  # rows of 48 numbers, which are no blocks of 32
    assert {name for name, kind in types.items() if kind == "F32"} == {
        "output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"
    }  # fmt: skip
    assert {kind for kind in types.values() if kind != "F32"} == {matrices}


def test_they_are_packed_once(tiny_reader, monkeypatch):
    before = load(engine="llama.cpp").fingerprint
    monkeypatch.setattr("askance.models.llama_cpp.packing.pack", lambda *_, **__: pytest.fail("packed again"))
    assert load(engine="llama.cpp").fingerprint == before


def test_the_plain_model_is_told_from_the_other(tiny_reader):
    assert load("base", engine="llama.cpp").fingerprint != load(engine="llama.cpp").fingerprint


def folders_in(path):
    return [each.name for each in path.iterdir() if each.is_dir()]


@pytest.mark.parametrize("length", [100, 3_000, -100])
def test_a_base_that_is_not_all_there(tiny_reader, tiny_package, tmp_path, length):
    whole = tiny_package.read_bytes()
    part = tiny_package.with_suffix(".part")
    part.write_bytes(whole[:length])
    part.replace(tiny_package)
    with pytest.raises(ModelSpecError, match=r"is damaged, or not all of it is there: .*Fetch it again"):
        load(engine="llama.cpp")
    assert folders_in(tmp_path / "cache" / "models") == []
    with pytest.raises(ModelSpecError, match=r"can't be loaded: .*Fetch it again"):
        load("base", engine="llama.cpp")


def test_two_processes_pack_once(tiny_reader, tiny_package, tmp_path):
    code = f"""
import sys
from pathlib import Path
from askance.models import bundled
from askance.models.llama_cpp import packing
from askance.models.loaders import load_bundled_model as load

sys.path.insert(0, {str(tmp_path)!r})
bundled._PACKAGE, bundled.READER, pack = "tiny_llm", Path({str(tiny_reader)!r}), packing.pack

def told(*arguments, **named):
    with open({str(tmp_path / "log")!r}, "a") as log:
        log.write("packed\\n")
    pack(*arguments, **named)

packing.pack = told
print(load(engine="llama.cpp").fingerprint)
"""
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    found = {process.communicate(timeout=120)[0].strip() for process in both}
    assert found == {load(engine="llama.cpp").fingerprint}
    assert (tmp_path / "log").read_text() == "packed\n"


def test_llama_cpp_is_used_unless_torch_is_asked_for(tiny_reader):
    engines = {
        "bundled": LlamaModel,
        "bundled:base": LlamaModel,
        "bundled:base?engine=llama.cpp": LlamaModel,
        "bundled?engine=torch": HfModel,
        "bundled:base?dtype=float32": HfModel,
        f"bundled:base?adapter={tiny_reader}": HfModel,
    }
    for spec, engine in engines.items():
        assert isinstance(load_model(spec), engine), spec


def test_the_engines_are_told_apart(tiny_reader):
    ours, theirs = load_model("bundled"), load_model("bundled?engine=torch")
    assert ours.name == theirs.name == "bundled"
    assert ours.fingerprint != theirs.fingerprint


def test_what_does_not_go_together_is_refused(tiny_reader):
    with pytest.raises(ParameterError, match=r"engine='jax': expected llama\.cpp or torch"):
        load_model("bundled?engine=jax")
    for options, reason in (
        (
            "engine=llama.cpp&dtype=float32",
            r"\?dtype= needs torch and engine=llama\.cpp",
        ),
        ("engine=torch&attention=0", r"\?engine=torch needs torch and attention= llama\.cpp"),
        ("attention=0&dtype=float32", r"\?dtype= needs torch and attention= llama\.cpp"),
    ):
        with pytest.raises(ModelSpecError, match=reason):
            load_model(f"bundled?{options}")
    with pytest.raises(ParameterError, match="attention='no': expected 0 or 1"):
        load_model("bundled?attention=no")


def test_without_attention_the_bundled_model_uses_flash_attention(tiny_reader):
    plain, flash = load_model("bundled"), load_model("bundled?attention=0")
    assert plain.signals - flash.signals == {"attention"}
    assert plain.fingerprint.replace("plain", "flash") == flash.fingerprint


def save_weights(folder, change):
    path = folder / "adapter_model.safetensors"
    save_file({name: change(each) for name, each in load_file(path).items()}, path)


def test_an_adapter_in_bfloat16(tiny_reader, tiny_package):
    base = GgufFile(tiny_package)
    save_weights(tiny_reader, lambda halves: halves.bfloat16())
    ours = read_lora(tiny_reader, base).parts
    save_weights(tiny_reader, lambda halves: halves.float())
    expected = read_lora(tiny_reader, base).parts
    assert ours.keys() == expected.keys()
    for name, halves in expected.items():
        assert np.abs(halves["A"]).max() > 0
        assert all(np.array_equal(ours[name][half], halves[half]) for half in "AB")


@pytest.fixture(scope="module")
def plain():
    return load("base", engine="llama.cpp")


def test_in_any_company_numbers_are_equal_to_the_bit(plain):
    prompts = [
        Raw((tuple(1000 + number * 977 + at for at in range(40 + 9 * number)),)) for number in range(4)
    ]
    want = Want(entropy=True)

    async def write(prompt):
        (generation,) = await plain.generate(GenerateRequest(prompt, Sampling(8), want, key=("a",)))
        return [(token.id, token.entropy) for token in computed(generation)]

    async def together():
        await plain.clear_cache()
        return await asyncio.gather(*map(write, prompts))

    alone = []
    for prompt in prompts:
        run(plain.clear_cache())
        alone.append(run(write(prompt)))
    assert run(together()) == alone


class TestBundledByLlamaCpp(ModelContract):
    control_strings = ("<|im_start|>", "<|im_end|>")
    prompt = Raw((Span("The three largest cities of Germany are"),))
    max_tokens = 8
    number_format, operation = "8 bits", "read twice"
    precision = "weights as stored, KV cache float16"

    @pytest.fixture
    def model(self, plain):
        return plain


def probabilities(model, following):
    """Return the probabilities of the reflection tokens after a prompt that ends with `following`."""
    ids = (*range(20, 60), following)
    request = GenerateRequest(Raw((ids,)), Sampling(1), Want(token_probs=ALL_TOKENS), key=("a",))
    (generation,) = run(model.generate(request))
    return generation.tokens[0].probs


def test_an_adapter_that_adds_tokens_does_in_both_engines_what_peft_does(
    tiny_selfrag, tiny_package, tmp_path
):
    pack(tiny_package, tmp_path / "whole.gguf", tiny_selfrag, matrices="F32", embeddings="F32")
    ours, theirs = load_gguf(str(tmp_path / "whole.gguf")), load_model("bundled:selfrag?dtype=float32")
    ids = ReflectionVocabulary.of(ours).ids
    assert ids == ReflectionVocabulary.of(theirs).ids == json.loads((tiny_selfrag / ADDED).read_text())
    for following in (ids["[Retrieval]"], 30):
        assert probabilities(ours, following) == near(probabilities(theirs, following), *BOUND)
    rows = weights_in(tmp_path / "whole.gguf")["token_embd.weight"][-len(ids) :]
    stored = load_file(tiny_selfrag / "adapter_model.safetensors")
    (trained,) = (each for name, each in stored.items() if "trainable_tokens" in name)
    assert np.array_equal(rows, trained.float().numpy())


def test_the_shipped_model_with_tokens_is_another_model(tiny_selfrag, tiny_reader):
    models = [load_model(f"bundled{name}?engine=llama.cpp") for name in ("", ":base", ":selfrag")]
    assert len({model.fingerprint for model in models}) == 3
    assert [model.name for model in models] == ["bundled", "bundled:base", "bundled:selfrag"]
    assert ReflectionVocabulary.of(models[2]).ids.keys() == set(ALL_TOKENS)
    for model in models[:2]:
        with pytest.raises(
            MissingAbility, match=r"lacks all reflection tokens: use a Self-RAG model \(bundled:selfrag,"
        ):
            ReflectionVocabulary.of(model)
    with pytest.raises(ModelSpecError, match=r"'bundled:selfrag' has an adapter already: write bundled:base"):
        load_model(f"bundled:selfrag?adapter={tiny_reader}")


def test_a_tokenizer_beside_a_plain_adapter_adds_no_token(tiny_reader, tiny_package, tmp_path):
    """Transformers writes the file `added_tokens.json` for tokens of the base, too."""
    pack(tiny_package, tmp_path / "alone.gguf", tiny_reader, matrices="Q8_0")
    (tiny_reader / ADDED).write_text('{"<|im_end|>": 2, "<tool_call>": 9}')
    pack(tiny_package, tmp_path / "beside.gguf", tiny_reader, matrices="Q8_0")
    assert (tmp_path / "beside.gguf").read_bytes() == (tmp_path / "alone.gguf").read_bytes()


def test_tokens_for_a_base_with_another_vocabulary(tiny_selfrag, tiny_package, tmp_path):
    ids = {token: id + 1 for token, id in json.loads((tiny_selfrag / ADDED).read_text()).items()}
    (tiny_selfrag / ADDED).write_text(json.dumps(ids))
    path = tiny_selfrag / "adapter_config.json"
    settings = json.loads(path.read_text())
    settings["trainable_token_indices"] = {"embed_tokens": list(ids.values())}
    path.write_text(json.dumps(settings))
    with pytest.raises(ModelSpecError, match=r"gets the id \d+ and not \d+: name the base"):
        load_model("bundled:selfrag?dtype=float32")
