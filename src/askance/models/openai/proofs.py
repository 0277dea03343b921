"""What a probe's answers prove of a server, and what follows from proofs of both of its endpoints."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from askance.core.types import Cut, Generation, Token
from askance.models.openai.options import Options


@dataclass(frozen=True, slots=True)
class Written:
    """What was written under options, and those that the server took."""

    generation: Generation
    options: Options

    @property
    def num_top(self) -> int:
        """Alternatives that were told to a token."""
        return max((len(token.top) for token in tokens_of(self.generation)), default=0)

    @property
    def tells_logprobs(self) -> bool:
        tokens = tokens_of(self.generation)
        return bool(tokens) and all(token.logprob is not None for token in tokens)


@dataclass(frozen=True, slots=True)
class Words:
    """Cuts a text once it has so many whole words."""

    num_words: int

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        text = "".join(token.text for token in tokens)
        return Cut(len(tokens), "enough") if len(text.split()) > self.num_words else None


def together(found: Options, chat: Written | None, raw: Written | None) -> Options:
    """The endpoints that are declared, and the signals that all of these tell, since methods may use either.

    An endpoint that tells less than the other is left out, where methods can go on from a text without it.
    """
    both = replace(found, chat=chat is not None, completions=raw is not None)
    sets = [min((_telling(both, each) for each in (chat, raw) if each is not None), key=_worth, default=both)]
    if chat is not None and found.continuation != "0":
        sets.append(_telling(replace(both, completions=False), chat))
    if raw is not None:
        sets.append(_telling(replace(both, chat=False), raw))
    return max(sets, key=_worth)


def _telling(found: Options, written: Written) -> Options:
    num_top = min(written.num_top, written.options.top_logprobs)
    tells = bool(written.options.logprobs or written.options.top_logprobs)
    return replace(found, logprobs=tells and not num_top, top_logprobs=num_top if tells else 0)


def _worth(options: Options) -> int:
    return 1 + options.top_logprobs if options.top_logprobs else int(options.logprobs)


def tokens_of(generation: Generation) -> Sequence[Token]:
    return (*generation.tokens, *generation.dropped)


def halves(text: str) -> tuple[str, str]:
    """The first half of a text, and the word that follows; no word where there are too few to tell."""
    ends = [at for at in range(1, len(text)) if text[at].isspace() and not text[at - 1].isspace()]
    if len(ends) < 4:
        return "", ""
    at = ends[len(ends) // 2 - 1]
    return text[:at], text[at:].split()[0]
