"""An update costs what it changes, and after any updates an index holds what a new one would hold."""

import random
import sqlite3
from functools import partial

import pytest
from tests.retrieval.conftest import rows_file
from tests.retrieval.vectors import check_vectors

from askance.models.scripted import ScriptedEncoder
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.filters import parse_filter
from askance.retrieval.index import document_files
from askance.retrieval.index.build import build_index
from askance.retrieval.index.documents import Document
from askance.retrieval.index.index_folder import read_manifest
from askance.retrieval.index.reader import open_index_reader
from askance.retrieval.index.writer import open_writer

WHERE = (
    "n = 1", "n > 1", "n = '1'", "n != 2", "title = 'T2'", "type = 'odd'", "type = 'md'", "source = 's1'",
    "path = '/1.md'", "date = '2020-01-01' and not n = 1",
)  # fmt: skip


def drawn(seeded):
    """Return a random document, one of few by its id."""
    number, file = seeded.randrange(12), seeded.randrange(3)
    fields = {"n": seeded.choice((1, 2, "1", 2.5))} if seeded.random() < 0.7 else {}
    if seeded.random() < 0.2:
        fields["type"] = "odd"
    text = seeded.choice(("a river", "река", "河 river", "long " * 250)) + str(seeded.randrange(3))
    title, date = seeded.choice(("", f"T{number}")), seeded.choice(("", "2020-01-01"))
    return Document(
        f"{file}-{number}", title, text, f"s{file}", f"/{file}.md", True, fields=fields, date=date
    )


@pytest.fixture
def num_steps(monkeypatch):
    """Return a list with the number of steps of SQLite's virtual machine so far, so of the rows it reads."""
    counts = [0]

    def count():
        counts[0] += 1

    class Counted(sqlite3.Connection):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            self.set_progress_handler(count, 1)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Counted))
    return counts


def test_an_update_costs_the_same_at_any_size_of_the_index(tmp_path, num_steps):
    """Neither the rows that SQLite reads nor the bytes of the table that are written depend on the size."""
    costs = []
    for num_rows in (10, 1_000):
        index, work = tmp_path / str(num_rows), []
        rows = ({"id": f"r{number:04}", "title": f"T{number}", "text": "a"} for number in range(num_rows))
        build_index([rows_file(tmp_path / "rows.jsonl", *rows)], index, encoder=ScriptedEncoder())
        for change in (
            lambda index: index.upsert(Document("new", "New", "a river", path="http:1", fields={"n": 1})),
            lambda index: index.upsert(Document("new", "New", "a town", path="http:1", fields={"n": 2})),
            lambda index: index.remove("r0003"),
            lambda index: index.remove(path="http:1"),
        ):
            before = num_steps[0]
            with open_writer(index, encoder=ScriptedEncoder()) as writer:
                change(writer)
                writer.commit()
            reader = open_index_reader(index)
            assert len(reader.documents(prefix="http:")) <= 1
            (table,) = index.glob("generation-*/documents.sqlite")
            work.append((num_steps[0] - before, table.stat().st_size))
        costs.append(work)
    assert costs[0] == costs[1]
    assert all(steps for steps, _ in costs[0])


@pytest.mark.parametrize("merged_bytes", [-(1 << 30), 1 << 20], ids=["merged", "changes"])
def test_after_any_updates_an_index_holds_what_a_new_one_would_hold(tmp_path, monkeypatch, merged_bytes):
    monkeypatch.setattr(document_files, "_MERGED_BYTES", merged_bytes)
    seeded, encoder, held, index = random.Random(7), ScriptedEncoder(), {}, tmp_path / "index"
    for number in range(12):
        analysis, used = None if number else Analysis(), encoder if number > 3 else None
        with open_writer(index, analysis=analysis, encoder=used) as writer:
            for _ in range(seeded.randrange(1, 9)):
                document = drawn(seeded)
                id, _ = writer.upsert(document)
                held[id] = document
            if len(held) > 5:
                for id in seeded.sample(sorted(held), 2):
                    assert writer.remove(id) == [id]
                    del held[id]
            writer.commit()
    fresh = tmp_path / "fresh"
    with open_writer(fresh, analysis=Analysis()) as writer:
        for document in held.values():
            writer.upsert(document)
        writer.commit()
    manifests = read_manifest(index), read_manifest(fresh)
    for name in ("documents", "passages", "content_hash", "scripts", "fields"):
        assert len({str(getattr(manifest, name)) for manifest in manifests}) == 1, name
    readers = open_index_reader(index), open_index_reader(fresh)
    for where in map(parse_filter, WHERE):
        found = [[entry.id for entry in each.documents(where=where)] for each in readers]
        assert found[0] == found[1]
    check_vectors(index, manifests[0].passages, encoder)
