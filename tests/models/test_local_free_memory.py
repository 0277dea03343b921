"""Free memory is the memory that this process may have, not the memory that is unused."""

import pytest

from askance.models.local.model import free_bytes_of_machine

MACHINE = "MemTotal:       24000000 kB\nMemFree:          100000 kB\nMemAvailable:    8000000 kB\n"
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


@pytest.fixture
def root(tmp_path):
    write(tmp_path / "proc", {"meminfo": MACHINE})
    return tmp_path


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_a_quarter_of_what_is_available(root):
    assert free_bytes_of_machine(root) == 8_000_000 * 1024 // 4


@pytest.mark.parametrize("files", [NEW, OLD], ids=["new", "old"])
def test_a_container_may_have_less(root, files):
    write(root / "sys/fs/cgroup", files)
    assert free_bytes_of_machine(root) == 800_000 // 4


@pytest.mark.parametrize(
    "files", [NEW | {"memory.max": "max\n"}, OLD | {"memory/memory.limit_in_bytes": f"{2**62}"}]
)
def test_a_container_without_a_limit(root, files):
    write(root / "sys/fs/cgroup", files)
    assert free_bytes_of_machine(root) == 8_000_000 * 1024 // 4


def test_a_system_that_does_not_tell(tmp_path):
    assert free_bytes_of_machine(tmp_path) == 2 * 10**9


def test_this_one():
    assert free_bytes_of_machine() > 0
