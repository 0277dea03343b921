"""Add control tokens to the vocabulary of a model, such as the reflection tokens of Self-RAG."""

from collections.abc import Mapping
from typing import Any

from transformers import AddedToken

from askance.core.errors import ModelSpecError


def add_control_tokens(module: Any, tokenizer: Any, tokens: Mapping[str, int | None]) -> dict[str, int]:
    """Add tokens to a tokenizer, and rows for them to the model's embeddings, and return their ids.

    Tokens that the tokenizer has already keep their ids. Rows that a model has beyond its vocabulary are used
    before new ones are added. The numbers in new rows are arbitrary.

    Args:
        tokens: The id that each token must get, or None for any.

    Raises:
        ModelSpecError: A token would get another id, or the tokenizer has the string for another purpose.
    """
    if not tokens:
        return {}
    added = [AddedToken(token, special=True, normalized=False) for token in tokens]
    tokenizer.add_tokens(added, special_tokens=True)
    ids = {token: int(tokenizer.convert_tokens_to_ids(token)) for token in tokens}
    special = {id for id, each in tokenizer.added_tokens_decoder.items() if each.special}
    for token, id in ids.items():
        if tokenizer.encode(token, add_special_tokens=False) != [id] or id not in special:
            raise ModelSpecError(
                f"the tokenizer can't take {token} as a control token, since it has this string for another "
                "purpose: start from a model with another tokenizer."
            )
        if tokens[token] not in (None, id):
            raise ModelSpecError(
                f"the token {token} gets the id {id} and not {tokens[token]}: name the base that the adapter "
                "was made for."
            )
    if len(tokenizer) > module.get_input_embeddings().num_embeddings:
        module.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    return ids
