"""Test a language model as a reranker: its prompt, its scores, and which models can't be one."""

import asyncio
import math

import pytest
from tests.tolerances import near

from askance.configuration.build import load_reranker
from askance.core.errors import MissingAbility, ModelFailure, ModelSpecError, RetrieverFailure, UnknownName
from askance.core.types import Passage
from askance.models.label_reranker import LabelReranker
from askance.models.scripted import ScriptedModel
from askance.retrieval.reranking import RerankedRetriever
from askance.retrieval.scripted import ScriptedRetriever

PISA = Passage("1", "Pisa", "Pisa lies on the Arno.", "towns", 0, 22)
ULM = Passage("2", "Ulm", "Ulm lies on the Danube.", "towns", 0, 23)
LONG = Passage("3", "", "Ulm lies here. " * 100 + "It is on the Danube.", "towns", 0, 1520)
QUERY = "Where does Ulm lie?"


class Judge(ScriptedModel):
    """A model that says Yes with probability 0.8 if the passage names the Danube, and 0.2 if not."""

    def __init__(self, **options):
        self.prompts = []
        super().__init__(scores=self._logprob, **options)

    def _logprob(self, prompt, option):
        text = prompt if isinstance(prompt, str) else self.decode(prompt)
        self.prompts.append(text)
        return math.log(0.8 if ("Danube." in text) == (option.strip() == "Yes") else 0.2)


@pytest.mark.parametrize("capabilities", [{"score", "chat"}, {"score"}])
def test_the_score_is_the_probability_of_yes(capabilities):
    judge = Judge(capabilities=frozenset(capabilities))
    reranker = LabelReranker(judge)
    assert asyncio.run(reranker.score(QUERY, [PISA, ULM])) == [near(0.2), near(0.8)]
    assert all("Does the passage answer the question?" in prompt for prompt in judge.prompts)
    expected = f"Question: {QUERY}\nPassage: Ulm: Ulm lies on the Danube."
    assert any(expected in prompt for prompt in judge.prompts)
    hits = asyncio.run(RerankedRetriever(ScriptedRetriever([PISA, ULM]), reranker).search(QUERY, 2))
    assert [hit.passage.id for hit in hits] == ["2", "1"]
    assert load_reranker("model:scripted").name == reranker.name
    assert (reranker.name, reranker.fingerprint) == ("the probability of Yes by scripted", "")
    judge.fingerprint = "judge-1"
    assert "judge-1" in LabelReranker(judge).fingerprint


def test_a_passage_that_does_not_fit_is_cut_at_its_end():
    judge = Judge(context_tokens=120)
    assert asyncio.run(LabelReranker(judge).score(QUERY, [LONG])) == [near(0.2)], "the Danube is cut off"
    assert "Ulm lies here." in judge.prompts[0]
    assert asyncio.run(LabelReranker(Judge()).score(QUERY, [LONG])) == [near(0.8)]


def broken(prompt, option):
    raise ModelFailure("the server is gone.")


def search_with(model):
    return asyncio.run(RerankedRetriever(ScriptedRetriever([PISA]), LabelReranker(model)).search(QUERY, 1))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: LabelReranker(ScriptedModel(capabilities=frozenset({"chat"}))),
            MissingAbility,
            "scripted can't rerank passages.*name another model",
        ),
        (lambda: search_with(ScriptedModel(scores=broken)), RetrieverFailure, "not be searched .*is gone"),
        (lambda: load_reranker("model:hf"), ModelSpecError, "names no model: write hf:NAME"),
        (lambda: load_reranker("model:hg:x"), UnknownName, "unknown model 'hg:x'"),
        (lambda: load_reranker("model:hf:x?dtpe=bfloat16"), UnknownName, "unknown model option 'dtpe'"),
    ],
)
def test_models_that_can_not_rerank(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
