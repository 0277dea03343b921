"""Passes over several texts at once.

Their tokens stand in one row, without padding: all that a layer does token by token is done for all of them
together. Only attention knows which token belongs to which text: new keys and values go into each text's
slot, and each token attends to its own slot alone.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from askance.models.hf.parts import MOST_TOGETHER, Layer, Part, Reading, Weights, Writing
from askance.models.hf.signals import rows_of
from askance.models.hf.slots import Block, KeyShape, Slab, Slot, Slots
from askance.models.hf.threads import settle_team
from askance.runtime.backend import Fed, Feed


@dataclass(slots=True, eq=False)
class Pass:
    """What attention has to know of a pass: its parts, and in which layer weights are wanted.

    Attributes:
        weights: of tokens of feeds, by the feed's number and the token's place in it: shape [heads, tokens].
        windows: the sliding windows that the model told, by layer.
    """

    parts: list[Part]
    watched_layer: int | None
    weights: Weights = field(default_factory=dict)
    windows: dict[int, int | None] = field(default_factory=dict)

    def attend(self, layer: Layer) -> Tensor:
        """Attention of one layer for all tokens: shape [tokens, heads, size of a value]."""
        self.windows[layer.index] = layer.window
        output = layer.query.new_empty((*layer.query.shape[:2], layer.value.shape[-1]))
        weights = self.weights if layer.index == self.watched_layer else None
        for part in self.parts:
            part.attend(layer, output, weights)
        return output


def attend_in_pass(
    index: int, query: Tensor, key: Tensor, value: Tensor, options: dict[str, Any]
) -> Tensor | None:
    """What transformers wants of attention in one layer, shape [1, tokens, heads, size]; None without a pass.

    Shapes: query [1, heads, tokens, size]; key and value [1, key-value heads, tokens, size].
    """
    this = _active_pass.get()
    if this is None:
        return None
    unknown = [name for name in ("softcap", "s_aux", "position_bias") if options.get(name) is not None]
    if unknown:
        # Met when a model is tried at loading: one that wants such attention is computed text by text.
        raise NotImplementedError(f"attention with {', '.join(unknown)}")
    scaling, window = options.get("scaling"), options.get("sliding_window")
    query, key, value = (each[0].transpose(0, 1) for each in (query, key, value))
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    return this.attend(Layer(index, query, key, value, scaling, window))[None]


_active_pass: ContextVar[Pass | None] = ContextVar("active_pass", default=None)
"""The pass that runs in this thread."""


@contextmanager
def _running(this: Pass) -> Iterator[None]:
    token = _active_pass.set(this)
    try:
        yield
    finally:
        _active_pass.reset(token)


class _Through(Cache):  # type: ignore[misc]
    """Stands where transformers keeps keys and values: it keeps none, since attention does."""

    def __init__(self) -> None:
        super().__init__(layers=[])

    def update(self, key_states: Tensor, value_states: Tensor, *others: Any, **options: Any) -> Any:
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0


class Passes:
    """The `Backend` of a `Batch` over a module whose attention goes through `attend_in_pass`.

    Args:
        module: of transformers, with logits for the tokens that its option `logits_to_keep` names.
        watched_layer: whose attention can be wanted.
        shapes: of keys and values, by layer.
    """

    can_restore = can_go_back = True
    can_share = False
    max_feeds = 1_000_000
    guessing_tokens = 16

    def __init__(self, module: Any, watched_layer: int | None, shapes: Sequence[KeyShape]) -> None:
        self._module, self._watched_layer, self._device = module, watched_layer, module.device
        self._slots = Slots(shapes, module.device, module.dtype)
        # With a mask that is there already, transformers makes none; nobody looks at it.
        self._mask = torch.ones((1, 1, 1, 1), dtype=torch.bool, device=module.device)

    @property
    def bytes_per_token(self) -> int:
        return self._slots.bytes_per_token

    @property
    def num_reserved(self) -> int:
        return self._slots.num_reserved

    def reserved_with(self, num_tokens: int) -> int:
        return self._slots.reserved_with(num_tokens)

    def num_known(self, ids: Sequence[int]) -> int:
        return 0

    def open(self, num_tokens: int, ids: Sequence[int] = ()) -> Slot:
        return self._slots.open(num_tokens)

    def num_held(self, slot: Slot) -> int:
        return 0

    def close(self, slot: Slot) -> None:
        self._slots.close(slot)

    def give_back(self) -> None:
        self._slots.give_back()

    def restore(self, slot: Slot, blocks: Sequence[tuple[Block, int]]) -> None:
        slot.slab.restore(slot, blocks)

    def save(self, slot: Slot, start: int, stop: int) -> Block:
        return slot.slab.save(slot, start, stop)

    def forward(self, feeds: Sequence[Feed[Slot]]) -> list[Fed]:
        return self.run(feeds)[0]

    @torch.inference_mode()
    def run(self, feeds: Sequence[Feed[Slot]]) -> tuple[list[Fed], Pass]:
        """What each feed gives, and the pass itself."""
        settle_team()
        ids = [id for feed in feeds for id in feed.ids]
        positions = [at for feed in feeds for at in range(feed.start, feed.start + len(feed.ids))]
        parts, kept = self._parts(feeds)
        this = Pass(parts, self._watched_layer)
        rows = rows_of(self._logits(ids, positions, kept, this))
        fed, first = [], 0
        for number, feed in enumerate(feeds):
            wanted = range(len(feed.ids) - feed.num_logits, len(feed.ids)) if feed.wants_attention else ()
            attention = [this.weights[number, offset].cpu().numpy() for offset in wanted]
            fed.append(Fed(rows[first : first + feed.num_logits], attention))
            first += feed.num_logits
        return fed, this

    def _logits(
        self, ids: Sequence[int], positions: Sequence[int], kept: Sequence[int], this: Pass
    ) -> Tensor:
        """After the tokens in the places `kept` of the row: shape [kept, vocabulary]."""
        with _running(this):
            output = self._module(
                input_ids=self._tensor(ids)[None],
                position_ids=self._tensor(positions)[None],
                attention_mask=self._mask,
                past_key_values=_Through(),
                use_cache=True,
                logits_to_keep=self._tensor(kept),
            )
        logits: Tensor = output.logits[0]
        return logits

    def _tensor(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self._device)

    def _parts(self, feeds: Sequence[Feed[Slot]]) -> tuple[list[Part], list[int]]:
        """Parts for all feeds, and the places after which logits are wanted."""
        parts, kept, place = list[Part](), list[int](), 0
        short: dict[Slab, list[tuple[int, int, Feed[Slot]]]] = {}
        for number, feed in enumerate(feeds):
            stop = place + len(feed.ids)
            kept += range(stop - feed.num_logits, stop)
            if len(feed.ids) <= MOST_TOGETHER:
                short.setdefault(feed.slot.slab, []).append((number, place, feed))
            else:
                parts.append(Reading(feed, place, self._device))
            place = stop
        parts += [Writing(together, self._device) for together in short.values()]
        return parts, kept
