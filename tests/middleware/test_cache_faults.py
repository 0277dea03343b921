"""A cache with a fault at each operation, or a limit to its files: it never changes or stops an answer.

python -m tests.middleware.test_cache_faults FOLDER KIND
"""

import asyncio
import json
import random
import shutil
import signal
import sys
from itertools import count
from pathlib import Path

import pytest

from askance.core.errors import InputError
from askance.core.notes import noted
from askance.core.types import Raw, Scored, Span
from askance.middleware import cache
from askance.middleware.cache import CachedModel, CacheStore
from askance.models.scripted import ScriptedModel
from tests.faults import FAULTLESS, FAULTY, ODD, Faults, in_child, limited_files, results_of

PROMPTS, OPTIONS, MAX_BYTES = "abcde", [*map(str, range(200))], 20_000
"""The cache has no room for the results of all prompts."""
ANSWERS = {
    each: tuple(Scored(random.Random(each + option).random(), 1) for option in OPTIONS) for each in PROMPTS
}


class Model(ScriptedModel):
    """A model that counts its calls."""

    fingerprint, num_calls = "weights", 0

    async def score(self, prompt, options):
        self.num_calls += 1
        return ANSWERS[prompt.parts[0].text]


@pytest.mark.parametrize("kind", ["kill", "error", "full"])
def test_a_fault_at_each_operation_of_a_cache(kind):
    found = results_of("tests.middleware.test_cache_faults", kind)
    assert found["operations"] >= 11
    assert found["limits"] >= 8 or kind == "full"


def ask(store: CacheStore, prompts: str = PROMPTS) -> int:
    """Ask a model for its scores after some prompts, and return the number of calls that it got."""
    model = Model()
    asked = CachedModel(model, store)
    for each in prompts:
        assert asyncio.run(asked.score(Raw((Span(each),)), OPTIONS)) == ANSWERS[each]
    return model.num_calls


def main(folder: Path, kind: str) -> None:
    path, flaws = folder / "cache" / "file.sqlite", list[str]()
    cache._PUTS_A_CHECK = 2

    def faulty(faults: Faults | None, limit: int) -> int:
        if faults:
            faults.install()
        with limited_files(limit, kind):
            try:
                store = CacheStore(path, MAX_BYTES)
            except InputError as error:
                return FAULTY if f"the cache {path} can't be used" in str(error) else ODD
            with noted(lambda name, text: notes.append(text)):
                ask(store)
        assert all(f"the cache {path} can't be written (" in text for text in notes)
        return FAULTY if notes or (faults and faults.has_passed()) else FAULTLESS

    def again() -> int:
        store = CacheStore(path, MAX_BYTES)
        ask(store)
        assert ask(store, PROMPTS[::-1]) < len(PROMPTS), "the cache keeps nothing"
        return FAULTLESS

    def happens(what: str, faults: Faults | None = None, limit: int = 1 << 40) -> bool:
        shutil.rmtree(path.parent, ignore_errors=True)
        ended, after = in_child(lambda: faulty(faults, limit)), in_child(again)
        usual = (-signal.SIGKILL, -signal.SIGXFSZ) if kind == "kill" else (FAULTY,)
        if ended not in (FAULTLESS, *usual) or after != FAULTLESS:
            flaws.append(f"{what}: ended with {ended}, then with {after}")
        return ended not in (FAULTLESS, ODD)

    notes: list[str] = []
    number = next(n for n in count(1) if not happens(f"operation {n}", Faults(folder, n, kind)))
    size = max(file.stat().st_size for file in path.parent.iterdir())
    limits = () if kind == "full" else range(0, size, size // 10)
    num_limits = sum(happens(f"at most {limit} bytes", limit=limit) for limit in limits)
    print(json.dumps({"operations": number - 1, "limits": num_limits, "flaws": flaws}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
