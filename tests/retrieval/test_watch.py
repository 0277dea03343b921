"""Waiting for changes, with a clock that the test turns."""

import shutil

import pytest

from askance.retrieval.index.documents import file_states
from askance.retrieval.index.watch import wait_for_change


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "docs"
    path.mkdir()
    (path / "a.txt").write_text("one")
    return path


def waited(folder, *steps):
    """Run one step per look at the files, and return the new states and the folders that were missed."""
    remaining, missed = list(steps), []

    def wait(seconds):
        assert remaining, "it waits although the files have settled"
        remaining.pop(0)()

    states = wait_for_change([folder], file_states([folder]), missing=missed.append, wait=wait)
    assert not remaining, "it did not wait until the files settled"
    return states, missed


def nothing():
    pass


def test_a_change_counts_when_the_files_have_settled(folder):
    states, missed = waited(
        folder,
        nothing,
        lambda: (folder / "b.txt").write_text("begun"),
        lambda: (folder / "b.txt").write_text("begun and ended"),
        nothing,
    )
    assert (states, missed) == (file_states([folder]), [])


def test_a_folder_that_disappears_is_waited_for(folder):
    away = folder.with_name("away")
    _, missed = waited(
        folder,
        lambda: folder.rename(away),
        nothing,
        lambda: away.rename(folder),
        lambda: (folder / "b.txt").write_text("new"),
        nothing,
    )
    assert missed == [str(folder)]


def test_a_folder_that_comes_back_with_other_files_has_changed(folder):
    def replace():
        folder.mkdir()
        (folder / "c.txt").write_text("other")

    _, missed = waited(folder, lambda: shutil.rmtree(folder), replace, nothing)
    assert missed == [str(folder)]
