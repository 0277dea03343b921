"""Build an index with vectors: only passages without a vector are encoded, after any history."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.retrieval.conftest import snapshot
from tests.retrieval.vectors import CountingEncoder, check_vectors, files_of_vectors

from askance.core.errors import BadIndex, InputError, ModelFailure
from askance.models.scripted import ScriptedEncoder
from askance.retrieval.index import writer
from askance.retrieval.index.build import build_index
from askance.retrieval.index.index_folder import EncoderRecord, read_manifest

ROW_BYTES = 16 * 4


@pytest.fixture
def encoder():
    return CountingEncoder()


@pytest.fixture
def small_steps(monkeypatch):
    """Makes builds encode 4 passages at a time, with a checkpoint after 8."""
    monkeypatch.setattr(writer, "_PASSAGES_AT_ONCE", 4)
    monkeypatch.setattr(writer, "CHECKPOINT_VECTORS", 8)


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


NINE = numbered(*range(9))


@pytest.mark.parametrize(
    ("first", "has_vectors", "second", "texts", "files"),
    [
        (NINE, True, NINE, [], {"000001.f32": 9}),
        (NINE, True, numbered(*range(1, 8), 9, more=[("8", "word eight")]), ["word 9", "word eight"],
         {"000001.f32": 11}),
        (NINE, True, numbered(*range(4)), [], {"000002.f32": 4}),
        (numbered(0), True, NINE, [text for _, text in NINE[1:]], {"000001.f32": 9}),
        (NINE, False, NINE, [text for _, text in NINE], {"000001.f32": 9}),
        (numbered(0), False, numbered(0, 1), ["word 0", "word 1"], {"000001.f32": 2}),
    ],
)  # fmt: skip
def test_only_passages_without_a_vector_are_encoded_and_what_is_mostly_dead_is_written_anew(
    build, index, encoder, first, has_vectors, second, texts, files
):
    build(*first, encoder=encoder if has_vectors else None)
    before = snapshot(index)
    encoder.texts.clear()
    report = build(*second, encoder=encoder)
    assert (sorted(encoder.texts), report.encoded) == (sorted(texts), len(texts))
    assert files_of_vectors(index) == {name: rows * ROW_BYTES for name, rows in files.items()}
    assert (snapshot(index) == before) is (has_vectors and first == second)
    check_vectors(index, len(second))


ROWS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["one", "two", "three " * 180])),
    max_size=4,
)
HISTORY = st.tuples(st.sampled_from(["1.jsonl", "2.jsonl"]), ROWS, st.booleans())


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(HISTORY, min_size=1, max_size=6))
def test_after_any_history_every_passage_has_its_vector(tmp_path_factory, write_rows, history):
    folder = tmp_path_factory.mktemp("history")
    write_rows(folder / "docs" / "0.jsonl", ("0", "word"))
    encoder = None
    for name, rows, has_vectors in history:
        encoder = encoder or (CountingEncoder() if has_vectors else None)
        write_rows(folder / "docs" / name, *((id, f"word {text}") for id, text in rows))
        report = build_index([folder / "docs"], folder / "index", encoder=encoder)
    if encoder is not None:
        check_vectors(folder / "index", report.passages)


def test_passages_are_encoded_piece_by_piece_and_progress_tells_how_many(build, index, small_steps):
    class Modest(ScriptedEncoder):
        async def embed(self, texts, kind="text"):
            assert len(texts) <= 4
            return await super().embed(texts, kind)

    steps = []
    build(*NINE, encoder=Modest(), progress=steps.append)
    assert [(each.encoded, each.to_encode) for each in steps] == [(0, 0)] * 9 + [(4, 9), (8, 9), (9, 9)]
    check_vectors(index, 9)


class Breaking(CountingEncoder):
    """An encoder that fails once it has encoded 20 texts."""

    async def embed(self, texts, kind="text"):
        if len(self.texts) >= 20:
            raise ModelFailure("out of memory")
        return await super().embed(texts, kind)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("dimensions", [16, 8])
def test_an_encoder_that_breaks_leaves_the_old_index_and_what_it_encoded(
    build, index, found, small_steps, is_first, dimensions
):
    if not is_first:
        build(("0", "word old"), encoder=ScriptedEncoder())
    rows, encoder = numbered(*range(30)), CountingEncoder(dimensions)
    with pytest.raises(ModelFailure, match="out of memory"):
        build(*rows, encoder=Breaking())
    if is_first:
        with pytest.raises(BadIndex, match="holds no index"):
            read_manifest(index)
    else:
        assert found(index, "word") == {"0": "word old"}
        check_vectors(index, 1)
    if is_first or dimensions == 16:  # an old index wants its encoder
        num_to_encode = 14 if dimensions == 16 else 30
        assert build(*rows, encoder=encoder).encoded == len(encoder.texts) == num_to_encode
        check_vectors(index, 30, ScriptedEncoder(dimensions))


OTHER = r"built with the encoder scripted \(16 dimensions, .*, not with .*scripted \(8 "
NO_ENCODER = r"was built with the encoder scripted .*, not with no encoder: name the former"


@pytest.mark.parametrize(("encoder", "problem"), [(None, NO_ENCODER), (ScriptedEncoder(8), OTHER)])
def test_an_index_with_vectors_wants_its_encoder(build, index, encoder, problem):
    build(("a", "one"), encoder=ScriptedEncoder())
    before = snapshot(index)
    with pytest.raises(BadIndex, match=problem):
        build(("a", "two"), encoder=encoder)
    assert snapshot(index) == before


def test_inside_a_running_loop(build, encoder):
    async def inside():
        build(("a", "one"), encoder=encoder)

    with pytest.raises(InputError, match=r"asyncio\.to_thread"):
        asyncio.run(inside())
