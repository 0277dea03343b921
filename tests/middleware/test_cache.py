"""What was asked is not computed again, and what is asked otherwise is."""

import asyncio

import numpy as np
import pytest

from askance.core.errors import InputError
from askance.core.types import GenerateRequest, Hit, Passage, Raw, Sampling, Span, Want
from askance.middleware.cache import CachedModel, CachedRetriever, CacheStore
from askance.models.scripted import ScriptedModel
from askance.text.answers import SentenceEnd

ALL = Want(logprob=True, top_logprobs=2, entropy=True, token_probs=("the",), attention="heads")
PROMPT = Raw((Span("Where does the Arno end?"),))


class Counted(ScriptedModel):
    def __init__(self):
        super().__init__()
        self.num_calls, self.fingerprint = 0, "weights"

    async def generate(self, request):
        self.num_calls += 1
        return await super().generate(request)

    async def score(self, *given, **options):
        self.num_calls += 1
        return await super().score(*given, **options)

    async def attend(self, *given, **options):
        self.num_calls += 1
        return await super().attend(*given, **options)


@pytest.fixture
def store(tmp_path):
    made = CacheStore(tmp_path / "folder" / "cache.sqlite")
    yield made
    made.close()


@pytest.fixture
def model():
    return Counted()


def cached(model, store):
    return CachedModel(model, store)


def generate(model, sampling=Sampling(6), want=Want(), key=("k",), prompt=PROMPT, **options):
    return asyncio.run(model.generate(GenerateRequest(prompt, sampling, want, key=key, **options)))


def test_everything_of_a_text_comes_back(store, model):
    asked = cached(model, store)
    first, second = (generate(asked, Sampling(6, temperature=1.0), ALL, n=2) for _ in range(2))
    assert model.num_calls == 1
    for one, other in zip(first, second, strict=True):
        assert (one.text, one.finish, one.prompt_ids) == (other.text, other.finish, other.prompt_ids)
        assert other.reused_tokens == other.prompt_tokens == one.prompt_tokens
        for before, after in zip((*one.tokens, *one.dropped), (*other.tokens, *other.dropped), strict=True):
            for field in ("id", "text", "start", "end", "logprob", "entropy", "top", "probs"):
                assert getattr(before, field) == getattr(after, field)
            if before.attention is None:
                assert after.attention is None
            else:
                np.testing.assert_array_equal(before.attention, after.attention)
                assert after.attention.dtype == np.float32


@pytest.mark.parametrize(
    "change",
    [
        {"sampling": Sampling(7)},
        {"want": ALL},
        {"n": 2},
        {"until": SentenceEnd()},
        {"prompt": Raw((Span("Where does the Arno end?", trusted=False),))},
        {"sampling": Sampling(6, temperature=1.0), "key": ("other",)},
    ],
)
def test_what_is_asked_otherwise_is_another_call(store, model, change):
    asked = cached(model, store)
    generate(asked)
    generate(asked, **({"sampling": Sampling(6, temperature=1.0)} if "key" in change else {}))
    before = model.num_calls
    generate(asked, **change)
    assert model.num_calls == before + 1


def test_where_nothing_is_drawn_the_key_does_not_count(store, model):
    asked = cached(model, store)
    assert generate(asked, key=("a",))[0].text == generate(asked, key=("b",))[0].text
    assert model.num_calls == 1


def test_another_model_is_asked_itself(store, model):
    generate(cached(model, store))
    model.fingerprint = "other weights"
    generate(cached(model, store))
    assert model.num_calls == 2


def test_another_version_of_askance_asks_itself(store, model, monkeypatch):
    generate(cached(model, store))
    monkeypatch.setattr("askance.middleware.cache.VERSION", "99.0")
    generate(cached(model, store))
    assert model.num_calls == 2


def test_what_nothing_tells_from_others_can_not_be_kept(store):
    with pytest.raises(InputError, match="the results of 'scripted' can't be cached"):
        cached(ScriptedModel(), store)


def test_a_watcher_sees_the_text_that_was_kept(store, model):
    asked, pieces = cached(model, store), []
    text = generate(asked)[0].text
    generate(asked, on_text=pieces.append)
    assert pieces == [text]


def test_scores_and_attention(store, model):
    asked = cached(model, store)
    first, second = (asyncio.run(asked.score(PROMPT, [" yes", " no"])) for _ in range(2))
    assert first == second
    one, other = (asyncio.run(asked.attend("the Arno ends", bos=False)) for _ in range(2))
    assert (one.ids, one.texts) == (other.ids, other.texts)
    np.testing.assert_array_equal(one.weights, other.weights)
    assert model.num_calls == 2


def test_searches(store):
    calls = []

    class Library:
        name, fingerprint = "library", "index"

        async def search(self, query, k, *, exclude=frozenset()):
            calls.append(query)
            return (Hit(Passage("1", "Arno", "It ends near Pisa.", "a.txt", 3, 9), 1.5, 1),)

    asked = CachedRetriever(Library(), store)
    found = [asyncio.run(asked.search("Arno", 3, exclude=frozenset("ab"))) for _ in range(2)]
    assert found[0] == found[1]
    asyncio.run(asked.search("Arno", 3))
    assert len(calls) == 2


def test_it_is_there_in_the_next_process(tmp_path, model):
    for _ in range(2):
        store = CacheStore(tmp_path / "cache.sqlite")
        generate(cached(model, store))
        store.close()
    assert model.num_calls == 1
