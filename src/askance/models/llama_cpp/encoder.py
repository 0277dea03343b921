"""An encoder that llama.cpp runs: a BERT of sentence-transformers whose vectors are means of token vectors.

Each text is a pass of its own on one thread, so its vector is the same to the bit in every batch. Several
threads compute several texts at a time.
"""

import asyncio
import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from numpy.typing import NDArray
from safetensors.numpy import load_file

from askance.core.errors import ModelFailure
from askance.core.safe_text import whole_characters
from askance.core.types import TextKind
from askance.models.llama_cpp.context import PASS_TOKENS, Context, num_threads
from askance.models.llama_cpp.tokenizer import GgufTokenizer
from askance.models.llama_cpp.weights import Weights

_WORD, _CONTINUATION = "▁", "##"
"""The mark of a word's first token in llama.cpp, and that of its other tokens in a BERT's vocabulary."""
_VECTOR, _MLP, _OTHER_MATRIX = (GGMLQuantizationType[name] for name in ("F32", "Q8_0", "F16"))
_CONTROL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class LlamaEncoder:
    """An `Encoder` over the GGUF file of a BERT (see `convert_bert`). All kinds of texts are treated alike.

    Attributes:
        max_tokens: The number of tokens after which a text is truncated.

    Raises:
        ModelSpecError: The file is missing or damaged.
    """

    def __init__(self, path: Path, *, name: str, fingerprint: str, max_tokens: int) -> None:
        self.name, self.fingerprint, self.max_tokens = name, fingerprint, max_tokens
        self._weights = Weights(path, name=name, is_encoder=True)
        self._tokenizer, self._of_thread = GgufTokenizer(self._weights), threading.local()
        self._threads = ThreadPoolExecutor(num_threads(), thread_name_prefix="askance-encoder")

    async def embed(self, texts: Sequence[str], kind: TextKind = "text") -> NDArray[np.float32]:
        """Return the embedding vectors of texts, shape [texts, dimensions].

        Raises:
            ModelFailure: The model failed, for example for lack of memory.
        """
        run = asyncio.get_running_loop().run_in_executor
        vectors = await asyncio.gather(*(run(self._threads, self._embed, text) for text in texts))
        return np.array(vectors, dtype=np.float32).reshape(len(texts), self._weights.embedding_size)

    def _embed(self, text: str) -> NDArray[np.float32]:
        ids = self._tokenizer(whole_characters(text))["input_ids"]
        if len(ids) > self.max_tokens:
            ids = [*ids[: self.max_tokens - 1], ids[-1]]
        try:
            if not hasattr(self._of_thread, "context"):
                self._of_thread.context = Context(self._weights, 1, PASS_TOKENS, reads_attention=False)
            vector: NDArray[np.float32] = self._of_thread.context.embed(ids)
        except RuntimeError as error:
            raise ModelFailure(f"the encoder {self.name} broke: {error}") from error
        vector /= np.linalg.norm(vector)
        return vector


def convert_bert(folder: Path, target: Path) -> None:
    """Write a BERT in the format of sentence-transformers, without its pooling layer, as a GGUF file.

    The matrices of the MLPs, which take most of the time, become 8 bits. With those of attention in 8 bits,
    too, the vector of a single letter would have a cosine of 0.998 with that in float32.

    Raises:
        OSError: The file can't be written, for example because the disk is full.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    words = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    tensors = load_file(folder / "model.safetensors")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config["num_hidden_layers"])
    writer = GGUFWriter(target, "bert")
    try:
        writer.add_block_count(config["num_hidden_layers"])
        writer.add_context_length(config["max_position_embeddings"])
        writer.add_embedding_length(config["hidden_size"])
        writer.add_feed_forward_length(config["intermediate_size"])
        writer.add_head_count(config["num_attention_heads"])
        writer.add_layer_norm_eps(config["layer_norm_eps"])
        writer.add_causal_attention(False)
        writer.add_pooling_type(gguf.PoolingType.MEAN)
        writer.add_token_type_count(config["type_vocab_size"])
        writer.add_tokenizer_model("bert")
        writer.add_token_list([_gguf_token(word) for word in words])
        kinds = {True: gguf.TokenType.CONTROL, False: gguf.TokenType.NORMAL}
        writer.add_token_types([kinds[word in _CONTROL_TOKENS] for word in words])
        pad, unknown, start, separator, mask = map(words.index, _CONTROL_TOKENS)
        writer.add_pad_token_id(pad)
        writer.add_unk_token_id(unknown)
        writer.add_bos_token_id(start)
        writer.add_sep_token_id(separator)
        writer.add_mask_token_id(mask)
        for name, numbers in tensors.items():
            tensor = names.get_name(name, try_suffixes=(".weight", ".bias"))
            if tensor is not None:  # all but the layer that only a classifier needs
                is_matrix = numbers.ndim == 2 and tensor.startswith(("blk.", "token_embd."))
                kind = _VECTOR if not is_matrix else _MLP if ".ffn_" in tensor else _OTHER_MATRIX
                packed = gguf.quantize(numbers.astype(np.float32), kind)
                writer.add_tensor(tensor, packed, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _gguf_token(word: str) -> str:
    """Return a token of a BERT's vocabulary as llama.cpp writes it."""
    if word in _CONTROL_TOKENS:
        return word
    return word.removeprefix(_CONTINUATION) if word.startswith(_CONTINUATION) else _WORD + word
