"""Tokenization and incremental detokenization that avoid the pitfalls of tokenizers.

For example, a string that continues a prompt gets no extra leading space.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from askance.core.errors import InputError
from askance.core.types import TokenIds

_SENTINELS = (".", ",", "\n", "\x01")
"""Prefixes that keep the tokenizer from adding a space to a string that does not start a prompt. The first
prefix whose tokens stay separate from those of the string is used, and its tokens are removed again."""
REPLACEMENT = "\ufffd"
_CONTEXT_LENGTHS = (4, 5, 6, 7, 8)


@dataclass(frozen=True, slots=True)
class EncodedText:
    """The token ids of a text.

    Attributes:
        texts: A function that returns the text of each token (see `Generation.prompt_texts`), where control
            tokens have their strings.
    """

    ids: list[int]
    texts: Callable[[], list[str]]


class Vocabulary:
    """The `transformers` tokenizer of a model, with its control tokens.

    Attributes:
        tokenizer: The tokenizer of transformers, or an object with the same interface.
        name: The model's name, for messages.
        control: The string of each control token, by id. All added tokens are control tokens, special or
            not, and untrusted text can never yield them. The only exceptions are runs of white space that
            are added but not special (Pythia, Gemma), since they carry no authority.
        unambiguous_ids: The ids in `control` that the tokenizer yields only for the token's own string. The
            unknown token is left out, since some tokenizers use it for every unknown character.
        bos: The ids that the tokenizer puts before a prompt (BOS), often one or none.
        end_ids: The ids of the tokens that end a generation.
        size: The number of ids that the model knows.
    """

    def __init__(self, tokenizer: Any, name: str, *, end_ids: frozenset[int], size: int) -> None:
        self.tokenizer, self.name, self.end_ids, self.size = tokenizer, name, end_ids, size
        self.control: dict[int, str] = getattr(tokenizer, "control", None) or _control_strings(tokenizer)
        self.unambiguous_ids = frozenset(self.control) - {tokenizer.unk_token_id}
        self._control_ids = {text: id for id, text in self.control.items()}
        self.bos = self._find_bos()
        self._sentinels = self._find_sentinels()

    def encode(self, text: str, *, at_start: bool) -> EncodedText:
        """Return the token ids of `text`. The strings of control tokens are encoded as control tokens.

        Args:
            at_start: Whether `text` starts a prompt. Only then may the tokenizer put a space before `text`.
        """
        for sentinel, sentinel_ids in (*(() if at_start else self._sentinels), ("", [])):
            output = self.tokenizer(sentinel + text, add_special_tokens=False, verbose=False)
            num_before = len(sentinel_ids)
            ids: list[int] = output["input_ids"]
            if ids[:num_before] == sentinel_ids:
                break
        ids = ids[num_before:]

        def texts() -> list[str]:
            if encodings := getattr(output, "encodings", None):
                return _split(text, encodings[0].offsets[num_before:], len(sentinel))
            ends = [0, *accumulate(map(len, self.texts(ids)))]
            return _split(text, [*pairwise(ends)], ends[-1] - len(text))

        return EncodedText(ids, texts)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`, in which control tokens appear as their strings."""
        return str(
            self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )

    def decode_inside(self, ids: Sequence[int]) -> str:
        """Return the text of `ids` as they appear in the middle of a longer text.

        At the start of a text, SentencePiece would drop the leading space.
        """
        for _, sentinel_ids in self._sentinels:
            before, whole = self.decode(sentinel_ids), self.decode([*sentinel_ids, *ids])
            if whole.startswith(before):
                return whole[len(before) :]
        return self.decode(ids)

    def texts(self, ids: Sequence[int]) -> list[str]:
        """Return one string per id. Joined, these strings are the whole text.

        An incomplete character at the end is included as U+FFFD.
        """
        if hasattr(self.tokenizer, "token_texts"):
            return list(self.tokenizer.token_texts(ids))
        detokenizer = IncrementalDetokenizer(self)
        texts = [detokenizer.add(id) for id in ids]
        return [*texts[:-1], texts[-1] + detokenizer.flush()] if texts else []

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the vocabulary's own strings for `ids`."""
        self.check_ids(ids)
        return tuple(self.tokenizer.convert_ids_to_tokens(list(ids)))

    def single_id(self, text: str) -> int:
        """Return the id of a string that is exactly one token, either a control token or ordinary text.

        Raises:
            InputError: The string is not exactly one token.
        """
        if text in self._control_ids:
            return self._control_ids[text]
        ids = self.encode(text, at_start=False).ids
        if len(ids) != 1:
            raise InputError(
                f"token_probs names {text!r}, which is {len(ids)} tokens of model {self.name!r}: "
                "name a text that is one token (a leading space often matters)."
            )
        return ids[0]

    def check_ids(self, ids: Sequence[int]) -> None:
        """Raise InputError if an id is outside the vocabulary."""
        for id in ids:
            if not 0 <= id < self.size:
                raise InputError(
                    f"token id {id} is outside the vocabulary of model {self.name!r} (0 to {self.size - 1})."
                )

    def _find_bos(self) -> TokenIds:
        framed, bare = self.tokenizer("a", verbose=False)["input_ids"], self.encode("a", at_start=True).ids
        starts = (start for start in range(len(framed)) if framed[start : start + len(bare)] == bare)
        return tuple(framed[: next(starts, 0)])

    def _find_sentinels(self) -> list[tuple[str, list[int]]]:
        """Return the usable sentinels, each with its token ids.

        A sentinel is usable if its tokens do not merge with a letter that follows it. If the tokenizer adds
        no space to strings, no sentinel is needed, and the list is empty.
        """
        bare, sentinels, adds_space = self.encode("a", at_start=True).ids, [], False
        for sentinel in _SENTINELS:
            ids, joined = (self.encode(text, at_start=True).ids for text in (sentinel, sentinel + "a"))
            if ids and joined[: len(ids)] == ids and len(joined) > len(ids):
                sentinels.append((sentinel, ids))
                adds_space = adds_space or joined[len(ids) :] != bare
        return sentinels if adds_space else []


def _split(text: str, offsets: Sequence[tuple[int, int]], num_before: int) -> list[str]:
    """Return the part of a text that each token covers, together with what no token covers before it.

    Args:
        offsets: The offsets of each token. Tokens of one character may all have the offsets of the character.
        num_before: The number of characters that precede the text in `offsets`.
    """
    texts, at = list[str](), 0
    for (_, end), (next_start, next_end) in pairwise([*offsets, (num_before + len(text),) * 2]):
        is_part = next_start < end <= next_end  # of a character that the next token completes
        stop = at if is_part else max(at, end - num_before)
        texts.append(text[at:stop])
        at = stop
    return [*texts[:-1], texts[-1] + text[at:]] if texts else []


def _control_strings(tokenizer: Any) -> dict[int, str]:
    special = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
    added = {
        id: token.content
        for id, token in tokenizer.added_tokens_decoder.items()
        if token.special or token.content.strip()
    }
    return {id: text for id, text in (special | added).items() if text}


class IncrementalDetokenizer:
    """A detokenizer that takes token ids one by one, and returns the text that each of them adds.

    The text of an id depends on the ids before it: SentencePiece drops the space of a first token, and a
    character may be spread over several ids. So a short window of earlier ids is decoded with and without the
    new ids, and the difference is the new text. A text that ends in an incomplete character is held back.

    Args:
        prompt_ids: The ids that precede the first id to add.
    """

    def __init__(self, vocabulary: Vocabulary, prompt_ids: Sequence[int] = ()) -> None:
        self._decode = vocabulary.decode
        tails = [list(prompt_ids[-length:]) for length in _CONTEXT_LENGTHS]
        # The window starts with a whole character if possible.
        self._window = min(tails, key=lambda tail: self._decode(tail).count(REPLACEMENT))
        self._window_text = self._decode(self._window)
        self._pending: list[int] = []

    def add(self, token_id: int) -> str:
        """Add an id, and return the text that the id completes, or an empty string."""
        text = self.peek(token_id)
        self._pending.append(token_id)
        return "" if text.endswith(REPLACEMENT) else self.flush()

    def peek(self, token_id: int) -> str:
        """Return the text that `token_id` would add next, with U+FFFD for an incomplete character."""
        return self._decode_after_window([*self._pending, token_id])

    def flush(self) -> str:
        """Return the text that is held back, with U+FFFD for an incomplete character."""
        text = self._decode_after_window(self._pending)
        self._window = self._pending if text else [*self._window, *self._pending]
        self._window_text, self._pending = self._decode(self._window), []
        return text

    def _decode_after_window(self, ids: list[int]) -> str:
        whole = self._decode([*self._window, *ids])
        if whole.startswith(self._window_text):
            return whole[len(self._window_text) :]
        # If the prompt ends in an incomplete character, the new ids complete it, so all of it is new text.
        before = self._window_text.rstrip(REPLACEMENT)
        if before != self._window_text and whole.startswith(before):
            return whole[len(before) :]
        # Byte-fallback decoders garble a whole run of bytes while its last character is incomplete.
        return self._decode(ids)
