"""A tiny model that is taught Search-R1's tags in seconds: real tokens, and a real stop at closing tags."""

import asyncio

import pytest

pytest.importorskip("torch")

import torch

from askance.configuration.methods import make_method
from askance.core.trace import Generated
from askance.core.types import Passage, Question
from askance.methods.common.prompts import PromptTemplate
from askance.models.hf import load_hf
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.asking import ask
from tests.models.tiny import byte_level_tokenizer, tiny_module

TOWNS = {"Peru": "Lima", "Chad": "Doha", "Fiji": "Suva", "Mali": "Bern"}
"""Each country with the capital that its passage names, which in two cases is not the true one."""
RETRIEVER = ScriptedRetriever(
    {
        country: [Passage(country, country, f"The capital of {country} is {town}.")]
        for country, town in TOWNS.items()
    }
)
METHOD = make_method(
    "search_agent(passages=1, max_tokens=40, ask_short_answer=false)",
    {"prompts": PromptTemplate((), before_question="Use tags.\n")},
)
AFTER = " the dog ran after"
"""What the model is taught to write after each closing tag, so that only the tag ends its turn."""
MAX_STEPS, SMALL_LOSS = 150, 0.01


def question(country):
    return Question(country, f"What is the capital of {country}?", demos=())


def run(country, model):
    result = asyncio.run(ask(question(country), METHOD, {"answer": model}, RETRIEVER))
    return result, [event for event in result.trace.events if isinstance(event, Generated)]


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """A random model that learned both turns of each question, as a scripted model writes them."""
    tokenizer, rows = byte_level_tokenizer(), []
    for country, town in TOWNS.items():
        turns = [f"<search> {country} </search>", f"<answer> {town} </answer>"]
        _, calls = run(country, ScriptedModel([turn + AFTER for turn in turns]))
        assert [call.text for call in calls] == turns
        texts = [(call.prompt, turn + AFTER) for call, turn in zip(calls, turns, strict=True)]
        rows += [tuple(map(tokenizer.encode, pair)) for pair in texts]
    longest = max(len(prompt) + len(turn) for prompt, turn in rows)
    ids, labels = torch.zeros(len(rows), longest, dtype=int), torch.full((len(rows), longest), -100)
    for row, (prompt, turn) in enumerate(rows):
        whole = torch.tensor(prompt + turn)
        ids[row, : len(whole)], labels[row, len(prompt) : len(whole)] = whole, whole[len(prompt) :]
    sizes = {"hidden_size": 64, "intermediate_size": 128, "initializer_range": 0.05}
    module = tiny_module("qwen2", vocabulary=len(tokenizer), **sizes)
    optimiser = torch.optim.AdamW(module.parameters(), lr=1e-2)
    for _ in range(MAX_STEPS):
        loss = module(input_ids=ids, labels=labels).loss
        if loss.item() < SMALL_LOSS:
            break
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    folder = tmp_path_factory.mktemp("models") / "PeterJinGo" / "SearchR1-tiny"
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return load_hf(str(folder), device="cpu", dtype="float32")


@pytest.mark.parametrize(("country", "town"), TOWNS.items())
def test_a_taught_model_searches_in_tags_and_answers_in_tags(taught, country, town):
    result, calls = run(country, taught)
    assert [call.text for call in calls] == [f"<search> {country} </search>", f"<answer> {town} </answer>"]
    assert [call.finish for call in calls] == ["</search>", "</answer>"]
    assert [each.query for each in result.trace.decisions if each.query] == [country]
    found = f"<information>\n[1] {country}: The capital of {country} is {town}.\n</information>"
    assert (found in calls[0].prompt, found in calls[1].prompt) == (False, True)
    assert (result.answer.text, result.answer.short) == (town, town)
    assert [each.passage.id for each in result.answer.citations] == [country]


def test_the_tags_alone_end_the_turns_of_a_taught_model(taught):
    """With another format, no tag that the model writes ends its turn, and nothing is searched for."""
    method = make_method(
        "search_agent(format=r1_searcher, max_tokens=40, ask_short_answer=false)", {"prompts": METHOD.prompts}
    )
    result = asyncio.run(ask(question("Peru"), method, {"answer": taught}, RETRIEVER))
    texts = [event.text for event in result.trace.events if isinstance(event, Generated)]
    assert texts[0].startswith("<search> Peru </search>" + AFTER)
    assert (result.usage.searches, result.answer.text) == (0, "")
