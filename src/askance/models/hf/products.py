"""Products with weights, each in the form that this machine's library multiplies it in most quickly.

On a CPU the same product may take three times as long in one form as in another, and which one it is depends
on the processor, the shape and the number of tokens: so the forms are tried when they are first met. They
round differently in the last digits, as products of other numbers of tokens do anyway.

Where there is memory for them twice, weights may be packed: in the order in which oneDNN reads them.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Callable
from functools import cached_property, partial

import torch
from torch import Tensor
from torch.nn.functional import pad

from askance.models.hf.threads import computes_alone

Form = Callable[[Tensor, Tensor], Tensor]
"""Tokens by inputs, outputs by inputs: tokens by outputs."""


def _weights_behind(x: Tensor, weight: Tensor) -> Tensor:
    return torch.mm(x, weight.t())


def _weights_in_front(x: Tensor, weight: Tensor) -> Tensor:
    return torch.mm(weight, _in_eights(x).t())[:, : len(x)].t()


def _weights_in_front_of_copied(x: Tensor, weight: Tensor) -> Tensor:
    return torch.mm(weight, _in_eights(x).t().contiguous())[:, : len(x)].t()


def _in_eights(x: Tensor) -> Tensor:
    # Sixteen tokens may take half as long as ten: what is left over is not multiplied by whole registers.
    num_more = -len(x) % 8 if len(x) > 8 else 0
    return pad(x, (0, 0, 0, num_more)) if num_more else x


def _weights_in_front_of_two(x: Tensor, weight: Tensor) -> Tensor:
    # Of one token, as if there were two: matrix times matrix may read the weights faster than times vector.
    return torch.mm(weight, x.repeat(2, 1).t())[:, :1].t()


def _weights_packed(x: Tensor, weight: Tensor) -> Tensor:
    """With `weight` as `Product.packed` has it."""
    # It has no public name: torch's compiler calls it, and `_packed_is_right` sees whether it is there.
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
    return found


FORMS: tuple[Form, ...] = (_weights_behind, _weights_in_front, _weights_in_front_of_copied)
FORMS_OF_ONE: tuple[Form, ...] = (_weights_behind, _weights_in_front_of_two)
TRIED_TOKENS = (1, 4, 8, 16, 64)
"""A pass of so many tokens or fewer, and more than the number before, takes the form found for it; a longer
one that of the last. Between neighbours stands what differs: a form as quick as any with 16 tokens may take
twice as long as others with 8."""
_TRIALS = 2
_OTHER_NUMBERS = 2**23
"""Read before each trial: in a pass, all other weights come between one product and the next of its kind."""
_MOST_OPERATIONS = 2**29
"""Multiplications of a trial; larger ones would take long, and have the form found for fewer tokens."""
_LEAST_WEIGHTS = 2**16
"""Of smaller weights no form is worth looking for."""
_WORTH_PACKING = 1.25
"""Packed weights may take so many times as long in a trial: it is for the most tokens of a kind, and they are
slower with those only, if at all."""
_CLOSE = 1000
"""Roundings of the greatest number, by which forms may differ."""


class Product:
    """A linear layer.

    Args:
        weight: shape [outputs, inputs]; it must not change from here on.
        packs: whether the weights may be held a second time, packed.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, *, packs: bool = False) -> None:
        self.weight, self.bias, self.packs = weight, bias, packs

    def __call__(self, x: Tensor) -> Tensor:
        """Shape [tokens, inputs] to [tokens, outputs]."""
        found = self.by(form_for(len(x), self), x)
        return found if self.bias is None else found + self.bias

    def by(self, form: Form, x: Tensor) -> Tensor:
        """In a form, without the bias."""
        if form is not _weights_packed:
            return form(x, self.weight)
        # Where packing came to nothing, after all: there was no memory.
        return _weights_behind(x, self.weight) if self.packed is None else form(x, self.packed)

    @cached_property
    def packed(self) -> Tensor | None:
        """The weights as oneDNN reads them; None where they may not be packed, or can't."""
        if not self.packs:
            return None
        try:
            found: Tensor = torch.ops.mkldnn._reorder_linear_weight(self.weight, None)
        except (AttributeError, RuntimeError):
            return None
        return found


def form_for(num_tokens: int, product: Product) -> Form:
    """The quickest form of a product of `num_tokens`, as far as it was tried."""
    weight = product.weight
    if weight.numel() < _LEAST_WEIGHTS or weight.device.type != "cpu" or computes_alone():
        return _weights_behind
    place = min(bisect_left(TRIED_TOKENS, num_tokens), len(TRIED_TOKENS) - 1)
    while place > 1 and TRIED_TOKENS[place] * weight.numel() > _MOST_OPERATIONS:
        place -= 1
    # With another number of threads another form may be the quickest.
    kind = (TRIED_TOKENS[place], *weight.shape, weight.dtype, product.packs, torch.get_num_threads())
    if kind not in _quickest:
        _quickest[kind] = _tried(TRIED_TOKENS[place], product)
    return _quickest[kind]


_quickest: dict[tuple[object, ...], Form] = {}


@torch.inference_mode()
def _tried(num_tokens: int, product: Product) -> Form:
    weight = product.weight
    x = torch.linspace(-1, 1, num_tokens * weight.shape[1], dtype=weight.dtype).view(num_tokens, -1)
    others = torch.ones(_OTHER_NUMBERS)
    forms = FORMS_OF_ONE if num_tokens == 1 else FORMS
    if _packed_is_right(product, x):
        forms = (*forms, _weights_packed)
    trials = [(form, _seconds(partial(product.by, form, x), others)) for form in forms * _TRIALS]
    quickest = {form: min(seconds for tried, seconds in trials if tried is form) for form in forms}
    found = min(quickest, key=quickest.__getitem__)
    as_good = quickest.get(_weights_packed, math.inf) <= _WORTH_PACKING * quickest[found]
    return _weights_packed if as_good else found


def _packed_is_right(product: Product, x: Tensor) -> bool:
    """Whether packed weights give what weights give."""
    if product.packed is None:
        return False
    try:
        found = _weights_packed(x, product.packed)
    except (AttributeError, RuntimeError):  # another torch, or numbers that oneDNN does not multiply here
        return False
    expected = _weights_behind(x, product.weight)
    close = _CLOSE * torch.finfo(x.dtype).eps * expected.abs().max()
    return bool((found - expected).abs().max() <= close)


def _seconds(work: Callable[[], Tensor], others: Tensor) -> float:
    others.sum()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
