"""A process that builds an index again and again, each time with a fault at a later operation.

    python -m tests.retrieval.faults FOLDER kill|error new|old

Operations are whatever changes something on the disk: each SQL statement, each file opened for writing,
renamed, linked, cut or removed, each folder made or removed, each `fsync`, and each call of the writer of
passages. The n-th fails, or the process dies right before it, for n = 1, 2, 3 … until a build comes to its
end. After each fault the index must be the old one or the new one, and a further build without faults must
make the new one. Each build runs in a child of this process, which has no thread of its own. What is written
need not outlive the machine here, so that nobody waits for the disk.
"""

import asyncio
import errno
import json
import os
import shutil
import signal
import sqlite3
import sys
import traceback
from functools import partial
from itertools import count
from pathlib import Path

from tests.retrieval.conftest import rows_file

from askance.core.errors import BadIndex
from askance.models.scripted_encoder import ScriptedEncoder
from askance.retrieval import build, encoding, lexical, store
from askance.retrieval.bm25 import open_index
from askance.retrieval.dense import open_dense

OLD = [("a", "old river"), ("b", "old town"), ("c", "old bridge")]
NEW = [("a", "old river"), ("b", "new town"), ("d", "new tower")]
EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate", "shutil.copyfile"}
FAULTLESS, FAULTY, ODD = 0, 3, 4
CHECKPOINT_PASSAGES = 2
ENCODER = ScriptedEncoder()


class Faults:
    """Counts operations below a folder, and lets the n-th fail, or kills the process before it."""

    def __init__(self, folder: Path, number: int, kind: str) -> None:
        self.left, self.kind, self.folder = number, kind, str(folder)

    def step(self, error: Exception) -> None:
        self.left -= 1
        if self.left == 0 and self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.left == 0:
            raise error

    def install(self) -> None:
        faults = self

        class Database(sqlite3.Connection):
            def execute(self, sql, *given):
                faults.step(sqlite3.OperationalError(f"disk I/O error at {sql[:40]!r}"))
                return super().execute(sql, *given)

            def executescript(self, script):
                statement = ""
                for line in script.splitlines(keepends=True):
                    statement += line
                    if sqlite3.complete_statement(statement):
                        self.execute(statement)
                        statement = ""

            def commit(self):
                faults.step(sqlite3.OperationalError("disk I/O error at COMMIT"))
                super().commit()

        sqlite3.connect = partial(sqlite3.connect, factory=Database)
        os.fsync = lambda descriptor: faults.step(OSError(errno.EIO, "at fsync"))
        for name in ("add", "remove", "commit", "finish"):
            setattr(lexical.LexicalWriter, name, self.failing(getattr(lexical.LexicalWriter, name)))
        sys.addaudithook(self.hear)

    def failing(self, real):
        def call(*given):
            self.step(OSError(errno.ENOSPC, f"in {real.__name__}"))
            return real(*given)

        return call

    def hear(self, event, given) -> None:
        writes = event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR)
        if (writes or event in EVENTS) and self.folder in str(given):
            self.step(OSError(errno.ENOSPC, f"at {event}"))


def content(index: Path) -> object:
    """All that a reader of an index finds: its manifest, passages and vectors."""
    manifest = store.open_store(index).manifest
    hits = asyncio.run(open_index(index).search("old new river town bridge tower", 99))
    by_meaning = asyncio.run(open_dense(index, ENCODER).search("new town", 99))
    return [
        manifest.content_hash,
        manifest.passages,
        sorted([hit.passage.id, hit.passage.text] for hit in hits),
        [[hit.passage.id, round(hit.score, 5)] for hit in by_meaning],
    ]


def in_child(work) -> int:
    """The exit status of a child that does `work`: a signal is negative; ODD if it raised."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        os._exit(work())
    except BaseException:
        traceback.print_exc()
        os._exit(ODD)


def main(folder: Path, kind: str, begin: str) -> None:
    os.fsync = lambda descriptor: None
    build.CHECKPOINT_PASSAGES = encoding.CHECKPOINT_PASSAGES = CHECKPOINT_PASSAGES
    source, first = folder / "rows.jsonl", folder / "first"

    def built(index: Path) -> int:
        build.build_index([source], index, encoder=ENCODER)
        return FAULTLESS

    def noted(index: Path, name: str) -> int:
        (folder / name).write_text(json.dumps(content(index)))
        return FAULTLESS

    rows_file(source, *OLD)
    assert in_child(lambda: built(first) or noted(first, "old")) == FAULTLESS
    rows_file(source, *NEW)
    fresh = folder / "fresh"
    assert in_child(lambda: built(fresh) or noted(fresh, "new")) == FAULTLESS
    found = {name: json.loads((folder / name).read_text()) for name in ("old", "new")}

    def faulty(index: Path, number: int) -> int:
        faults = Faults(index, number, kind)
        faults.install()
        try:
            built(index)
        except BadIndex as error:
            print(f"{number}: {error}", file=sys.stderr)
            return FAULTY
        return FAULTY if faults.left <= 0 else FAULTLESS

    def seen(index: Path) -> int:
        """Raises unless the index is the old one or the new one, and a build makes the new one."""
        if begin == "old" or (index / "manifest.json").exists():
            assert content(index) in found.values()
        built(index)
        assert content(index) == found["new"]
        assert len(list(index.glob("generation-*"))) == 1
        return FAULTLESS

    flaws, ended = [], {"kill": -signal.SIGKILL, "error": FAULTY}[kind]
    for number in count(1):
        index = folder / "index"
        shutil.rmtree(index, ignore_errors=True)
        if begin == "old":
            shutil.copytree(first, index)
        status = in_child(lambda index=index, number=number: faulty(index, number))
        if status not in (ended, FAULTLESS):
            flaws.append(f"{number}: ended with {status}")
        if in_child(lambda index=index: seen(index)) != FAULTLESS:
            flaws.append(f"{number}: is not the index that it should be afterwards")
        if status == FAULTLESS:
            break
    print(json.dumps({"operations": number - 1, "flaws": flaws}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
