"""The torch module: what of it can be read, and what computes it for many texts at once."""

import inspect
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate, chain, groupby, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from askance.core.errors import ModelSpecError
from askance.models.hf.attention import ATTENTION_NAME, Group, Pass, Slot, passing
from askance.models.hf.kv_cache import Places, Pool
from askance.models.hf.signals import Row, rows_of
from askance.runtime.backend import Fed, Feed
from askance.runtime.kvcache import PrefixCache


class Passes:
    """The `Backend` of a `Batch` over a module.

    Tokens of several texts stand in one row, without padding: all that a layer does token by token is done
    for all of them together. Only attention knows which token belongs to which text.

    Args:
        module: of transformers.
        watched_layer: whose attention can be wanted.
        bytes_per_token: of keys and values.
        together: whether the module gives each text the same in such a row. If not, it computes one text at a
            time with the cache of transformers, and nothing of a text stays after it.
    """

    budget_tokens = 0

    def __init__(
        self, module: Any, watched_layer: int | None, bytes_per_token: int, *, together: bool
    ) -> None:
        self._module, self._watched_layer, self._device = module, watched_layer, module.device
        self.bytes_per_token, self.num_reserved = bytes_per_token, 0
        self.can_share, self.guessing_tokens = together, 16 if together else 0
        self._pool, self._cache = Pool(), PrefixCache[Places]()
        self._keeps_logits = "logits_to_keep" in inspect.signature(module.forward).parameters

    def reserved_with(self, num_tokens: int) -> int:
        return self.num_reserved + num_tokens

    def num_known(self, ids: Sequence[int]) -> int:
        return self._cache.find(ids)[1] if self.can_share else 0

    def open(self, num_tokens: int, ids: Sequence[int] = (), *, attention: bool = False) -> Slot:
        slot = None
        with suppress(RuntimeError, MemoryError):
            slot = self._opened(num_tokens, ids)
        if slot is None:  # the memory is not there after all, so what is held goes
            self.forget()
            slot = self._opened(num_tokens, ())
        self.num_reserved += num_tokens
        return slot

    def _opened(self, num_tokens: int, ids: Sequence[int]) -> Slot:
        if not self.can_share:
            return Slot(num_tokens)
        block, num_held = self._cache.find(ids)
        self._limit(self.num_reserved + num_tokens)
        places = self._pool.take(num_tokens)
        if block is not None:
            places = places.behind([(block, num_held)])
        return Slot(num_tokens, num_held, places, _ids(places.numbers, self._device))

    def _limit(self, num_reserved: int) -> None:
        self._cache.limit(max(0, self.budget_tokens - num_reserved))

    def keep(self, slot: Slot, ids: Sequence[int]) -> None:
        if slot.places is not None:
            self._cache.add(tuple(ids), slot.places.part(0, len(ids)))

    def close(self, slot: Slot) -> None:
        self.num_reserved -= slot.num_tokens
        slot.places = slot.cache = None
        self._limit(self.num_reserved)

    def forget(self) -> None:
        self._cache.clear()
        self._pool.give_back()

    @torch.inference_mode()
    def forward(self, feeds: Sequence[Feed[Slot]]) -> list[Fed]:
        return self.run(feeds)[0] if self.can_share else [self._alone(feed) for feed in feeds]

    def run(self, feeds: Sequence[Feed[Slot]]) -> tuple[list[Fed], Pass]:
        """What each feed gives, and the pass itself. Attention takes feeds of one length together."""
        order = sorted(range(len(feeds)), key=lambda number: len(feeds[number].ids))
        in_row, groups, first = [feeds[number] for number in order], list[Group](), 0
        for length, alike in groupby(in_row, key=lambda feed: len(feed.ids)):
            together = [*alike]
            groups.append(Group(together, first, self._pool, self._device))
            first += length * len(together)
        this = Pass(self._watched_layer, groups)
        rows = iter(self._rows(in_row, this))
        weights = chain.from_iterable(group.attention() for group in groups)
        found = {
            number: Fed([next(rows) for _ in range(feed.num_logits)], attention)
            for number, feed, attention in zip(order, in_row, weights, strict=True)
        }
        return [found[number] for number in range(len(feeds))], this

    def _rows(self, feeds: Sequence[Feed[Slot]], this: Pass) -> list[Row]:
        """The logits after the last tokens of each feed."""
        ids = [id for feed in feeds for id in feed.ids]
        positions = [at for feed in feeds for at in range(feed.start, feed.start + len(feed.ids))]
        ends = accumulate(len(feed.ids) for feed in feeds)
        kept = [at for feed, end in zip(feeds, ends, strict=True) for at in range(end - feed.num_logits, end)]
        with passing(this):
            output = self._module(
                input_ids=_ids(ids, self._device)[None],
                position_ids=_ids(positions, self._device)[None],
                # With a mask that is there already, transformers makes none; nobody looks at it.
                attention_mask=torch.ones((1, 1, 1, 1), dtype=torch.bool, device=self._device),
                use_cache=False,  # the pool is the cache
                logits_to_keep=_ids(kept, self._device),
            )
        return rows_of(output.logits[0])

    def _alone(self, feed: Feed[Slot]) -> Fed:
        options = {"logits_to_keep": max(1, feed.num_logits)} if self._keeps_logits else {}
        with passing(Pass(self._watched_layer if feed.wants_attention else None)) as this:
            output = self._module(
                input_ids=_ids(feed.ids, self._device)[None],
                past_key_values=feed.slot.cache,
                use_cache=True,
                **options,
            )
        feed.slot.cache = output.past_key_values
        logits = output.logits[0]
        rows = rows_of(logits[len(logits) - feed.num_logits :])
        if this.weights is None:
            return Fed(rows)
        # Tokens that a sliding window has dropped have the weight 0.
        num_dropped = feed.start + len(feed.ids) - this.weights.shape[-1]
        return Fed(rows, (np.pad(this.weights[:, -1].cpu().numpy(), ((0, 0), (num_dropped, 0))),))


def _ids(numbers: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(numbers, dtype=torch.long, device=device)


_TOLERANCE, _COARSE_TOLERANCE = 1e-3, 0.1
"""How far logits of a pass may be from the module's own, as a share of the greatest: more than rounding."""
_BY_LENGTH = ("dynamic", "longrope")
"""Kinds of rotary positions that transformers computes anew when a text grows beyond a length."""


class Network:
    """A causal language model of transformers, in evaluation mode.

    Attributes:
        attention_layer: the last layer whose attention can be read, or None.
        backend: what computes texts: several in one pass, where the module gives the same logits then.

    Raises:
        ModelSpecError: a model without a key-value cache.
    """

    def __init__(self, module: Any, name: str) -> None:
        self.module = module
        self.device: torch.device = module.device
        layers, num_bytes = self._probe(name)
        self.attention_layer = max(layers, default=None)
        self.backend = Passes(module, self.attention_layer, num_bytes, together=True)
        if not self._gives_the_same():
            self.backend = Passes(module, self.attention_layer, num_bytes, together=False)

    @torch.inference_mode()
    def attend(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """The last layer's weights of one pass over `ids` alone: shape [heads, ids, ids]."""
        with passing(Pass(self.attention_layer)) as this:
            self.module(input_ids=_ids(ids, self.device)[None], use_cache=False)
        assert this.weights is not None
        weights: NDArray[np.float32] = this.weights.cpu().numpy()
        return weights

    @torch.inference_mode()
    def _probe(self, name: str) -> tuple[list[int], int]:
        """Feed two tokens: the layers whose attention goes by, and the bytes of one token in the cache."""
        module = self.module
        if module._supports_sdpa or getattr(module.config.get_text_config(), "attn_logit_softcapping", None):
            module.set_attn_implementation(ATTENTION_NAME)
        with passing(Pass()) as this:
            cache = module(input_ids=_ids([0, 0], self.device)[None], use_cache=True).past_key_values
        if cache is None:
            raise ModelSpecError(
                f"model {name!r} keeps no key-value cache, which askance decodes with: "
                "use a transformer model, such as hf:Qwen/Qwen2.5-0.5B-Instruct, or this one as a GGUF "
                "file (gguf:FILE)."
            )
        stores = [getattr(layer, kind, None) for layer in cache.layers for kind in ("keys", "values")]
        num_bytes = sum(store.nbytes for store in stores if store is not None) // 2
        return [layer for layer in this.windows if layer is not None], max(1, num_bytes)

    def _gives_the_same(self) -> bool:
        """Whether passes over several texts give what the module gives for each."""
        windows = self._windows()
        # Where the longest text of a pass moves positions, others would change by it.
        kinds = [str(getattr(part, "rope_type", "")) for part in self.module.modules()]
        if windows is None or any(name in kind for kind in kinds for name in _BY_LENGTH):
            return False
        try:
            return self._is_exact(windows)
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception:  # a module that does not expect such passes may raise anything
            return False

    def _windows(self) -> list[int | None] | None:
        """How many tokens back each layer sees, None for all; None if the configuration does not say."""
        config = self.module.config.get_text_config()
        size = getattr(config, "sliding_window", None) or None
        is_used = size is not None and getattr(config, "use_sliding_window", True)
        kinds = getattr(config, "layer_types", None) or (
            ["sliding_attention" if is_used else "full_attention"] * getattr(config, "num_hidden_layers", 0)
        )
        by_kind = {"full_attention": None, "sliding_attention": size}
        return [by_kind[kind] for kind in kinds] if by_kind.keys() >= {*kinds} else None

    @torch.inference_mode()
    def _is_exact(self, windows: Sequence[int | None]) -> bool:
        """Whether two texts, one of them in pieces, get the logits that each gets alone."""
        texts = [[*range(10)], [*range(9, 2, -1)]]
        slots = [self.backend.open(len(text)) for text in texts]
        for starts, stops in pairwise(((0, 0), (6, 5), (9, 6), (10, 7))):
            feeds = [
                Feed(slot, start, text[start:stop], 1, False)
                for slot, text, start, stop in zip(slots, texts, starts, stops, strict=True)
            ]
            found, this = self.backend.run(feeds)
        for slot in slots:
            self.backend.close(slot)
        self.backend.forget()  # what is made in inference mode can't be changed outside it
        alone = [self.module(input_ids=_ids(text, self.device)[None]).logits[0, -1] for text in texts]
        # A window that reached attention only by the mask, which passes do without, would show late.
        return this.windows == dict(enumerate(windows)) and all(
            self._are_close(fed.logits[-1].logits, expected)
            for fed, expected in zip(found, alone, strict=True)
        )

    def _are_close(self, found: Tensor, expected: Tensor) -> bool:
        tolerance = _TOLERANCE if self.module.dtype.itemsize >= 4 else _COARSE_TOLERANCE
        return bool((found - expected).abs().max() <= tolerance * expected.abs().max())
