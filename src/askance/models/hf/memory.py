"""The setting of the C library's memory allocator for computing with torch on a CPU."""

import ctypes
import platform

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""The numbers of two parameters of glibc's mallopt."""
_KEPT_BYTES = 1 << 30


def keep_freed_memory() -> None:
    """Let this process keep up to 1 GiB of freed memory for its next allocations.

    By default, glibc returns large freed blocks to the system at once. torch allocates new memory for the
    activations of every layer, so with many rows in a batch the process would spend up to half of its time in
    page faults. Other C libraries are left as they are.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
