"""What a `Batch` computes: texts that are read, and go on as long as they like."""

from typing import Protocol

from askance.runtime.backend import Fed


class Request(Protocol):
    """A text that is to be computed.

    Attributes:
        ids: all tokens until now, the prompt's first.
        max_tokens: most tokens that there will ever be.
        num_logits: after how many of the last of the prompt's tokens logits are wanted.
        wants_attention: of the tokens behind the prompt.
        is_abandoned: whether nobody waits for it any more; it may become true at any time.
    """

    ids: list[int]
    max_tokens: int
    num_logits: int
    wants_attention: bool
    is_abandoned: bool

    def take(self, fed: Fed, num_reused: int) -> bool:
        """Take the logits after the last of `ids`, and put the next token behind them. Whether there is one.

        Args:
            num_reused: how many tokens of the prompt were not computed.
        """
        ...


Over = tuple[Request, BaseException | None]
"""A request that has ended, with what stopped it, if something did."""
