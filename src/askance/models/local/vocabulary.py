"""A tokenizer without its traps: plain text is plain, and a text in the middle gets no prefix space."""

from collections.abc import Sequence
from typing import Any

from askance.core.errors import InputError
from askance.core.types import TokenIds

_SENTINELS = (".", ",", "\n", "\x01")
"""Texts to put in front of one that is no beginning; each is tried until one stays apart from it."""


class Vocabulary:
    """A transformers tokenizer.

    Attributes:
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
        self._tokenizer = tokenizer
        self._name = name
        self.size = size
        self.end_ids = end_ids
        self.control = _control_strings(tokenizer)
        self.telling_ids = frozenset(self.control) - {tokenizer.unk_token_id}
        self._control_ids = {text: id for id, text in self.control.items()}
        self.bos = self._find_bos()
        self._sentinels = self._find_sentinels()
        self._texts = dict[int, str]()

    def encode(self, text: str, *, at_start: bool) -> list[int]:
        """Ids of `text`, control strings matched. Only `at_start` may the tokenizer put a space in front."""
        if at_start or not self._sentinels:
            return self._plain(text)
        for sentinel, sentinel_ids in self._sentinels:
            ids = self._plain(sentinel + text)
            if ids[: len(sentinel_ids)] == sentinel_ids:
                return ids[len(sentinel_ids) :]
        return self._plain(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, control tokens as their strings."""
        text: str = self._tokenizer.decode(
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
        return tuple(self._tokenizer.convert_ids_to_tokens(list(ids)))

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
                f"token_probs names {text!r}, which is {len(ids)} tokens of model {self._name!r}: "
                "name a text that is one token (a leading space often matters)."
            )
        return ids[0]

    def check_ids(self, ids: TokenIds) -> None:
        """Raises InputError for an id outside the vocabulary."""
        for id in ids:
            if not 0 <= id < self.size:
                raise InputError(
                    f"token id {id} is outside the vocabulary of model {self._name!r} (0 to {self.size - 1})."
                )

    def _plain(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids

    def _find_bos(self) -> TokenIds:
        framed, bare = self._tokenizer("a", verbose=False)["input_ids"], self._plain("a")
        starts = (start for start in range(len(framed)) if framed[start : start + len(bare)] == bare)
        return tuple(framed[: next(starts, 0)])

    def _find_sentinels(self) -> list[tuple[str, list[int]]]:
        """The sentinels that stay apart from a following letter; none where the tokenizer adds no space."""
        found = []
        for sentinel in _SENTINELS:
            ids, joined = self._plain(sentinel), self._plain(sentinel + "a")
            if ids and joined[: len(ids)] == ids and len(joined) > len(ids):
                found.append((sentinel, ids))
        bare = self._plain("a")
        adds_space = any(self._plain(sentinel + "a")[len(ids) :] != bare for sentinel, ids in found)
        return found if adds_space else []


def _control_strings(tokenizer: Any) -> dict[int, str]:
    special = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
    added = {
        id: token.content
        for id, token in tokenizer.added_tokens_decoder.items()
        if token.special or token.content.strip()
    }
    return {id: text for id, text in (special | added).items() if text}
