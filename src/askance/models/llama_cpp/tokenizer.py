"""The tokenizer inside a GGUF file, by llama.cpp."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from askance.models.llama_cpp.library import llama
from askance.models.llama_cpp.weights import Weights

_UNKNOWN, _CONTROL, _USER_DEFINED = 1, 8, 16
"""Values of `llama_token_attr`."""


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token with a text that is matched before all others."""

    content: str
    special: bool


class GgufTokenizer:
    """Has the interface of a tokenizer of transformers, as far as `Vocabulary` and its kin use that.

    Attributes:
        chat_template: None if the file has none.
        added_tokens_decoder: by id, control tokens and those that were added.
        end_ids: the ids that llama.cpp takes for the end of a text.
    """

    def __init__(self, weights: Weights) -> None:
        self._weights, self._vocabulary, self._size = weights, weights.vocabulary, weights.num_tokens
        template = llama.llama_model_chat_template(weights.pointer, None)
        self.chat_template = None if template is None else template.decode("utf-8", "replace")
        self._bytes: dict[int, bytes] = {}
        kinds = {id: llama.llama_vocab_get_attr(self._vocabulary, id) for id in range(self._size)}
        self.added_tokens_decoder = {
            id: AddedToken(self._piece(id).decode("utf-8", "replace"), not kind & _USER_DEFINED)
            for id, kind in kinds.items()
            if kind & (_UNKNOWN | _CONTROL | _USER_DEFINED)
        }
        self.unk_token_id = next((id for id, kind in kinds.items() if kind & _UNKNOWN), None)
        self.end_ids = frozenset(
            id for id in range(self._size) if llama.llama_vocab_is_eog(self._vocabulary, id)
        )
        self._adds_space = b"".join(map(self._piece, self._ids("a", framed=False))).startswith(b" ")

    @property
    def eos_token_id(self) -> int | None:
        """The id that a text is ended with."""
        id = int(llama.llama_vocab_eos(self._vocabulary))
        return id if id >= 0 else None

    @property
    def all_special_ids(self) -> list[int]:
        """The ids of control tokens."""
        return [id for id, token in self.added_tokens_decoder.items() if token.special]

    @property
    def all_special_tokens(self) -> list[str]:
        """The texts of control tokens."""
        return [self.added_tokens_decoder[id].content for id in self.all_special_ids]

    def __call__(self, text: str, *, add_special_tokens: bool = True, verbose: bool = False) -> Any:
        """The ids of a text under the name of ``input_ids``."""
        return {"input_ids": self._ids(text, framed=add_special_tokens)}

    def decode(self, ids: Sequence[int], **_: bool) -> str:
        """The text of ids, control tokens as their strings; broken characters as U+FFFD."""
        text = b"".join(map(self._piece, ids)).decode("utf-8", "replace")
        return text.removeprefix(" ") if self._adds_space else text

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The vocabulary's own strings."""
        texts = (llama.llama_vocab_get_text(self._vocabulary, id) for id in ids)
        return [text.decode("utf-8", "replace") for text in texts]

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """What chat templates call the tokens that begin and end a text."""
        ends = {"bos": llama.llama_vocab_bos, "eos": llama.llama_vocab_eos}
        return {
            f"{name}_token": self._piece(id).decode("utf-8", "replace") if id >= 0 else ""
            for name, id in ((name, find(self._vocabulary)) for name, find in ends.items())
        }

    def _ids(self, text: str, *, framed: bool) -> list[int]:
        content = text.encode("utf-8")
        size = len(content) + 8
        while True:
            buffer = (ctypes.c_int32 * size)()
            # The last argument: control tokens are matched.
            count = llama.llama_tokenize(self._vocabulary, content, len(content), buffer, size, framed, True)
            if count >= 0:
                return list(buffer[:count])
            size = -count

    def _piece(self, id: int) -> bytes:
        """The text of one token."""
        if id not in self._bytes:
            # The last arguments: with a space in front, and control tokens as their strings.
            size = -llama.llama_token_to_piece(self._vocabulary, id, None, 0, 0, True)
            buffer = ctypes.create_string_buffer(max(0, size))
            llama.llama_token_to_piece(self._vocabulary, id, buffer, size, 0, True)
            self._bytes[id] = buffer.raw
        return self._bytes[id]
