"""The lock of a folder, and the folders that are made for it."""

import os

import pytest

from askance.storage.durable_files import locked_folder


def test_the_names_of_all_folders_that_are_made_are_on_the_disk(tmp_path, monkeypatch):
    synced, real = [], os.fsync

    def fsync(descriptor):
        synced.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with locked_folder(tmp_path / "a" / "b", "lock"):
        assert sorted(synced) == sorted(path.stat().st_ino for path in (tmp_path, tmp_path / "a"))


def test_a_folder_that_is_not_needed_stays_for_what_another_process_has_put_beside_it(tmp_path):
    with locked_folder(tmp_path / "a" / "b", "lock"):
        (tmp_path / "a" / "other").mkdir()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["other"]


def test_a_folder_may_be_moved_while_it_is_locked(tmp_path):
    with locked_folder(tmp_path / "a", "lock"):
        (tmp_path / "a").rename(tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_one_holder_at_a_time(tmp_path):
    with (
        locked_folder(tmp_path / "a", "lock"),
        pytest.raises(BlockingIOError),
        locked_folder(tmp_path / "a", "lock"),
    ):
        pass
    with locked_folder(tmp_path / "a", "lock"):
        pass
