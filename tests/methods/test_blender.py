"""Blender: members fail on their own and keep to their budgets, and one call makes one answer of theirs.

What becomes of the answers, and bad input, is in `tests/scenarios/blender.jsonl`.
"""

import asyncio
from dataclasses import dataclass

import pytest

from askance.configuration.methods import make_method
from askance.core.answers import Answer, Citation
from askance.core.errors import AllFailed, LimitReached, ModelFailure, UnknownName
from askance.core.ports import Needs
from askance.core.token_ledger import Budget
from askance.core.trace import Decided, Failed, Generated, Searched
from askance.core.types import GenerateRequest, Raw, Sampling, Span
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.parameters import LITE, Actions
from askance.methods.baselines import ClosedBook, Single
from askance.methods.blender import PAPER_MEMBERS, Blender
from askance.methods.common.named_methods import Members
from askance.methods.common.prompts import PLAIN
from askance.methods.dragin.method import Dragin
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.asking import ask
from tests.methods.bridge import BRIDGE, CREEK, OTHER_CREEK, PASSAGES, QUESTION, decisions, run
from tests.methods.test_token_limit import num_read
from tests.tolerances import near

CHOSEN = "It is the Delaware River"
HOTPOT = "dragin/llama2-13b-chat/hotpotqa"


@dataclass(frozen=True, slots=True)
class Says:
    """A member that makes some searches and calls, and then gives its answer or fails."""

    text: str = "Delaware"
    queries: tuple[str, ...] = ("creek",)
    num_calls: int = 0
    error: Exception | None = None

    needs = Needs(retriever=True)

    async def answer(self, question, run):
        for query in self.queries:
            hits = await run.retriever.search(query, 3)
        for step in range(self.num_calls):
            prompt = Raw((Span("one two three"),))
            key = ("say", step)
            await run.model.generate(GenerateRequest(prompt, Sampling(4), key=key, on_text=run.trace.commit))
        if self.error is not None:
            raise self.error
        return Answer(self.text, "", (Citation(1, hits[0].passage, 0, 1),) if hits else ())


def blender(*members, **parameters):
    return Blender(methods=Members(tuple((f"m{n}", each) for n, each in enumerate(members))), **parameters)


def asked(method, found=PASSAGES):
    model = ScriptedModel(lambda shown, key: f"Answer: {CHOSEN}.")
    result, queries = run(method, model, ScriptedRetriever(found))
    assert result.trace.committed.strip() == result.answer.text.strip()
    return result, model, queries


def named(result, name):
    return [each for each in decisions(result) if each.name == name]


def test_a_member_that_fails_costs_its_own_answer_alone():
    method = blender(Says("Delaware"), Says(error=ModelFailure("the model broke")), Says("Mohawk"))
    result, model, queries = asked(method)
    assert (result.answer.text, len(model.prompts), len(queries)) == (CHOSEN, 1, 3)
    failed = [each.why for each in named(result, "member") if each.outcome == "failed"]
    assert failed == ["m1: the model broke"]
    assert named(result, "members")[0].numbers == {"methods": 3, "failed": 1}
    assert named(result, "choose")[-1].numbers["m0"] == near(0.5)


def test_a_member_whose_model_breaks():
    def reply(shown, key):
        return OSError("gone") if "single" in key else f" {CHOSEN}."

    method = make_method("blender", {"methods": "single,closed_book,airrag_lite"})
    result, _ = run(method, ScriptedModel(reply, context_tokens=20_000))
    assert "Delaware" in result.answer.text
    assert "gone" in next(each.why for each in named(result, "member") if each.outcome == "failed")
    places = [event.place for event in result.trace.events if isinstance(event, Failed)]
    assert places == ["answer model scripted, single answer"]


@pytest.mark.parametrize(
    ("errors", "expected", "message"),
    [
        (
            (ModelFailure("no memory."), UnknownName("thing", "x", ())),
            AllFailed,
            r"each of its methods failed\. m0: no memory; m1: unknown thing 'x'",
        ),
        ((None, LimitReached("enough")), LimitReached, "enough"),
        ((None, ZeroDivisionError("ours")), ZeroDivisionError, "ours"),
    ],
)
def test_errors_that_end_the_question(errors, expected, message):
    with pytest.raises(expected, match=message):
        asked(blender(*(Says(error=error) for error in errors)))


def test_a_limit_of_the_question_ends_it():
    models, retriever = {"answer": ScriptedModel(None)}, ScriptedRetriever(PASSAGES)
    method = make_method("blender", {"methods": "closed_book,single"})
    with pytest.raises(LimitReached, match="has 2 calls"):
        asyncio.run(ask(QUESTION, method, models, retriever, budget=Budget(calls=2)))


def test_the_sources_are_those_of_the_member_that_comes_nearest():
    method = blender(Says("the Mohawk", ("a",)), Says("Delaware River", ("b",)))
    result, _, _ = asked(method, {"a": [OTHER_CREEK], "b": [CREEK]})
    citations = [(each.passage, each.start, each.end) for each in result.answer.citations]
    assert citations == [(CREEK, 0, len(CHOSEN))]


@pytest.mark.parametrize(
    ("queries", "expected"),
    [
        # What two members find is best, and stands last.
        ((("a",), ("b",)), ["Crum Creek (New York)", "Bartram's Covered Bridge", "Crum Creek"]),
        # A passage that a member finds again keeps its best place.
        ((("b", "c"), ("b", "c")), ["Bartram's Covered Bridge", "Crum Creek", "Crum Creek (New York)"]),
    ],
)
def test_passages_of_all_members_are_ranked_together(queries, expected):
    found = {"a": [BRIDGE, CREEK], "b": [OTHER_CREEK, CREEK], "c": [BRIDGE, OTHER_CREEK]}
    _, model, _ = asked(blender(*(Says(f"Po {n}", each) for n, each in enumerate(queries))), found)
    lines = [line for line in model.prompts[-1].splitlines() if line.startswith("[")]
    assert [line.split("] ")[1].split(":")[0] for line in lines] == expected


def test_each_member_has_l_max_of_its_own():
    calls = 10
    one = asyncio.run(ScriptedModel(None).count(Raw((Span("one two three"),))))
    members = [Says("Delaware", num_calls=calls), Says("Mohawk", num_calls=calls)]
    result, _, _ = asked(blender(*members, l_max=calls * one))
    assert [num_read(result, f"m{n}") for n in (0, 1)] == [calls * one] * 2
    numbers = named(result, "budget")[0].numbers
    assert numbers["input tokens of m0"] == numbers["input tokens of m1"] == calls * one
    assert numbers["input tokens"] == num_read(result) == result.usage.prompt_tokens
    with pytest.raises(AllFailed, match="m0: the next call reads"):
        asked(blender(*members, l_max=calls * one - 1))


def test_one_l_max_for_all_is_shared_out_in_equal_parts():
    few, many = Says("Delaware", num_calls=2), Says("Mohawk", num_calls=40)
    outcomes = set()
    for l_max in range(10, 1200, 100):
        try:
            result, _, _ = asked(blender(few, many, l_max=l_max, strict_budget=True))
        except AllFailed:
            assert outcomes <= {"none"}
            outcomes.add("none")
            continue
        assert named(result, "budget")[0].numbers["input tokens"] == num_read(result) <= l_max
        failed = named(result, "members")[0].numbers["failed"]
        outcomes.add("one" if failed else "verified" if num_read(result, "verify") else "both")
    assert {"none", "one", "verified"} <= outcomes


def test_a_member_with_less_of_its_own_keeps_to_that():
    def reads(l_max):
        members = Members((("single", Single(l_max=l_max)), ("closed_book", ClosedBook())))
        result, _ = run(Blender(methods=members, l_max=1000), ScriptedModel(None, context_tokens=20_000))
        return num_read(result, "single")

    assert reads(300) <= 300 < reads(None)


def test_the_events_of_a_member_stand_behind_its_decision():
    method = make_method("blender", {"methods": "single,iterdrag"})
    result, _ = run(method, ScriptedModel(None, context_tokens=20_000))
    events = result.trace.events
    members = {event.id: event.why.split()[0] for event in events if getattr(event, "name", "") == "member"}

    def member(event):
        while event.parent is not None and event.id not in members:
            event = events[event.parent]
        return members.get(event.id, "")

    assert all(event.key[0] in ("verify", member(event)) for event in events if isinstance(event, Generated))
    assert {member(event) for event in events if isinstance(event, Searched)} == {"single", "iterdrag"}
    assert {member(event) for event in events if isinstance(event, Decided)} >= {"single", "iterdrag", ""}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {}),
        (
            {"methods": "closed_book, Dragin,airrag"},
            {"closed_book": ClosedBook(), "dragin": Dragin(), "airrag": Airrag()},
        ),
        (
            {"methods": "Single,More=SINGLE", "More.passages": "9"},
            {"single": Single(), "More": Single(passages=9)},
        ),
        ({"single": {"passages": 5}}, {"single": Single(passages=5)}),
        (
            {"airrag.actions": "ra,qt,sa,dragin", "airrag.dragin.prompts": "plain"},
            {"airrag": Airrag(actions=Actions((("dragin", Dragin(prompts=PLAIN)),), LITE))},
        ),
    ],
)
def test_members_by_name_with_parameters(settings, expected):
    made = make_method("blender", settings)
    assert dict(made.methods.named) == (
        expected if "methods" in settings else dict(PAPER_MEMBERS.named) | expected
    )
    assert make_method(repr(made)) == made


def test_presets_and_trained_prompts_reach_the_members(tmp_path):
    file = tmp_path / "p.toml"
    file.write_text("[blender]\nl_max = 900\n[single]\npassages = 7\n[airrag]\nrollouts = 2\n")
    settings = {"methods": "single,more=single,airrag,closed_book", "more.passages": 1}
    made = make_method("blender", settings, preset=file)
    members = {"single": Single(passages=7), "more": Single(passages=1), "airrag": Airrag(rollouts=2)}
    assert made.l_max == 900
    assert dict(made.methods.named) == members | {"closed_book": ClosedBook()}
    trained = dict(make_method("blender", model="bundled").methods.named)
    assert trained["single"].prompts == make_method("single", model="bundled").prompts
    assert str(made.methods).startswith("single=single(passages=7),more=single(passages=1),airrag=airrag(")
    made = make_method("blender(a=single(), b=dragin_paper())", preset=HOTPOT)
    assert dict(made.methods.named)["b"] == make_method("dragin_paper", preset=HOTPOT)
    made = make_method("blender", {"methods": "single,dragin"}, preset=HOTPOT)
    assert {member.max_tokens for _, member in made.methods.named} == {100}, "what the preset has for any"


@pytest.mark.parametrize("settings", [{"methods": "closed_book"}, {"methods": "a=airrag", "a.actions": "da"}])
def test_members_bring_their_needs(settings):
    made = make_method("blender", settings)
    assert not made.needs.retriever
    result = asyncio.run(ask(QUESTION, made, {"answer": ScriptedModel(lambda shown, key: "Mohawk")}))
    assert (result.answer.text, result.usage.searches) == ("Mohawk", 0)
    assert make_method("blender", {"methods": "closed_book,dragin"}).needs.attention


def test_it_may_be_an_action_of_airrag():
    method = make_method("airrag", {"actions": "say,da,ra,qt,sa,blender", "rollouts": 6})
    result, _ = run(method, ScriptedModel(None, context_tokens=20_000))
    assert "blender" in {event.action for event in result.trace.events if event.type == "expand"}
    assert result.trace.committed == result.answer.text


def test_loop_methods_may_be_members():
    def reply(prompt, key):
        member = key[0] in ("ircot", "iter_retgen", "self_ask", "auto_rag", "adaptive_rag", "search_agent")
        said = " It is the Delaware. So the final answer is: the Delaware River. Then"
        return f"{said}<answer>the Delaware River</answer>" if member else CHOSEN

    names = ("ircot", "iter_retgen", "self_ask", "auto_rag", "adaptive_rag", "search_agent")
    result, _ = run(make_method("blender", {"methods": ",".join(names)}), ScriptedModel(reply))
    keys = {event.key[0] for event in result.trace.events if isinstance(event, Generated)}
    assert keys >= {*names}
    assert not any(isinstance(event, Failed) for event in result.trace.events)
    assert result.answer.short == CHOSEN
