"""A C function for one purpose, made at run time: it lets a call through for tensors of one name.

Llama.cpp asks for each of a thousand tensors of a pass whether it is wanted. To answer in Python takes a
thirtieth of the time of a pass of a small model; these twelve instructions take nothing that shows.
"""

import ctypes
import mmap
import platform
import sys
from typing import Any

from askance.models.llama_cpp.library import llama

_SHOWN = 16
"""Bytes of a name that are compared, with the 0 behind it."""


class NameFilter:
    """A callback of llama.cpp that answers no, except for tensors of one name, for which it asks another one.

    Args:
        name: of the tensor, shorter than 16 bytes.
        function: what is called with the tensor, and answers.

    Attributes:
        callback, data: what llama.cpp is given: the function and its last argument.

    Raises:
        OSError: there is none for this processor or system, or none may be made.
    """

    def __init__(self, name: bytes, function: Any) -> None:
        if platform.machine() not in ("x86_64", "AMD64") or sys.platform != "linux" or sys.maxsize < 2**32:
            raise OSError("machine code is known for Linux on x86-64 only")
        if len(name) >= _SHOWN:
            raise OSError(f"the name {name!r} is too long")
        self._function = function  # to be there for as long
        wanted = (name + b"\0").ljust(_SHOWN, b"\0")
        mask = (b"\xff" * (len(name) + 1)).ljust(_SHOWN, b"\0")
        self._data = (ctypes.c_uint64 * 5)(*_words(mask), *_words(wanted), _address(function))
        self._page = mmap.mmap(-1, mmap.PAGESIZE)
        self._page.write(_code(_name_offset()))
        self.callback = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self.data = ctypes.addressof(self._data)
        # A page is for writing or for running, never for both; where that is forbidden, this fails.
        if _mprotect(self.callback, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC):
            raise OSError(ctypes.get_errno(), "no machine code may be made")


def _name_offset() -> int:
    """Where the name lies in a tensor: llama.cpp does no more than to add it."""
    add = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(_address(llama.ggml_get_name))
    return int(add(mmap.PAGESIZE)) - mmap.PAGESIZE


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _mprotect(address: int, size: int, protection: int) -> int:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return int(function(address, size, protection))


def _words(content: bytes) -> tuple[int, int]:
    return int.from_bytes(content[:8], "little"), int.from_bytes(content[8:], "little")


def _code(offset: int) -> bytes:
    """For arguments in rdi (the tensor), esi and rdx (our data); the name lies at an offset in a tensor."""
    first, second = (place.to_bytes(4, "little") for place in (offset, offset + 8))
    return b"".join(
        (
            b"\x48\x8b\x87" + first,  # mov rax, [rdi + offset]
            b"\x48\x23\x02",  # and rax, [rdx]
            b"\x48\x3b\x42\x10",  # cmp rax, [rdx + 16]
            b"\x75\x14",  # jne no
            b"\x48\x8b\x87" + second,  # mov rax, [rdi + offset + 8]
            b"\x48\x23\x42\x08",  # and rax, [rdx + 8]
            b"\x48\x3b\x42\x18",  # cmp rax, [rdx + 24]
            b"\x75\x03",  # jne no
            b"\xff\x62\x20",  # jmp [rdx + 32]
            b"\x31\xc0",  # no: xor eax, eax
            b"\xc3",  # ret
        )
    )
