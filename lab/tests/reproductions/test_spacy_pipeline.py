"""The reproductions with a spaCy pipeline that is made here: no model is downloaded."""

import asyncio

from askance.ask import ask
from askance.configuration.methods import make_method
from askance.core.types import Passage, Question
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.text.test_spacy_pipeline import pipeline

__all__ = ["pipeline"]


def test_a_method_reads_with_the_pipeline_that_its_parameter_names(pipeline):
    spec = pipeline("sentencizer", "entity_ruler")
    method = make_method("flare_entity", {"linguistics": spec, "threshold": "0.5"})
    doubtful = Reply(" Ann met Jo Smith. So it was.", {"Ann": 0.1, "Jo": 0.1, "Smith": 0.1})
    model = ScriptedModel([doubtful, " So the answer is Bonn."])
    retriever = ScriptedRetriever([Passage("a", "A", "Text.")])
    asyncio.run(ask(Question("q", "Who?"), method, {"answer": model}, retriever))
    assert retriever.queries == ["Ann met ."]
