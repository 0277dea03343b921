"""Cross-encoders: the contract of their port, and a critic's judgements, roles, cost and cache."""

import asyncio
import json
import math
from functools import partial

import pytest
from tests.contracts.pair_scorer_contract import PairScorerContract
from tests.methods.reflecting import (
    ARNO,
    IN_ARNO,
    PO,
    QUESTION,
    native,
    tried,
)
from tests.methods.reflecting import (
    run as answer,
)
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
from askance.models.pair_scorer import load_cross_encoder
from askance.models.scripted import ScriptedPairScorer
from askance.retrieval.scripted import ScriptedRetriever

SCORER = ScriptedPairScorer()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_cross_encoder(tmp_path_factory.mktemp("critic"))


@pytest.fixture(scope="module")
def critic(folder):
    return load_models({"critic": f"cross-encoder:{folder}?device=cpu"})["critic"]


@pytest.fixture(scope="module")
def bundled():
    return load_cross_encoder()


class TestAdapters(PairScorerContract):
    """Torch, onnxruntime, the scripted fake, and a wrapper."""

    @pytest.fixture(params=["critic", "bundled", "scripted", "cached"])
    def scorer(self, request, tmp_path):
        if request.param in ("scripted", "cached"):
            scripted = ScriptedPairScorer()
            return (
                cached_model(scripted, CacheStore(tmp_path / "cache"))
                if request.param == "cached"
                else scripted
            )
        return request.getfixturevalue(request.param)


def logit(folder, query, passage):
    """The score of the same model as a reranker."""
    return asyncio.run(load_cross_encoder(str(folder), device="cpu").score(query, [passage]))[0]


@pytest.mark.parametrize("role", ["answer", "attend", "judge"])
def test_no_other_role_takes_it(critic, role):
    method = Dragin() if role == "attend" else Airrag(verifier="rm")
    with pytest.raises(MissingAbility, match=f"role {role}"):
        Engine(method, {"answer": plain(), role: critic}, ScriptedRetriever(()))


def test_it_is_loaded_as_no_language_model(folder):
    with pytest.raises(MissingAbility, match="only judges pairs of texts: give it the role critic"):
        load_model(f"cross-encoder:{folder}")


@implements(PairScorer)
def one_of_my_own():
    return ScriptedPairScorer()


def undeclared():
    return ScriptedPairScorer()


@pytest.mark.parametrize(
    "spec", ["askance.models.scripted:ScriptedPairScorer", f"{__name__}:one_of_my_own", f"{__name__}:SCORER"]
)
def test_one_of_somebody_s_own_by_name(spec):
    assert isinstance(load_models({"critic": spec})["critic"], ScriptedPairScorer)
    with pytest.raises(MissingAbility, match="model scripted in the role answer only judges pairs"):
        load_model(spec)


def test_a_function_that_declares_no_port_is_not_called():
    with pytest.raises(InputError, match="does not declare itself a model, so it is not called"):
        load_models({"critic": f"{__name__}:undeclared"})


def test_the_bundled_reranker_takes_no_place():
    assert load_reranker("bundled").name == "cross-encoder:bundled"
    with pytest.raises(UnknownName, match="'bundled:x'"):
        load_reranker("bundled:x")


def test_a_repeated_pair_is_scored_once(tmp_path):
    scorer, store = ScriptedPairScorer(), CacheStore(tmp_path / "cache")
    results = [
        answer(selfrag(), {"answer": plain(), "critic": cached_model(scorer, store)}, (ARNO,))[0]
        for _ in range(2)
    ]
    assert len(scorer.pairs) == 2, "relevance and support"
    assert results[0].usage.prompt_tokens == results[1].usage.prompt_tokens
    unnamed = ScriptedPairScorer()
    unnamed.fingerprint = ""
    with pytest.raises(InputError, match="can't be cached"):
        cached_model(unnamed, store)


def test_the_trace_has_the_pair_and_its_two_probabilities():
    result, _, _ = answer(selfrag(), {"answer": plain(), "critic": ScriptedPairScorer()}, (ARNO,))
    scored = [event for event in result.trace.events if event.type == "score" and event.role == "critic"]
    assert [event.options for event in scored] == [("relevant", "irrelevant")] * 2
    assert all(sum(map(math.exp, event.logprobs)) == near(1.0) for event in scored)
    assert scored[0].prompt == f"{QUESTION.text}\n{ARNO.titled_text}"
    assert scored[0].prompt_tokens == len(scored[0].prompt.split())


@pytest.mark.parametrize(
    ("score_pairs", "error"),
    [
        (partial(Session(Trace(), budget=Budget(tokens=5)).score, "critic", SCORER), LimitReached),
        (budgeted(SCORER, TokenLedger(5)).score_pairs, NoRoom),
    ],
)
def test_the_tokens_of_pairs_count(score_pairs, error):
    asyncio.run(score_pairs([("Which river?", "Arno")]))
    with pytest.raises(error):
        asyncio.run(score_pairs([("Which river?", "Arno")]))


def check_judgements(result, folder, text):
    judged = tried(result)["0.1"].distributions
    relevance = 1 / (1 + math.exp(-logit(folder, QUESTION.text, ARNO)))
    support = 1 / (1 + math.exp(-logit(folder, f"{QUESTION.text} {text}", ARNO)))
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
    model = native(
        {
            IN_ARNO: "[Irrelevant]The Arno.[No support / Contradictory][Utility:5]",
            "[No Retrieval]The Arno.": "[Utility:5]",
            "### Response:\n": "[Retrieval]",
        }
    )
    result, _, _ = answer(Selfrag(scorer="native"), {"answer": model, "critic": critic}, (ARNO,))
    check_judgements(result, folder, "The Arno.")


def test_on_the_command_line(run, sample_index, folder):
    code, out, told = run(
        "ask", "Which river?", "--index", sample_index, "--method", "selfrag", "--set", "mode=always",
        "--model", "scripted", "--model", f"critic=cross-encoder:{folder}", "--json",
    )  # fmt: skip
    assert code == 0, told
    assert json.loads(out)
    code, _, told = run("ask", "Which river?", "--index", sample_index, "--model", f"cross-encoder:{folder}")
    assert code == 2
    assert "only judges pairs of texts" in " ".join(told.split())


def test_counting_tokens_does_not_disturb_a_thread_that_scores(folder, monkeypatch):
    """A tokenizer is told how to truncate by a call of its own, which a call in another thread would undo."""
    scorer = load_cross_encoder(str(folder), device="cpu")
    scoring, changed = scorer._module.tokenizer, []
    real = type(scoring).set_truncation_and_padding

    def noted(self, *options, **more):
        changed.append(self)
        real(self, *options, **more)

    monkeypatch.setattr(type(scoring), "set_truncation_and_padding", noted)
    long = Passage("a", "Arno", "It flows through Florence. " * 100)
    asyncio.run(scorer.score("Which river?", [long]))
    assert any(each is scoring for each in changed)
    changed.clear()
    assert scorer.count_tokens("Which river?", long.titled_text) == scorer.max_tokens
    assert changed
    assert not any(each is scoring for each in changed)
