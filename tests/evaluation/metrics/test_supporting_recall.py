import asyncio

import pytest

from askance.ask import ask
from askance.core.trace import Searched, Trace
from askance.core.types import Hit, Passage, Question
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.answers import supporting_recall
from askance.methods.baselines import Single
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.storage.trace_file import read_trace, trace_text, write_file

EXAMPLE = Example(Question("q", "Which river?"), ("Rhine",), ("Fidelio", "Bonn"))


def searched(*rounds):
    """A trace in which each round found passages with these titles; a title's passage is always the same."""
    trace = Trace()
    for titles in rounds:
        hits = tuple(Hit(Passage(f"id of {t}", t, "…"), 1.0, rank) for rank, t in enumerate(titles, start=1))
        trace.add(Searched, query="q", k=len(titles), hits=hits)
    return trace.events


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ([], 0),
        ([["Tosca", "Fidelio"]], 1 / 2),
        ([["Tosca", "Fidelio"], ["Bonn"]], 1),
        ([["Fidelio"], ["Fidelio"]], 1 / 2),
        ([["bonn", "Bonn (film)"]], 0),
    ],
)
def test_over_all_searches(rounds, expected):
    assert supporting_recall(searched(*rounds), EXAMPLE) == expected


def test_over_the_first_different_passages():
    events = searched(["Tosca", "Fidelio"], ["Tosca", "Fidelio", "Bonn"])
    assert [supporting_recall(events, EXAMPLE, first=first) for first in (1, 2, 3)] == [0, 1 / 2, 1]
    late = searched(["a", "b", "c"], ["d", "e", "Bonn"])
    assert supporting_recall(late, EXAMPLE, first=5) == 0
    assert supporting_recall(late, EXAMPLE) == 1 / 2


def test_two_passages_of_one_document_are_different_passages():
    hits = tuple(Hit(Passage(str(n), "Fidelio", "…"), 1.0, n) for n in (1, 2))
    trace = Trace()
    trace.add(Searched, query="q", k=2, hits=hits)
    events = [*trace.events, *searched(["Bonn"])]
    assert supporting_recall(events, EXAMPLE, first=2) == 1 / 2
    assert supporting_recall(events, EXAMPLE, first=3) == 1


def test_nothing_to_find():
    assert supporting_recall(searched(["Bonn"]), Example(EXAMPLE.question, ("Rhine",))) is None


def test_of_a_real_trace_in_memory_and_from_its_file(tmp_path):
    retriever = ScriptedRetriever(
        [Passage("1", "Bonn", "Bonn is a city."), Passage("2", "Fidelio", "An opera.")]
    )
    question = Question("q", "Bonn city Fidelio opera?")
    result = asyncio.run(
        ask(question, Single(ask_short_answer=False), {"answer": ScriptedModel([" Rhine."])}, retriever)
    )
    write_file(tmp_path / "trace.jsonl", trace_text(result.trace))
    of_memory = supporting_recall(result.trace.events, EXAMPLE)
    assert of_memory == supporting_recall(read_trace(tmp_path / "trace.jsonl"), EXAMPLE) == 1
