"""The format of a search agent: named, or known from the name of a published checkpoint."""

import asyncio

import pytest

from askance.configuration.methods import make_method, notes_on
from askance.core.trace import Generated
from askance.core.types import Question
from askance.methods.loops.search_agent import FORMATS
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.asking import ask

CHECKPOINTS = {
    "PeterJinGo/SearchR1-nq_hotpotqa_train-qwen2.5-7b-em-ppo": "search_r1",
    "agentrl/ReSearch-Qwen-7B-Instruct": "research",
    "/models/agentrl/ReSearch-Qwen-32B": "research",
    "XXsongLALA/Llama-3.1-8B-instruct-RAG-RL": "r1_searcher",
    "Qwen/Qwen2.5-7B-Instruct": "",
    "scripted": "",
}


@pytest.mark.parametrize(("name", "trained_on"), CHECKPOINTS.items())
def test_the_name_of_a_published_checkpoint_decides_on_its_format(name, trained_on):
    model = ScriptedModel(["<answer>Bonn</answer>"] * len(FORMATS), name=name)
    method, question = make_method("search_agent"), Question("q", "Where?", demos=())
    result = asyncio.run(ask(question, method, {"answer": model}, ScriptedRetriever([])))
    (call,) = [event for event in result.trace.events if isinstance(event, Generated)]
    assert FORMATS[trained_on or "search_r1"].instruction in call.prompt
    assert not list(notes_on(method, {"answer": model}, ""))
    for other in FORMATS:
        warnings = list(notes_on(make_method(f"search_agent(format={other})"), {"answer": model}, ""))
        told = f"{name} was trained on the tags of {trained_on}, not of {other}: leave out format."
        assert warnings == ([told] if trained_on not in ("", other) else [])
