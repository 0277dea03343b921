"""Text and ids: a tokenizer without its traps, and ids that become text one by one.

Plain text is plain, and a text in the middle gets no prefix space.
"""

from collections.abc import Sequence
from typing import Any

from askance.core.errors import InputError
from askance.core.types import TokenIds

_SENTINELS = (".", ",", "\n", "\x01")
"""Texts to put in front of one that is no beginning; each is tried until one stays apart from it."""
REPLACEMENT = "\ufffd"
_MOST_PENDING = 4
"""A character of UTF-8 has at most four bytes: what is broken in the first of four tokens stays broken."""
_CONTEXT_LENGTHS = (4, 5, 6, 7, 8)


class Vocabulary:
    """A transformers tokenizer.

    Attributes:
        tokenizer: it is itself, or what has its interface.
        name: the model's, for messages.
        control: id and string of every added token, special or not. These are what untrusted text can never
            yield. Runs of white space that are ordinary added tokens (Pythia, Gemma) carry no authority and
            do not count.
        telling_ids: those of `control` that the tokenizer gives for nothing else. The unknown token is not
            one: some tokenizers give it for every character they do not know.
        bos: the ids that the tokenizer puts in front of a text; often one, or none.
        end_ids: the ids that end a text.
        size: number of ids the model knows.
    """

    def __init__(self, tokenizer: Any, name: str, *, end_ids: frozenset[int], size: int) -> None:
        self.tokenizer, self.name, self.end_ids, self.size = tokenizer, name, end_ids, size
        self.control = _control_strings(tokenizer)
        self.telling_ids = frozenset(self.control) - {tokenizer.unk_token_id}
        self._control_ids = {text: id for id, text in self.control.items()}
        self.bos = self._find_bos()
        self._sentinels = self._find_sentinels()
        self._texts = dict[int, str]()

    def encode(self, text: str, *, at_start: bool) -> list[int]:
        """Ids of `text`, control strings matched. Only `at_start` may the tokenizer put a space in front."""
        for sentinel, sentinel_ids in () if at_start else self._sentinels:
            ids = self._plain(sentinel + text)
            if ids[: len(sentinel_ids)] == sentinel_ids:
                return ids[len(sentinel_ids) :]
        return self._plain(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, control tokens as their strings."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    def decode_inside(self, ids: Sequence[int]) -> str:
        """The text of `ids` in the middle of a text: a SentencePiece tokenizer keeps their leading space.

        Those of single ids are kept: what attends to a prompt asks for all of them, again and again.
        """
        if len(ids) != 1:
            return self._decoded_inside(ids)
        (id,) = ids
        if id not in self._texts:
            self._texts[id] = self._decoded_inside(ids)
        return self._texts[id]

    def _decoded_inside(self, ids: Sequence[int]) -> str:
        for _, sentinel_ids in self._sentinels:
            before, whole = self.decode(sentinel_ids), self.decode([*sentinel_ids, *ids])
            if whole.startswith(before):
                return whole[len(before) :]
        return self.decode(ids)

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The vocabulary's own strings of `ids`."""
        self.check_ids(tuple(ids))
        return tuple(self.tokenizer.convert_ids_to_tokens(list(ids)))

    def single(self, text: str) -> int:
        """The id of a text that is exactly one token: a control string, or plain text.

        Raises:
            InputError: it is none, or several.
        """
        if text in self._control_ids:
            return self._control_ids[text]
        ids = self.encode(text, at_start=False)
        if len(ids) != 1:
            raise InputError(
                f"token_probs names {text!r}, which is {len(ids)} tokens of model {self.name!r}: "
                "name a text that is one token (a leading space often matters)."
            )
        return ids[0]

    def check_ids(self, ids: TokenIds) -> None:
        """Raises InputError for an id outside the vocabulary."""
        for id in ids:
            if not 0 <= id < self.size:
                raise InputError(
                    f"token id {id} is outside the vocabulary of model {self.name!r} (0 to {self.size - 1})."
                )

    def _plain(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids

    def _find_bos(self) -> TokenIds:
        framed, bare = self.tokenizer("a", verbose=False)["input_ids"], self._plain("a")
        starts = (start for start in range(len(framed)) if framed[start : start + len(bare)] == bare)
        return tuple(framed[: next(starts, 0)])

    def _find_sentinels(self) -> list[tuple[str, list[int]]]:
        """The sentinels that stay apart from a following letter; none where the tokenizer adds no space."""
        bare, found, adds_space = self._plain("a"), [], False
        for sentinel in _SENTINELS:
            ids, joined = self._plain(sentinel), self._plain(sentinel + "a")
            if ids and joined[: len(ids)] == ids and len(joined) > len(ids):
                found.append((sentinel, ids))
                adds_space = adds_space or joined[len(ids) :] != bare
        return found if adds_space else []


def _control_strings(tokenizer: Any) -> dict[int, str]:
    special = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
    added = {
        id: token.content
        for id, token in tokenizer.added_tokens_decoder.items()
        if token.special or token.content.strip()
    }
    return {id: text for id, text in (special | added).items() if text}


class IncrementalDetokenizer:
    """Turns ids into text incrementally; the pieces join to the whole text.

    An id's text depends on its left neighbours (SentencePiece drops the space of a first token; a character
    may be spread over several ids). So a small window is decoded with and without the new ids, and the
    difference is their text. Half a character at its end is held back.
    """

    def __init__(self, vocabulary: Vocabulary, before: Sequence[int] = ()) -> None:
        self._decode = vocabulary.decode
        self._window = _left_context(vocabulary, before)
        self._window_text = self._decode(self._window)
        self._pending: list[int] = []
        self._told_chars = 0  # of the text of `_pending`

    def add(self, token_id: int) -> str:
        """The text that `token_id` completes, perhaps none."""
        self._pending.append(token_id)
        text = self._read(self._pending)
        whole_chars = len(text.rstrip(REPLACEMENT))
        if whole_chars == len(text):
            return self.flush()
        told, self._told_chars = self._told_chars, max(self._told_chars, whole_chars)
        gone = self._advance(1) if len(self._pending) >= _MOST_PENDING else ""
        return text[told:whole_chars] + gone

    def peek(self, token_id: int) -> str:
        """The text `token_id` would have if it came next, half a character shown as U+FFFD."""
        return self._read([*self._pending, token_id])[self._told_chars :]

    def flush(self) -> str:
        """The text held back, half a character as U+FFFD."""
        return self._advance(len(self._pending))

    def _advance(self, count: int) -> str:
        """Move the oldest `count` pending ids into the window. Returns what of their text is not told."""
        ids, self._pending = self._pending[:count], self._pending[count:]
        text = self._read(ids)
        rest = text[self._told_chars :]
        self._told_chars = max(0, self._told_chars - len(text))
        self._window = ids if text else [*self._window, *ids]
        self._window_text = self._decode(self._window)
        return rest

    def _read(self, ids: list[int]) -> str:
        whole = self._decode([*self._window, *ids])
        if whole.startswith(self._window_text):
            return whole[len(self._window_text) :]
        # Half a character at the end of the prompt is completed by, and belongs to, what is generated.
        before = self._window_text.rstrip(REPLACEMENT)
        if before != self._window_text and whole.startswith(before):
            return whole[len(before) :]
        # Byte-fallback decoders spoil a whole run of bytes while its end is half a character.
        return self._decode(ids)


def _left_context(vocabulary: Vocabulary, ids: Sequence[int]) -> list[int]:
    """The last few ids, so many that they do not begin inside a character if that can be helped."""
    tails = [list(ids[-length:]) for length in _CONTEXT_LENGTHS]
    return min(tails, key=lambda tail: vocabulary.decode(tail).count(REPLACEMENT))
