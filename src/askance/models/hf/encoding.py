"""How a model of transformers reads text."""

from typing import Any

from askance.models.local.encoding import Encoding


def encoding_of(tokenizer: Any, module: Any, name: str) -> Encoding:
    """The tokenizer of a module with what the module itself says about it."""
    size: int = module.get_input_embeddings().num_embeddings
    return Encoding(tokenizer, name, end_ids=_end_ids(module, tokenizer), size=size)


def _end_ids(module: Any, tokenizer: Any) -> frozenset[int]:
    configs = (getattr(module, "generation_config", None), module.config)
    named = [getattr(config, "eos_token_id", None) for config in configs]
    ids: set[int] = set()
    for entry in (*named, tokenizer.eos_token_id):
        ids.update(entry if isinstance(entry, list | tuple) else [] if entry is None else [entry])
    return frozenset(ids)
