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
DRAWN = Sampling(6, temperature=1.0)


class Counted(ScriptedModel):
    """A model that counts its calls."""

    def __init__(self):
        super().__init__()
        self.num_calls, self.fingerprint = 0, "weights"

    async def generate(self, request):
        self.num_calls += 1
        return await super().generate(request)

    async def score(self, prompt, options):
        self.num_calls += 1
        return await super().score(prompt, options)

    async def attend(self, text, *, bos):
        self.num_calls += 1
        return await super().attend(text, bos=bos)


@pytest.fixture
def store(tmp_path):
    made = CacheStore(tmp_path / "folder" / "cache.sqlite")
    yield made
    made.close()


@pytest.fixture
def model():
    return Counted()


def generate(model, sampling=Sampling(6), want=Want(), key=("k",), prompt=PROMPT, **options):
    return asyncio.run(model.generate(GenerateRequest(prompt, sampling, want, key=key, **options)))


def test_everything_of_a_text_comes_back_also_in_the_next_process(tmp_path, model):
    results = []
    for _ in range(2):
        store = CacheStore(tmp_path / "cache.sqlite")
        results.append(generate(CachedModel(model, store), DRAWN, ALL, n=2))
        store.close()
    assert model.num_calls == 1
    for one, other in zip(*results, strict=True):
        assert (one.text, one.finish, one.prompt_ids) == (other.text, other.finish, other.prompt_ids)
        assert other.reused_tokens == other.prompt_tokens == one.prompt_tokens
        for before, after in zip((*one.tokens, *one.dropped), (*other.tokens, *other.dropped), strict=True):
            for field in ("id", "text", "start", "end", "logprob", "entropy", "top", "probs"):
                assert getattr(before, field) == getattr(after, field)
            np.testing.assert_array_equal(before.attention, after.attention)
            assert after.attention is None or after.attention.dtype == np.float32


@pytest.mark.parametrize(
    ("change", "num_calls"),
    [
        ({"sampling": Sampling(7)}, 2),
        ({"want": ALL}, 2),
        ({"n": 2}, 2),
        ({"until": SentenceEnd()}, 2),
        ({"prompt": Raw((Span("Where does the Arno end?", trusted=False),))}, 2),
        ({"key": ("other",)}, 1),  # nothing is drawn
    ],
)
def test_what_is_asked_otherwise_is_another_call(store, model, change, num_calls):
    asked = CachedModel(model, store)
    generate(asked)
    generate(asked, **change)
    assert model.num_calls == num_calls


def test_where_something_is_drawn_the_key_counts(store, model):
    asked = CachedModel(model, store)
    for key in ("a", "b", "a"):
        generate(asked, DRAWN, key=(key,))
    assert model.num_calls == 2


def test_another_model_and_another_version_of_askance_are_asked_themselves(store, model, monkeypatch):
    generate(CachedModel(model, store))
    model.fingerprint = "other weights"
    generate(CachedModel(model, store))
    monkeypatch.setattr("askance.middleware.cache.VERSION", "99.0")
    generate(CachedModel(model, store))
    assert model.num_calls == 3
    with pytest.raises(InputError, match="the results of 'scripted' can't be cached"):
        CachedModel(ScriptedModel(), store)


def test_a_watcher_sees_the_text_that_was_kept(store, model):
    asked, pieces = CachedModel(model, store), []
    text = generate(asked)[0].text
    generate(asked, on_text=pieces.append)
    assert pieces == [text]


def test_scores_and_attention(store, model):
    asked = CachedModel(model, store)
    first, second = (asyncio.run(asked.score(PROMPT, [" yes", " no"])) for _ in range(2))
    assert first == second
    one, other = (asyncio.run(asked.attend("the Arno ends", bos=False)) for _ in range(2))
    assert (one.ids, one.texts) == (other.ids, other.texts)
    np.testing.assert_array_equal(one.weights, other.weights)
    assert model.num_calls == 2


def test_searches(store):
    class Library:
        name, fingerprint, queries = "library", "index", []

        async def search(self, query, k, *, exclude=frozenset()):
            self.queries.append(query)
            return (Hit(Passage("1", "Arno", "It ends near Pisa.", "a.txt", 3, 9), 1.5, 1),)

    asked = CachedRetriever(Library(), store)
    found = [asyncio.run(asked.search("Arno", 3, exclude=frozenset("ab"))) for _ in range(2)]
    assert found[0] == found[1]
    asyncio.run(asked.search("Arno", 3))
    asyncio.run(asked.search("Arno", 2))
    assert len(Library.queries) == 3
