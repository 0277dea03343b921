"""A file that only grows: what it keeps when the disk is full or its writer was killed."""

import resource
from contextlib import closing, contextmanager

import pytest

from askance.storage.durable_files import AppendOnlyFile, whole_lines


@contextmanager
def disk_with_room_for(size_bytes):
    """No file of this process may grow beyond this: the system's own error, as from a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_chunks_follow_each_other(tmp_path):
    path = tmp_path / "a"
    with closing(AppendOnlyFile(path)) as file:
        assert file.append([b"one", b"two"]) == 0
        assert file.append([b"three"]) == 6
        assert path.stat().st_size == 11
    with closing(AppendOnlyFile(path)) as file:
        assert file.append([b"four"]) == 11
    assert path.read_bytes() == b"onetwothreefour"


def test_nothing_is_appended_by_no_chunks(tmp_path):
    with closing(AppendOnlyFile(tmp_path / "a")) as file:
        assert file.append([]) == 0
    assert (tmp_path / "a").read_bytes() == b""


def test_what_was_never_acknowledged_is_cut_off(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"whole half")
    with closing(AppendOnlyFile(path, 6)) as file:
        assert file.append([b"new"]) == 6
    assert path.read_bytes() == b"whole new"


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "a"
    with closing(AppendOnlyFile(path)) as file:
        file.append([b"x" * 100])
        with disk_with_room_for(4096), pytest.raises(OSError, match="File too large"):
            file.append([b"y" * 3000, b"z" * 3000])
        assert path.read_bytes() == b"x" * 100
        assert file.append([b"w"]) == 100
    assert path.read_bytes() == b"x" * 100 + b"w"


@pytest.mark.parametrize(
    ("content", "whole"),
    [(b"", b""), (b"a\nb\n", b"a\nb\n"), (b"a\nb", b"a\n"), (b"a", b""), (b"a\r\nb", b"a\r\n")],
)
def test_a_line_without_a_break_is_not_whole(content, whole):
    assert whole_lines(content) == whole
