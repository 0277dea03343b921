"""The index and the keys of the simulated server: who may see which river."""

import atexit
import json
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from askance.retrieval.filters import parse_filter
from askance.retrieval.index.build import build_index
from askance.retrieval.index.documents import Document
from askance.retrieval.index.writer import open_writer
from askance.serve.security import Keys

ALICE, BOB, CAROL = KEYS = ("key-of-alice-1234", "key-of-bob-123456", "key-of-carol-1234")
PUBLIC = {"Alba": "red", "Brenna": "blue"}
OWNED = {ALICE: ("Ciraz", "red"), BOB: ("Dovrin", "blue"), CAROL: ("Elmet", "red")}
NEVER = float("inf")
RIVERS = frozenset(PUBLIC) | {river for river, _ in OWNED.values()}
FILTER = 'team = "red"'
"""The filter of Carol's key."""


def keys():
    return Keys({key: parse_filter(FILTER) if key == CAROL else None for key in KEYS})


@dataclass
class Written:
    """A document that a client adds and deletes while others ask: when it may and when it has to be found.
    Without a key, all may find it.

    A call that was cut off may have been carried out. The numbers are ticks of the timeline.
    """

    key: str | None
    put_sent: float = NEVER
    put_acknowledged: float = NEVER
    delete_sent: float = NEVER
    delete_acknowledged: float = NEVER

    def may_show(self, began, now):
        return self.put_sent <= now and began <= self.delete_acknowledged

    def must_show(self, began, now):
        return self.put_acknowledged < began and now < self.delete_sent


def visible(key, where=None):
    """The rivers that a request with this key and filter may learn of."""
    teams = {**PUBLIC, OWNED[key][0]: OWNED[key][1]}
    wanted = {text for text in (where, FILTER if key == CAROL else None) if text}
    return {river for river, team in teams.items() if all(team in text for text in wanted)}


def text_of(river):
    return f"The river {river} flows at Bonn."


@cache
def index_folder():
    """An index with public documents, and with one that each key has added over HTTP."""
    folder = Path(tempfile.mkdtemp(prefix="askance-simulation-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rows = [{"id": river, "text": text_of(river), "team": team} for river, team in PUBLIC.items()]
    (folder / "rivers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    build_index([folder / "rivers.jsonl"], folder / "index")
    with open_writer(folder / "index", encoder=None) as writer:
        for key, (river, team) in OWNED.items():
            owner = keys().owner_of(f"Bearer {key}")
            writer.upsert(Document(river, river, text_of(river), path=f"http:{owner}", fields={"team": team}))
        writer.commit()
    return folder / "index"
