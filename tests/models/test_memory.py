"""The memory allocator keeps large freed blocks of a process for its next allocations."""

import platform
import subprocess
import sys

import pytest

PAGES = """
import resource
import numpy as np
from askance.models.hf.load import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

keep_freed_memory()
np.ones(1 << 23)
before = faults()
for _ in range(10):
    np.ones(1 << 23)
print(faults() - before)
"""
BLOCK_PAGES = (8 << 23) // 4096


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting belongs to glibc")
def test_ten_large_blocks_in_turn_take_the_pages_of_the_first() -> None:
    faults = int(subprocess.run([sys.executable, "-c", PAGES], check=True, capture_output=True).stdout)
    assert faults < BLOCK_PAGES
