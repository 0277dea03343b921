"""A file of answers by what they answer. It is SQLite's, so several processes can use it at once."""

import json
import sqlite3
import time
import weakref
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from askance.core.errors import InputError

_FORMAT = 2
"""Raised when what is kept looks otherwise; older answers are then not found any more."""
_APPLICATION = 0x61736B63
"""Marks the file as ours: "askc" in ASCII."""
_SCHEMA = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {_APPLICATION};
CREATE TABLE IF NOT EXISTS answers_{_FORMAT}
    (id BLOB PRIMARY KEY, content BLOB NOT NULL, used_at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS oldest_{_FORMAT} ON answers_{_FORMAT} (used_at, length(content));
COMMIT;
"""
_TOUCH_SECONDS = 600.0
_PUTS_A_CHECK = 64
_SHARE_KEPT = 0.9


class Store:
    """A file of answers. The least recently used ones go when there are more than `max_bytes` of them.

    `close` gives the file back; without it, that is done when nobody has the store any more.

    Raises:
        InputError: the file can't be made, read or written, or is no such file.
    """

    def __init__(self, path: Path, max_bytes: int = 2 * 10**9) -> None:
        self.path, self._max_bytes, self._num_puts = path, max_bytes, 0
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            self.close = weakref.finalize(self, self._database.close)
            self._check_is_ours()
            self._database.executescript(_SCHEMA)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")

    def find(self, id: bytes) -> Any:
        """What is kept under an id; None if nothing is."""
        with self._explained():
            query = f"SELECT content, used_at FROM answers_{_FORMAT} WHERE id = ?"
            row = self._database.execute(query, (id,)).fetchone()
            if row is None:
                return None
            if time.time() - row[1] > _TOUCH_SECONDS:
                touch = f"UPDATE answers_{_FORMAT} SET used_at = ? WHERE id = ?"
                self._database.execute(touch, (time.time(), id))
            return json.loads(zlib.decompress(row[0]))

    def keep(self, id: bytes, content: Any) -> None:
        """Keep what `json` can write."""
        packed = zlib.compress(json.dumps(content).encode(), level=1)
        with self._explained():
            insert = f"INSERT OR REPLACE INTO answers_{_FORMAT} VALUES (?, ?, ?)"
            self._database.execute(insert, (id, packed, time.time()))
            self._num_puts += 1
            if self._num_puts % _PUTS_A_CHECK == 1:
                self._forget()

    @property
    def num_bytes(self) -> int:
        """Of all answers."""
        total = self._database.execute(f"SELECT sum(length(content)) FROM answers_{_FORMAT}").fetchone()[0]
        return int(total or 0)

    def _check_is_ours(self) -> None:
        """Another program's database must not get our tables."""
        # In this order: another process may be making the file, tables and mark in one step.
        num_tables = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        mark = self._database.execute("PRAGMA application_id").fetchone()[0]
        if num_tables and mark != _APPLICATION:
            raise InputError(f"the cache {self.path} is the database of another program: name another file.")

    def _forget(self) -> None:
        """One statement removes all, so that nothing is left half done, or locked, if it fails."""
        total = self.num_bytes
        if total > self._max_bytes:
            newest = self._newest_of_oldest(total - _SHARE_KEPT * self._max_bytes)
            self._database.execute(f"DELETE FROM answers_{_FORMAT} WHERE used_at <= ?", (newest,))

    def _newest_of_oldest(self, num_bytes: float) -> float:
        """When the last one was used of the least recently used answers that have so many bytes together."""
        used_at = 0.0
        oldest = f"SELECT used_at, length(content) FROM answers_{_FORMAT} ORDER BY used_at"
        with closing(self._database.execute(oldest)) as rows:
            while num_bytes > 0 and (row := rows.fetchone()) is not None:
                used_at = row[0]
                num_bytes -= row[1]
        return used_at

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, zlib.error, ValueError) as error:
            raise InputError(
                f"the cache {self.path} can't be used ({error}): name another file, free space, remove it if "
                "it is a broken cache, or do without one."
            ) from error
