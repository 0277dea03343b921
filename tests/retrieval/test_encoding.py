"""Build an index with vectors: only passages without a vector are encoded, after any history."""

import asyncio
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.retrieval.conftest import snapshot
from tests.retrieval.vectors import (
    CountingEncoder,
    FixedEncoder,
    check_vectors,
    document_table_path,
    files_of_vectors,
)

from askance.core.errors import BadIndex, InputError, ModelFailure
from askance.models.scripted import ScriptedEncoder
from askance.retrieval.index import writer
from askance.retrieval.index.build import build_index
from askance.retrieval.index.index_folder import VECTORS, EncoderRecord, generation_folder, read_manifest

ROW_BYTES = 16 * 4


@pytest.fixture
def index(tmp_path):
    return tmp_path / "index"


@pytest.fixture
def encoder():
    return CountingEncoder()


def test_every_passage_is_encoded_with_its_title(tmp_path, index, encoder):
    (tmp_path / "rhine.md").write_text("# The Rhine\n\n" + "It is long. " * 60)
    report = build_index([tmp_path / "rhine.md"], index, encoder=encoder)
    assert (report.passages, report.encoded) == (2, 2)
    assert [text[:20] for text in encoder.texts] == ["The Rhine # The Rhin", "The Rhine It is long"]
    assert str(report).startswith(f"{index}: 2 passages of 1 documents (1 added, 2 passages encoded) in ")
    assert read_manifest(index).encoder == EncoderRecord("scripted", "scripted, 16 dimensions", 16)
    check_vectors(index, 2)


def numbered(*numbers, more=()):
    return [*((str(number), f"word {number}") for number in numbers), *more]


NINE, LONG = numbered(*range(9)), ("b", "word " * 250)


@pytest.mark.parametrize(
    ("first", "has_vectors", "second", "texts", "passages", "files"),
    [
        (NINE, True, NINE, [], 9, {"000001.f32": 9}),
        (NINE, True, numbered(*range(1, 8), 9, more=[("8", "word eight")]), ["word 9", "word eight"], 9,
         {"000001.f32": 11}),
        (NINE, True, numbered(*range(4)), [], 4, {"000002.f32": 4}),
        (numbered(0), True, NINE, [text for _, text in NINE[1:]], 9, {"000001.f32": 9}),
        (NINE, False, NINE, [text for _, text in NINE], 9, {"000001.f32": 9}),
        (numbered(0), False, numbered(0, 1), ["word 0", "word 1"], 2, {"000001.f32": 2}),
    ],
)  # fmt: skip
def test_only_passages_without_a_vector_are_encoded_and_what_is_mostly_dead_is_written_anew(
    tmp_path, write_rows, index, encoder, first, has_vectors, second, texts, passages, files
):
    source = write_rows(tmp_path / "rows.jsonl", *first)
    build_index([source], index, encoder=encoder if has_vectors else None)
    before = snapshot(index)
    encoder.texts.clear()
    report = build_index([write_rows(source, *second)], index, encoder=encoder)
    assert (sorted(encoder.texts), report.encoded, report.passages) == (sorted(texts), len(texts), passages)
    assert files_of_vectors(index) == {name: rows * ROW_BYTES for name, rows in files.items()}
    assert (snapshot(index) == before) is (has_vectors and first == second)
    check_vectors(index, passages)


def test_vectors_of_other_sources_are_added_and_those_of_removed_documents_leave(
    tmp_path, write_rows, index, encoder
):
    first = write_rows(tmp_path / "docs" / "1.jsonl", ("a", "one"), LONG)
    build_index([first], index)
    write_rows(tmp_path / "docs" / "2.jsonl", ("c", "three"))
    report = build_index([tmp_path / "docs"], index, encoder=encoder)
    assert (report.encoded, report.passages) == (5, 5)
    check_vectors(index, 5)
    first.unlink()
    build_index([tmp_path / "docs"], index, encoder=encoder)
    check_vectors(index, 1)


ROWS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["one", "two", "three " * 180])),
    min_size=1,
    max_size=4,
)
HISTORY = st.tuples(st.sampled_from(["1.jsonl", "2.jsonl"]), ROWS, st.booleans())


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(HISTORY, min_size=1, max_size=6))
def test_after_any_history_every_passage_has_its_vector(tmp_path_factory, write_rows, history):
    folder = tmp_path_factory.mktemp("history")
    encoder = None
    for name, rows, has_vectors in history:
        encoder = encoder or (CountingEncoder() if has_vectors else None)
        write_rows(folder / "docs" / name, *((id, f"word {text}") for id, text in rows))
        report = build_index([folder / "docs"], folder / "index", encoder=encoder)
    if encoder is not None:
        check_vectors(folder / "index", report.passages)


def test_passages_are_encoded_piece_by_piece_and_progress_tells_how_many(tmp_path, index, monkeypatch):
    class Modest(ScriptedEncoder):
        async def embed(self, texts, kind="text"):
            assert len(texts) <= 4
            return await super().embed(texts, kind)

    monkeypatch.setattr(writer, "_PASSAGES_AT_ONCE", 4)
    seen = []
    (tmp_path / "a.txt").write_text(" ".join(f"w{number}" for number in range(1050)))
    (tmp_path / "b.txt").write_text("word")
    build_index([tmp_path / "a.txt", tmp_path / "b.txt"], index, encoder=Modest(), progress=seen.append)
    assert [(each.encoded, each.to_encode) for each in seen[-3:]] == [(4, 12), (8, 12), (12, 12)]
    assert {(each.encoded, each.to_encode) for each in seen[:-3]} == {(0, 0)}
    check_vectors(index, 12)


class Breaking(CountingEncoder):
    """An encoder that fails once it has encoded 20 texts."""

    async def embed(self, texts, kind="text"):
        if len(self.texts) >= 20:
            raise ModelFailure("out of memory")
        return await super().embed(texts, kind)


@pytest.mark.parametrize("is_first", [True, False])
def test_an_encoder_that_breaks_leaves_the_old_index_and_what_is_encoded(
    tmp_path, write_rows, index, found, monkeypatch, is_first
):
    monkeypatch.setattr(writer, "_PASSAGES_AT_ONCE", 4)
    monkeypatch.setattr(writer, "CHECKPOINT_VECTORS", 8)
    source = write_rows(tmp_path / "rows.jsonl", ("0", "word old"))
    if not is_first:
        build_index([source], index, encoder=ScriptedEncoder())
    write_rows(source, *((str(number), f"word {number}") for number in range(30)))
    with pytest.raises(ModelFailure, match="out of memory"):
        build_index([source], index, encoder=Breaking())
    if is_first:
        with pytest.raises(BadIndex, match="holds no index"):
            read_manifest(index)
    else:
        assert found(index, "word") == {"0": "word old"}
        check_vectors(index, 1)
    encoder = CountingEncoder()
    assert build_index([source], index, encoder=encoder).encoded == len(encoder.texts) == 14
    check_vectors(index, 30)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (np.zeros(16), "is not a vector of length 1"),
        (np.full(16, np.nan), "is not a vector of length 1"),
        (np.full(16, np.inf), "is not a vector of length 1"),
        (np.ones(16), "not normalised"),
        (np.ones(8) / 8**0.5, r"gave vectors of the shape \(1, 8\) where \(1, 16\) was due"),
    ],
)
def test_vectors_that_are_none_are_refused(tmp_path, write_rows, index, row, told):
    source = write_rows(tmp_path / "rows.jsonl", ("a", "one"))
    with pytest.raises(ModelFailure, match=told):
        build_index([source], index, encoder=FixedEncoder(row))
    with pytest.raises(BadIndex, match="holds no index"):
        read_manifest(index)
    build_index([source], index, encoder=ScriptedEncoder())
    check_vectors(index, 1)


@pytest.mark.parametrize(
    ("encoder", "told"),
    [
        (None, r"was built with the encoder scripted .*, not with no encoder: name the former"),
        (
            ScriptedEncoder(8),
            r"built with the encoder scripted \(16 dimensions, .*, not with .*scripted \(8 ",
        ),
    ],
)
def test_an_index_with_vectors_wants_its_encoder(tmp_path, write_rows, index, encoder, told):
    source = write_rows(tmp_path / "rows.jsonl", ("a", "one"))
    build_index([source], index, encoder=ScriptedEncoder())
    before = snapshot(index)
    write_rows(source, ("a", "two"))
    with pytest.raises(BadIndex, match=told):
        build_index([source], index, encoder=encoder)
    assert snapshot(index) == before


def test_a_draft_of_another_encoder_is_not_gone_on_with(tmp_path, write_rows, index, monkeypatch):
    monkeypatch.setattr(writer, "_PASSAGES_AT_ONCE", 4)
    monkeypatch.setattr(writer, "CHECKPOINT_VECTORS", 8)
    source = write_rows(tmp_path / "rows.jsonl", *((str(number), f"word {number}") for number in range(30)))
    with pytest.raises(ModelFailure):
        build_index([source], index, encoder=Breaking())
    other = CountingEncoder(8)
    report = build_index([source], index, encoder=other)
    assert (report.outcomes["added"], report.encoded) == (30, 30)
    check_vectors(index, 30, ScriptedEncoder(8))


def test_inside_a_running_loop(tmp_path, index, encoder):
    async def build():
        build_index([tmp_path], index, encoder=encoder)

    with pytest.raises(InputError, match=r"asyncio\.to_thread"):
        asyncio.run(build())


@pytest.mark.parametrize("damage", ["lost", "short"])
def test_a_build_upon_damaged_vectors(tmp_path, write_rows, index, encoder, damage):
    source = write_rows(tmp_path / "rows.jsonl", ("a", "one"), ("b", "two"))
    build_index([source], index, encoder=encoder)
    path = generation_folder(index, 1) / VECTORS / "000001.f32"
    content = path.read_bytes()
    path.unlink() if damage == "lost" else path.write_bytes(content[:-1])
    write_rows(source, ("a", "one"), ("b", "two"), ("c", "three"))
    with pytest.raises(BadIndex, match=r"is damaged \(.*too few .*delete the folder"):
        build_index([source], index, encoder=encoder)
    assert document_table_path(index).parent.name == "generation-000001"


def test_a_document_table_without_a_table_of_vectors(tmp_path, write_rows, index, encoder):
    source = write_rows(tmp_path / "rows.jsonl", ("a", "one"))
    build_index([source], index)
    with closing(sqlite3.connect(document_table_path(index))) as database:
        database.executescript("DROP TABLE vectors")
    assert read_manifest(index).encoder is None
    assert build_index([source], index).outcomes["unchanged"] == 1
    assert build_index([source], index, encoder=encoder).encoded == 1
    check_vectors(index, 1)
