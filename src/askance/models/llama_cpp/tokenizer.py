"""The tokenizer inside a GGUF file, which llama.cpp computes."""

import ctypes
from codecs import getincrementaldecoder
from collections.abc import Sequence
from typing import Any

from askance.models.llama_cpp.library import llama
from askance.models.llama_cpp.weights import Weights

_UNKNOWN, _CONTROL, _USER_DEFINED = 1, 8, 16
"""The values of `llama_token_attr`."""


class GgufTokenizer:
    """The tokenizer of a GGUF file, with the part of transformers' interface that `Vocabulary` uses.

    Attributes:
        chat_template: The source of the chat template, or None if the file has no chat template.
        control: The strings of the control tokens, by id (see `Vocabulary`).
        end_ids: The ids of the tokens that llama.cpp treats as the end of a generation.
    """

    def __init__(self, weights: Weights) -> None:
        self._weights, self._vocabulary, self._size = weights, weights.vocabulary, weights.num_tokens
        template = llama.llama_model_chat_template(weights.pointer, None)
        self.chat_template = None if template is None else template.decode("utf-8", "replace")
        self._bytes: dict[int, bytes] = {}
        attributes = {id: llama.llama_vocab_get_attr(self._vocabulary, id) for id in range(self._size)}
        texts = {
            id: self._piece(id).decode("utf-8", "replace")
            for id, attribute in attributes.items()
            if attribute & (_UNKNOWN | _CONTROL | _USER_DEFINED)
        }
        self.control = {
            id: text
            for id, text in texts.items()
            if text.strip() or (text and not attributes[id] & _USER_DEFINED)
        }
        self.unk_token_id = next((id for id, attribute in attributes.items() if attribute & _UNKNOWN), None)
        self.end_ids = frozenset(
            id for id in range(self._size) if llama.llama_vocab_is_eog(self._vocabulary, id)
        )
        self._adds_space = b"".join(map(self._piece, self._ids("a", add_special_tokens=False))).startswith(
            b" "
        )

    @property
    def eos_token_id(self) -> int | None:
        """The id of the end token, or None."""
        id = int(llama.llama_vocab_eos(self._vocabulary))
        return id if id >= 0 else None

    def __call__(self, text: str, *, add_special_tokens: bool = True, verbose: bool = False) -> Any:
        """Return the token ids of a string under the key ``input_ids``."""
        return {"input_ids": self._ids(text, add_special_tokens=add_special_tokens)}

    def decode(self, ids: Sequence[int], **_: bool) -> str:
        """Return the text of `ids`, with control tokens as their strings and broken characters as U+FFFD."""
        text = b"".join(map(self._piece, ids)).decode("utf-8", "replace")
        return text.removeprefix(" ") if self._adds_space else text

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each id. An id that ends inside a character leaves its text to the next one."""
        decoder, texts, held = getincrementaldecoder("utf-8")("replace"), list[str](), ""
        for number, id in enumerate(ids, start=1):
            held += decoder.decode(self._piece(id), final=number == len(ids))
            is_whole = not decoder.getstate()[0]
            texts.append(held if is_whole else "")
            held = "" if is_whole else held
        return texts

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the vocabulary's own strings for `ids`."""
        texts = (llama.llama_vocab_get_text(self._vocabulary, id) for id in ids)
        return [text.decode("utf-8", "replace") for text in texts]

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """The strings of the BOS and EOS tokens, by the variable names that chat templates use for them."""
        ends = {"bos": llama.llama_vocab_bos, "eos": llama.llama_vocab_eos}
        return {
            f"{name}_token": self._piece(id).decode("utf-8", "replace") if id >= 0 else ""
            for name, id in ((name, find(self._vocabulary)) for name, find in ends.items())
        }

    def _ids(self, text: str, *, add_special_tokens: bool) -> list[int]:
        content = text.encode("utf-8")
        size = len(content) + 8
        while True:
            buffer = (ctypes.c_int32 * size)()
            # The last argument makes the tokenizer encode the strings of control tokens as control tokens.
            arguments = content, len(content), buffer, size, add_special_tokens, True
            count = llama.llama_tokenize(self._vocabulary, *arguments)
            if count >= 0:
                return list(buffer[:count])
            size = -count

    def _piece(self, id: int) -> bytes:
        """Return the bytes of one token's text."""
        if id not in self._bytes:
            # The last two arguments keep the leading space, and give control tokens as their strings.
            size = -llama.llama_token_to_piece(self._vocabulary, id, None, 0, 0, True)
            buffer = ctypes.create_string_buffer(max(0, size))
            llama.llama_token_to_piece(self._vocabulary, id, buffer, size, 0, True)
            self._bytes[id] = buffer.raw
        return self._bytes[id]
