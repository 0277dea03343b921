"""A model with untrained reflection tokens, to measure the cost of Self-RAG but not its answers."""

from pathlib import Path

from gguf import GGUFWriter

from askance.methods.selfrag.tokens import ALL_TOKENS
from askance.models.llama_cpp.packing import GgufFile

_TOKENS, _KINDS, _USER_DEFINED = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type", 4


def with_reflection_tokens(source: Path, target: Path) -> Path:
    """Write a model file with the same weights, in which rare tokens are renamed to reflection tokens.

    The choice of tokens does not affect the time of a forward pass.
    """
    file = GgufFile(source)
    writer = GGUFWriter(target, file.architecture)
    entries = list(file.entries())
    tokens = next(list(value) for name, value, _, _ in entries if name == _TOKENS)
    rare = range(len(tokens) - len(ALL_TOKENS), len(tokens))
    for name, value, kind, item in entries:
        changed = value
        if name == _TOKENS:
            changed = [*tokens[: rare[0]], *ALL_TOKENS]
        if name == _KINDS:
            changed = [*list(value)[: rare[0]], *[_USER_DEFINED] * len(rare)]
        if name == "tokenizer.ggml.merges":
            gone = {tokens[id] for id in rare}
            changed = [merge for merge in value if merge.replace(" ", "") not in gone]
        writer.add_key_value(name, changed, kind, item)
    for tensor in file.tensors.values():
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target
