"""Add the reflection tokens of Self-RAG to the vocabulary of a model."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from askance.methods.selfrag.tokens import ALL_TOKENS
from askance.models.hf.adapter import add_control_tokens


@dataclass(frozen=True, slots=True)
class AddedTokens:
    """The ids of all reflection tokens, and those that the model did not have before.

    Attributes:
        is_tied: Whether the model uses the same weights for its input and its output.
    """

    ids: dict[str, int]
    new: tuple[str, ...]
    is_tied: bool


def add_reflection_tokens(module: Any, tokenizer: Any) -> AddedTokens:
    """Add the fifteen tokens to a tokenizer as control tokens, and their rows to the model's embeddings.

    Tokens that the tokenizer has already keep their ids and rows. A new row is the mean of the rows of the
    words in the token, such as "No" and "Retrieval", so that it starts near its meaning. Rows that a model
    has beyond its vocabulary are used first.

    Raises:
        ModelSpecError: The tokenizer has one of the strings as ordinary text of a single token, or
            changes it.
    """
    missing = [token for token in ALL_TOKENS if token not in tokenizer.get_vocab()]
    words = {token: _ids_of_words(token, tokenizer) for token in missing}
    ids = add_control_tokens(module, tokenizer, dict.fromkeys(ALL_TOKENS))
    matrices = _matrices(module)
    with torch.no_grad():
        for token in missing:
            for matrix in matrices:
                matrix[ids[token]] = matrix[words[token]].mean(dim=0)
    return AddedTokens(ids, tuple(missing), is_tied=len(matrices) == 1)


def _ids_of_words(token: str, tokenizer: Any) -> list[int]:
    """Return the ids of the words in a reflection token."""
    token = token.replace("</", "end ")  # the end of a paragraph is not to start like its beginning
    words = " ".join("".join(letter if letter.isalnum() else " " for letter in token).split())
    ids: list[int] = tokenizer.encode(f" {words}", add_special_tokens=False)
    return ids


def _matrices(module: Any) -> list[Tensor]:
    """Return the weights of the input embeddings, and those of the output if they are others."""
    output = module.get_output_embeddings()
    weights = [module.get_input_embeddings().weight, *([] if output is None else [output.weight])]
    return weights[:1] if len(weights) > 1 and weights[1] is weights[0] else weights
