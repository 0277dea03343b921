"""The file of answers: how much is kept, who can use it at once, and which files it refuses."""

import gc
import multiprocessing
import sqlite3

import numpy as np
import pytest

from askance.core.errors import InputError
from askance.middleware.cache import CacheStore


def test_what_is_kept_is_found_and_no_more_is_kept_than_may_be(tmp_path):
    store = CacheStore(tmp_path / "cache.sqlite", max_bytes=30_000)
    store.keep(b"a", {"text": "Pisa \ud800", "numbers": [1, 0.1, None]})
    store.keep(b"b", 2)
    store.keep(b"b", 3)
    assert store.find(b"a") == {"text": "Pisa \ud800", "numbers": [1, 0.1, None]}
    assert store.find(b"b") == 3
    assert store.find(b"c") is None
    random = np.random.default_rng(0)
    for number in range(200):
        store.keep(number.to_bytes(4), random.bytes(500).hex())
    assert store.num_bytes < 30_000 + 64 * 600
    assert store.find((199).to_bytes(4)) is not None
    assert store.find((0).to_bytes(4)) is None
    store.close()


def write_many(path, first):
    store = CacheStore(path)
    for number in range(first, first + 100):
        store.keep(number.to_bytes(4), number)
        assert store.find(number.to_bytes(4)) == number
    store.close()


def test_several_processes_at_once(tmp_path):
    path = tmp_path / "cache.sqlite"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=write_many, args=(path, 100 * number)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    store = CacheStore(path)
    assert [store.find(number.to_bytes(4)) for number in range(200)] == [*range(200)]
    store.close()


def test_files_that_are_refused_and_left_as_they_are(tmp_path):
    notes, letters = tmp_path / "notes.txt", tmp_path / "letters.sqlite"
    notes.write_text("Dear diary, " * 100)
    with sqlite3.connect(letters) as database:
        database.execute("CREATE TABLE letters (text)")
    database.close()
    before = notes.read_bytes(), letters.read_bytes()
    for path, message in (
        (notes, r"notes\.txt can't be used .*not a database.*name another file"),
        (letters, r"letters\.sqlite is the database of another program: name another"),
        (notes / "cache.sqlite", "can't be used"),
    ):
        with pytest.raises(InputError, match=message):
            CacheStore(path)
    assert (notes.read_bytes(), letters.read_bytes()) == before


def test_what_can_not_be_kept_leaves_the_file_free(tmp_path):
    path = tmp_path / "cache.sqlite"
    store, other = CacheStore(path), CacheStore(path)
    store._database.execute("PRAGMA max_page_count = 1")
    with pytest.raises(InputError, match="full"):
        store.keep(b"a", np.random.default_rng(0).bytes(100_000).hex())
    other.keep(b"b", 1)
    assert store.find(b"b") == 1
    store.close()
    other.close()


def test_a_store_that_nobody_has_gives_its_file_back(tmp_path):
    store = CacheStore(tmp_path / "cache.sqlite")
    store.keep(b"a", 1)
    database = store._database
    del store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("SELECT 1")
