"""A language model as a reranker: what it is asked, how it scores, and which models can't be one."""

import asyncio
import json
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


class Judge(ScriptedModel):
    """Gives the reply Yes the probability `share` if the passage names the Danube, and 1 - `share` if not."""

    def __init__(self, share=0.8, **options):
        self.texts = []
        self.share = share
        super().__init__(scores=self._logprob, **options)

    def _logprob(self, prompt, option):
        text = prompt if isinstance(prompt, str) else self.decode(prompt)
        self.texts.append(text)
        yes = self.share if "Danube." in text else 1 - self.share
        return math.log(yes if option.strip() == "Yes" else 1 - yes)


def scores(reranker, *passages, query="Where does Ulm lie?"):
    return asyncio.run(reranker.score(query, passages))


@pytest.mark.parametrize("capabilities", [{"score", "chat"}, {"score"}])
def test_the_score_is_the_probability_of_yes(capabilities):
    judge = Judge(capabilities=frozenset(capabilities))
    pisa, ulm = scores(LabelReranker(judge), PISA, ULM)
    assert (near(0.2), near(0.8)) == (pisa, ulm)
    assert all("Does the passage answer the question?" in text for text in judge.texts)
    assert any(
        "Question: Where does Ulm lie?\nPassage: Ulm: Ulm lies on the Danube." in each for each in judge.texts
    )


def test_passages_are_reordered_by_it():
    retriever = RerankedRetriever(ScriptedRetriever([PISA, ULM]), LabelReranker(Judge()))
    hits = asyncio.run(retriever.search("Where does Ulm lie?", 2))
    assert [hit.passage.id for hit in hits] == ["2", "1"]


def test_a_passage_that_does_not_fit_is_cut_at_its_end():
    long = Passage("3", "", "Ulm lies here. " * 100 + "It is on the Danube.", "towns", 0, 1520)
    judge = Judge(context_tokens=120)
    assert scores(LabelReranker(judge), long) == [near(0.2)], "the end with the Danube is cut off"
    assert "Ulm lies here." in judge.texts[0]
    assert scores(LabelReranker(Judge()), long) == [near(0.8)]


def test_a_model_that_scores_no_options_can_not_rerank():
    with pytest.raises(MissingAbility, match=r"scripted can't rerank passages.*name another model"):
        LabelReranker(ScriptedModel(capabilities=frozenset({"chat"})))


def test_the_fingerprint_is_that_of_the_model():
    judge = Judge()
    assert LabelReranker(judge).fingerprint == ""
    judge.fingerprint = "judge-1"
    assert "judge-1" in LabelReranker(judge).fingerprint
    assert LabelReranker(judge).name == "the probability of Yes by scripted"


def test_a_model_by_name():
    assert load_reranker("model:scripted").name == "the probability of Yes by scripted"
    with pytest.raises(ModelSpecError, match="names no model: write hf:NAME"):
        load_reranker("model:hf")
    with pytest.raises(UnknownName, match="unknown model 'hg:x'"):
        load_reranker("model:hg:x")
    with pytest.raises(UnknownName, match="unknown model option 'dtpe'"):
        load_reranker("model:hf:x?dtpe=bfloat16")


def test_a_model_by_name_on_the_command_line(sample_index, run):
    code, out, error = run(
        "search", "Which river?", "--index", sample_index, "--rerank", "model:scripted?candidates=4", "--json"
    )
    assert code == 0, error
    found = [hit["score"] for hit in json.loads(out)["hits"]]
    assert found == sorted(found, reverse=True)
    assert all(0 <= score <= 1 for score in found)


def test_a_model_that_fails_is_a_failure_of_the_retriever():
    def broken(prompt, option):
        raise ModelFailure("the server is gone.")

    retriever = RerankedRetriever(ScriptedRetriever([PISA]), LabelReranker(ScriptedModel(scores=broken)))
    with pytest.raises(RetrieverFailure, match=r"could not be searched .*the server is gone"):
        asyncio.run(retriever.search("Which river?", 1))
