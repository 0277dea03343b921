"""Blender: members answer on their own, fail on their own, and one call makes one answer of theirs."""

import asyncio
import random
from dataclasses import dataclass

import pytest

from askance.ask import ask
from askance.configuration.methods import make_method
from askance.core.answers import Answer, Citation
from askance.core.errors import (
    AllFailed,
    LimitReached,
    MissingAbility,
    ModelFailure,
    ParameterError,
    PresetError,
    UnknownName,
)
from askance.core.ports import Needs
from askance.core.token_ledger import Budget
from askance.core.trace import Decided, Failed, Generated, Searched
from askance.core.types import GenerateRequest, Question, Raw, Sampling, Span
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.parameters import LITE, Actions
from askance.methods.baselines import ClosedBook, Single
from askance.methods.blender import PAPER_MEMBERS, Blender
from askance.methods.common.named_methods import Members
from askance.methods.common.prompts import PLAIN
from askance.methods.dragin.method import Dragin
from askance.methods.selfrag.method import Selfrag
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.methods.bridge import BRIDGE, CREEK, OTHER_CREEK, PASSAGES, QUESTION, decisions, playing, run
from tests.methods.test_token_limit import num_read
from tests.tolerances import near

CHOSEN = "It is the Delaware River"
HOTPOT = "llama2-13b-chat/hotpotqa"


@dataclass(frozen=True, slots=True)
class Says:
    """A member that searches, asks the model nothing unless told to, and answers as it is told."""

    text: str = "Delaware"
    short: str = ""
    query: str = "creek"
    cites: bool = True
    num_calls: int = 0
    error: Exception | None = None

    needs = Needs(retriever=True)

    async def answer(self, question, run):
        run.trace.decide("retrieve", "search", "as told", query=self.query)
        hits = await run.retriever.search(self.query, 3)
        for step in range(self.num_calls):
            prompt = Raw((Span("one two three"),))
            await run.model.generate(
                GenerateRequest(prompt, Sampling(4), key=("say", step), on_text=run.trace.commit)
            )
        if self.error is not None:
            raise self.error
        cited = (Citation(1, hits[0].passage, 0, 1),) if hits and self.cites else ()
        return Answer(self.text, self.short, cited)


def blender(*members, **parameters):
    return Blender(methods=Members(tuple((f"m{n}", each) for n, each in enumerate(members))), **parameters)


def asked(method, reply=f"Answer: {CHOSEN}.", **abilities):
    model = ScriptedModel(lambda shown, key: reply, **abilities)
    result, queries = run(method, model)
    assert result.trace.committed.strip() == result.answer.text.strip()
    return result, model, queries


def named(result, name):
    return [each for each in decisions(result) if each.name == name]


def test_different_answers_are_refined_by_one_call_that_sees_all_of_them():
    method = blender(
        Says("Delaware"),
        Says("So I think. So the answer is Mohawk.", "Mohawk"),
        Says("the Delaware."),
        Says("Po"),
    )
    result, model, _ = asked(method)
    assert (result.answer.text, result.answer.short) == (CHOSEN, CHOSEN)
    (shown,) = model.prompts
    assert (
        "Candidates:\n- Delaware (2)\n- Mohawk\nKnown: So I think. So the answer is Mohawk.\n- Po\n" in shown
    )
    assert "It flows to the Mohawk" in shown
    choice = named(result, "choose")[-1]
    assert choice.why == "nearest to m0"
    assert choice.numbers["m0"] == near(0.5)
    assert named(result, "members")[0].numbers == {"methods": 4, "failed": 0}


def test_equal_answers_need_no_call():
    result, model, _ = asked(blender(Says("Delaware River"), Says("the Delaware River.")))
    assert model.prompts == []
    assert result.answer.text == "Delaware River"
    assert [each.number for each in result.answer.citations] == [1]


def test_the_sources_are_those_of_the_member_that_comes_nearest():
    method = blender(Says("the Mohawk", query="a"), Says("Delaware River", query="b"))
    found = {"a": [OTHER_CREEK], "b": [CREEK]}
    result, _ = run(method, ScriptedModel(lambda shown, key: CHOSEN), ScriptedRetriever(found))
    assert [(each.passage, each.start, each.end) for each in result.answer.citations] == [
        (CREEK, 0, len(CHOSEN))
    ]


def test_one_answer_stands_as_it_is():
    told = Says("It flows far. So the answer is Mohawk.", "Mohawk")
    refusal = Says("The passages do not contain the answer.")
    for others in ((), (refusal,), (Says(""),), (Says(error=ModelFailure("broken")),)):
        result, model, _ = asked(blender(told, *others))
        assert (result.answer.text, result.answer.short) == (told.text, told.short)
        assert len(result.answer.citations) == 1
        assert model.prompts == []
        assert named(result, "choose")[0].outcome == "m0"


def test_a_member_that_fails_costs_its_own_answer_alone():
    method = blender(Says("Delaware"), Says(error=ModelFailure("the model broke")), Says("Mohawk"))
    result, model, queries = asked(method)
    assert result.answer.text == CHOSEN
    assert len(model.prompts) == 1
    assert [each.why for each in named(result, "member") if each.outcome == "failed"] == [
        "m1: the model broke"
    ]
    assert named(result, "members")[0].numbers == {"methods": 3, "failed": 1}
    assert len(queries) == 3


def test_a_member_whose_model_breaks():
    def reply(shown, key):
        return OSError("gone") if "single" in key else f" {CHOSEN}."

    model = ScriptedModel(reply, context_tokens=20_000)
    result, _ = run(make_method("blender", {"methods": "single,closed_book,airrag_lite"}), model)
    assert "Delaware" in result.answer.text
    assert "gone" in next(each.why for each in named(result, "member") if each.outcome == "failed")
    assert [event.place for event in result.trace.events if isinstance(event, Failed)] == [
        "answer model scripted, single answer"
    ]


def test_where_all_fail_the_error_names_each():
    method = blender(Says(error=ModelFailure("no memory.")), Says(error=UnknownName("thing", "x", ())))
    with pytest.raises(AllFailed, match=r"each of its methods failed\. m0: no memory; m1: unknown thing 'x'"):
        asked(method)


def test_a_limit_of_the_question_is_not_survived():
    with pytest.raises(LimitReached, match="enough"):
        asked(blender(Says("Delaware"), Says(error=LimitReached("enough"))))
    engine = ask(
        QUESTION,
        make_method("blender", {"methods": "closed_book,single"}),
        {"answer": ScriptedModel(None)},
        ScriptedRetriever(PASSAGES),
        budget=Budget(calls=2),
    )
    with pytest.raises(LimitReached, match="has 2 calls"):
        asyncio.run(engine)


def test_an_error_that_is_not_ours_is_not_survived():
    with pytest.raises(ZeroDivisionError):
        asked(blender(Says("Delaware"), Says(error=ZeroDivisionError())))


def test_no_answer_at_all():
    result, model, _ = asked(blender(Says(""), Says(" ")))
    assert result.answer == Answer("")
    assert model.prompts == []
    assert named(result, "end")[0].outcome == "nothing"


def test_a_choice_that_refuses_leaves_the_most_agreed_upon():
    method = blender(Says("Delaware"), Says("the river Delaware"), Says("Mohawk"))
    assert asked(method, "The passages do not contain the answer.")[0].answer.text == "Delaware"
    result, model, _ = asked(blender(Says("a b"), Says("b c"), Says("c"), verifier="jcd"))
    assert (result.answer.text, model.prompts) == ("b c", [])


@pytest.mark.parametrize(("task", "short"), [("yes_no", "yes"), ("choice", "Po"), ("open", "Yes, the Po")])
def test_the_short_answer_is_read_by_the_task(task, short):
    question = Question("q", "Which?", task, ("Po", "Arno") if task == "choice" else ())
    model = ScriptedModel(lambda shown, key: "Yes, the Po.")
    result, _ = run(blender(Says("Po"), Says("Arno")), model, question=question)
    assert result.answer.short == short


def shown_passages(model):
    return [line.split("] ")[1].split(":")[0] for line in model.prompts[-1].splitlines() if line[:1] == "["]


def test_passages_of_all_members_are_ranked_together():
    found = {"a": [BRIDGE, CREEK], "b": [OTHER_CREEK, CREEK], "c": []}

    def prompt(passages):
        model = ScriptedModel(lambda shown, key: "x")
        run(
            blender(*(Says(f"answer {q}", query=q) for q in "abc"), passages=passages),
            model,
            ScriptedRetriever(found),
        )
        return shown_passages(model)

    assert set(prompt(100)) == {BRIDGE.title, CREEK.title, OTHER_CREEK.title}
    assert prompt(1) == [CREEK.title], "found by two"
    assert set(prompt(None)) == set(prompt(100)), "as many as fit"
    assert prompt(0) == []


@dataclass(frozen=True, slots=True)
class SearchesTwice(Says):
    """A member whose second search finds again, at the end, what its first one found first."""

    async def answer(self, question, run):
        for query in ("first", "second"):
            await run.retriever.search(query, 3)
        return Answer(self.text)


def test_a_passage_that_a_member_finds_again_keeps_its_best_place():
    found = {"first": [CREEK, BRIDGE], "second": [BRIDGE, OTHER_CREEK, CREEK]}
    model = ScriptedModel(lambda shown, key: "x")
    method = blender(SearchesTwice("Po"), SearchesTwice("Arno"))
    run(method, model, ScriptedRetriever(found))
    assert shown_passages(model)[::-1] == [CREEK.title, BRIDGE.title, OTHER_CREEK.title], "best last"


def test_the_last_call_shows_first_what_any_method_found_at_the_best_place():
    found = {"a": [BRIDGE, OTHER_CREEK], "b": [CREEK, OTHER_CREEK]}
    model = ScriptedModel(lambda shown, key: "x")
    run(blender(Says("Po", query="a"), Says("Arno", query="b")), model, ScriptedRetriever(found))
    assert shown_passages(model)[-1] == OTHER_CREEK.title, "found by both"


def test_each_member_has_l_max_of_its_own():
    calls = 10
    one = asyncio.run(ScriptedModel(None).count(Raw((Span("one two three"),))))
    told = [Says("Delaware", num_calls=calls), Says("Mohawk", num_calls=calls)]
    result, _, _ = asked(blender(*told, l_max=calls * one), CHOSEN)
    assert [num_read(result, f"m{n}") for n in (0, 1)] == [calls * one] * 2
    numbers = named(result, "budget")[0].numbers
    assert numbers["input tokens of m0"] == numbers["input tokens of m1"] == calls * one
    assert numbers["input tokens"] == num_read(result) == result.usage.prompt_tokens
    with pytest.raises(AllFailed, match="m0: the next call reads"):
        asked(blender(*told, l_max=calls * one - 1), CHOSEN)


def test_one_l_max_for_all_is_shared_out_in_equal_parts():
    few, many = Says("Delaware", num_calls=2), Says("Mohawk", num_calls=40)
    outcomes = set()
    for l_max in range(10, 1200, 50):
        try:
            result, _, _ = asked(blender(few, many, l_max=l_max, strict_budget=True), CHOSEN)
        except AllFailed:
            assert outcomes <= {"none"}
            outcomes.add("none")
            continue
        assert num_read(result) <= l_max
        assert named(result, "budget")[0].numbers["input tokens"] == num_read(result)
        failed = named(result, "members")[0].numbers["failed"]
        outcomes.add("one" if failed else "verified" if num_read(result, "verify") else "both")
    assert {"none", "one", "verified"} <= outcomes


@pytest.mark.parametrize("strict", [False, True])
def test_members_of_the_paper_keep_to_their_part(strict):
    for l_max in (400, 1500, 4000, 8192):
        model = ScriptedModel(None, context_tokens=20_000)
        try:
            result, _ = run(Blender(l_max=l_max, strict_budget=strict), model)
        except AllFailed:
            assert l_max == 400
            continue
        for name in PAPER_MEMBERS.names:
            assert num_read(result, name) <= l_max
        assert num_read(result, "verify") <= l_max
        assert not strict or num_read(result) <= l_max


def test_a_member_with_less_of_its_own_keeps_to_that():
    model = ScriptedModel(None, context_tokens=20_000)
    members = Members((("single", Single(l_max=300)), ("closed_book", ClosedBook())))
    result, _ = run(Blender(methods=members, l_max=1000), model)
    assert num_read(result, "single") <= 300 < num_read(run(Blender(methods=members), model)[0])


def test_the_events_of_a_member_stand_behind_its_decision():
    model = ScriptedModel(None, context_tokens=20_000)
    result, _ = run(make_method("blender", {"methods": "single,iterdrag"}), model)
    events = result.trace.events
    members = {event.id: event.why.split()[0] for event in events if getattr(event, "name", "") == "member"}

    def member(event):
        while event.parent is not None and event.id not in members:
            event = events[event.parent]
        return members.get(event.id, "")

    for event in events:
        if isinstance(event, Generated):
            assert event.key[0] in ("verify", member(event))
        if isinstance(event, Searched):
            assert member(event) in ("single", "iterdrag")
    assert {member(event) for event in events if isinstance(event, Decided)} >= {"single", "iterdrag", ""}
    usage = result.usage
    assert usage.prompt_tokens == sum(e.prompt_tokens for e in events if isinstance(e, Generated))
    assert usage.searches == sum(isinstance(event, Searched) for event in events)


class Dawdling(ScriptedModel):
    """Takes its time, now more, now less."""

    chance = random.Random(3)

    async def generate(self, request):
        for _ in range(self.chance.randrange(6)):
            await asyncio.sleep(0)
        return await super().generate(request)


def test_timing_changes_nothing():
    for l_max in (None, 1200):
        method = Blender(l_max=l_max, strict_budget=True)
        found = [run(method, ScriptedModel(None, context_tokens=20_000))[0]]
        found += [run(method, Dawdling(None, context_tokens=20_000))[0] for _ in range(3)]
        assert len({repr(each.answer) for each in found}) == 1
        assert len({repr(named(each, "budget")[-1].numbers) for each in found}) == 1


def test_members_by_name():
    assert make_method("blender") == Blender()
    method = make_method("blender", {"methods": "closed_book, Dragin,airrag"})
    assert method.methods == Members(
        (("closed_book", ClosedBook()), ("dragin", Dragin()), ("airrag", Airrag()))
    )
    assert str(method.methods) == "closed_book,dragin,airrag"
    assert repr(method) == "blender(closed_book=closed_book(), dragin=dragin(), airrag=airrag())"
    with pytest.raises(UnknownName, match="unknown method 'dragn' in methods='dragn': did you mean 'dragin'"):
        make_method("blender", {"methods": "dragn"})
    with pytest.raises(ParameterError, match="single occurs twice"):
        make_method("blender", {"methods": "single,single"})
    with pytest.raises(ParameterError, match="name one or more methods"):
        make_method("blender", {"methods": " "})


@pytest.mark.parametrize(
    "settings",
    [
        {"single.passages": "5", "airrag.actions": "ra,qt,sa,dragin", "airrag.dragin.prompts": "plain"},
        {"single": {"passages": 5}, "airrag": {"actions": "ra,qt,sa,dragin", "dragin": {"prompts": PLAIN}}},
    ],
)
def test_members_take_parameters_by_name(settings):
    made = dict(make_method("blender", settings).methods.named)
    further = (("dragin", Dragin(prompts=PLAIN)),)
    assert made == {
        **dict(PAPER_MEMBERS.named),
        "single": Single(passages=5),
        "airrag": Airrag(actions=Actions(further, LITE)),
    }
    assert repr(make_method("blender", {"single.passages": 5})) == (
        "blender(single=single(passages=5), iterdrag=iterdrag(), airrag_lite=airrag_lite(), airrag=airrag())"
    )
    twice = make_method("blender", {"methods": "Single,More=SINGLE", "More.passages": "9"})
    assert repr(twice) == "blender(single=single(), More=single(passages=9))", "with what More is"
    action = make_method("airrag", {"actions": "say,ra,qt,sa,single", "single.passages": "9"})
    assert action.actions.named == (("single", Single(passages=9)),)


@pytest.mark.parametrize(
    ("method", "settings", "error", "expected"),
    [
        (
            "blender",
            {"singl.passages": "5"},
            UnknownName,
            "member 'singl' of method blender: did you mean 'sin",
        ),
        (
            "blender",
            {"dragin.passages": "5"},
            UnknownName,
            "member 'dragin' of method blender.*Known: airrag,",
        ),
        (
            "blender",
            {"single.passage": "5"},
            UnknownName,
            "parameter 'passage' of method single: did you mean 'pas",
        ),
        (
            "blender",
            {"single.passages": "few"},
            ParameterError,
            "passages='few' of method single: expected int",
        ),
        (
            "blender",
            {"single.passages": "-1"},
            ParameterError,
            "passages=-1 of method single: expected 0 or more",
        ),
        ("blender", {"airrag.single.passages": 3}, UnknownName, "unknown member 'single' of method airrag"),
        (
            "dragin",
            {"dragin.passages": "5"},
            UnknownName,
            "unknown parameter 'dragin.passages' of method dragin: did you mean 'passages'",
        ),
        ("blender", {"methods": "one=two"}, UnknownName, "unknown method 'two' in methods='one=two'"),
        ("blender", {"methods": "a.b=single"}, ParameterError, "'a.b' is not a valid name"),
        ("blender", {"methods": "single,single=dragin"}, ParameterError, "single occurs twice"),
    ],
)
def test_parameters_of_members_are_checked(method, settings, error, expected):
    with pytest.raises(error, match=expected):
        make_method(method, settings)


def test_a_preset_and_trained_prompts_reach_the_members(tmp_path):
    (tmp_path / "p.toml").write_text(
        "[blender]\nl_max = 900\n[single]\npassages = 7\n[airrag]\nrollouts = 2\n"
    )
    settings = {"methods": "single,more=single,airrag,closed_book", "more.passages": 1}
    made = make_method("blender", settings, preset=tmp_path / "p.toml")
    assert made.l_max == 900
    assert made.methods.named == (
        ("single", Single(passages=7)),
        ("more", Single(passages=1)),
        ("airrag", Airrag(rollouts=2)),
        ("closed_book", ClosedBook()),
    )
    trained = dict(make_method("blender", model="bundled").methods.named)
    assert trained["single"].prompts == make_method("single", model="bundled").prompts


def test_a_preset_may_know_nothing_but_a_member():
    made = make_method("blender(a=single(), b=dragin_paper())", preset=HOTPOT)
    assert dict(made.methods.named)["b"] == make_method("dragin_paper", preset=HOTPOT)
    with pytest.raises(PresetError, match="has nothing for method blender: it knows dragin_paper"):
        make_method("blender", {"methods": "single,dragin"}, preset=HOTPOT)


ZERO_SHOT = {"methods": "zero=airrag,airrag", "zero.actions": "da"}


@pytest.mark.parametrize("settings", [{"methods": "closed_book,airrag"}, ZERO_SHOT])
def test_zero_shot_may_be_a_member(settings):
    def reply(shown, key):
        return "Mohawk" if {"zero", "closed_book"} & set(key) else playing()(shown, key)

    result, _ = run(make_method("blender", settings), ScriptedModel(reply))
    verifying = [event for event in result.trace.events if getattr(event, "key", ()) == ("verify",)]
    assert "- Mohawk\n" in verifying[0].prompt
    assert result.answer.text == "the Delaware River"


@pytest.mark.parametrize("settings", [{"methods": "closed_book"}, {**ZERO_SHOT, "airrag.actions": "da"}])
def test_zero_shot_needs_no_index(settings):
    method = make_method("blender", settings)
    assert not method.needs.retriever
    model = ScriptedModel(lambda shown, key: "Mohawk")
    result = asyncio.run(ask(QUESTION, method, {"answer": model}))
    assert result.answer.text == "Mohawk"
    assert result.usage.searches == 0
    assert all(QUESTION.text in prompt for prompt in model.prompts)


def test_members_bring_their_needs():
    assert not make_method("blender", {"methods": "closed_book"}).needs.retriever
    assert make_method("blender", {"methods": "closed_book,dragin"}).needs.attention
    chat = ScriptedModel(capabilities=frozenset({"chat"}))
    with pytest.raises(MissingAbility, match="blender needs raw or chat with continuation"):
        run(Blender(), chat)
    native = Blender(methods=Members((("selfrag", Selfrag(scorer="native")),)))
    with pytest.raises(MissingAbility, match="reflection tokens"):
        run(native, ScriptedModel())


def test_it_may_be_an_action_of_airrag():
    model = ScriptedModel(None, context_tokens=20_000)
    result, _ = run(make_method("airrag", {"actions": "say,da,ra,qt,sa,blender", "rollouts": 6}), model)
    assert "blender" in {event.action for event in result.trace.events if event.type == "expand"}
    assert result.trace.committed == result.answer.text
