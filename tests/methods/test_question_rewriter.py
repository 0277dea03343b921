"""Follow-up questions become questions that stand alone, within bounds, whatever the model writes."""

import asyncio

import pytest

from askance.ask import Engine
from askance.configuration.methods import make_method
from askance.conversation import Conversation
from askance.core.errors import LimitReached, ParameterError
from askance.core.token_ledger import Budget
from askance.core.trace import Asked, Generated, Noted, Searched
from askance.core.types import Demo, Passage, Question, Span
from askance.methods.common.question_rewriter import QuestionRewriter, rewriting_prompt
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.laboratory import EVERY_METHOD

FIRST = Demo("Who directed Fanny and Alexander?", "Fanny and Alexander was directed by Ingmar Bergman.")
FOLLOW_UP = "And where was he born?"
ALONE = "Where was Ingmar Bergman born?"
UPPSALA = Passage("p", "Ingmar Bergman", "Ingmar Bergman was born in Uppsala.")


def engine(*replies, method="single", rewriter=None, settings=None, **options):
    """Return an engine that plays the replies, and its retriever."""
    model, retriever = ScriptedModel(replies, **options), ScriptedRetriever((UPPSALA,))
    made = make_method(method, {"ask_short_answer": False, **(settings or {})})
    return Engine(made, {"answer": model}, retriever, rewriter=rewriter or QuestionRewriter())


def asked(engine, text=FOLLOW_UP, history=(FIRST,)):
    return engine.ask(Question("q", text, history=history))


def rewriting(result):
    """The decision about the rewrite."""
    (decision,) = [each for each in result.trace.decisions if each.name == "rewrite"]
    return decision


def notes(result):
    return [event.text for event in result.trace.events if isinstance(event, Noted)]


def test_the_method_answers_the_rewritten_question_and_the_trace_has_both():
    made = engine(f" {ALONE}\nIt is known.", " He was born in Uppsala.")
    result = asked(made)
    decision = rewriting(result)
    assert (decision.outcome, decision.query) == ("rewritten", ALONE)
    assert decision.why == f"the question refers to earlier turns, so it is asked as: {ALONE}"
    assert decision.numbers == {"turns": 1.0, "turns left out": 0.0}
    assert made.retriever.queries == [ALONE]
    question = result.trace.events[0]
    assert isinstance(question, Asked)
    assert (question.text, question.history) == (FOLLOW_UP, (FIRST,))
    rewrite, answer = [event for event in result.trace.events if isinstance(event, Generated)]
    assert rewrite.key == ("rewrite",)
    assert FIRST.answer in rewrite.prompt
    assert FOLLOW_UP in rewrite.prompt
    assert FOLLOW_UP not in answer.prompt
    assert FIRST.question not in answer.prompt
    assert notes(result) == []


@pytest.mark.parametrize("capabilities", [{"chat"}, {"raw"}])
def test_the_prompt_suits_what_the_model_accepts(capabilities):
    made = engine(ALONE, "Uppsala.", capabilities=frozenset(capabilities))
    asked(made)
    prompt = made.models["answer"].prompts[0]
    assert prompt.startswith("<|system|>") == (capabilities == {"chat"})
    assert FOLLOW_UP in prompt


UNUSABLE = {
    "the model wrote no rewrite": " \n",
    "the model's rewrite is no question": " He was born in Uppsala.",
    "the model's rewrite names what the conversation does not": " Where was Gustav Klimt born?",
    "the model repeated an earlier question": f" {FIRST.question}",
    "the model's rewrite has no end": " Where was Ingmar Bergman born" + " and born" * 200,
}


@pytest.mark.parametrize(("reason", "reply"), UNUSABLE.items())
def test_an_unusable_rewrite_leaves_the_question_as_it_is_with_a_note(reason, reply):
    made = engine(reply, " He was born in Uppsala.")
    result = asked(made)
    decision = rewriting(result)
    assert (decision.outcome, decision.query) == ("keep", "")
    assert decision.why.startswith(reason)
    (note,) = notes(result)
    assert note.startswith(f"the follow-up question is asked as it is: {reason}")
    assert made.retriever.queries == [FOLLOW_UP]


def test_a_question_that_stands_alone_is_kept_without_a_note():
    made = engine("Who wrote Emma?", " Jane Austen.")
    result = asked(made, "who wrote  Emma?")
    assert rewriting(result).outcome == "keep"
    assert notes(result) == []
    assert made.retriever.queries == ["who wrote  Emma?"]


def test_a_question_without_history_costs_no_call():
    result = asked(engine(" He was born in Uppsala."), ALONE, history=())
    assert result.usage.generated_tokens < 10
    assert all(decision.name != "rewrite" for decision in result.trace.decisions)


def test_without_a_rewriter_the_method_gets_the_history():
    model = ScriptedModel([" Uppsala."])
    made = Engine(make_method("closed_book", {"ask_short_answer": False}), {"answer": model})
    asked(made)
    assert FIRST.question in model.prompts[0]


def turns(number):
    return tuple(Demo(f"Who made film {each}?", f"Film {each} was made by Ann.") for each in range(number))


def test_the_prompt_shows_the_last_turns_only():
    made = engine(ALONE, "Uppsala.", rewriter=QuestionRewriter(turns=2))
    result = asked(made, history=turns(9))
    assert rewriting(result).numbers == {"turns": 2.0, "turns left out": 7.0}
    prompt = made.models["answer"].prompts[0]
    assert ["film 6" in prompt, "film 7" in prompt, "film 8" in prompt] == [False, True, True]


@pytest.mark.parametrize(("tokens", "num_turns"), [(64, 2), (80, 3), (1024, 6)])
def test_the_prompt_shows_the_turns_that_fit(tokens, num_turns):
    model = ScriptedModel()
    question = Question("q", FOLLOW_UP, history=turns(9))
    shown = asyncio.run(QuestionRewriter(history_tokens=tokens).clipped(question, model))
    assert shown == turns(9)[-num_turns:]


def test_a_last_turn_that_does_not_fit_is_cut():
    long = Demo("Who made it? " * 300, "It was made by Ann. " * 300)
    model = ScriptedModel()
    question = Question("q", "When?", history=(FIRST, long))
    (cut,) = asyncio.run(QuestionRewriter(history_tokens=64).clipped(question, model))
    assert long.question.startswith(cut.question)
    assert long.answer.startswith(cut.answer)
    assert [len(model.tokenize(cut.question)), len(model.tokenize(cut.answer))] == [26, 26]


def test_a_window_without_room_for_turns_costs_no_call():
    model = ScriptedModel([" Uppsala."], context_tokens=280)
    settings = {"ask_short_answer": False, "max_tokens": 8, "prompts": "plain"}
    made = Engine(make_method("closed_book", settings), {"answer": model}, rewriter=QuestionRewriter())
    result = asked(made)
    assert rewriting(result).why == "the context window has no room for earlier turns"
    assert rewriting(result).numbers == {"turns": 0.0, "turns left out": 1.0}
    assert len(model.prompts) == 1


def test_markup_in_the_conversation_is_no_markup_in_the_prompt():
    model = ScriptedModel(capabilities=frozenset({"raw"}))
    (markup,) = model.tokenize((Span("<|system|>"),))
    for turn, last in ((Demo("Who<|system|>", "He."), "When?"), (FIRST, "When<|system|>?")):
        assert markup not in model.prompt_ids(rewriting_prompt(model, (turn,), last))


def test_the_rewrite_counts_in_the_budget():
    made = engine(ALONE, "Uppsala.")
    made.budget = Budget(calls=1)
    with pytest.raises(LimitReached):
        asked(made)


def test_out_of_range_limits_are_named():
    with pytest.raises(ParameterError, match="parameter turns=0 of the question rewriter"):
        QuestionRewriter(turns=0)


@pytest.mark.parametrize("method", [name for name in EVERY_METHOD if name != "selfrag_authors"])
def test_every_method_searches_for_the_rewritten_question(method):
    """The first search of every method that searches with the question is made with the rewritten one."""
    rewritten = []

    def reply(prompt, key):
        if key[2:] == ("rewrite",):
            rewritten.append(prompt)
            return ALONE
        return " He was born in Uppsala. So the answer is Uppsala."

    model, retriever = ScriptedModel(reply), ScriptedRetriever((UPPSALA,))
    settings = {"verifier": "jcd"} if method == "airrag" else {}
    made = Engine(make_method(method, settings), {"answer": model}, retriever, rewriter=QuestionRewriter())
    result = asked(made)
    assert len(rewritten) == 1
    assert all(FOLLOW_UP not in prompt for prompt in model.prompts[1:])
    searched = [event.query for event in result.trace.events if isinstance(event, Searched)]
    assert FOLLOW_UP not in searched


def test_a_conversation_remembers_its_turns():
    made = engine(" Ingmar Bergman directed it.", ALONE, " He was born in Uppsala.")
    made.rewriter = None
    conversation = Conversation(made)
    conversation.ask(FIRST.question)
    result = conversation.ask(FOLLOW_UP)
    assert made.retriever.queries == [FIRST.question, ALONE]
    assert [turn.question for turn in conversation.history] == [FIRST.question, FOLLOW_UP]
    assert conversation.history[1].answer == result.answer.text
    assert made.rewriter is None


def test_a_question_that_fails_leaves_the_history_unchanged():
    conversation = Conversation(engine(RuntimeError("no")))
    with pytest.raises(Exception, match="no"):
        asyncio.run(conversation.answer(FIRST.question))
    assert conversation.history == ()
