"""The backend for llama.cpp: continuous batching over the sequences of a context, and the prefix cache.

Each running text (a prompt and the tokens generated so far) has a llama.cpp sequence (`seq_id`), with a
separate part of the KV cache. In a unified cache, every token would have to look through the cells of all
texts. After a text is finished, the sequence still holds it, and a new text with the same prefix can continue
from that prefix. When a different text takes the sequence, the prompt of the old text goes into the prefix
cache.

Llama.cpp sums in a different order for one token than for several, and it computes in 8 bits, which amplifies
even the smallest difference. But a text must get the same logits in any batch, and whether or not parts of
the text are cached. So prompts are always computed at least two tokens at a time, and tokens that were
decoded one by one are not shared with other texts.
"""

from collections.abc import Sequence
from contextlib import suppress
from itertools import count, pairwise

import numpy as np
from numpy.typing import NDArray

from askance.core.types import TokenIds
from askance.inference.backend import StepInput, StepOutput
from askance.inference.prefix_cache import PrefixCache, num_shared
from askance.models.llama_cpp.context import (
    PADDING,
    PASS_TOKENS,
    Context,
    LlamaInput,
    SavedState,
    SequenceSlot,
    groups,
    is_prefill,
    of_two_tokens,
)
from askance.models.llama_cpp.signals import LlamaLogits
from askance.models.llama_cpp.weights import Weights

MAX_RUNNING = 8
"""The greatest number of texts that run at a time. With more, a few cores hardly compute more per second."""
PREFIX_CACHE_TOKENS = 4096
"""The size of the prefix cache in tokens, unless the running texts need the room."""
_GROWTH_TOKENS = 2 * PADDING
"""The capacity of sequences grows to a multiple of this number of tokens, so that a slightly longer text
rarely needs a new context."""
_MIN_SAVED_TOKENS = 16
"""The least number of prompt tokens to save or restore. Computing fewer tokens takes about as long."""
_PREFILL_TOKENS = 128
"""The number of prompt tokens in one pass without flash attention. The attention weights of more tokens would
not fit into the processor's cache."""


SavedPrompt = tuple[TokenIds, SavedState]
"""A prompt with its keys and values."""


class LlamaBackend:
    """The `Backend` over a llama.cpp context that grows with the number and the length of texts.

    The context is created for the first text. When more or longer sequences are needed, a new context takes
    over the running texts. For a moment, both contexts are in memory. If llama.cpp does not save all keys and
    values (see `Weights.can_be_saved`), running texts can't be moved to a new context. Then a new text waits
    for the running texts to finish if it needs a new context, and there is no prefix cache.

    Args:
        budget_tokens: The capacity of all sequences and the prefix cache together, in tokens.
        flash_attention: Whether to use flash attention, which keeps no attention weights.
    """

    def __init__(
        self, weights: Weights, budget_tokens: int, max_sequence_tokens: int, *, flash_attention: bool = False
    ) -> None:
        self._weights, self.budget_tokens, self._flash_attention = weights, budget_tokens, flash_attention
        self._max_sequence_tokens, self._reads_attention = _padded(max_sequence_tokens), False
        # If tokens can't be removed, a pass that failed can't be tried again text by text.
        self.can_batch = weights.can_truncate
        self._sequence_tokens, self._slots, self._clock = 0, list[SequenceSlot](), count(1)
        self._context: Context | None = None
        self._can_save = weights.can_be_saved
        self._has_delayed_text = False
        self._cache: PrefixCache[SavedPrompt] = PrefixCache()

    def reserved_tokens_with(self, num_tokens: int) -> int:
        num_open = sum(slot.is_open for slot in self._slots)
        return (num_open + 1) * self._sequence_tokens_for(num_tokens)

    def num_cached_tokens(self, ids: Sequence[int]) -> int:
        held, _, num_saved = self._cached_prefix(ids)
        return max((num_saved, *held))

    def open(self, num_tokens: int, ids: Sequence[int] = (), *, attention: bool = False) -> SequenceSlot:
        self._reads_attention |= attention
        size, num_open = self._sequence_tokens_for(num_tokens), sum(slot.is_open for slot in self._slots)
        # If nothing can be moved, sequences for all texts have to be created while no text runs.
        num_needed = MAX_RUNNING if self._has_delayed_text and not num_open else num_open + 1
        is_larger = size > self._sequence_tokens or num_needed > len(self._slots)
        if is_larger or self._reads_attention > self._current_context.reads_attention:
            self._make_context(size, num_needed)
        slot = self._take_slot(ids)
        slot.is_open, slot.num_cached_tokens, slot.num_prefix_tokens = True, len(slot.ids), len(ids)
        return slot

    def cache_prefix(self, slot: SequenceSlot, ids: Sequence[int]) -> None:
        """Do nothing, since a sequence holds its text until another text takes the sequence."""

    def close(self, slot: SequenceSlot) -> None:
        slot.is_open, slot.closed_at = False, next(self._clock)

    def clear_cache(self) -> None:
        self._cache.clear()
        for slot in self._slots:
            if not slot.is_open:
                self._truncate(slot, 0)

    def forward(self, inputs: Sequence[LlamaInput]) -> list[StepOutput]:
        if self.can_batch:
            inputs = [of_two_tokens(one) if is_prefill(one) else one for one in inputs]
            self._make_neighbours([one.slot for one in inputs if len(one.ids) == 1 and one.slot.ids])
        outputs = dict[int, StepOutput]()
        for group in groups(inputs):
            for step_input, output in zip(group, self._forward_group(group), strict=True):
                outputs[step_input.slot.seq_id] = output
        return [outputs[step_input.slot.seq_id] for step_input in inputs]

    def _make_neighbours(self, slots: Sequence[SequenceSlot]) -> None:
        """Swap texts with finished ones between them, so that one pass can compute all of them.

        Every pass reads all weights of the model, which takes longer than to copy a text.
        """
        while self._can_save and len(slots) > 1:
            first, *_, last = sorted(slots, key=lambda slot: slot.seq_id)
            between = self._slots[first.seq_id : last.seq_id]
            free = next((slot for slot in between if not slot.is_open), None)
            if free is None:
                return
            self._swap(last, free)

    def _swap(self, text: SequenceSlot, free: SequenceSlot) -> None:
        """Exchange the sequences of a running text and a finished one, whose prompt is cached if possible."""
        context, source, target = self._current_context, text.seq_id, free.seq_id
        self._cache_prompt(free, 0)
        self._truncate(free, 0)
        try:
            context.restore(target, context.save(source))
            context.truncate(source, 0)
            self._slots[target], self._slots[source] = text, free
            text.seq_id, free.seq_id = target, source
        except (RuntimeError, MemoryError):
            context.truncate(target, 0)
            self._can_save = False

    def _forward_group(self, inputs: Sequence[LlamaInput]) -> list[StepOutput]:
        """Compute a group of short inputs in one pass, or a single input in as many passes as it needs."""
        if len(inputs) > 1:
            return self._forward_pass(inputs)
        (whole,) = inputs
        rows, output = list[LlamaLogits](), StepOutput(())
        for first, stop in pairwise(self._chunk_bounds(len(whole.ids))):
            ids, num_after = whole.ids[first:stop], len(whole.ids) - stop
            num_logits = min(len(ids), max(0, whole.num_logits - num_after))
            chunk = StepInput(whole.slot, whole.start + first, ids, num_logits, whole.wants_attention)
            (output,) = self._forward_pass([chunk])
            rows += output.logits
        return [StepOutput(rows, output.attention)]

    def _chunk_bounds(self, num_tokens: int) -> Sequence[int]:
        """Return where to split an input of `num_tokens` tokens into chunks, including its start and end.

        No chunk consists of a single token, unless the whole input does.
        """
        chunk_tokens = PASS_TOKENS if self._flash_attention else _PREFILL_TOKENS
        bounds = [*range(0, num_tokens, chunk_tokens), num_tokens]
        if len(bounds) > 2 and bounds[-1] - bounds[-2] == 1:
            bounds[-2] -= 1
        return bounds

    def _forward_pass(self, inputs: Sequence[LlamaInput]) -> list[StepOutput]:
        for step_input in inputs:
            self._truncate(step_input.slot, step_input.start)
        seq_ids = [step_input.slot.seq_id for step_input in inputs]
        starts, ids = [step_input.start for step_input in inputs], [step_input.ids for step_input in inputs]
        num_logits = [step_input.num_logits for step_input in inputs]
        context = self._current_context
        weights: NDArray[np.float32] | None = None
        try:
            if any(step_input.wants_attention for step_input in inputs):
                logits, weights = context.forward_with_attention(seq_ids, starts, ids, num_logits)
            else:
                logits = context.forward(seq_ids, starts, ids, num_logits)
        except BaseException:
            for step_input in inputs:  # tokens left over from this pass would block a retry
                context.truncate(step_input.slot.seq_id, step_input.start)
            raise
        outputs = list[StepOutput]()
        for index, (step_input, rows) in enumerate(zip(inputs, logits, strict=True)):
            slot, attention = step_input.slot, None
            slot.ids += step_input.ids
            if is_prefill(step_input):
                slot.num_prefilled = len(slot.ids)
            if weights is not None and step_input.wants_attention:
                attention = weights[index, :, -1, : len(slot.ids)]  # cells are in the order of the tokens
            outputs.append(StepOutput(list(map(LlamaLogits, rows)), attention))
        return outputs

    def _truncate(self, slot: SequenceSlot, num_tokens: int) -> None:
        """Keep only the first `num_tokens` tokens of a sequence."""
        assert num_tokens <= len(slot.ids), "a gap"
        if num_tokens < len(slot.ids) or not num_tokens:
            self._current_context.truncate(slot.seq_id, num_tokens)
            del slot.ids[num_tokens:]
            slot.num_prefilled = min(slot.num_prefilled, num_tokens)

    @property
    def _current_context(self) -> Context:
        assert self._context is not None
        return self._context

    def _sequence_tokens_for(self, num_tokens: int) -> int:
        """Return the capacity in tokens to give every sequence, so that any of them can hold `num_tokens`."""
        if num_tokens <= self._sequence_tokens:
            return self._sequence_tokens
        largest = min(self._max_sequence_tokens, self.budget_tokens // PADDING * PADDING)
        return max(_padded(num_tokens), min(-(-num_tokens // _GROWTH_TOKENS) * _GROWTH_TOKENS, largest))

    def _make_context(self, size: int, num_needed: int) -> None:
        """Replace the context with one of another size.

        The prompts of finished texts go into the prefix cache. The old context is freed only once the new one
        exists, so that nothing is lost if memory runs out.

        Args:
            size: The capacity of each sequence in tokens.

        Raises:
            RuntimeError: There is not enough memory, or running texts can't be moved.
        """
        open_slots = [slot for slot in self._slots if slot.is_open]
        if not self._can_save and any(slot.ids for slot in open_slots):
            self._has_delayed_text = self.can_batch  # without batching, texts run one by one in any case
            raise RuntimeError("texts that run can't be moved: the new one waits for them to end")
        num_sequences = num_needed
        if num_needed > len(self._slots) > 0:
            num_sequences = max(num_needed, min(2 * len(self._slots), MAX_RUNNING))
        num_sequences = min(num_sequences, self.budget_tokens // size)
        options = {"reads_attention": self._reads_attention, "flash_attention": self._flash_attention}
        context = Context(self._weights, num_sequences, size, **options)
        self._move(open_slots, context)
        self._cache.limit(min(PREFIX_CACHE_TOKENS, self.budget_tokens - context.num_sequences * size))
        for slot in sorted(self._slots, key=lambda slot: slot.closed_at):
            if not slot.is_open:
                self._cache_prompt(slot, 0)
        # The open sequences keep their order, so that neighbours stay neighbours.
        for seq_id, slot in enumerate(open_slots):
            slot.seq_id = seq_id
        new_slots = [SequenceSlot(seq_id) for seq_id in range(len(open_slots), context.num_sequences)]
        self._context, self._slots, self._sequence_tokens = context, [*open_slots, *new_slots], size
        self._has_delayed_text = False

    def _move(self, slots: Sequence[SequenceSlot], target: Context) -> None:
        """Copy the keys and values of `slots` into the first sequences of a new context."""
        try:
            for seq_id, slot in enumerate(slots):
                if slot.ids:
                    target.restore(seq_id, self._current_context.save(slot.seq_id))
        except RuntimeError:
            self._can_save = False
            self._cache.clear()
            raise

    def _take_slot(self, ids: Sequence[int]) -> SequenceSlot:
        """Choose a free sequence for a text, and fill it with the longest cached prefix of `ids`.

        One pass can compute several texts only if their sequences are neighbours. So only the free sequences
        nearest to an open one are considered. Among them, the sequence that holds most of the prefix is
        chosen, and among equals the least recently used one.
        """
        open_ids = [slot.seq_id for slot in self._slots if slot.is_open]

        def distance(slot: SequenceSlot) -> int:
            return min((abs(slot.seq_id - seq_id) for seq_id in open_ids), default=0)

        free = [slot for slot in self._slots if not slot.is_open]
        least_distance = min(map(distance, free))
        nearest = [slot for slot in free if distance(slot) == least_distance]
        held, saved, num_saved = self._cached_prefix(ids)
        target = max(nearest, key=lambda slot: (held[slot.seq_id], -slot.closed_at))
        source = max(self._slots, key=lambda slot: held[slot.seq_id])
        num_held = held[target.seq_id]
        min_worth_copying = num_held + _MIN_SAVED_TOKENS
        if held[source.seq_id] > num_saved:
            num_saved = held[source.seq_id]
            saved = self._save(source) if num_saved >= min_worth_copying else None
        if saved is None or num_saved < min_worth_copying:
            self._cache_prompt(target, num_held)
        else:
            self._cache_prompt(target, 0)
            num_held = num_saved if self._restore(*saved, target) else 0
        self._truncate(target, num_held)
        return target

    def _cached_prefix(self, ids: Sequence[int]) -> tuple[list[int], SavedPrompt | None, int]:
        """Look for the prefix `ids` in all sequences and in the prefix cache.

        Only prompt tokens are shared. The last token of `ids` is left out, since it will be computed together
        with the token after it.

        Returns:
            The number of prefix tokens that each sequence holds, the best entry of the prefix cache, and the
            number of prefix tokens in that entry.
        """
        if not self.can_batch:
            return [0] * len(self._slots), None, 0
        prefix = ids[: max(0, len(ids) - 1)]
        held = [num_shared(slot.ids[: slot.num_prefilled], prefix) for slot in self._slots]
        return held, *self._cache.find(prefix)

    def _cache_prompt(self, slot: SequenceSlot, num_staying: int) -> None:
        """Put the prompt of a finished text into the prefix cache.

        A prompt is not saved if all but a few of its tokens stay in the sequence or are already cached.

        Args:
            num_staying: The number of tokens that stay in the sequence.
        """
        num_prefilled = slot.num_prefilled
        if not num_staying + _MIN_SAVED_TOKENS <= num_prefilled <= self._cache.max_tokens:
            return
        if num_prefilled >= self._cache.find(slot.ids[:num_prefilled])[1] + _MIN_SAVED_TOKENS:
            self._truncate(slot, num_prefilled)
            saved = self._save(slot)
            if saved is not None:
                self._cache.add(saved[0], saved)

    def _save(self, slot: SequenceSlot) -> SavedPrompt | None:
        """Return a copy of a sequence's tokens, keys and values, or None if they can't be saved."""
        if self._can_save:
            with suppress(RuntimeError, MemoryError):
                return (*slot.ids,), self._current_context.save(slot.seq_id)
        return None

    def _restore(self, ids: TokenIds, state: SavedState, target: SequenceSlot) -> bool:
        """Copy a saved prompt into a sequence, and return whether that succeeded.

        If the copy fails, the sequence is empty afterwards, and the prompt leaves the prefix cache.
        """
        self._truncate(target, 0)
        try:
            self._current_context.restore(target.seq_id, state)
        except (RuntimeError, MemoryError):  # not movable to this number of sequences
            self._cache.drop(ids)
            self._current_context.truncate(target.seq_id, 0)
            return False
        target.ids, target.num_prefilled = [*ids], len(ids)
        return True


def _padded(num_tokens: int) -> int:
    return -(-num_tokens // PADDING) * PADDING
