"""Every method on two tiny random architectures with different tokenizers, and on the bundled model."""

import asyncio

import pytest

from askance.ask import ask
from askance.core.trace import Attended, Decided, Generated, ScoredOptions
from askance.core.types import Question
from askance.methods.members import Members
from askance.retrieval.bm25 import open_index
from askance.wire import METHODS, make_method, method_class

QUESTION = Question("q", "In which city was the director of Fanny and Alexander born?", demos=())


CODE = ["closed_book", "single", "fixed_length", "fixed_sentence", "dragin"]
"""Methods whose default is not the reading of the authors' code; it is tried, too."""


@pytest.mark.parametrize(
    ("name", "profile"),
    [*((name, None) for name in METHODS), *((n, "code") for n in CODE), ("dragin", "paper")],
)
@pytest.mark.parametrize("model_name", ["llama", "qwen", "bundled"])
def test_method(name, profile, model_name, request, sample_index):
    model = request.getfixturevalue(model_name)
    few = {
        "passages": 1, "look_ahead_tokens": 12, "max_tokens": 24,
        "query_tokens": 24, "answer_tokens": 16, "summary_tokens": 16, "line_tokens": 12, "max_iters": 2,
    }  # fmt: skip

    def knobs_of(name):
        return {knob: few[knob] for knob in few if hasattr(method_class(name), knob)}

    knobs = knobs_of(name)
    if name == "blender":
        members = ("single", "iterdrag")
        knobs["methods"] = Members(tuple((each, make_method(each, knobs_of(each))) for each in members))
    method = make_method(name, knobs | ({"profile": profile} if profile else {}))
    result = asyncio.run(ask(QUESTION, method, {"answer": model}, open_index(sample_index)))

    generated = [event for event in result.trace.events if isinstance(event, Generated)]
    assert result.usage.generated_tokens == sum(event.generated_tokens for event in generated) > 0
    passes = [event for event in result.trace.events if isinstance(event, Attended | ScoredOptions)]
    assert result.usage.prompt_tokens == sum(event.prompt_tokens for event in (*generated, *passes))
    assert result.trace.committed.strip() == result.answer.text.strip()
    assert result.usage.searches == sum(
        isinstance(event, Decided) and event.outcome == "search" for event in result.trace.events
    )
    again = asyncio.run(ask(QUESTION, method, {"answer": model}, open_index(sample_index)))
    assert again.answer == result.answer


def test_sampling_depends_on_nothing_but_seed_question_and_call(bundled, sample_index):
    """Two questions at once answer as each does alone."""
    method, retriever = make_method("flare", {"max_tokens": 16, "passages": 1}), open_index(sample_index)
    questions = [Question("a", "Where was Ingmar Bergman born?", demos=()), QUESTION]

    async def together():
        return await asyncio.gather(*(ask(q, method, {"answer": bundled}, retriever) for q in questions))

    alone = [asyncio.run(ask(q, method, {"answer": bundled}, retriever)) for q in questions]
    assert [r.answer for r in asyncio.run(together())] == [r.answer for r in alone]
