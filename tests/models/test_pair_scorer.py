"""Test cross-encoders: the contract of their port, and a critic's judgements, roles, cost and cache."""

import asyncio
import math
from functools import partial

import pytest
from tests.contracts.pair_scorer_contract import PairScorerContract
from tests.methods.reflecting import ARNO, IN_ARNO, PO, QUESTION, native, tried
from tests.methods.reflecting import run as answer
from tests.methods.test_selfrag_prompted import LABELS, plain, selfrag
from tests.models.tiny_cross_encoder import save_cross_encoder
from tests.tolerances import near

from askance.ask import Engine
from askance.configuration.build import load_model, load_models, load_reranker
from askance.core.errors import InputError, LimitReached, MissingAbility, UnknownName
from askance.core.extensions import implements
from askance.core.ports import PairScorer
from askance.core.token_ledger import Budget, NoRoom, TokenLedger, budgeted
from askance.core.trace import Trace
from askance.core.types import Passage
from askance.methods.airrag.method import Airrag
from askance.methods.dragin.method import Dragin
from askance.methods.selfrag.method import Selfrag
from askance.middleware.cache import CacheStore, cached_model
from askance.middleware.session import Session
from askance.models.loaders import load_cross_encoder
from askance.models.scripted import ScriptedPairScorer
from askance.retrieval.scripted import ScriptedRetriever

SCORER = ScriptedPairScorer()
PAIR = ("Which river?", "Arno")


@implements(PairScorer)
def declared():
    return ScriptedPairScorer()


def test_of_a_long_pair_only_so_much_is_tokenized_as_may_be_read():
    """A tokenizer that truncates makes all parts of both texts, which takes their product."""
    scorer, read = load_cross_encoder(), list[int]()
    tokenizer = scorer._tokenizer

    class Counting:
        def encode(self, *pair):
            read.extend(map(len, pair))
            return tokenizer.encode(*pair)

        def encode_batch(self, pairs):
            return [self.encode(*pair) for pair in pairs]

    scorer._tokenizer = Counting()
    long = ("Which river? " * 2_000, "[1]" * 20_000)
    assert scorer.count_tokens(*long) == scorer.max_tokens
    asyncio.run(scorer.score_pairs([long]))
    assert max(read) == 20 * scorer.max_tokens


def test_pairs_of_a_short_question_are_scored_between_those_of_a_long_one():
    scorer = ScriptedPairScorer()

    async def both():
        await asyncio.gather(scorer.score_pairs([("long " * 2_000, "a")] * 3), scorer.score_pairs([PAIR] * 9))

    asyncio.run(both())
    assert [query == PAIR[0] for query, _ in scorer.pairs] == [False, *[True] * 9, False, False]


def undeclared():
    return ScriptedPairScorer()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_cross_encoder(tmp_path_factory.mktemp("critic"))


@pytest.fixture(scope="module")
def critic(folder):
    return load_models({"critic": f"cross-encoder:{folder}?device=cpu"})["critic"]


@pytest.fixture(scope="module", params=["torch", "bundled", "scripted", "cached"])
def scorer(request, critic, tmp_path_factory):
    cache = CacheStore(tmp_path_factory.mktemp("cache") / "cache")
    return {
        "torch": critic,
        "bundled": load_cross_encoder(),
        "scripted": ScriptedPairScorer(),
        "cached": cached_model(ScriptedPairScorer(), cache),
    }[request.param]


class TestAdapters(PairScorerContract):
    """Torch, onnxruntime, the scripted fake, and a wrapper."""


def engine_with(critic, role):
    method = Dragin() if role == "attend" else Airrag(verifier="rm")
    return Engine(method, {"answer": plain(), role: critic}, ScriptedRetriever(()))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        *(
            (partial(engine_with, role=role), MissingAbility, f"role {role}")
            for role in ("answer", "attend", "judge")
        ),
        (
            lambda _: load_model(f"{__name__}:SCORER"),
            MissingAbility,
            "model scripted in the role answer only",
        ),
        (lambda _: load_models({"critic": f"{__name__}:undeclared"}), InputError, "declare itself a model"),
        (lambda _: load_reranker("bundled:x"), UnknownName, "'bundled:x'"),
    ],
)
def test_a_cross_encoder_is_no_language_model(critic, call, kind, message):
    with pytest.raises(kind, match=message):
        call(critic)


@pytest.mark.parametrize(
    "spec", ["askance.models.scripted:ScriptedPairScorer", f"{__name__}:declared", f"{__name__}:SCORER"]
)
def test_a_scorer_of_a_plug_in_has_a_name(spec):
    assert isinstance(load_models({"critic": spec})["critic"], ScriptedPairScorer)
    assert load_reranker("bundled").name == "cross-encoder:bundled"


def test_a_repeated_pair_is_scored_once_and_traced(tmp_path):
    scorer, store = ScriptedPairScorer(), CacheStore(tmp_path / "cache")
    models = {"answer": plain(), "critic": cached_model(scorer, store)}
    results = [answer(selfrag(), models, (ARNO,))[0] for _ in range(2)]
    assert len(scorer.pairs) == 2, "relevance and support"
    assert results[0].usage.prompt_tokens == results[1].usage.prompt_tokens
    scored = [entry for entry in results[0].trace.events if entry.type == "score" and entry.role == "critic"]
    assert [entry.options for entry in scored] == [("relevant", "irrelevant")] * 2
    assert all(sum(map(math.exp, entry.logprobs)) == near(1.0) for entry in scored)
    assert scored[0].prompt == f"{QUESTION.text}\n{ARNO.titled_text}"
    assert scored[0].prompt_tokens == len(scored[0].prompt.split())
    scorer.fingerprint = ""
    with pytest.raises(InputError, match="can't be cached"):
        cached_model(scorer, store)


@pytest.mark.parametrize(
    ("score_pairs", "error"),
    [
        (partial(Session(Trace(), budget=Budget(tokens=5)).score, "critic", SCORER), LimitReached),
        (budgeted(SCORER, TokenLedger(5)).score_pairs, NoRoom),
    ],
)
def test_the_tokens_of_pairs_count(score_pairs, error):
    asyncio.run(score_pairs([PAIR]))
    with pytest.raises(error):
        asyncio.run(score_pairs([PAIR]))


def check_judgements(result, folder, text):
    """Relevance and support are the scores of the same model as a reranker."""
    reranker, judged = load_cross_encoder(str(folder), device="cpu"), tried(result)["0.1"].distributions
    queries = QUESTION.text, f"{QUESTION.text} {text}"
    logits = [asyncio.run(reranker.score(query, [ARNO]))[0] for query in queries]
    relevance, support = (1 / (1 + math.exp(-logit)) for logit in logits)
    assert list(judged["relevance"].values()) == near([relevance, 1 - relevance], "encoder", "float32")
    assert list(judged["support"].values()) == near([support, 0, 1 - support], "encoder", "float32")
    return judged


def test_it_judges_relevance_and_support_and_the_model_the_rest(folder, critic):
    asked = []

    def score(prompt, option):
        asked.append(prompt)
        return LABELS[option.strip()]

    result, _, _ = answer(selfrag(), {"answer": plain(scores=score), "critic": critic}, (ARNO, PO))
    judged = check_judgements(result, folder, "The Arno flows there. So the answer is the Arno.")
    assert max(judged["utility"], key=judged["utility"].get) == "[Utility:5]"
    assert any("need a search" in prompt for prompt in asked)
    assert not any("back the sentence" in prompt or "useful for answering" in prompt for prompt in asked)


def test_a_model_with_reflection_tokens_keeps_the_decision_to_search(folder, critic):
    replies = {
        IN_ARNO: "[Irrelevant]The Arno.[No support / Contradictory][Utility:5]",
        "[No Retrieval]The Arno.": "[Utility:5]",
        "### Response:\n": "[Retrieval]",
    }
    models = {"answer": native(replies), "critic": critic}
    check_judgements(answer(Selfrag(scorer="native"), models, (ARNO,))[0], folder, "The Arno.")


def test_counting_tokens_does_not_disturb_a_thread_that_scores(folder, monkeypatch):
    """Truncation is set by a separate call to the tokenizer, which a call in another thread would undo."""
    scorer = load_cross_encoder(str(folder), device="cpu")
    scoring, changed = scorer._module.tokenizer, []
    set_truncation = type(scoring).set_truncation_and_padding

    def record(self, *options, **more):
        changed.append(self is scoring)
        set_truncation(self, *options, **more)

    monkeypatch.setattr(type(scoring), "set_truncation_and_padding", record)
    long = Passage("a", "Arno", "It flows through Florence. " * 100)
    asyncio.run(scorer.score("Which river?", [long]))
    assert any(changed)
    changed.clear()
    assert scorer.count_tokens("Which river?", long.titled_text) == scorer.max_tokens
    assert changed
    assert not any(changed)
