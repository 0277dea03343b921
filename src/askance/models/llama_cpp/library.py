"""llama.cpp as a library: its functions, and what it says, which is kept from the screen."""

import ctypes
from collections import deque
from pathlib import Path
from typing import Any

import llama_cpp
from llama_cpp._ctypes_extensions import load_shared_library

_ERROR = 4
"""Of `ggml_log_level`."""

_said: deque[str] = deque(maxlen=20)


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _listen(level: int, text: bytes, data: Any) -> None:
    if level == _ERROR:
        _said.append(text.decode("utf-8", "replace").strip())


llama_cpp.llama_log_set(_listen, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()


def forget_errors() -> None:
    """What was said until now is of no interest."""
    _said.clear()


def first_error() -> str:
    """What llama.cpp said first about what went wrong, as a sentence; a general one if it said nothing."""
    said = next((line for line in _said if line), "llama.cpp does not say why")
    function, colon, reason = said.partition(": ")
    return f"{(reason if colon and ' ' not in function else said).rstrip('.')}."


_base = load_shared_library("ggml-base", Path(llama_cpp.__file__).parent / "lib")

name_of = _base.ggml_get_name
"""The name of a tensor."""
name_of.argtypes, name_of.restype = [ctypes.c_void_p], ctypes.c_char_p

read_tensor = _base.ggml_backend_tensor_get
"""Copies numbers of a tensor, wherever it lies: tensor, target, offset and size in bytes."""
read_tensor.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
read_tensor.restype = None


class TensorHead(ctypes.Structure):
    """How a tensor of ggml begins."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("extents", ctypes.c_int64 * 4),
        ("strides", ctypes.c_size_t * 4),
    )
