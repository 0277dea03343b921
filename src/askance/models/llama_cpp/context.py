"""A KV cache of llama.cpp, and one forward pass over some of its streams.

While it computes, one tensor is read out of llama.cpp: the attention weights of the last layer.
"""

import ctypes
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.models.llama_cpp.declarations import FLASH_ATTENTION_OFF, TensorHead
from askance.models.llama_cpp.library import first_error, llama
from askance.models.llama_cpp.weights import Weights

PASS_TOKENS = 512
"""A pass computes at most so many tokens."""
PADDING = 256
"""The room of a stream is a multiple of so many tokens."""
_MOST_THREADS = 512
"""Llama.cpp ends the process where it is asked for more."""

Ints = Sequence[int]
Logits = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class SavedState:
    """The keys and values of one stream, as llama.cpp saves them.

    Attributes:
        content: the bytes that llama.cpp wrote.
        stream, num_streams: the number of the stream, and of all streams in its context.
    """

    content: NDArray[np.uint8]
    stream: int
    num_streams: int

    def among(self, num_streams: int) -> NDArray[np.uint8]:
        """The bytes that a context with another number of streams would write.

        Llama.cpp restores a stream only where there are as many streams as where it was saved. The saved form
        is two numbers, the number of streams and, for each stream, the number of its cells, followed by these
        cells: all but one have none. A model with another kind of memory saves another form, which is refused
        here or by llama.cpp.

        Raises:
            RuntimeError: the model has another kind of memory.
        """
        before, behind = 3 + self.stream, 4 * (self.num_streams - 1 - self.stream)
        begun = self.content[: 4 * before].view(np.uint32)
        stop = len(self.content) - behind
        if begun[2] != self.num_streams or begun[3:].any() or self.content[stop:].any():
            raise RuntimeError("keys and values are kept in a form that can't be moved")
        head = np.array([*begun[:2], num_streams], np.uint32).view(np.uint8)
        empty = np.zeros(4 * (num_streams - 1), np.uint8)
        return np.concatenate((head, self.content[4 * before : stop], empty))


class Context:
    """Several streams, each with a KV cache of its own, in which cells lie in the order of the tokens.

    Args:
        num_streams, stream_tokens: the number of streams (also an attribute), and the room of each in tokens.
        watches: whether attention can be read (also an attribute); otherwise llama.cpp calls nobody back
            while it computes.
        flash: whether flash attention may be used, which keeps no weights.

    Raises:
        RuntimeError: there is no memory for them.
    """

    def __init__(
        self, weights: Weights, num_streams: int, stream_tokens: int, *, watches: bool, flash: bool = False
    ) -> None:
        self._weights, self.num_streams, self.watches = weights, num_streams, watches
        name = f"kq_soft_max-{weights.num_layers - 1}"
        self._watch = TensorWatch(name, remembers=weights.can_go_back) if watches else None
        self._pointer: Any = llama.llama_init_from_model(
            weights.pointer, self._settings(num_streams, stream_tokens, flash)
        )
        if not self._pointer:
            raise RuntimeError(
                f"no room for {num_streams} texts of {stream_tokens:,} tokens: {first_error()}"
            )
        # When the process ends, nothing is freed, since a pass may still be computed. The weights and the
        # callback must live as long as the context does.
        self._batch = llama.llama_batch_init(PASS_TOKENS, 0, 1)
        weakref.finalize(self, _free, self._pointer, self._batch, weights, self._watch).atexit = False
        self._memory = llama.llama_get_memory(self._pointer)
        if weights.adapter is not None:
            one = (ctypes.c_void_p * 1)(weights.adapter)
            llama.llama_set_adapters_lora(self._pointer, one, 1, (ctypes.c_float * 1)(1.0))

    def cut(self, stream: int, start: int) -> None:
        """Forget the tokens of a stream from one on."""
        llama.llama_memory_seq_rm(self._memory, stream, start, -1)

    def save(self, stream: int) -> SavedState:
        """A copy of the keys and values of a stream, for models with `Weights.can_be_saved`.

        Raises:
            RuntimeError: llama.cpp did not write all of them.
        """
        size = llama.llama_state_seq_get_size(self._pointer, stream)
        content = np.empty(size, np.uint8)
        written = llama.llama_state_seq_get_data(self._pointer, content.ctypes.data, size, stream)
        if not size or written != size:
            raise RuntimeError(f"keys and values can't be saved: {first_error()}")
        return SavedState(content, stream, self.num_streams)

    def restore(self, stream: int, state: SavedState) -> None:
        """Let an empty stream hold what was saved of a stream of this or another context for the same model.

        Raises:
            RuntimeError: there is no room for it, or the model has another kind of memory.
        """
        content = state.content
        if state.num_streams != self.num_streams:
            content = state.among(self.num_streams)
        size = len(content)
        if llama.llama_state_seq_set_data(self._pointer, content.ctypes.data, size, stream) != size:
            raise RuntimeError(f"keys and values can't be moved: {first_error()}")

    def run(self, streams: Ints, starts: Ints, ids: Sequence[Ints], num_logits: Ints) -> list[list[Logits]]:
        """One pass over equally many tokens of neighbouring streams: for each, logits after its last tokens.

        Raises:
            RuntimeError: llama.cpp can't compute it.
        """
        self._fill(streams, starts, ids, num_logits)
        code = llama.llama_decode(self._pointer, self._batch)
        if code:
            raise RuntimeError(f"llama.cpp broke off with code {code}: {first_error()}")
        return [
            [self._logits((number + 1) * len(part) - back) for back in range(count, 0, -1)]
            for number, (part, count) in enumerate(zip(ids, num_logits, strict=True))
        ]

    def run_watched(
        self, streams: Ints, starts: Ints, ids: Sequence[Ints], num_logits: Ints
    ) -> tuple[list[list[Logits]], NDArray[np.float32]]:
        """The same, and the last layer's weights: shape [streams, heads, tokens, places of tokens].

        Raises:
            RuntimeError: llama.cpp can't compute it, or does not show the weights.
        """
        watch = self._watch
        assert watch is not None
        for _ in range(2):
            watch.begin()
            try:
                logits = self.run(streams, starts, ids, num_logits)
            finally:
                watch.end()
            caught = watch.caught
            if caught is not None:
                return logits, _by_stream(caught, len(streams), len(ids[0]))
            # Llama.cpp has built its graph anew, and the tensor lies where another one lay.
            watch.clear()
            for stream, start in zip(streams, starts, strict=True):
                self.cut(stream, start)
        raise RuntimeError("llama.cpp does not show the attention of the last layer")

    def _fill(self, streams: Ints, starts: Ints, ids: Sequence[Ints], num_logits: Ints) -> None:
        """Tell llama.cpp the tokens of a pass."""
        assert sum(map(len, ids)) <= PASS_TOKENS, "more tokens than a pass takes"
        batch, at = self._batch, 0
        tokens, places, counts = batch.token, batch.pos, batch.n_seq_id
        in_streams, wanted = batch.seq_id, batch.logits
        for stream, start, part, count in zip(streams, starts, ids, num_logits, strict=True):
            first_wanted = start + len(part) - count
            for place, id in enumerate(part, start):
                tokens[at], places[at], counts[at], in_streams[at][0] = id, place, 1, stream
                wanted[at] = place >= first_wanted
                at += 1
        batch.n_tokens = at

    def _logits(self, place: int) -> Logits:
        pointer = llama.llama_get_logits_ith(self._pointer, place)
        return np.ctypeslib.as_array(pointer, (self._weights.num_tokens,)).copy()

    def _settings(self, num_streams: int, stream_tokens: int, flash: bool) -> Any:
        settings = llama.llama_context_default_params()
        settings.n_ctx, settings.n_seq_max = num_streams * stream_tokens, num_streams
        settings.n_batch = settings.n_ubatch = PASS_TOKENS
        settings.n_outputs_max = settings.n_outputs_max_per_seq = 0  # as many as are asked for
        settings.kv_unified = False
        settings.n_threads = settings.n_threads_batch = num_threads()
        if not flash:
            settings.flash_attn_type = FLASH_ATTENTION_OFF
        if self._watch is not None:
            settings.cb_eval = self._watch.callback
        return settings


def _by_stream(caught: NDArray[np.float32], num_streams: int, num_tokens: int) -> NDArray[np.float32]:
    if caught.shape[0] != num_streams or caught.shape[2] != num_tokens:
        raise RuntimeError(f"llama.cpp shows attention in a shape that is not understood: {caught.shape}")
    return caught


def _free(pointer: Any, batch: Any, *kept: Any) -> None:
    llama.llama_free(pointer)
    llama.llama_batch_free(batch)


def num_threads() -> int:
    """The number of threads that compute a pass: OMP_NUM_THREADS, or the cores that this process may use."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    if told.isdecimal() and int(told):
        return min(int(told), _MOST_THREADS)
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), _MOST_THREADS)
    return min(os.cpu_count() or 1, _MOST_THREADS)


_FLOAT32 = 0
"""The value `GGML_TYPE_F32`."""


class TensorWatch(dict[int, bool]):
    """The evaluation callback: llama.cpp asks it for each of the thousand tensors of a pass if it is wanted.

    Asking has to be cheap, so the question goes straight to the look-up of a dictionary: the addresses of
    tensors that are not wanted are its keys, and no line of Python runs for them. Only an address that is not
    known has its name looked at. When llama.cpp builds its graph anew, the tensor that is wanted may come to
    lie where another one was: a pass that caught nothing has to be repeated after `clear`.

    Args:
        name: the name of the tensor.
        remembers: whether addresses are remembered, so that a pass may have to be repeated.

    Attributes:
        caught: the tensor of the pass since `begin`, or None: shape [texts, heads, queries, keys].
        callback: the address of the function that llama.cpp is given.
    """

    caught: NDArray[np.float32] | None = None

    def __init__(self, name: str, *, remembers: bool = True) -> None:
        super().__init__()
        self._name, self._remembers = name.encode(), remembers
        self._is_on = self._is_computed = False
        # Only the first of the three arguments is declared, which is the tensor: the order of the calls shows
        # whether it is asked about or computed. The other two stay in their registers.
        self._function = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(self.__getitem__)
        self.callback = ctypes.cast(self._function, ctypes.c_void_p).value

    def begin(self) -> None:
        """Want the tensor from now on."""
        self.caught, self._is_on, self._is_computed = None, True, False

    def end(self) -> None:
        """Do not want the tensor any more."""
        self._is_on = False

    def __missing__(self, tensor: int) -> bool:
        """Answer whether this tensor is wanted and, once it is computed, whether to continue."""
        if llama.ggml_get_name(tensor) != self._name:
            if self._remembers:
                self[tensor] = False
            return False
        if not self._is_on:
            return False
        if self._is_computed:
            self.caught = _numbers(tensor)
        self._is_computed = not self._is_computed
        return True


def _numbers(tensor: int) -> NDArray[np.float32] | None:
    head = TensorHead.from_address(tensor)
    keys, queries, heads, texts = head.extents
    if head.type != _FLOAT32:
        return None
    found = np.empty((texts, heads, queries, keys), np.float32)
    llama.ggml_backend_tensor_get(tensor, found.ctypes.data, 0, found.nbytes)
    return found
