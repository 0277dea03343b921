"""After any interruption of a build, passages and vectors are complete, and of one generation."""

import random
import shutil
import signal
import time

import pytest
from tests.retrieval.conftest import rows_file
from tests.retrieval.test_build_transaction import DIES, NUM_ROWS, rows_of, start, version_of
from tests.retrieval.vectors import CountingEncoder, check_vectors, files_of_vectors, search

from askance.core.errors import BadIndex, ModelFailure
from askance.models.scripted import ScriptedEncoder
from askance.retrieval.dense import open_dense
from askance.retrieval.index.build import build_index
from askance.retrieval.index.index_folder import open_index_reader

BUILD = """
import sys
from pathlib import Path
from askance.models.scripted import ScriptedEncoder
from askance.retrieval.index import build, build_transaction, document_table, lexical, vectors
build.CHECKPOINT_VECTORS = int(sys.argv[3])
build._PASSAGES_AT_ONCE = 100
"""
BUILD_AND_SAY = (
    BUILD
    + """
started = lambda progress: print("started", flush=True) if progress.documents == 1 else None
build.build_index([Path(sys.argv[1])], Path(sys.argv[2]), encoder=ScriptedEncoder(), progress=started)
"""
)
BUILD_AND_DIE = (
    f"{BUILD}{DIES}build.build_index([Path(sys.argv[1])], Path(sys.argv[2]), encoder=ScriptedEncoder())\n"
)
HALF = NUM_ROWS // 2


def mixed_rows(version):
    """Return rows of which the first half never changes, so that its vectors stay where they are."""
    return [*rows_of("row")[:HALF], *rows_of(version)[HALF:]]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a file of rows, and an index of them that is only ever copied."""
    folder = tmp_path_factory.mktemp("built")
    source = rows_file(folder / "rows.jsonl", *mixed_rows("old"))
    build_index([source], folder / "index", encoder=ScriptedEncoder())
    return source, folder / "index"


@pytest.fixture
def old(built, tmp_path):
    """Return a file of rows, and an index that was made of it."""
    return built[0], shutil.copytree(built[1], tmp_path / "index")


def version_with_vectors(index, found):
    """Return the version of the index, after checking that every passage has its vector."""
    check_vectors(index, NUM_ROWS)
    texts = found(index, "row", NUM_ROWS * 3)
    assert len(texts) == NUM_ROWS
    (version,) = {texts[str(number)].split()[0] for number in range(HALF, NUM_ROWS)}
    return version


def test_sigkill_at_random_moments_leaves_the_old_or_the_new_index(tmp_path, write_rows, found):
    source, index = write_rows(tmp_path / "rows.jsonl", *mixed_rows("version0")), tmp_path / "index"
    started = time.perf_counter()
    build_index([source], index, encoder=ScriptedEncoder())
    build_seconds = time.perf_counter() - started
    random_moment = random.Random(7)
    num_killed = 0
    for number in range(1, 5):
        before = version_with_vectors(index, found)
        write_rows(source, *mixed_rows(f"version{number}"))
        with start(BUILD_AND_SAY, source, index, 200) as process:
            process.stdout.readline()
            time.sleep(random_moment.uniform(0, build_seconds))
            process.kill()
        num_killed += process.returncode == -signal.SIGKILL
        assert version_with_vectors(index, found) in (before, f"version{number}")
    assert num_killed >= 1
    build_index([source], index, encoder=ScriptedEncoder())
    assert version_with_vectors(index, found) == "version4"
    assert sorted(path.name for path in index.iterdir())[1:] == ["manifest.json", "writer.lock"]


def test_sigkill_while_vectors_are_compacted(old, write_rows, found):
    source, index = old
    write_rows(source, *mixed_rows("new")[: HALF - 100])
    with start(BUILD_AND_DIE, source, index, 300, "vectors.VectorWriter.add", 50, "after") as process:
        process.wait()
    assert process.returncode == -signal.SIGKILL
    assert version_with_vectors(index, found) == "old"
    build_index([source], index, encoder=ScriptedEncoder())
    check_vectors(index, HALF - 100)
    assert files_of_vectors(index) == {"000002.f32": (HALF - 100) * 16 * 4}


def test_encoding_goes_on_from_the_last_checkpoint(tmp_path, write_rows):
    source, index = write_rows(tmp_path / "rows.jsonl", *mixed_rows("new")), tmp_path / "index"
    with start(BUILD_AND_DIE, source, index, 300, "vectors.VectorWriter.add", 1000, "after") as process:
        process.wait()
    with pytest.raises(BadIndex, match="holds no index"):
        open_index_reader(index)
    encoder = CountingEncoder()
    report = build_index([source], index, encoder=encoder)
    assert (report.added, report.unchanged) == (0, NUM_ROWS)
    assert report.encoded == len(encoder.texts) == NUM_ROWS - 900
    check_vectors(index, NUM_ROWS)


def test_a_kill_within_a_checkpoint_of_vectors_leaves_the_one_before(tmp_path, write_rows):
    source, index = write_rows(tmp_path / "rows.jsonl", *mixed_rows("new")), tmp_path / "index"
    with start(
        BUILD_AND_DIE, source, index, 300, "document_table.DocumentTable.commit", 3, "before"
    ) as process:
        process.wait()
    report = build_index([source], index, encoder=ScriptedEncoder())
    assert (report.added, report.encoded) == (0, NUM_ROWS - 600)


def test_a_full_disk_is_told_and_leaves_the_old_index(tmp_path, write_rows, found):
    source, index = write_rows(tmp_path / "rows.jsonl", *rows_of("old")), tmp_path / "index"
    build_index([source], index, encoder=ScriptedEncoder(64))
    write_rows(source, *rows_of("new"))
    limited = (
        "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        + BUILD
        + """
from askance.core.errors import BadIndex, ModelFailure
real = build._Build.encode
def in_need(*given):
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    return real(*given)
build._Build.encode = in_need
try:
    build.build_index([Path(sys.argv[1])], Path(sys.argv[2]), encoder=ScriptedEncoder(64))
except BadIndex as error:
    print(error)
"""
    )
    with start(limited, source, index, 10**9) as process:
        output = process.stdout.read()
    assert "can't be written" in output
    assert "is the disk full?" in output
    assert version_of(index, found) == "old"
    check_vectors(index, NUM_ROWS, ScriptedEncoder(64))


class BreakingEncoder(ScriptedEncoder):
    """An encoder that always fails."""

    async def embed(self, texts, kind="text"):
        if texts:
            raise ModelFailure("broken")
        return await super().embed(texts, kind)


def test_rows_that_the_index_has_and_a_broken_build_has_not_stay(tmp_path, write_rows):
    source, index = write_rows(tmp_path / "rows.jsonl", *rows_of("old")), tmp_path / "index"
    build_index([source], index, encoder=ScriptedEncoder())
    write_rows(source, *mixed_rows("new"))
    for _ in range(2):  # the second goes on from where the first broke, with fewer rows than the index
        with pytest.raises(ModelFailure):
            build_index([source], index, encoder=BreakingEncoder())
        check_vectors(index, NUM_ROWS)
    build_index([source], index, encoder=ScriptedEncoder())
    check_vectors(index, NUM_ROWS)


def test_an_open_index_keeps_its_rows_while_later_ones_take_their_place(tmp_path, write_rows):
    rows, encoder = rows_of("old"), ScriptedEncoder()
    source, index = write_rows(tmp_path / "rows.jsonl", *rows), tmp_path / "index"
    build_index([source], index, encoder=encoder)
    retriever = open_dense(index, encoder)
    before = search(retriever, rows[-1][1], NUM_ROWS)
    for changed in (rows[:HALF], [*rows[:HALF], *rows_of("new")[HALF:]]):
        build_index([write_rows(source, *changed)], index, encoder=encoder)
        assert search(retriever, rows[-1][1], NUM_ROWS) == before


def test_what_lies_in_rows_that_are_not_in_use_does_not_matter(tmp_path, write_rows):
    rows, encoder = rows_of("old"), ScriptedEncoder()
    source, index = write_rows(tmp_path / "rows.jsonl", *rows), tmp_path / "index"
    build_index([source], index, encoder=encoder)
    (path,) = index.glob("generation-*/vectors/*")
    with path.open("ab") as file:
        file.write(b"\xff" * 100)  # a row of no numbers and part of another, as a power cut may leave them
    build_index([write_rows(source, *rows, *rows_of("new")[:1])], index, encoder=encoder)
    check_vectors(index, NUM_ROWS + 1)
