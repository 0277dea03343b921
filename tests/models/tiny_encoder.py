"""Tiny random BERTs, and encoders of the sentence-transformers formats: nothing is downloaded."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from tests.models.tiny import byte_level_tokenizer
from transformers import AutoConfig, AutoModel

PROMPTS = {"query": "query: ", "document": "passage: "}


def save_encoder(folder: Path, *, seed: int = 0, hidden_size: int = 32, prompts: bool = False) -> Path:
    """Write a BERT with the mean of its first 64 tokens, and with prompts on demand."""
    save_plain(folder, seed=seed, hidden_size=hidden_size)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    listing = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (path, name) in enumerate(modules)
    ]
    pooling = {"word_embedding_dimension": hidden_size, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling").mkdir()
    (folder / "2_Normalize").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "modules.json").write_text(json.dumps(listing))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 64}))
    if prompts:
        (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": PROMPTS}))
    return folder


def save_plain(folder: Path, *, seed: int = 0, hidden_size: int = 32) -> Path:
    """Write a BERT and its tokenizer, without files about vectors of whole texts."""
    return save_bert(folder, AutoModel, seed, hidden_size=hidden_size)


def save_bert(folder: Path, kind: Any, seed: int = 0, **settings: Any) -> Path:
    """Write a random BERT of a class of transformers, with its tokenizer."""
    tokenizer = byte_level_tokenizer()
    tokenizer.pad_token = "<|endoftext|>"
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"vocab_size": len(tokenizer), "max_position_embeddings": 128}
    config = AutoConfig.for_model("bert", initializer_range=0.3, **(sizes | settings))
    torch.manual_seed(seed)
    kind.from_config(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
