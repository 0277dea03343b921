"""Tokens for the tests of this folder."""

from askance.core.types import Token


def tokens_of(pieces):
    """Tokens with these texts, one behind the other."""
    at, tokens = 0, []
    for piece in pieces:
        tokens.append(Token(0, piece, at, at + len(piece)))
        at += len(piece)
    return tokens
