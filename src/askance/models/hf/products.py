"""Products with weights, each in the form that this machine's library multiplies it in most quickly.

On a CPU the same product may take three times as long in one form as in another, and which one it is depends
on the processor, the shape and the number of tokens: so the forms are tried when they are first met. They
round differently in the last digits, as products of other numbers of tokens do anyway.
"""

import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

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


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A linear layer; `weight` has the shape [outputs, inputs]."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        """Shape [tokens, inputs] to [tokens, outputs]."""
        found = form_for(len(x), self.weight)(x, self.weight)
        return found if self.bias is None else found + self.bias


def form_for(num_tokens: int, weight: Tensor) -> Form:
    """The quickest form of a product of `num_tokens`, as far as it was tried."""
    if weight.numel() < _LEAST_WEIGHTS or weight.device.type != "cpu" or computes_alone():
        return _weights_behind
    place = min(bisect_left(TRIED_TOKENS, num_tokens), len(TRIED_TOKENS) - 1)
    while place > 1 and TRIED_TOKENS[place] * weight.numel() > _MOST_OPERATIONS:
        place -= 1
    # With another number of threads another form may be the quickest.
    kind = (TRIED_TOKENS[place], *weight.shape, weight.dtype, torch.get_num_threads())
    if kind not in _quickest:
        _quickest[kind] = _tried(TRIED_TOKENS[place], weight)
    return _quickest[kind]


_quickest: dict[tuple[object, ...], Form] = {}


@torch.inference_mode()
def _tried(num_tokens: int, weight: Tensor) -> Form:
    x, others = torch.ones(num_tokens, weight.shape[1], dtype=weight.dtype), torch.ones(_OTHER_NUMBERS)
    forms = FORMS_OF_ONE if num_tokens == 1 else FORMS
    trials = [(form, _seconds(partial(form, x, weight), others)) for form in forms * _TRIALS]
    return min(forms, key=lambda form: min(seconds for tried, seconds in trials if tried is form))


def _seconds(work: Callable[[], Tensor], others: Tensor) -> float:
    others.sum()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
