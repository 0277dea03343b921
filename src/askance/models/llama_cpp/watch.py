"""Reads one tensor out of llama.cpp while it computes: the attention weights of the last layer."""

import ctypes

import numpy as np
from numpy.typing import NDArray

from askance.models.llama_cpp.declarations import TensorHead
from askance.models.llama_cpp.library import llama

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
