import asyncio

import pytest

from askance.ask import ask
from askance.core.errors import PromptTooLong
from askance.core.trace import Committed, Searched
from askance.core.types import Demo, Passage, Question
from askance.methods.baselines import ClosedBook, Single
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever

QUESTION = Question("q", "Which river flows through Pisa?")
ARNO = Passage("a", "Arno", "The Arno flows through Pisa.")


def test_closed_book_asks_once_and_searches_never():
    model = ScriptedModel([" The Arno does. So the answer is Arno.\n\nQuestion: next"])
    result = asyncio.run(ask(QUESTION, ClosedBook(), {"answer": model}))
    assert (result.answer.text, result.answer.short) == ("The Arno does. So the answer is Arno.", "Arno")
    assert not any(isinstance(event, Searched) for event in result.trace.events)
    assert model.prompts[0].endswith("Question: Which river flows through Pisa?\nAnswer:")
    assert "Context:" not in model.prompts[0]


def test_what_closed_book_commits_in_flight_is_its_answer():
    heard = []
    model = ScriptedModel([" The Arno.\n\nmore"])
    asyncio.run(ask(QUESTION, ClosedBook(ask_short_answer=False), {"answer": model}, trace=_trace(heard)))
    pieces = [event.text for event in heard if isinstance(event, Committed)]
    assert len(pieces) > 1
    assert "".join(pieces) == " The Arno."


def test_single_searches_with_the_question_and_shows_what_it_found():
    model, retriever = ScriptedModel([" The Arno flows through Pisa."]), ScriptedRetriever([ARNO] * 5)
    result = asyncio.run(
        ask(QUESTION, Single(passages=2, ask_short_answer=False), {"answer": model}, retriever)
    )
    assert retriever.queries == [QUESTION.text]
    assert "Context:\n[1] Arno: The Arno flows through Pisa.\n[2] Arno" in model.prompts[0]
    assert "[3]" not in model.prompts[0]
    assert [c.passage.id for c in result.answer.citations] == ["a"]


def test_few_shot_examples_history_and_options_of_a_question():
    question = Question(
        "q",
        "Which one?",
        task="choice",
        options=("Arno", "Po"),
        demos=(Demo("Own?", "Yes."),),
        history=(Demo("Before?", "That."),),
    )
    model = ScriptedModel([" It is the Po."])
    result = asyncio.run(ask(question, ClosedBook(ask_short_answer=False), {"answer": model}))
    assert model.prompts[0] == (
        "Question: Own?\nAnswer: Yes.\n\nQuestion: Before?\nAnswer: That.\n\n"
        "Question: Which one?\nOptions: Arno; Po\nAnswer:"
    )
    assert result.answer.short == "Po"


def test_a_model_that_only_chats_is_asked_in_turns():
    model = ScriptedModel(["It is."], capabilities=frozenset({"chat", "continuation"}))
    asyncio.run(ask(QUESTION, Single(ask_short_answer=False), {"answer": model}, ScriptedRetriever([ARNO])))
    assert model.prompts[0].startswith("<|system|>")
    assert model.prompts[0].endswith("Which river flows through Pisa?<|end|><|assistant|>")
    assert model.prompts[0].count("<|user|>") == 5


def test_passages_longer_than_the_context_window_are_an_error_with_the_numbers():
    model = ScriptedModel([" x"], context_tokens=400)
    passage = Passage("a", "Arno", "The Arno flows on and on. " * 100)
    with pytest.raises(PromptTooLong, match=r"window of 400.*--set passages=N"):
        asyncio.run(ask(QUESTION, Single(), {"answer": model}, ScriptedRetriever([passage])))
    assert model.prompts == []


def test_the_same_seed_gives_the_same_answer_and_another_question_another():
    def text(question_id, seed):
        model = ScriptedModel(lambda prompt, key: f" {abs(hash(key))}")
        return asyncio.run(
            ask(Question(question_id, "Q?"), ClosedBook(), {"answer": model}, seed=seed)
        ).answer.text

    assert text("a", 1) == text("a", 1)
    assert len({text("a", 1), text("b", 1), text("a", 2)}) == 3


def _trace(heard):
    from askance.core.trace import Trace

    return Trace(heard.append)
