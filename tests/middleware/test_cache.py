"""What was asked is not computed again, what is asked otherwise is; the file of answers stays in bounds."""

import asyncio
import gc
import multiprocessing
import sqlite3
from dataclasses import asdict, replace

import numpy as np
import pytest

from askance.core.errors import InputError
from askance.core.notes import noted
from askance.core.types import Chat, GenerateRequest, Passage, Raw, Sampling, Span, Want
from askance.middleware.cache import CachedModel, CachedRetriever, CacheStore, request_id
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.text.answers import SentenceEnd

ALL = Want(logprob=True, top_logprobs=2, entropy=True, token_probs=("the",), attention="heads")
PROMPT = Raw((Span("Where does the Arno end?"),))
DRAWN = Sampling(6, temperature=1.0)
ARNO = Passage("1", "Arno", "It ends near Pisa.", "a.txt", 3, 9)


def counting(name):
    async def call(self, *given, **named):
        self.num_calls += 1
        return await getattr(ScriptedModel, name)(self, *given, **named)

    return call


class Counted(ScriptedModel):
    """A model that counts its calls."""

    fingerprint, num_calls = "weights", 0
    generate, score, attend = map(counting, ("generate", "score", "attend"))


@pytest.fixture
def store(tmp_path):
    made = CacheStore(tmp_path / "folder" / "cache.sqlite")
    yield made
    made.close()


def generate(model, sampling=Sampling(6), want=Want(), key=("k",), prompt=PROMPT, **options):
    return asyncio.run(model.generate(GenerateRequest(prompt, sampling, want, key=key, **options)))


def as_plain(result):
    return [asdict(each) for each in (result if isinstance(result, tuple) else [result])]


def test_everything_of_a_text_comes_back_also_in_the_next_process(tmp_path):
    model, results = Counted(), []
    for _ in range(2):
        store = CacheStore(tmp_path / "cache.sqlite")
        results.append(generate(CachedModel(model, store), DRAWN, ALL, n=2))
        store.close()
    assert model.num_calls == 1
    for one, other in zip(*results, strict=True):
        assert other.reused_tokens == other.prompt_tokens == one.prompt_tokens
        np.testing.assert_equal(asdict(other) | {"reused_tokens": one.reused_tokens}, asdict(one))
        assert other.tokens[0].attention.dtype == np.float32


@pytest.mark.parametrize(
    ("first", "second", "num_calls"),
    [
        ({}, {"sampling": Sampling(7)}, 2),
        ({}, {"want": ALL}, 2),
        ({}, {"n": 2}, 2),
        ({}, {"until": SentenceEnd()}, 2),
        ({}, {"prompt": replace(PROMPT, keeps_thoughts=True)}, 2),
        ({}, {"prompt": Raw((Span("Where does the Arno end?", trusted=False),))}, 2),
        ({}, {"key": ("other",)}, 1),  # nothing is drawn
        ({"sampling": DRAWN}, {"sampling": DRAWN, "key": ("other",)}, 2),
        ({"sampling": DRAWN}, {"sampling": DRAWN}, 1),
    ],
)
def test_what_is_asked_otherwise_is_another_call(store, first, second, num_calls):
    model = Counted()
    generate(CachedModel(model, store), **first)
    pieces = []
    text = generate(CachedModel(model, store), **second, on_text=pieces.append)[0].text
    assert model.num_calls == num_calls
    assert "".join(pieces) == text, "a watcher sees the text, kept or not"


def test_the_id_of_a_request_has_no_field_that_few_requests_set(store):
    """A field more in every id would make the results of all caches useless."""
    model = CachedModel(Counted(), store)
    generate(model)
    asyncio.run(model.score(PROMPT, [" yes"]))
    source = model._source
    assert store.find(request_id("generate", source, PROMPT, Sampling(6), Want(), None, 1, ())) is not None
    assert store.find(request_id("score", source, PROMPT, (" yes",))) is not None
    assert "keeps_thoughts" not in repr((PROMPT, Chat(())))


def test_another_model_and_another_version_of_askance_are_asked_themselves(store, monkeypatch):
    model = Counted()
    generate(CachedModel(model, store))
    model.fingerprint = "other weights"
    generate(CachedModel(model, store))
    monkeypatch.setattr("askance.middleware.cache.VERSION", "99.0")
    generate(CachedModel(model, store))
    assert model.num_calls == 3
    with pytest.raises(InputError, match="the results of 'scripted' can't be cached"):
        CachedModel(ScriptedModel(), store)


def test_scores_attention_and_searches(store):
    model, retriever = Counted(), ScriptedRetriever([ARNO])
    retriever.fingerprint = "index"
    asked, library = CachedModel(model, store), CachedRetriever(retriever, store)
    for call in (
        lambda: asked.score(PROMPT, [" yes", " no"]),
        lambda: asked.attend("the Arno ends", bos=False),
        lambda: library.search("Arno", 3, exclude=frozenset("ab")),
        lambda: library.search("Arno", 3),
        lambda: library.search("Arno", 2),
    ):
        first, second = asyncio.run(call()), asyncio.run(call())
        np.testing.assert_equal(as_plain(second), as_plain(first))
    assert (model.num_calls, len(retriever.queries)) == (2, 3)


def test_what_is_kept_is_found_and_no_more_is_kept_than_may_be(tmp_path):
    store = CacheStore(tmp_path / "cache.sqlite", max_bytes=30_000)
    store.keep(b"a", {"text": "Pisa \ud800", "numbers": [1, 0.1, None]})
    store.keep(b"b", 2)
    store.keep(b"b", 3)
    assert store.find(b"a") == {"text": "Pisa \ud800", "numbers": [1, 0.1, None]}
    assert store.find(b"b") == 3
    assert store.find(b"c") is None
    random = np.random.default_rng(0)
    for number in range(200):
        store.keep(number.to_bytes(4), random.bytes(500).hex())
    assert store.num_bytes < 30_000 + 64 * 600
    assert store.find((199).to_bytes(4)) is not None
    assert store.find((0).to_bytes(4)) is None
    store.close()


def write_many(path, first):
    store = CacheStore(path)
    for number in range(first, first + 100):
        store.keep(number.to_bytes(4), number)
        assert store.find(number.to_bytes(4)) == number
    store.close()


def test_several_processes_at_once(tmp_path):
    path = tmp_path / "cache.sqlite"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=write_many, args=(path, 100 * number)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    store = CacheStore(path)
    assert [store.find(number.to_bytes(4)) for number in range(200)] == [*range(200)]
    store.close()


def test_files_that_are_refused_and_left_as_they_are(tmp_path):
    notes, letters = tmp_path / "notes.txt", tmp_path / "letters.sqlite"
    notes.write_text("Dear diary, " * 100)
    with sqlite3.connect(letters) as database:
        database.execute("CREATE TABLE letters (text)")
    database.close()
    before = notes.read_bytes(), letters.read_bytes()
    for path, message in (
        (notes, r"notes\.txt can't be used .*not a database.*name another file"),
        (letters, r"letters\.sqlite is the database of another program: name another"),
        (notes / "cache.sqlite", "can't be used"),
    ):
        with pytest.raises(InputError, match=message):
            CacheStore(path)
    assert (notes.read_bytes(), letters.read_bytes()) == before


def test_what_can_not_be_kept_leaves_the_file_free(tmp_path):
    path = tmp_path / "cache.sqlite"
    store, other = CacheStore(path), CacheStore(path)
    store._database.execute("PRAGMA max_page_count = 1")
    notes = []
    with noted(lambda *note: notes.append(note)):
        store.keep(b"a", np.random.default_rng(0).bytes(100_000).hex())
    full = f"the cache {path} can't be written (database or disk is full), and keeps no new results."
    assert (notes, store.find(b"a")) == ([("cache", full)], None)
    other.keep(b"b", 1)
    assert store.find(b"b") == 1
    store.close()
    other.close()


def test_a_store_that_nobody_has_gives_its_file_back(tmp_path):
    store = CacheStore(tmp_path / "cache.sqlite")
    store.keep(b"a", 1)
    database = store._database
    del store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("SELECT 1")
