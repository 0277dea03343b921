"""Each hostile file is read, or skipped with a reason, whatever it does to the process that reads it."""

from contextlib import closing

import pytest
from tests.retrieval.hostile import FILES, WORD, content_of

from askance.retrieval.index.formats import DocumentRow, UnreadableFile
from askance.retrieval.index.reader_process import ReaderProcess, ReadingLimits


@pytest.fixture(scope="module")
def patient():
    with closing(ReaderProcess(ReadingLimits(memory=2))) as reader:
        yield reader


@pytest.fixture(scope="module")
def hasty():
    """Return a reader for files that may be skipped for taking too long."""
    with closing(ReaderProcess(ReadingLimits(seconds=3, memory=1))) as reader:
        yield reader


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_read_or_skipped(name, patient, hasty, tmp_path):
    right, path, reason = FILES[name][1], tmp_path / name, ""
    path.write_bytes(content_of(name))
    try:
        rows = list((patient if right == WORD else hasty).read(path))
    except UnreadableFile as error:
        rows, reason = [], str(error)
    texts = [f"{row.title} {row.text} {row.fields}" for row in rows if isinstance(row, DocumentRow)]
    assert bool(reason) is (right == "skipped") or right == "any", reason
    assert reason or any(WORD in text for text in texts)
    assert "root:" not in "".join(texts), "a file outside was read"
