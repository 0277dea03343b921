"""Every method on two tiny random architectures with different tokenizers, and on the bundled model."""

import asyncio

import pytest

from askance.configuration.methods import make_method
from askance.core.ports import WrappedModel
from askance.core.trace import Attended, Decided, Generated, ScoredOptions
from askance.core.types import Question
from askance.inference.vocabulary import Vocabulary
from askance.retrieval.bm25 import open_index
from tests.asking import ask
from tests.choices import watched_choices
from tests.laboratory import EVERY_METHOD
from tests.methods.test_over_a_server import short

QUESTION = Question("q", "In which city was the director of Fanny and Alexander born?", demos=())

OPERATIONS = {"llama": "two layers", "qwen": "two layers", "bundled": "thirty layers"}
"""What the numbers of a model that torch computes may be off by, where sums are added up otherwise."""
FOR_ANY_MODEL = [name for name in EVERY_METHOD if name != "selfrag_authors"]  # it needs reflection tokens
LIMITS = {
    "passages": 1, "look_ahead_tokens": 12, "max_tokens": 24, "drafts": 2,
    "query_tokens": 24, "answer_tokens": 16, "summary_tokens": 16, "line_tokens": 12, "max_iters": 2,
}  # fmt: skip
BY_TORCH = ("single", "dragin", "selfrag")
"""What torch computes on the bundled model, too, and llama.cpp with all of its layers."""


@pytest.mark.parametrize(
    ("model_name", "name"),
    [
        *((model, name) for model in ("llama", "qwen", "bundled_gguf") for name in FOR_ANY_MODEL),
        *(("bundled", name) for name in BY_TORCH),
    ],
)
def test_method(model_name, name, request, sample_index):
    has_few_layers = model_name == "bundled_gguf" and name not in BY_TORCH
    model = request.getfixturevalue("few_layers_gguf" if has_few_layers else model_name)
    method = short(name, LIMITS)
    result = asyncio.run(ask(QUESTION, method, {"answer": model}, open_index(sample_index)))
    events = result.trace.events
    generated = [event for event in events if isinstance(event, Generated)]
    assert result.usage.generated_tokens == sum(event.generated_tokens for event in generated) > 0
    passes = [event for event in events if isinstance(event, Attended | ScoredOptions)]
    assert result.usage.prompt_tokens == sum(event.prompt_tokens for event in (*generated, *passes))
    assert result.trace.committed.strip() == result.answer.text.strip()
    searches = [event for event in events if isinstance(event, Decided) and event.outcome == "search"]
    assert result.usage.searches == len(searches)
    with watched_choices() as choices:
        again = asyncio.run(ask(QUESTION, method, {"answer": model}, open_index(sample_index)))
    # What is cached from the first time is not computed again; by torch, sums are then added up otherwise.
    may_differ = model_name in OPERATIONS and not choices.are_clear(OPERATIONS[model_name])
    assert again.answer == result.answer or may_differ


def test_sampling_depends_on_nothing_but_seed_question_and_call(few_layers_gguf, sample_index):
    """Two questions at once answer as each does alone."""
    method, retriever = make_method("flare", {"max_tokens": 16, "passages": 1}), open_index(sample_index)
    questions = [Question("a", "Where was Ingmar Bergman born?", demos=()), QUESTION]

    async def together():
        return await asyncio.gather(
            *(ask(q, method, {"answer": few_layers_gguf}, retriever) for q in questions)
        )

    alone = [asyncio.run(ask(q, method, {"answer": few_layers_gguf}, retriever)).answer for q in questions]
    assert [result.answer for result in asyncio.run(together())] == alone


class Kept(WrappedModel):
    """Keeps what the model generated."""

    def __init__(self, model):
        super().__init__(model)
        self.found = []

    async def generate(self, request):
        self.found += (found := await super().generate(request))
        return found


@pytest.mark.parametrize("model_name", ["llama", "qwen", "bundled_gguf"])
def test_dragin_decodes_no_token_of_its_prompts(model_name, request, sample_index, monkeypatch):
    """Except for the last few, without which the first generated token has no text."""
    decoded, decode = [], Vocabulary.decode
    monkeypatch.setattr(Vocabulary, "decode", lambda self, ids: decoded.append((*ids,)) or decode(self, ids))
    model = Kept(request.getfixturevalue(model_name))
    method = make_method("dragin", {"threshold": 0.2, "passages": 1, "max_tokens": 24})
    result = asyncio.run(ask(QUESTION, method, {"answer": model}, open_index(sample_index)))
    decided = [event for event in result.trace.decisions if event.name == "retrieve"]
    assert any(decision.words for decision in decided), "attention was read"
    ends = {written.prompt_ids[-number:] for written in model.found for number in range(9)}
    generated = {token.id for written in model.found for token in (*written.tokens, *written.dropped)}
    assert [ids for ids in decoded if ids not in ends and ids[-1] not in generated] == []
    assert len(decoded) < sum(len(written.prompt_ids) for written in model.found)
