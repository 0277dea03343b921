"""The memory of a process: what of the machine it may have, and what it keeps for its next allocations."""

import platform
import subprocess
import sys

import pytest

from askance.models.local.model import free_bytes_of_machine

MACHINE = {"proc/meminfo": "MemTotal: 24000000 kB\nMemFree: 100000 kB\nMemAvailable:    8000000 kB\n"}
NEW = {
    "memory.max": "2000000\n",
    "memory.current": "1500000\n",
    "memory.stat": "anon 7\ninactive_file 300000\n",
}
OLD = {
    "memory/memory.limit_in_bytes": "2000000\n",
    "memory/memory.usage_in_bytes": "1500000\n",
    "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 300000\n",
}


def container(files):
    return MACHINE | {f"sys/fs/cgroup/{name}": text for name, text in files.items()}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 2 * 10**9),
        (MACHINE, 8_000_000 * 1024 // 4),
        (container(NEW), 800_000 // 4),
        (container(OLD), 800_000 // 4),
        (container(NEW | {"memory.max": "max\n"}), 8_000_000 * 1024 // 4),
        (container(OLD | {"memory/memory.limit_in_bytes": f"{2**62}"}), 8_000_000 * 1024 // 4),
    ],
    ids=["a system that does not tell", "a machine", "new", "old", "new, no limit", "old, no limit"],
)
def test_a_quarter_of_what_is_available_to_this_process(tmp_path, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert free_bytes_of_machine(tmp_path) == expected
    assert free_bytes_of_machine() > 0


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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting belongs to glibc")
def test_ten_large_blocks_in_turn_take_the_pages_of_the_first():
    pytest.importorskip("torch")
    faults = int(subprocess.run([sys.executable, "-c", PAGES], check=True, capture_output=True).stdout)
    assert faults < (8 << 23) // 4096
