"""Tiny GGUF models, with tokenizers of both families."""

import pytest


@pytest.fixture(scope="session")
def gguf_files(tmp_path_factory):
    """Return the files of tiny models by architecture, with their modules and tokenizers."""
    from tests.models.tiny_gguf import save_gguf, tiny_llama, tiny_qwen

    folder, found = tmp_path_factory.mktemp("gguf"), {}
    # With this seed no two candidates of the contract's greedy texts are close.
    for name, (module, tokenizer) in {"llama": tiny_llama(seed=6), "qwen": tiny_qwen()}.items():
        found[name] = (save_gguf(folder / f"{name}.gguf", module, tokenizer), module.eval(), tokenizer)
    return found


@pytest.fixture(scope="session")
def gguf_models(gguf_files):
    """Return the models of these files."""
    from askance.models.llama_cpp import load_gguf

    return {name: load_gguf(str(file), display_name=name) for name, (file, _, _) in gguf_files.items()}


@pytest.fixture(params=["llama", "qwen"])
def fresh(request, gguf_files):
    """Return a function that makes a model of each architecture with an empty KV cache."""
    from askance.models.llama_cpp import LlamaModel
    from askance.models.llama_cpp.weights import Weights

    return lambda **options: LlamaModel(Weights(gguf_files[request.param][0]), name=request.param, **options)


@pytest.fixture(scope="session")
def sliding_file(tmp_path_factory):
    """Return the file of a tiny model with sliding windows."""
    from tests.models.tiny_gguf import save_gguf, tiny_sliding

    return save_gguf(tmp_path_factory.mktemp("sliding") / "sliding.gguf", *tiny_sliding())
