"""A cross-encoder as a critic: what it judges, what it can't do, and which methods ask it."""

import asyncio
import json
import math

import pytest
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
from askance.core.errors import MissingAbility
from askance.core.ports import Model
from askance.core.types import PAIR_LABELS, GenerateRequest, Passage, Raw, Sampling, Span
from askance.loaders import load_models
from askance.methods.airrag.method import Airrag
from askance.methods.selfrag.method import Selfrag
from askance.models.cross_encoders import load_cross_encoder
from askance.retrieval.scripted import ScriptedRetriever


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_cross_encoder(tmp_path_factory.mktemp("critic"))


@pytest.fixture(scope="module")
def critic(folder):
    return load_models({"critic": f"cross-encoder:{folder}?device=cpu"})["critic"]


def pair(query, passage):
    return Raw((Span(query),), (Span(passage),))


def logit(folder, query, passage):
    """The score of the same model as a reranker."""
    return asyncio.run(load_cross_encoder(str(folder), device="cpu").score(query, [passage]))[0]


def test_the_labels_have_the_probabilities_of_the_logit(folder, critic):
    assert isinstance(critic, Model)
    assert critic.capabilities == {"pair"}
    passage = Passage("a", "Arno", "It flows.")
    scores = asyncio.run(critic.score(pair("Which river?", passage.titled_text), PAIR_LABELS))
    odds = scores[0].logprob - scores[1].logprob
    assert odds == near(logit(folder, "Which river?", passage), "encoder", "float32")
    assert sum(math.exp(each.logprob) for each in scores) == near(1.0)
    assert critic.fingerprint == load_cross_encoder(str(folder)).fingerprint


def test_a_pair_is_counted_as_it_is_read(critic):
    short, long = pair("Which?", "It."), pair("Which?", "word " * 500)
    assert 0 < critic.count(short) < critic.count(long) == critic.context_tokens


def test_it_writes_nothing_and_shows_no_attention(critic):
    with pytest.raises(MissingAbility, match="writes no text: give it the role critic"):
        asyncio.run(critic.generate(GenerateRequest(pair("a", "b"), Sampling(1), key=())))
    with pytest.raises(MissingAbility, match="shows no attention"):
        asyncio.run(critic.attend("a", bos=True))


@pytest.mark.parametrize("role", ["answer", "judge"])
def test_no_other_role_takes_it(critic, role):
    models = {"answer": plain(), role: critic}
    with pytest.raises(MissingAbility, match=f"role {role}"):
        Engine(Airrag(verifier="rm"), models, ScriptedRetriever(()))


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
