"""Build an index again and again, each time with a fault at a later operation.

    python -m tests.retrieval.faults FOLDER kill|error|full [FIRST STEP]

The operations are those of `tests.faults`, and the calls of the passage writer. The n-th has the fault, for
n = FIRST, FIRST + STEP, … until a build completes.

The operations inside a commit, above all tantivy's, can't be observed. There the system limits the size to
which a file may grow: to the size of each file that is committed, and to each page of it. This is done in the
first commit of all and in that of a build that resumes from a checkpoint, for every second or third limit.

After each fault the index must be the old one or, from some operation on, the new one. A further build
without faults must make the new one, and encode nothing that had a vector in the index. Nothing here needs to
survive a power failure, so nobody waits for the disk.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
from functools import partial
from itertools import count, product, takewhile
from pathlib import Path

from tests.faults import FAULTLESS, FAULTY, ODD, Faults, in_child, limited_files
from tests.retrieval.conftest import rows_file
from tests.retrieval.vectors import CountingEncoder

from askance.core.errors import BadIndex
from askance.models.scripted import ScriptedEncoder
from askance.retrieval import ann
from askance.retrieval.bm25 import open_index
from askance.retrieval.dense import open_dense
from askance.retrieval.index import document_table, index_folder, lexical, vectors, writer
from askance.retrieval.index.build import build_index
from askance.retrieval.index.reader import open_index_reader
from askance.retrieval.index.reader_process import ReaderProcess

OLD = [
    (id, f"old {name}") for id, name in zip("abcefg", "river town bridge mill lake wood".split(), strict=True)
]
NEW = [("a", "old river"), ("b", "new town"), ("d", "new tower"), ("e", "new mill")]
"""The last passage is replaced after the first checkpoint, so that the second commit strikes one out. After
the change, most rows of the vectors are dead, so they are compacted."""
STILL_OLD = 5
CHECKPOINT_PASSAGES = 2
CLUSTERED = 2
"""The number of vectors above which they are clustered, where faiss is installed."""
PAGE = 4096
"""Of SQLite."""
WRITERS = {
    lexical.LexicalWriter: "lexical/*",
    document_table.DocumentTable: index_folder.DOCUMENTS,
    vectors.VectorWriter: "vectors/*",
}
"""What commits, and the files that it writes."""
ENCODER = ScriptedEncoder()


class IndexFaults(Faults):
    """Counts the calls of the passage writer as operations, too."""

    def install(self) -> None:
        super().install()
        for name in ("add", "remove", "commit", "finish"):
            setattr(lexical.LexicalWriter, name, self.failing(getattr(lexical.LexicalWriter, name)))

    def failing(self, real):
        def call(*given):
            self.step(real.__name__)
            return real(*given)

        return call


class CommitFault:
    """Limits files to `limit` bytes in the first commit of a `writer`.

    If a file would grow beyond that, the commit fails, or the process dies.
    """

    def __init__(self, writer: type, kind: str, limit: int) -> None:
        self.writer, self.kind, self.limit = writer, kind, limit

    def has_passed(self) -> bool:
        """Return whether the fault has happened, even if the build completed."""
        return False

    def install(self) -> None:
        real = self.writer.commit

        def commit(*given: object) -> None:
            self.writer.commit = real
            with limited_files(self.limit, self.kind):
                real(*given)

        self.writer.commit = commit


def killed_after_checkpoint(number: int) -> None:
    """Kill the process after `number` checkpoints."""
    real, left = writer.IndexWriter.checkpoint, count(number - 1, -1)

    def checkpoint(self: writer.IndexWriter) -> None:
        real(self)
        if next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    writer.IndexWriter.checkpoint = checkpoint


def content(index: Path) -> object:
    """Return everything that a reader of an index finds: its manifest, passages and vectors."""
    manifest = open_index_reader(index).manifest
    hits = asyncio.run(open_index(index).search("old new river town bridge tower", 99))
    by_meaning = asyncio.run(open_dense(index, ENCODER).search("new town", 99))
    return [
        manifest.content_hash,
        manifest.passages,
        sorted([hit.passage.id, hit.passage.text] for hit in hits),
        [[hit.passage.id, round(hit.score, 5)] for hit in by_meaning],
    ]


class Trial:
    """Builds an index with and without faults, and records what is wrong afterwards."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.source, self.old, self.index = folder / "rows.jsonl", folder / "old", folder / "index"
        self.ended = (-signal.SIGKILL, -signal.SIGXFSZ) if kind == "kill" else (FAULTY,)
        self.flaws: list[str] = []
        self.outcomes: list[int] = []
        self.contents = [self.made(OLD, self.old), self.made(NEW, folder / "new")]

    def made(self, rows: list[tuple[str, str]], index: Path) -> object:
        """Make an index of some rows; return its content."""
        note = index.with_suffix(".json")
        rows_file(self.source, *rows)
        work = partial(self.built, index), lambda: note.write_text(json.dumps(content(index))) and FAULTLESS
        assert [in_child(each) for each in work] == [FAULTLESS, FAULTLESS]
        return json.loads(note.read_text())

    def built(self, index: Path | None = None, encoder: ScriptedEncoder = ENCODER) -> int:
        build_index([self.source], index or self.index, encoder=encoder)
        return FAULTLESS

    def begin_anew(self, num_checkpoints: int) -> None:
        """Put the old index in place, of whose update a build has made some checkpoints."""
        shutil.rmtree(self.index, ignore_errors=True)
        shutil.copytree(self.old, self.index)
        if num_checkpoints:
            in_child(lambda: killed_after_checkpoint(num_checkpoints) or self.built())

    def faulty(self, faults: Faults | CommitFault) -> int:
        faults.install()
        try:
            self.built()
        except BadIndex as error:
            print(error, file=sys.stderr)
            is_short = len(str(error)) < 600
            return FAULTY if is_short and f"the index {self.index} can't be written (" in str(error) else ODD
        return FAULTY if faults.has_passed() else FAULTLESS

    def seen(self) -> int:
        """Return whether the index is still the old one; raise unless a build then makes the new one."""
        found = content(self.index)
        assert found in self.contents
        encoder = CountingEncoder()
        self.built(encoder=encoder)
        assert {*encoder.texts} <= {text for _, text in NEW} - {text for _, text in OLD}
        assert content(self.index) == self.contents[1]
        assert len(list(self.index.glob("generation-*"))) == 1
        assert not list(self.index.rglob(".tmp*"))
        return FAULTLESS if found == self.contents[1] else STILL_OLD

    def happens(self, faults: Faults | CommitFault, what: str, num_checkpoints: int = 0) -> bool:
        """Return whether a build that resumes from a checkpoint has a fault; record what is wrong after."""
        self.begin_anew(num_checkpoints)
        status = in_child(lambda: self.faulty(faults))
        if status not in (FAULTLESS, *self.ended):
            self.flaws.append(f"{what}: ended with {status}")
        self.outcomes.append(in_child(self.seen))
        if self.outcomes[-1] == ODD:
            self.flaws.append(f"{what}: is not the index that it should be afterwards")
        return status != FAULTLESS

    def limits(self, files: str, num_checkpoints: int) -> list[int]:
        """Return limits in bytes that are too small for some of the files that the next commit writes."""
        self.begin_anew(num_checkpoints)
        in_child(lambda: killed_after_checkpoint(1) or self.built())
        sizes = {path.stat().st_size for path in self.index.rglob(files)} - {0}
        return sorted({size - 1 for size in sizes}.union(*(range(0, size, PAGE) for size in sizes)))


def main(folder: Path, kind: str, first: int = 1, step: int = 1) -> None:
    os.fsync = lambda descriptor: None
    ReaderProcess._start = lambda reader: None  # one for each of hundreds of builds takes most of the time
    writer.CHECKPOINT_PASSAGES = writer.CHECKPOINT_VECTORS = CHECKPOINT_PASSAGES
    if ann.is_installed():
        import faiss  # noqa: F401  # once, in place of in each process

        ann.EXACT_ROWS, ann.EXACT_TAIL = CLUSTERED, 0
    trial = Trial(folder, kind)

    def happens(number: int) -> bool:
        return trial.happens(IndexFaults(trial.index, number, kind), f"operation {number}")

    num_operations = sum(1 for _ in takewhile(happens, count(first, step)))
    if kind == "kill" and trial.outcomes != sorted(trial.outcomes, reverse=True):
        trial.flaws.append(f"the index does not stay the new one: {trial.outcomes}")
    num_limits = 0
    for (kind_of_writer, files), num_checkpoints in product(
        () if kind == "full" else WRITERS.items(), range(2)
    ):
        for limit in trial.limits(files, num_checkpoints)[:: 2 if kind == "kill" else 3]:
            what = f"{kind_of_writer.__name__} after {num_checkpoints} checkpoints, at most {limit} bytes"
            num_limits += trial.happens(CommitFault(kind_of_writer, kind, limit), what, num_checkpoints)
    print(json.dumps({"operations": num_operations, "limits": num_limits, "flaws": trial.flaws}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
