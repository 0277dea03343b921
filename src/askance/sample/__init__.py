"""The sample corpus and its questions (CC0), which ship with the package."""

from pathlib import Path

SAMPLE = "@sample"
"""The corpus as commands and sources name it, wherever it is installed."""
CORPUS = Path(__file__).with_name("corpus.jsonl")
QUESTIONS = Path(__file__).with_name("questions.jsonl")
