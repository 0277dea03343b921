"""A context of llama.cpp: the KV cache of several sequences, and forward passes over some of them.

During a pass, one tensor can be read out of llama.cpp: the attention weights of the last layer.
"""

import ctypes
import os
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.inference.backend import StepInput
from askance.models.llama_cpp.declarations import FLASH_ATTENTION_OFF, TensorHead
from askance.models.llama_cpp.library import first_error, llama
from askance.models.llama_cpp.weights import Weights

PASS_TOKENS = 512
"""The greatest number of tokens in one pass (llama.cpp's `n_batch`)."""
PADDING = 256
"""The capacity of a sequence is a multiple of this number of tokens."""
_MAX_BATCHED_TOKENS = 4
"""The greatest number of tokens that each text may have in a pass over several texts."""
_MAX_THREADS = 512
"""The greatest number of threads. With more, llama.cpp ends the process."""

Ints = Sequence[int]
Logits = NDArray[np.float32]
Rows = list[Logits]


@dataclass(frozen=True, slots=True, eq=False)
class SavedState:
    """The keys and values of one sequence, as llama.cpp saves them.

    Attributes:
        num_sequences: The number of sequences in the context that saved it.
    """

    content: NDArray[np.uint8]
    seq_id: int
    num_sequences: int

    def among(self, num_sequences: int) -> NDArray[np.uint8]:
        """Return the bytes that a context with `num_sequences` sequences would have written.

        Llama.cpp restores a sequence only into a context with as many sequences as the one that saved it.
        The saved bytes hold two numbers, the number of sequences, and then, for each sequence, the number of
        its cells and the cells themselves. Only the saved sequence has cells. A model with another kind of
        memory saves another format, which this method or llama.cpp refuses.

        Raises:
            RuntimeError: The model has another kind of memory.
        """
        num_before, num_bytes_after = 3 + self.seq_id, 4 * (self.num_sequences - 1 - self.seq_id)
        header = self.content[: 4 * num_before].view(np.uint32)
        stop = len(self.content) - num_bytes_after
        if header[2] != self.num_sequences or header[3:].any() or self.content[stop:].any():
            raise RuntimeError("keys and values are kept in a form that can't be moved")
        new_header = np.array([*header[:2], num_sequences], np.uint32).view(np.uint8)
        empty = np.zeros(4 * (num_sequences - 1), np.uint8)
        return np.concatenate((new_header, self.content[4 * num_before : stop], empty))


@dataclass(slots=True, eq=False)
class SequenceSlot:
    """A sequence in a llama.cpp context, used as the KV slot of a text.

    Attributes:
        ids: The tokens that the sequence holds.
        num_prefilled: The number of those tokens that were computed as part of a prompt.
        num_prefix_tokens: The number of tokens that are certainly part of the prompt. Decoding starts at this
            position or later.
        num_cached_tokens: The number of the text's tokens that the slot held when it was opened.
        closed_at: A logical time stamp: the number of slots that had been closed when this one last was.
    """

    seq_id: int
    ids: list[int] = field(default_factory=list)
    num_prefilled: int = 0
    num_prefix_tokens: int = 0
    is_open: bool = False
    num_cached_tokens: int = 0
    closed_at: int = 0


LlamaInput = StepInput[SequenceSlot]


class Context:
    """A llama.cpp context: sequences with separate KV caches, whose cells are in the order of the tokens.

    Args:
        num_sequences: The number of sequences (also an attribute).
        sequence_tokens: The token capacity of each sequence.
        reads_attention: Whether attention can be read (also an attribute). If not, llama.cpp makes no
            callbacks while it computes.
        flash_attention: Whether flash attention may be used, which keeps no attention weights.

    Raises:
        RuntimeError: There is not enough memory.
    """

    def __init__(
        self,
        weights: Weights,
        num_sequences: int,
        sequence_tokens: int,
        *,
        reads_attention: bool,
        flash_attention: bool = False,
    ) -> None:
        self._weights, self.num_sequences, self.reads_attention = weights, num_sequences, reads_attention
        name = f"kq_soft_max-{weights.num_layers - 1}"
        self._callback = TensorCallback(name, remembers=weights.can_truncate) if reads_attention else None
        self._pointer: Any = llama.llama_init_from_model(
            weights.pointer, self._settings(num_sequences, sequence_tokens, flash_attention)
        )
        if not self._pointer:
            raise RuntimeError(
                f"no room for {num_sequences} texts of {sequence_tokens:,} tokens: {first_error()}"
            )
        # When the process ends, nothing is freed, since a pass may still be running. The weights and the
        # callback must live as long as the context.
        self._batch = llama.llama_batch_init(PASS_TOKENS, 0, 1)
        weakref.finalize(self, _free, self._pointer, self._batch, weights, self._callback).atexit = False
        self._memory = llama.llama_get_memory(self._pointer)
        if weights.adapter is not None:
            one = (ctypes.c_void_p * 1)(weights.adapter)
            llama.llama_set_adapters_lora(self._pointer, one, 1, (ctypes.c_float * 1)(1.0))

    def truncate(self, seq_id: int, num_tokens: int) -> None:
        """Keep only the first `num_tokens` tokens of a sequence."""
        llama.llama_memory_seq_rm(self._memory, seq_id, num_tokens, -1)

    def save(self, seq_id: int) -> SavedState:
        """Return a copy of the keys and values of a sequence. `Weights.can_be_saved` must be true.

        Raises:
            RuntimeError: Llama.cpp did not write all keys and values.
        """
        size = llama.llama_state_seq_get_size(self._pointer, seq_id)
        content = np.empty(size, np.uint8)
        written = llama.llama_state_seq_get_data(self._pointer, content.ctypes.data, size, seq_id)
        if not size or written != size:
            raise RuntimeError(f"keys and values can't be saved: {first_error()}")
        return SavedState(content, seq_id, self.num_sequences)

    def restore(self, seq_id: int, state: SavedState) -> None:
        """Copy a saved state of this model, from this or another context, into an empty sequence.

        Raises:
            RuntimeError: There is no room for the state, or the model has another kind of memory.
        """
        content = state.content
        if state.num_sequences != self.num_sequences:
            content = state.among(self.num_sequences)
        size = len(content)
        if llama.llama_state_seq_set_data(self._pointer, content.ctypes.data, size, seq_id) != size:
            raise RuntimeError(f"keys and values can't be moved: {first_error()}")

    def forward(self, seq_ids: Ints, starts: Ints, ids: Sequence[Ints], num_logits: Ints) -> list[Rows]:
        """Compute one pass over neighbouring sequences with equally many new tokens.

        Args:
            starts: The position of the first new token of each sequence.
            num_logits: The number of tokens at the end of each sequence whose logits are wanted.

        Returns:
            For each sequence, the logits of those tokens, each of shape [vocabulary].

        Raises:
            RuntimeError: Llama.cpp can't compute the pass.
        """
        self._fill_batch(seq_ids, starts, ids, num_logits)
        self._decode()
        return [
            [self._logits((index + 1) * len(part) - back) for back in range(count, 0, -1)]
            for index, (part, count) in enumerate(zip(ids, num_logits, strict=True))
        ]

    def embed(self, ids: Ints) -> NDArray[np.float32]:
        """Return the mean of the last hidden states of a text that an encoder reads.

        Raises:
            RuntimeError: Llama.cpp can't compute the text.
        """
        self._fill_batch([0], [0], [ids], [len(ids)])
        self._decode()
        pointer = llama.llama_get_embeddings_seq(self._pointer, 0)
        return np.ctypeslib.as_array(pointer, (self._weights.embedding_size,)).copy()

    def forward_with_attention(
        self, seq_ids: Ints, starts: Ints, ids: Sequence[Ints], num_logits: Ints
    ) -> tuple[list[Rows], NDArray[np.float32]]:
        """Compute a pass like `forward`, and read the attention weights of the last layer.

        Returns:
            The logits, and the attention weights, shape [sequences, heads, new tokens, cells].

        Raises:
            RuntimeError: Llama.cpp can't compute the pass, or does not show the attention weights.
        """
        callback = self._callback
        assert callback is not None
        for _ in range(2):
            callback.start()
            try:
                logits = self.forward(seq_ids, starts, ids, num_logits)
            finally:
                callback.stop()
            tensor = callback.tensor
            if tensor is not None:
                if tensor.shape[0] != len(seq_ids) or tensor.shape[2] != len(ids[0]):
                    raise RuntimeError(f"llama.cpp shows attention in an unknown shape: {tensor.shape}")
                return logits, tensor
            # Llama.cpp has rebuilt its graph: the tensor has an address that another tensor had before.
            callback.clear()
            for seq_id, start in zip(seq_ids, starts, strict=True):
                self.truncate(seq_id, start)
        raise RuntimeError("llama.cpp does not show the attention of the last layer")

    def attention_map(self, ids: Ints) -> NDArray[np.float32]:
        """Return the last layer's attention weights for a text, computed in the first sequence.

        Returns:
            The weights, shape [heads, queries, keys].

        Raises:
            RuntimeError: Llama.cpp can't compute the text, or does not show the attention weights.
        """
        self.truncate(0, 0)
        rows = []
        for first in range(0, len(ids), PASS_TOKENS):
            _, weights = self.forward_with_attention([0], [first], [ids[first : first + PASS_TOKENS]], [1])
            part = weights[0, :, :, : len(ids)]
            rows.append(np.pad(part, ((0, 0), (0, 0), (0, len(ids) - part.shape[2]))))
        return np.concatenate(rows, axis=1)

    def _fill_batch(self, seq_ids: Ints, starts: Ints, ids: Sequence[Ints], num_logits: Ints) -> None:
        """Write the tokens of a pass into llama.cpp's batch."""
        assert sum(map(len, ids)) <= PASS_TOKENS, "more tokens than a pass takes"
        batch, index = self._batch, 0
        tokens, positions, counts = batch.token, batch.pos, batch.n_seq_id
        sequences, has_logits = batch.seq_id, batch.logits
        for seq_id, start, part, count in zip(seq_ids, starts, ids, num_logits, strict=True):
            first_wanted = start + len(part) - count
            for position, id in enumerate(part, start):
                tokens[index], positions[index], counts[index], sequences[index][0] = id, position, 1, seq_id
                has_logits[index] = position >= first_wanted
                index += 1
        batch.n_tokens = index

    def _decode(self) -> None:
        code = llama.llama_decode(self._pointer, self._batch)
        if code:
            raise RuntimeError(f"llama.cpp broke off with code {code}: {first_error()}")

    def _logits(self, index: int) -> Logits:
        pointer = llama.llama_get_logits_ith(self._pointer, index)
        return np.ctypeslib.as_array(pointer, (self._weights.num_tokens,)).copy()

    def _settings(self, num_sequences: int, sequence_tokens: int, flash_attention: bool) -> Any:
        settings = llama.llama_context_default_params()
        settings.n_ctx, settings.n_seq_max = num_sequences * sequence_tokens, num_sequences
        settings.n_batch = settings.n_ubatch = PASS_TOKENS
        settings.n_outputs_max = settings.n_outputs_max_per_seq = 0  # no limit
        settings.kv_unified = False
        # An encoder computes a text on each thread.
        settings.embeddings = self._weights.is_encoder
        settings.n_threads = settings.n_threads_batch = 1 if settings.embeddings else num_threads()
        if not flash_attention:
            settings.flash_attn_type = FLASH_ATTENTION_OFF
        if self._callback is not None:
            settings.cb_eval = self._callback.address
        return settings


def groups(inputs: Sequence[LlamaInput]) -> Iterator[list[LlamaInput]]:
    """Yield groups of inputs to compute together.

    A group is either several neighbouring sequences with the same small number of tokens, or a single input.
    """
    group = list[LlamaInput]()
    for step_input in sorted(inputs, key=lambda step_input: (len(step_input.ids), step_input.slot.seq_id)):
        if group:
            is_neighbour = step_input.slot.seq_id == group[-1].slot.seq_id + 1
            if not (is_neighbour and len(step_input.ids) == len(group[-1].ids) <= _MAX_BATCHED_TOKENS):
                yield group
                group = []
        group.append(step_input)
    yield group


def is_prefill(step_input: LlamaInput) -> bool:
    """Return whether an input is part of a prompt.

    Every part of a prompt starts at or before the first token whose logits are wanted. Decoding starts after
    that token.
    """
    return step_input.start <= step_input.slot.num_prefix_tokens


def of_two_tokens(step_input: LlamaInput) -> LlamaInput:
    """Return an input, with the previous token prepended if the input has only one token."""
    if len(step_input.ids) > 1 or not step_input.start:
        return step_input
    slot, start = step_input.slot, step_input.start - 1
    return replace(step_input, start=start, ids=(slot.ids[start], *step_input.ids))


def _free(pointer: Any, batch: Any, *kept: Any) -> None:
    llama.llama_free(pointer)
    llama.llama_batch_free(batch)


def num_threads() -> int:
    """Return how many threads compute a pass: OMP_NUM_THREADS, or one per core that this process may use."""
    setting = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min((setting.isdecimal() and int(setting)) or cores, _MAX_THREADS)


_FLOAT32 = 0
"""The value `GGML_TYPE_F32`."""


class TensorCallback(dict[int, bool]):
    """The callback with which llama.cpp asks, a thousand times in each pass, whether a tensor is wanted.

    The answer must be cheap, so the call is a mere dictionary look-up. The keys are the addresses of unwanted
    tensors, for which no Python code runs. A tensor's name is read only if its address is unknown. When
    llama.cpp rebuilds its graph, the wanted tensor may get an address that is stored as unwanted. Then the
    dictionary has to be cleared, and the pass repeated.

    Args:
        remembers: Whether to store unwanted addresses. If they are stored, a pass may have to be repeated.

    Attributes:
        tensor: The tensor read since `start`, or None: shape [sequences, heads, queries, keys].
        address: The address of the function that llama.cpp calls.
    """

    tensor: NDArray[np.float32] | None = None

    def __init__(self, name: str, *, remembers: bool = True) -> None:
        super().__init__()
        self._name, self._remembers = name.encode(), remembers
        self._is_on = self._is_computed = False
        # Only the first of the three arguments, the tensor, is declared: the order of the calls shows whether
        # llama.cpp asks about the tensor or has computed it. The other two stay in their registers.
        self._function = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(self.__getitem__)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value

    def start(self) -> None:
        """Start reading the tensor."""
        self.tensor, self._is_on, self._is_computed = None, True, False

    def stop(self) -> None:
        """Stop reading the tensor."""
        self._is_on = False

    def __missing__(self, address: int) -> bool:
        """Return the answer to llama.cpp for a tensor whose address is not stored.

        The first call asks whether the tensor is wanted. If it is, a second call follows once the tensor is
        computed, and the answer True means that llama.cpp should continue.
        """
        if llama.ggml_get_name(address) != self._name:
            if self._remembers:
                self[address] = False
            return False
        if not self._is_on:
            return False
        if self._is_computed:
            self.tensor = _numbers(address)
        self._is_computed = not self._is_computed
        return True


def _numbers(address: int) -> NDArray[np.float32] | None:
    head = TensorHead.from_address(address)
    keys, queries, heads, num_sequences = head.extents
    if head.type != _FLOAT32:
        return None
    numbers = np.empty((num_sequences, heads, queries, keys), np.float32)
    llama.ggml_backend_tensor_get(address, numbers.ctypes.data, 0, numbers.nbytes)
    return numbers
