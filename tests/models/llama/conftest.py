"""Tiny GGUF models; without llama-cpp-python there is nothing to collect here, nor tests of its server
without what that needs.
"""

from importlib.util import find_spec

import pytest

SERVER = ("fastapi", "pydantic_settings", "sse_starlette", "starlette_context", "uvicorn")

collect_ignore_glob = [] if find_spec("llama_cpp") else ["test_*.py"]
collect_ignore = [] if all(map(find_spec, SERVER)) else ["test_llama_server.py"]


@pytest.fixture(scope="session")
def gguf_files(tmp_path_factory):
    """Files of tiny models by architecture, with the modules they were made of."""
    from tests.models.tiny_gguf import save_gguf, tiny_llama, tiny_qwen

    folder, found = tmp_path_factory.mktemp("gguf"), {}
    for name, make in (("llama", tiny_llama), ("qwen", tiny_qwen)):
        module, tokenizer = make()
        found[name] = (save_gguf(folder / f"{name}.gguf", module, tokenizer), module, tokenizer)
    return found


@pytest.fixture(scope="session")
def gguf_models(gguf_files):
    """The models of these files."""
    from askance.models.llama_cpp import load_gguf

    return {name: load_gguf(str(file), display_name=name) for name, (file, _, _) in gguf_files.items()}
