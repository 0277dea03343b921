"""What the tokens of a text say, each for itself: what QFS lays attention over."""

from askance.core.ports import Model
from askance.core.types import Span, TokenIds

_REPLACEMENT = "\ufffd"
_MOST_TOKENS_OF_A_CHARACTER = 4


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
    return model.tokenize(text) != (id,) == model.tokenize((Span(text),))
