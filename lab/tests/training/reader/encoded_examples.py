"""What the tests of training share: examples of ids that mean nothing, and how they are computed alone."""

import random
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from askance_lab.training.reader.settings import ReaderSettings
from askance_lab.training.reader.trainable_model import TrainableModel
from askance_lab.training.reader.training_example import EncodedExample
from tests.models.tiny import tiny_module

VOCABULARY = 60


def encoded(
    prompt: tuple[int, ...], target: tuple[int, ...], id: str = "x", task: Any = "reading"
) -> EncodedExample:
    return EncodedExample(task, id, (*prompt, *target), len(prompt))


def some_examples(number: int, *, seed: int = 0) -> tuple[EncodedExample, ...]:
    """Three of each kind that begin alike, of 36 to 50 tokens; their tasks take turns."""
    rng = random.Random(seed)
    tasks: tuple[Any, ...] = ("reading", "relevance")
    made = []
    for at in range(number):
        if at % 3 == 0:
            shared = _ids(rng, 30)
        prompt = shared + _ids(rng, rng.randint(3, 10))
        target = _ids(rng, rng.randint(3, 10))
        made.append(encoded(prompt, target, f"data/{at}", tasks[at % 2]))
    return tuple(made)


def full_settings(**changed: Any) -> ReaderSettings:
    settings = {
        "precision": "float32",
        "method": "full",
        "row_tokens": 128,
        "rows_per_step": 2,
        "learning_rate": 0.01,
    }
    return ReaderSettings(**(settings | changed))


def tiny_model(model_type: str = "llama", *, vocabulary: int = VOCABULARY, **settings: Any) -> TrainableModel:
    module = tiny_module(model_type, vocabulary=vocabulary, initializer_range=0.1)
    return TrainableModel(module, full_settings(**settings))


def alone(module: Any, example: EncodedExample) -> Tensor:
    """The losses of an example's target, by the plain way."""
    logits = module(input_ids=torch.tensor([example.ids])).logits[0]
    start = example.num_prompt_tokens
    return cross_entropy(logits[start - 1 : -1], torch.tensor(example.ids[start:]), reduction="none")


def _ids(rng: random.Random, number: int) -> tuple[int, ...]:
    return tuple(rng.randrange(3, VOCABULARY) for _ in range(number))
