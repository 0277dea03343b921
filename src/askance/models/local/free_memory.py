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
    told = [_available(root), *(_left(root / folder, *names) for folder, *names in _GROUPS)]
    known = [num_bytes for num_bytes in told if num_bytes is not None]
    return int(_SHARE_OF_MACHINE * min(known)) if known else _UNKNOWN_BYTES


def _available(root: Path) -> int | None:
    """The free bytes of the machine, with the copies of files that go when memory is wanted."""
    kilobytes = _entry(root / "proc/meminfo", "MemAvailable:")
    return None if kilobytes is None else 1024 * kilobytes


def _left(folder: Path, limit: str, usage: str, reclaimable: str) -> int | None:
    """The free bytes of a container; None where it has no limit."""
    most, used = _number(folder / limit), _number(folder / usage)
    if most is None or used is None:
        return None
    return max(0, most - used + (_entry(folder / "memory.stat", reclaimable) or 0))


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _entry(path: Path, name: str) -> int | None:
    """The number behind a name, in a file with one to a line."""
    lines = (line.split() for line in _text(path).splitlines())
    return next((int(words[1]) for words in lines if len(words) > 1 and words[0] == name), None)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):  # another system, or no right to know
        return ""
