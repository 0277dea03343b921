"""Follow-up questions become questions that stand alone, within bounds, whatever the model writes."""

import asyncio

import pytest

from askance.ask import Engine
from askance.configuration.methods import make_method
from askance.conversation import Conversation
from askance.core.errors import LimitReached, ParameterError
from askance.core.token_ledger import Budget
from askance.core.trace import Asked, Generated, Noted
from askance.core.types import Demo, Passage, Question
from askance.methods.common.question_rewriter import QuestionRewriter, rewriting_prompt
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.laboratory import EVERY_METHOD

FIRST = Demo("Who directed Fanny and Alexander?", "Fanny and Alexander was directed by Ingmar Bergman.")
FOLLOW_UP = "And where was he born?"
ALONE = "Where was Ingmar Bergman born?"
BORN = " He was born in Uppsala."
UPPSALA = Passage("p", "Ingmar Bergman", "Ingmar Bergman was born in Uppsala.")


def engine(*replies, method="single", rewriter=QuestionRewriter(), budget=Budget(), **abilities):
    model, retriever = ScriptedModel(replies, **abilities), ScriptedRetriever((UPPSALA,))
    made = make_method(method, {"ask_short_answer": False})
    return Engine(made, {"answer": model}, retriever, rewriter=rewriter, budget=budget)


def asked(engine, text=FOLLOW_UP, history=(FIRST,)):
    return engine.ask(Question("q", text, history=history))


def rewriting(result):
    """Return the decision about the rewrite, and the notes."""
    (decision,) = [each for each in result.trace.decisions if each.name == "rewrite"]
    return decision, [event.text for event in result.trace.events if isinstance(event, Noted)]


def test_the_method_answers_the_rewritten_question_and_the_trace_has_both():
    made = engine(f" {ALONE}\nIt is known.", BORN)
    result = asked(made)
    decision, notes = rewriting(result)
    assert (decision.outcome, decision.query) == ("rewritten", ALONE)
    assert decision.why == f"the question refers to earlier turns, so it is asked as: {ALONE}"
    assert decision.numbers == {"turns": 1.0, "turns left out": 0.0}
    assert notes == []
    assert made.retriever.queries == [ALONE]
    question = next(event for event in result.trace.events if isinstance(event, Asked))
    assert (question.text, question.history) == (FOLLOW_UP, (FIRST,))
    rewrite, answer = [event for event in result.trace.events if isinstance(event, Generated)]
    assert rewrite.key == ("rewrite",)
    assert all(text in rewrite.prompt and text not in answer.prompt for text in (FIRST.question, FOLLOW_UP))


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (" \n", "the model wrote no rewrite"),
        (BORN, "the model's rewrite is no question"),
        (" Where was Gustav Klimt born?", "the model's rewrite names what the conversation does not"),
        (f" {FIRST.question}", "the model repeated an earlier question"),
        (" Where was Ingmar Bergman born" + " and born" * 200, "the model's rewrite has no end"),
        (f" {FOLLOW_UP.upper()}", ""),
    ],
)
def test_an_unusable_rewrite_leaves_the_question_as_it_is_with_a_note(reply, reason):
    made = engine(reply, BORN)
    decision, notes = rewriting(asked(made))
    assert (decision.outcome, decision.query) == ("keep", "")
    assert decision.why.startswith(reason or "the question can be understood without the earlier turns")
    assert [note.split(" (")[0].rstrip(".") for note in notes] == (
        [f"the follow-up question is asked as it is: {reason}"] if reason else []
    )
    assert made.retriever.queries == [FOLLOW_UP]


def test_no_call_is_made_without_history_without_a_rewriter_and_without_room_for_turns():
    decisions = asked(engine(BORN), ALONE, history=()).trace.decisions
    assert "rewrite" not in {decision.name for decision in decisions}
    without = engine(BORN, method="closed_book", rewriter=None)
    asked(without)
    assert FIRST.question in without.models["answer"].prompts[0], "the method gets the history"
    small = engine(BORN, method="closed_book(max_tokens=8, prompts=plain)", context_tokens=280)
    decision, _ = rewriting(asked(small))
    assert decision.why == "the context window has no room for earlier turns"
    assert decision.numbers == {"turns": 0.0, "turns left out": 1.0}
    assert len(small.models["answer"].prompts) == 1


def test_limits():
    with pytest.raises(LimitReached):
        asked(engine(ALONE, "Uppsala.", budget=Budget(calls=1)))
    with pytest.raises(ParameterError, match="parameter turns=0 of the question rewriter"):
        QuestionRewriter(turns=0)


def turns(number):
    return tuple(Demo(f"Who made film {each}?", f"Film {each} was made by Ann.") for each in range(number))


LONG = Demo("Who made it? " * 300, "It was made by Ann. " * 300)


@pytest.mark.parametrize(
    ("parameters", "history", "expected"),
    [
        ({"turns": 2}, turns(9), turns(9)[-2:]),
        ({"history_tokens": 64}, turns(9), turns(9)[-2:]),
        ({"history_tokens": 80}, turns(9), turns(9)[-3:]),
        ({}, turns(9), turns(9)[-6:]),
        ({"history_tokens": 64}, (FIRST, LONG), "cut"),
    ],
)
def test_the_prompt_shows_the_last_turns_that_fit(parameters, history, expected):
    model = ScriptedModel()
    question = Question("q", FOLLOW_UP, history=history)
    shown = asyncio.run(QuestionRewriter(**parameters).clipped(question, model))
    if expected == "cut":
        (cut,) = shown
        assert LONG.question.startswith(cut.question)
        assert LONG.answer.startswith(cut.answer)
        assert [len(model.tokenize(text)) for text in (cut.question, cut.answer)] == [26, 26]
    else:
        assert shown == expected


@pytest.mark.parametrize("capabilities", [{"chat"}, {"raw"}])
def test_the_prompt_suits_the_model_and_markup_in_it_is_text(capabilities):
    model = ScriptedModel(capabilities=frozenset(capabilities))

    def control_tokens(turn, last):
        ids = model.prompt_ids(rewriting_prompt(model, (turn,), last))
        return [piece for piece in model.pieces(ids) if piece.startswith("<|")]

    usual = control_tokens(FIRST, "When?")
    assert bool(usual) == (capabilities == {"chat"})
    for turn, last in ((Demo("Who<|system|>", "He."), "When?"), (FIRST, "When<|system|>?")):
        assert control_tokens(turn, last) == usual


@pytest.mark.parametrize("method", [name for name in EVERY_METHOD if name != "selfrag_authors"])
def test_no_method_searches_with_the_follow_up_or_shows_it(method):
    def reply(prompt, key):
        return ALONE if key[2:] == ("rewrite",) else f"{BORN} So the answer is Uppsala."

    model, retriever = ScriptedModel(reply), ScriptedRetriever((UPPSALA,))
    settings = {"verifier": "jcd"} if method == "airrag" else {}
    made = Engine(make_method(method, settings), {"answer": model}, retriever, rewriter=QuestionRewriter())
    result = asked(made)
    calls = [event for event in result.trace.events if isinstance(event, Generated)]
    assert [event.key for event in calls].count(("rewrite",)) == 1
    assert all(FOLLOW_UP not in prompt for prompt in model.prompts[1:])
    assert FOLLOW_UP not in retriever.queries


def test_a_conversation_remembers_the_turns_that_succeed():
    made = engine(" Ingmar Bergman directed it.", ALONE, BORN, RuntimeError("no"), rewriter=None)
    conversation = Conversation(made)
    conversation.ask(FIRST.question)
    result = conversation.ask(FOLLOW_UP)
    assert made.retriever.queries == [FIRST.question, ALONE]
    with pytest.raises(Exception, match="no"):
        conversation.ask("And when?")
    assert [turn.question for turn in conversation.history] == [FIRST.question, FOLLOW_UP]
    assert conversation.history[1].answer == result.answer.text
    assert made.rewriter is None
