"""Tiny random models of torch as GGUF files, with tokenizers of both families."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import gguf
import numpy as np
import torch
from tests.models.tiny import byte_level_tokenizer, sentencepiece_tokenizer, tiny_module

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
_LAYER = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_OTHER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def tiny_llama(**settings: Any) -> tuple[Any, Any]:
    """Return a module and tokenizer like Llama 2, with SentencePiece."""
    tokenizer = sentencepiece_tokenizer()
    return tiny_module("llama", vocabulary=len(tokenizer), **settings), tokenizer


def tiny_qwen(**settings: Any) -> tuple[Any, Any]:
    """Return a module and tokenizer like Qwen 2: byte-level tokens, grouped heads and biases."""
    tokenizer = byte_level_tokenizer()
    return tiny_module("qwen2", vocabulary=len(tokenizer), seed=1, **settings), tokenizer


def save_gguf(file: Path, module: Any, tokenizer: Any, **entries: Any) -> Path:
    """Write a module and its tokenizer as a GGUF file in float32; `entries` are strings of metadata."""
    config = module.config
    writer = gguf.GGUFWriter(file, config.model_type)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(len(tokenizer))
    for key, value in entries.items():
        writer.add_string(key, value)
    (_add_bytes if tokenizer.bos_token is None else _add_pieces)(writer, tokenizer)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    if tokenizer.chat_template:
        writer.add_chat_template(tokenizer.chat_template)
    for name, weights in module.state_dict().items():
        writer.add_tensor(gguf_name(name), as_stored(name, weights, config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def save_sliding_gguf(file: Path) -> Path:
    """Write a random model like Gemma 2 as a GGUF file; every other layer has a window of 64 tokens.

    Llama.cpp keeps the keys and values of such layers apart from those of the others.
    """
    tokenizer, rng = sentencepiece_tokenizer(), np.random.default_rng(3)
    width, num_heads, num_key_heads, head, inner = 48, 4, 2, 16, 96
    writer = gguf.GGUFWriter(file, "gemma2")
    writer.add_context_length(512)
    writer.add_embedding_length(width)
    writer.add_block_count(2)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(num_heads)
    writer.add_head_count_kv(num_key_heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_sliding_window(64)
    writer.add_attn_logit_softcapping(50.0)
    writer.add_final_logit_softcapping(30.0)
    writer.add_vocab_size(len(tokenizer))
    _add_pieces(writer, tokenizer)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    matrices = {
        "attn_q": (num_heads * head, width),
        "attn_k": (num_key_heads * head, width),
        "attn_v": (num_key_heads * head, width),
        "attn_output": (width, num_heads * head),
        "ffn_gate": (inner, width),
        "ffn_up": (inner, width),
        "ffn_down": (width, inner),
    }
    norms = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
    shapes = {f"blk.{layer}.{name}": shape for layer in range(2) for name, shape in matrices.items()}
    shapes |= {f"blk.{layer}.{name}": (width,) for layer in range(2) for name in norms}
    shapes |= {"token_embd": (len(tokenizer), width), "output_norm": (width,)}
    for name, shape in shapes.items():
        noise = 0.3 * rng.standard_normal(shape)
        writer.add_tensor(f"{name}.weight", (noise + (len(shape) == 1)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def gguf_name(name: str) -> str:
    """Return llama.cpp's name of a tensor of transformers."""
    part, _, kind = name.rpartition(".")
    if part in _OTHER:
        return f"{_OTHER[part]}.{kind}"
    _, _, layer, rest = part.split(".", 3)
    return f"blk.{layer}.{_LAYER[rest]}.{kind}"


def as_stored(name: str, weights: torch.Tensor, config: Any) -> np.ndarray:
    """Reorder the rows of query and key where llama.cpp rotates neighbouring numbers (llama)."""
    rows = weights.detach().numpy()
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    count = next((count for part, count in heads.items() if part in name), 0)
    if config.model_type != "llama" or not count:
        return rows
    halves = rows.reshape(count, 2, len(rows) // count // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def _add_bytes(writer: gguf.GGUFWriter, tokenizer: Any) -> None:
    pieces = _pieces(tokenizer)
    added = dict(tokenizer.added_tokens_decoder)
    kinds = [
        NORMAL if id not in added else CONTROL if added[id].special else USER_DEFINED
        for id in range(len(pieces))
    ]
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(pieces)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_add_bos_token(False)


def _add_pieces(writer: gguf.GGUFWriter, tokenizer: Any) -> None:
    pieces = _pieces(tokenizer)
    special = {*tokenizer.all_special_tokens}

    def kind(piece: str) -> int:
        if piece == tokenizer.unk_token:
            return UNKNOWN
        return CONTROL if piece in special else BYTE if piece.startswith("<0x") else NORMAL

    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(pieces)
    # What was learned first is put together first.
    writer.add_token_scores([-float(id) for id in range(len(pieces))])
    writer.add_token_types([kind(piece) for piece in pieces])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_unk_token_id(tokenizer.unk_token_id)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(True)


def _pieces(tokenizer: Any) -> list[str]:
    ids: dict[str, int] = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def save_lora(
    file: Path, kind: str, halves: dict[str, tuple[np.ndarray, np.ndarray]], **entries: str
) -> Path:
    """Write a LoRA as the converter of llama.cpp does: the matrices A and B by the name of the tensor."""
    writer = gguf.GGUFWriter(file, kind)
    for key, value in {"general.type": "adapter", "adapter.type": "lora"}.items():
        writer.add_string(key, value)
    writer.add_float32("adapter.lora.alpha", 16.0)
    for name, (a, b) in halves.items():
        writer.add_tensor(f"{name}.weight.lora_a", a)
        writer.add_tensor(f"{name}.weight.lora_b", b)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file
