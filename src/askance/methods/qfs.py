"""QFS as the DRAGIN paper has it: the tokens that a doubtful token attends to, as words."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from askance.core.ports import Model
from askance.core.types import Span, Token, TokenIds
from askance.text.words import token_words

_REPLACEMENT = "\ufffd"
_MOST_TOKENS_OF_A_CHARACTER = 4


def attended_context(row: NDArray[np.float32], ids: TokenIds, model: Model, top_tokens: int) -> str:
    """The words of the `top_tokens` tokens that `row` weighs most, in the order of the text.

    Control tokens, such as BOS, stand for no word and are passed over; so are words without letter or digit.

    Args:
        row: the attention of one token to those before it.
        ids: these tokens.
    """
    texts = token_texts(ids, model)
    plain = [at for at, text in enumerate(texts) if text is not None]
    chosen = frozenset(sorted(plain, key=lambda at: -float(row[at]))[:top_tokens])
    return " ".join(
        word.text
        for word in token_words(_placed(ids, texts))
        if any(character.isalnum() for character in word.text)
        and any(at in chosen for at in range(word.first, word.last))
    )


def token_texts(ids: TokenIds, model: Model) -> list[str | None]:
    """The text that each token completes: empty for a character's first parts, None for control tokens."""
    control = {id for id in set(ids) if is_control(id, model)}
    texts, begin = list[str | None](), 0
    for at, id in enumerate(ids):
        text = None if id in control else model.decode(ids[begin : at + 1])
        is_part = text is not None and text.endswith(_REPLACEMENT)
        is_whole = not is_part or at + 1 - begin >= _MOST_TOKENS_OF_A_CHARACTER or at + 1 == len(ids)
        texts.append(text if is_whole else "")
        begin = at + 1 if is_whole else begin
    return texts


def is_control(id: int, model: Model) -> bool:
    """Whether a token is a control token: the one that its own text gives only where that text is trusted."""
    text = model.decode((id,))
    return model.tokenize((Span(text),)) == (id,) != model.tokenize(text)


def _placed(ids: TokenIds, texts: Sequence[str | None]) -> list[Token]:
    tokens, start = [], 0
    for id, text in zip(ids, texts, strict=True):
        # A control token parts the words around it.
        shown = " " if text is None else text
        tokens.append(Token(id, shown, start, start + len(shown)))
        start += len(shown)
    return tokens
