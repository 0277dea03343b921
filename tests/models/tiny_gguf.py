"""Tiny random models of torch as GGUF files, with tokenizers of both families."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import gguf
import numpy as np
import torch
from gguf import TokenType
from tests.models.cut import writing
from tests.models.tiny import byte_level_tokenizer, sentencepiece_tokenizer, tiny_module


def tiny_llama(**settings: Any) -> tuple[Any, Any]:
    """Return a module and tokenizer like Llama 2, with SentencePiece."""
    tokenizer = sentencepiece_tokenizer()
    return tiny_module("llama", vocabulary=len(tokenizer), **settings), tokenizer


def tiny_qwen(**settings: Any) -> tuple[Any, Any]:
    """Return a module and tokenizer like Qwen 2: byte-level tokens, grouped heads and biases."""
    tokenizer = byte_level_tokenizer()
    return tiny_module("qwen2", vocabulary=len(tokenizer), seed=1, **settings), tokenizer


def tiny_sliding() -> tuple[Any, Any]:
    """Return a module and tokenizer like Gemma 2; every other layer has a window of 64 tokens.

    Llama.cpp keeps the keys and values of such layers apart from those of the others.
    """
    tokenizer = sentencepiece_tokenizer()
    sizes = {"head_dim": 16, "sliding_window": 64, "attn_logit_softcapping": 50.0}
    return tiny_module("gemma2", vocabulary=len(tokenizer), seed=3, **sizes), tokenizer


def save_gguf(file: Path, module: Any, tokenizer: Any, **entries: Any) -> Path:
    """Write a module and its tokenizer as a GGUF file in float32; `entries` are strings of metadata."""
    config = module.config
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    with writing(file, config.model_type) as writer:
        writer.add_context_length(config.max_position_embeddings)
        writer.add_embedding_length(config.hidden_size)
        writer.add_block_count(config.num_hidden_layers)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count(config.num_attention_heads)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_dimension_count(head_size)
        if config.model_type == "gemma2":
            writer.add_key_length(head_size)
            writer.add_value_length(head_size)
            writer.add_sliding_window(config.sliding_window)
            writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_vocab_size(len(tokenizer))
        for key, value in entries.items():
            writer.add_string(key, value)
        _add_tokenizer(writer, tokenizer)
        for name, weights in module.state_dict().items():
            if "lm_head" not in name or not config.tie_word_embeddings:
                writer.add_tensor(gguf_name(name, config.model_type), as_stored(name, weights, config))
    return file


def gguf_name(name: str, kind: str = "llama") -> str:
    """Return llama.cpp's name of a tensor of transformers."""
    number = next(number for number, each in gguf.MODEL_ARCH_NAMES.items() if each == kind)
    found: str = gguf.get_tensor_name_map(number, 99).get_name(name, try_suffixes=(".weight", ".bias"))
    return found


def as_stored(name: str, weights: torch.Tensor, config: Any) -> np.ndarray:
    """Reorder the rows of query and key where llama.cpp rotates neighbouring numbers (llama).

    Gemma's norms are stored as what they multiply with, and not as what they add to 1.
    """
    rows = weights.detach().numpy() + np.float32(config.model_type == "gemma2" and "norm" in name)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    count = next((count for part, count in heads.items() if part in name), 0)
    if config.model_type != "llama" or not count:
        return rows
    halves = rows.reshape(count, 2, len(rows) // count // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: Any) -> None:
    ids, is_bytes = tokenizer.get_vocab(), tokenizer.bos_token is None
    pieces = sorted(ids, key=ids.__getitem__)
    kinds = {piece: TokenType.BYTE for piece in pieces if piece.startswith("<0x")}
    for token in tokenizer.added_tokens_decoder.values():
        kinds[token.content] = TokenType.CONTROL if token.special else TokenType.USER_DEFINED
    kinds |= dict.fromkeys(tokenizer.all_special_tokens, TokenType.CONTROL)
    kinds |= {tokenizer.unk_token: TokenType.UNKNOWN}
    writer.add_tokenizer_model("gpt2" if is_bytes else "llama")
    writer.add_tokenizer_pre("gpt-2" if is_bytes else "default")
    writer.add_token_list(pieces)
    writer.add_token_types([kinds.get(piece, TokenType.NORMAL) for piece in pieces])
    writer.add_add_bos_token(not is_bytes)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    if is_bytes:
        model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
        writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    else:
        # What was learned first is put together first.
        writer.add_token_scores([-float(id) for id in range(len(pieces))])
        writer.add_bos_token_id(tokenizer.bos_token_id)
        writer.add_unk_token_id(tokenizer.unk_token_id)
        writer.add_add_space_prefix(True)
    if tokenizer.chat_template:
        writer.add_chat_template(tokenizer.chat_template)


def save_lora(file: Path, kind: str, halves: dict[str, tuple[np.ndarray, np.ndarray]]) -> Path:
    """Write a LoRA as the converter of llama.cpp does: the matrices A and B by the name of the tensor."""
    with writing(file, kind) as writer:
        writer.add_string("general.type", "adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", 16.0)
        for name, (a, b) in halves.items():
            writer.add_tensor(f"{name}.weight.lora_a", a)
            writer.add_tensor(f"{name}.weight.lora_b", b)
    return file
