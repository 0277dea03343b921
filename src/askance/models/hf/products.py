"""Products with weights, each in a form that libraries for CPUs multiply quickly.

Forms round differently in the last digits. Which one a product takes depends on the weights and on the number
of tokens, and on nothing else: if the quickest one were found by trying, or if packing depended on the memory
that happens to be free, the same text would get other numbers in the next run.
"""

from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import linear, pad

MOST_PACKED_BYTES = 2**30
"""Weights of a model that are held a second time, packed: 1 GiB, which the bundled model is half of."""
_TOKENS_BEHIND = 8
"""With so many tokens and more, the weights stand in front: it takes two thirds of the time of the other way
with 12 tokens and the same time with 64. With fewer tokens it may take twice as long."""
_LEAST_WEIGHTS = 2**16
"""Of smaller weights every form is as quick as any."""
_PROBED_TOKENS = 4
_CLOSE = 1000
"""Roundings of the greatest number, by which packed weights may differ from plain ones."""


class Product:
    """A linear layer.

    Args:
        weight: shape [outputs, inputs]; it must not change from here on.
        packs: whether the weights are held a second time, packed.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, *, packs: bool = False) -> None:
        self.weight, self.bias, self.packs = weight, bias, packs

    def __call__(self, x: Tensor) -> Tensor:
        """Shape [tokens, inputs] to [tokens, outputs]."""
        found = self._without_bias(x)
        return found if self.bias is None else found + self.bias

    @cached_property
    def packed(self) -> Tensor | None:
        """The weights as oneDNN reads them; None where they are not to be packed, or can't be."""
        if not self.packs or self.weight.dtype != torch.float32 or _is_small_or_elsewhere(self.weight):
            return None
        try:
            found: Tensor = torch.ops.mkldnn._reorder_linear_weight(self.weight, None)
            return found if _is_right(found, self.weight) else None
        except (AttributeError, RuntimeError):  # another torch, or no memory
            return None

    def _without_bias(self, x: Tensor) -> Tensor:
        if self.packed is not None:
            return _by_packed(x, self.packed)
        if len(x) < _TOKENS_BEHIND or _is_small_or_elsewhere(self.weight):
            return linear(x, self.weight)
        return weights_in_front(x, self.weight)


def weights_in_front(x: Tensor, weight: Tensor) -> Tensor:
    """Shape [tokens, inputs] and [outputs, inputs] to [tokens, outputs]."""
    # Sixteen tokens may take half as long as ten: tokens are filled up to whole registers.
    num_more = -len(x) % 8
    filled = pad(x, (0, 0, 0, num_more)) if num_more else x
    return torch.mm(weight, filled.t())[:, : len(x)].t()


def _is_small_or_elsewhere(weight: Tensor) -> bool:
    return weight.numel() < _LEAST_WEIGHTS or weight.device.type != "cpu"


def _by_packed(x: Tensor, packed: Tensor) -> Tensor:
    # It has no public name: torch's compiler calls it, and `_is_right` sees whether it is there.
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")
    return found


@torch.inference_mode()
def _is_right(packed: Tensor, weight: Tensor) -> bool:
    """Whether packed weights give what the weights give."""
    x = torch.linspace(-1, 1, _PROBED_TOKENS * weight.shape[1]).view(_PROBED_TOKENS, -1)
    expected = linear(x, weight)
    close = _CLOSE * torch.finfo(x.dtype).eps * expected.abs().max()
    return bool((_by_packed(x, packed) - expected).abs().max() <= close)
