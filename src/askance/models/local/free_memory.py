"""How much memory there is for keys and values on the machine."""

from pathlib import Path

_SHARE_OF_MACHINE = 0.25
_UNKNOWN_BYTES = 2 * 10**9
"""Where the system does not tell how much is free."""
_GROUPS = (
    ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Where Linux tells what a container may use, new and old: folder, limit, usage, and what of it can go."""


def free_bytes_of_machine(root: Path = Path("/")) -> int:
    """A part of what this process may have of the machine.

    Args:
        root: of the file system.
    """
    kilobytes = _number(root / "proc/meminfo", "MemAvailable:")
    told = [None if kilobytes is None else 1024 * kilobytes]
    for folder, limit, usage, reclaimable in _GROUPS:
        most, used = _number(root / folder / limit), _number(root / folder / usage)
        if most is not None and used is not None:
            copies = _number(root / folder / "memory.stat", reclaimable) or 0
            told.append(max(0, most - used + copies))
    known = [num_bytes for num_bytes in told if num_bytes is not None]
    return int(_SHARE_OF_MACHINE * min(known)) if known else _UNKNOWN_BYTES


def _number(path: Path, name: str = "") -> int | None:
    """The number in a file, or the one behind a name that begins a line; None where none is told."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):  # another system, or no right to know
        return None
    told = (line.removeprefix(name).split() for line in lines if line.startswith(name))
    return next((int(words[0]) for words in told if words and words[0].isdecimal()), None)
