"""A tiny random cross-encoder: nothing is downloaded."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from tests.models.tiny import byte_level_tokenizer
from transformers import AutoConfig, AutoModelForSequenceClassification


def save_cross_encoder(folder: Path, *, seed: int = 0, num_labels: int = 1) -> Path:
    """A BERT that gives a pair of texts as many scores as there are labels."""
    tokenizer = byte_level_tokenizer()
    tokenizer.pad_token = "<|endoftext|>"
    config = AutoConfig.for_model(
        "bert", vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=128, initializer_range=0.3, num_labels=num_labels,
    )  # fmt: skip
    torch.manual_seed(seed)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
