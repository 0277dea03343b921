"""The torch module: what can be read of it, how it computes many texts at once, and its rows of logits."""

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from askance.core.errors import ModelSpecError
from askance.core.types import Sampling
from askance.inference.backend import StepInput, StepOutput
from askance.inference.decoding import LEAST_LOGPROB
from askance.inference.prefix_cache import PrefixCache
from askance.models.hf.attention import ATTENTION_NAME, Group, Pass, Places, Pool, TorchSlot, passing

_TOLERANCE, _COARSE_TOLERANCE = 1e-3, 0.1
"""How far logits of a pass may be from the module's own, as a share of the greatest: more than rounding."""
_BY_LENGTH = ("dynamic", "longrope")
"""Kinds of rotary positions that transformers computes anew when a text grows beyond a length."""


class Network:
    """A causal language model of transformers, in evaluation mode: the `Backend` of a `Batch`.

    Tokens of several texts stand in one row, without padding: all that a layer does token by token is done
    for all of them together. Only attention knows which token belongs to which text. Where a module does not
    give each text the same in such a row, it computes one text at a time with the cache of transformers, and
    nothing of a text stays after it.

    Args:
        together: whether to try to compute texts in one row.

    Attributes:
        attention_layer: the last layer whose attention can be read, or None.

    Raises:
        ModelSpecError: a model without a key-value cache.
    """

    budget_tokens = 0

    def __init__(self, module: Any, name: str, *, together: bool = True) -> None:
        self.module = module
        self.device: torch.device = module.device
        self._keeps_logits = "logits_to_keep" in inspect.signature(module.forward).parameters
        windows, self.bytes_per_token = self._probe(name)
        self.attention_layer = max((layer for layer in windows if layer is not None), default=None)
        self.num_reserved, self._pool, self._cache = 0, Pool(self.device), PrefixCache[Places]()
        self.can_share = together
        self.can_share = together and self._gives_the_same(windows)
        self.guessing_tokens = 16 if self.can_share else 0
        # The pool of the trial goes: what is made in inference mode can't be changed outside it.
        self.num_reserved, self._pool = 0, Pool(self.device)

    def reserved_with(self, num_tokens: int) -> int:
        return self.num_reserved + num_tokens

    def num_known(self, ids: Sequence[int]) -> int:
        return self._cache.find(ids)[1] if self.can_share else 0

    def open(self, num_tokens: int, ids: Sequence[int] = (), *, attention: bool = False) -> TorchSlot:
        slot = None
        with suppress(RuntimeError, MemoryError):
            slot = self._opened(num_tokens, ids)
        if slot is None:  # the memory is not there after all, so what is held goes
            self.forget()
            slot = self._opened(num_tokens, ())
        self.num_reserved += num_tokens
        return slot

    def _opened(self, num_tokens: int, ids: Sequence[int]) -> TorchSlot:
        if not self.can_share:
            return TorchSlot(num_tokens)
        block, num_held = self._cache.find(ids)
        self._limit(self.num_reserved + num_tokens)
        places = self._pool.take(num_tokens)
        if block is not None:
            places = places.behind([(block, num_held)])
        return TorchSlot(num_tokens, num_held, places)

    def _limit(self, num_reserved: int) -> None:
        self._cache.limit(max(0, self.budget_tokens - num_reserved))

    def keep(self, slot: TorchSlot, ids: Sequence[int]) -> None:
        if slot.places is not None:
            self._cache.add(tuple(ids), slot.places.part(0, len(ids)))

    def close(self, slot: TorchSlot) -> None:
        self.num_reserved -= slot.num_tokens
        slot.places = slot.cache = None
        self._limit(self.num_reserved)

    def forget(self) -> None:
        self._cache.clear()
        self._pool.give_back()

    @torch.inference_mode()
    def forward(self, feeds: Sequence[StepInput[TorchSlot]]) -> list[StepOutput]:
        return self._together(feeds) if self.can_share else [self._alone(feed) for feed in feeds]

    @torch.inference_mode()
    def attend(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """The last layer's weights of one pass over `ids` alone: shape [heads, ids, ids]."""
        with passing(Pass(self.attention_layer)) as this:
            self.module(input_ids=self._row(ids), use_cache=False)
        assert this.weights is not None
        weights: NDArray[np.float32] = this.weights.cpu().numpy()
        return weights

    def _together(self, feeds: Sequence[StepInput[TorchSlot]]) -> list[StepOutput]:
        """What each feed gives. Attention takes feeds of one length together."""
        in_row, groups, first = sorted(feeds, key=lambda feed: len(feed.ids)), list[Group](), 0
        for length, alike in groupby(in_row, key=lambda feed: len(feed.ids)):
            as_long = [*alike]
            groups.append(Group(as_long, first, self._pool, self.device))
            first += length * len(as_long)
        ids, positions, kept = list[int](), list[int](), list[int]()
        for feed in in_row:
            ids += feed.ids
            positions += range(feed.start, feed.start + len(feed.ids))
            kept += range(len(ids) - feed.num_logits, len(ids))
        with passing(Pass(self.attention_layer, groups)):
            output = self.module(
                input_ids=self._row(ids),
                position_ids=self._row(positions),
                # With a mask that is there already, transformers makes none; nobody looks at it.
                attention_mask=torch.ones((1, 1, 1, 1), dtype=torch.bool, device=self.device),
                use_cache=False,  # the pool is the cache
                logits_to_keep=self._row(kept)[0],
            )
        rows = iter(rows_of(output.logits[0]))
        weights = chain.from_iterable(group.attention() for group in groups)
        found = {
            id(feed): StepOutput([next(rows) for _ in range(feed.num_logits)], attention)
            for feed, attention in zip(in_row, weights, strict=True)
        }
        return [found[id(feed)] for feed in feeds]

    def _alone(self, feed: StepInput[TorchSlot]) -> StepOutput:
        options = {"logits_to_keep": max(1, feed.num_logits)} if self._keeps_logits else {}
        with passing(Pass(self.attention_layer if feed.wants_attention else None)) as this:
            output = self.module(
                input_ids=self._row(feed.ids), past_key_values=feed.slot.cache, use_cache=True, **options
            )
        feed.slot.cache = output.past_key_values
        logits = output.logits[0]
        rows = rows_of(logits[len(logits) - feed.num_logits :])
        if this.weights is None:
            return StepOutput(rows)
        # Tokens that a sliding window has dropped have the weight 0.
        num_dropped = feed.start + len(feed.ids) - this.weights.shape[-1]
        return StepOutput(rows, (np.pad(this.weights[:, -1].cpu().numpy(), ((0, 0), (num_dropped, 0))),))

    def _row(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor([numbers], dtype=torch.long, device=self.device)

    @torch.inference_mode()
    def _probe(self, name: str) -> tuple[Mapping[int | None, int | None], int]:
        """Feed two tokens: the windows of the layers whose attention goes by, and the bytes of one token in
        the cache.
        """
        module = self.module
        if module._supports_sdpa or getattr(module.config.get_text_config(), "attn_logit_softcapping", None):
            module.set_attn_implementation(ATTENTION_NAME)
        with passing(Pass()) as this:
            cache = module(input_ids=self._row((0, 0)), use_cache=True).past_key_values
        if cache is None:
            raise ModelSpecError(
                f"model {name!r} keeps no key-value cache, which askance decodes with: "
                "use a transformer model, such as hf:Qwen/Qwen2.5-0.5B-Instruct, or this one as a GGUF "
                "file (gguf:FILE)."
            )
        stores = [getattr(layer, kind, None) for layer in cache.layers for kind in ("keys", "values")]
        return this.windows, max(1, sum(store.nbytes for store in stores if store is not None) // 2)

    def _gives_the_same(self, told: Mapping[int | None, int | None]) -> bool:
        """Whether passes over several texts give what the module gives for each.

        Args:
            told: the windows that layers told. One that reached attention only by the mask, which passes do
                without, would show late.
        """
        # Where the longest text of a pass moves positions, others would change by it.
        kinds = [str(getattr(part, "rope_type", "")) for part in self.module.modules()]
        if told != self._windows() or any(name in kind for kind in kinds for name in _BY_LENGTH):
            return False
        try:
            return self._is_exact()
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception:  # a module that does not expect such passes may raise anything
            return False

    def _windows(self) -> dict[int | None, int | None]:
        """How many tokens back each layer sees by the configuration: None for all, 0 where it is unclear."""
        config = self.module.config.get_text_config()
        size = getattr(config, "sliding_window", None) or None
        by_kind = {"full_attention": None, "sliding_attention": size}
        kind = "sliding_attention" if getattr(config, "use_sliding_window", True) else "full_attention"
        kinds = getattr(config, "layer_types", None) or [kind] * getattr(config, "num_hidden_layers", 0)
        return {layer: by_kind.get(kind, 0) for layer, kind in enumerate(kinds)}

    @torch.inference_mode()
    def _is_exact(self) -> bool:
        """Whether two texts, one of them in pieces, get the logits that each gets alone."""
        texts = [[*range(10)], [*range(9, 2, -1)]]
        slots = [self.open(len(text)) for text in texts]
        for starts, stops in pairwise(((0, 0), (6, 5), (9, 6), (10, 7))):
            feeds = [
                StepInput(slot, start, text[start:stop], 1, False)
                for slot, text, start, stop in zip(slots, texts, starts, stops, strict=True)
            ]
            found = self._together(feeds)
        tolerance = _TOLERANCE if self.module.dtype.itemsize >= 4 else _COARSE_TOLERANCE
        for fed, text in zip(found, texts, strict=True):
            alone = self.module(input_ids=self._row(text)).logits[0, -1]
            if not (fed.logits[-1].logits - alone).abs().max() <= tolerance * alone.abs().max():
                return False
        return True


@dataclass(frozen=True, slots=True)
class TorchLogits:
    """The logits after one token, shape [vocabulary], before temperature and masks: a `TorchLogits` of
    `decode`.

    Attributes:
        best: the greatest logit and its id.
        entropy: over the whole vocabulary (nats).
        total: the logarithm of the sum of the exponentials of all logits.
    """

    logits: Tensor
    best: tuple[float, int]
    entropy: float
    total: float

    def logprob(self, id: int) -> float:
        """The log-probability of one token (nats)."""
        return self.logits[id].item() - self.total

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """The most probable ids with their log-probabilities, best first."""
        values, ids = self.logits.topk(min(count, len(self.logits)))
        return tuple(zip(ids.tolist(), (values.float() - self.total).tolist(), strict=True))

    def probabilities(self, sampling: Sampling) -> NDArray[np.float64]:
        """The probabilities after temperature, top-k and top-p, in this order: others are 0."""
        scaled = self.logits.double() / sampling.temperature
        kept = torch.arange(len(scaled), device=scaled.device)
        if 0 < sampling.top_k < len(scaled):
            # As many as that, also where more are equal: in a coarse precision many are.
            kept = scaled.topk(sampling.top_k).indices.sort().values
        found = torch.zeros_like(scaled)
        found[kept] = torch.softmax(scaled[kept], dim=-1)
        if sampling.top_p < 1:
            # These are a few tokens, as a rule: to sort the whole vocabulary would take most of the time.
            ordered, places = found[kept].sort(descending=True, stable=True)
            # A token is kept while those before it have not yet reached top_p, so the first always is.
            beyond = ordered.cumsum(dim=-1) - ordered >= sampling.top_p
            found[kept[places[beyond]]] = 0
        probabilities: NDArray[np.float64] = found.cpu().numpy()
        return probabilities


def rows_of(logits: Tensor) -> list[TorchLogits]:
    """The rows of `logits`, shape [rows, vocabulary]; what is fetched of them is fetched for all at once."""
    values, ids = logits.max(dim=-1)
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    # Where a probability is 0 its logarithm is -inf, and their product has to be 0.
    entropies = -(logprobs.exp() * logprobs.clamp(min=LEAST_LOGPROB)).sum(dim=-1)
    totals = logits.float().logsumexp(dim=-1)
    best = zip(values.tolist(), ids.tolist(), strict=True)
    return list(map(TorchLogits, logits, best, entropies.tolist(), totals.tolist()))
