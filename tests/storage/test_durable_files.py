"""Files that only grow, checksums of lines, and folders that one process at a time may write."""

import json
import os
import resource
from contextlib import closing, contextmanager
from itertools import product

import pytest

from askance.storage.durable_files import (
    AppendOnlyFile,
    DamagedLine,
    locked_folder,
    sealed,
    unsealed,
    unsealed_lines,
)


@contextmanager
def disk_with_room_for(size_bytes):
    """No file of this process may grow beyond this: the system's own error, as from a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_chunks_follow_each_other_and_what_was_never_acknowledged_is_cut_off(tmp_path):
    path = tmp_path / "a"
    with closing(AppendOnlyFile(path)) as file:
        assert [file.append(chunks) for chunks in ([], [b"one", b"two"], [b"three"])] == [0, 0, 6]
        assert path.stat().st_size == 11
    with closing(AppendOnlyFile(path)) as file:
        assert file.append([b"four"]) == 11
    with closing(AppendOnlyFile(path, 6)) as file:
        assert file.append([b"new"]) == 6
    assert path.read_bytes() == b"onetwonew"


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "a"
    with closing(AppendOnlyFile(path)) as file:
        file.append([b"x" * 100])
        with disk_with_room_for(4096), pytest.raises(OSError, match="File too large"):
            file.append([b"y" * 3000, b"z" * 3000])
        assert path.read_bytes() == b"x" * 100
        assert file.append([b"w"]) == 100
    assert path.read_bytes() == b"x" * 100 + b"w"


LINES = [json.dumps({"id": f"q{number}", "text": "Köln, Jülich"}).encode() for number in (1, 2)]
CONTENT = b"".join(sealed(line) + b"\n" for line in LINES)


def test_a_file_that_was_cut_short_at_any_byte_has_its_whole_lines():
    assert json.loads(sealed(LINES[0])) == {"checksum": "be52bfaf96eea4b9", **json.loads(LINES[0])}
    assert unsealed(sealed(LINES[0])) == LINES[0]
    for cut in range(len(CONTENT) + 1):
        num_whole = CONTENT[:cut].count(b"\n")
        size_bytes = sum(len(sealed(line)) + 1 for line in LINES[:num_whole])
        assert unsealed_lines(CONTENT[:cut]) == (LINES[:num_whole], size_bytes)


def test_each_wrong_bit_is_found():
    for at, bit in product(range(len(CONTENT)), range(8)):
        damaged = bytearray(CONTENT)
        damaged[at] ^= 1 << bit
        with pytest.raises(DamagedLine) as caught:
            unsealed_lines(bytes(damaged))
        assert caught.value.number == 1 + CONTENT[:at].count(b"\n")


def test_the_names_of_all_folders_that_are_made_are_on_the_disk(tmp_path, monkeypatch):
    synced, real = [], os.fsync

    def fsync(descriptor):
        synced.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with locked_folder(tmp_path / "a" / "b", "lock"):
        assert sorted(synced) == sorted(path.stat().st_ino for path in (tmp_path, tmp_path / "a"))
        (tmp_path / "a" / "other").mkdir()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["other"], "it is not needed; the other is"


def test_one_holder_at_a_time_who_may_move_the_folder(tmp_path):
    for name in "ab":
        with locked_folder(tmp_path / "a", "lock"):
            with pytest.raises(BlockingIOError), locked_folder(tmp_path / "a", "lock"):
                pass
            (tmp_path / "a").rename(tmp_path / f"moved {name}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["moved a", "moved b"]
