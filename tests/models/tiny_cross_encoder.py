"""A tiny random cross-encoder: nothing is downloaded."""

from pathlib import Path

from tests.models.tiny_encoder import save_bert
from transformers import AutoModelForSequenceClassification


def save_cross_encoder(folder: Path, *, seed: int = 0, num_labels: int = 1) -> Path:
    """Write a BERT that gives a pair of texts as many scores as there are labels."""
    return save_bert(folder, AutoModelForSequenceClassification, seed, num_labels=num_labels)
