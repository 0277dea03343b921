"""The actions of AirRAG by name, with other methods among them."""

from dataclasses import replace

import pytest

from askance.configuration.methods import make_method
from askance.core.errors import LimitReached, MissingAbility, ParameterError, UnknownName
from askance.core.trace import Generated
from askance.methods.airrag.method import Airrag, AirragLite
from askance.methods.airrag.parameters import ALL, WITHOUT_ANALYSIS, Actions
from askance.methods.baselines import ClosedBook
from askance.methods.dragin.method import Dragin
from askance.methods.selfrag.method import Selfrag
from askance.models.scripted import ScriptedModel
from tests.methods.bridge import (
    QUESTION,
    TRANSFORMED,
    WHERE,
    calls,
    decisions,
    model,
    nodes,
    playing,
    run,
    spent,
)


def test_a_model_of_its_own_plans_and_transforms():
    models = {"answer": model(say="None", qt="None"), "plan": model(named="planner", sa="wrong", ra="wrong")}
    result, queries = run(Airrag(), models)
    asked = [event for event in result.trace.events if isinstance(event, Generated)]
    roles = {role: {event.key[-1] for event in asked if event.role == role} for role in models}
    assert roles == {"plan": {"say", "qt"}, "answer": {"ra", "sa", "da", "verify"}}
    assert (queries, result.answer.text) == ([WHERE, TRANSFORMED], "the Delaware River")


def test_without_room_for_the_planner_the_question_itself_is_searched():
    _, queries = run(Airrag(), {"answer": model(), "plan": model(named="planner", context_tokens=300)})
    assert queries == [QUESTION.text]


def test_actions_without_a_plan_need_no_planner():
    with pytest.raises(MissingAbility, match="no model in the role plan"):
        run(make_method("airrag", {"actions": "da"}), {"answer": model(), "plan": model()})


def test_actions_from_text():
    assert make_method("airrag", {"actions": "say, da,RA,qt,sa"}) == Airrag()
    assert make_method("airrag", {"actions": "sa,qt,ra"}).actions == WITHOUT_ANALYSIS
    assert make_method("airrag_lite", {"actions": "say,da,ra,qt,sa"}).actions == ALL
    found = make_method("airrag", {"actions": "say,ra,qt,sa,dragin"}).actions
    assert (found.names, found.named[0][1]) == (("dragin",), Dragin())
    assert str(found) == "say,ra,qt,sa,dragin"
    assert "dragin=dragin()" in repr(Airrag(actions=found))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("say,da,ra,qt,sa,dragn", "unknown action 'dragn' in actions=.*did you mean 'dragin'"),
        ("", "unknown action ''"),
    ],
)
def test_unknown_actions(text, expected):
    with pytest.raises(UnknownName, match=expected):
        make_method("airrag", {"actions": text})


@pytest.mark.parametrize("text", ["say", "ra,sa", "say,da", "da,ra,qt,sa", "dragin", "ra,ra,qt,sa"])
def test_sets_that_no_path_can_be_made_of(text):
    with pytest.raises(
        ParameterError, match=r"no path can be made of.*say,da,ra,qt,sa; say,ra,qt,sa; ra,qt,sa"
    ):
        make_method("airrag", {"actions": text})


def test_a_method_twice():
    with pytest.raises(ParameterError, match="single occurs twice"):
        make_method("airrag", {"actions": "ra,qt,sa,single,single"})


class Failing:
    """A method that always fails."""

    needs = ClosedBook().needs

    def __init__(self, error):
        self.error = error

    async def answer(self, question, run):
        raise self.error


def with_other(method, **parameters):
    return Airrag(actions=Actions((("other", method),)), rollouts=6, **parameters)


def test_another_method_is_a_path_of_its_own():
    def reply(prompt, key):
        return "The Mohawk River." if "other" in key else playing()(prompt, key)

    result, _ = run(with_other(ClosedBook(ask_short_answer=False)), ScriptedModel(reply))
    others = [event for event in nodes(result).values() if event.action == "other"]
    assert [event.text for event in others] == ["The Mohawk River."]
    assert result.trace.committed == result.answer.text, "what the other method wrote is no answer"
    assert any(key[0] == "other" for key in calls(result)), "its calls have keys of their own"
    prompts = {event.key: event.prompt_tokens for event in result.trace.events if event.type == "generate"}
    assert sum(prompts.values()) == spent(result)["input tokens"]


def test_another_method_that_fails_leaves_the_tree_as_it_was():
    result, _ = run(with_other(Failing(UnknownName("thing", "x", ()))))
    assert "other" not in {event.action for event in nodes(result).values()}
    assert [each.outcome for each in decisions(result) if each.name == "action"] == ["failed"]
    assert result.answer.text == "the Delaware River"


def test_another_method_that_does_not_fit():
    def reply(prompt, key):
        return "Mohawk" if "other" in key else playing()(prompt, key)

    method = with_other(make_method("single", {"passages": 3}))
    found = set()
    for l_max in range(780, 3000, 20):
        result, _ = run(replace(method, l_max=l_max), ScriptedModel(reply))
        found |= {each.outcome for each in decisions(result) if each.name == "action"}
        assert result.answer.text == "the Delaware River"
    assert found == {"no room"}


def test_another_method_knows_what_it_may_read():
    """It plans with its budget; a method without one would count tokens that it never had."""
    result, _ = run(with_other(Airrag(rollouts=8), l_max=2000), ScriptedModel(playing()))
    spent_by = [event for event in decisions(result) if "rollouts" in event.numbers]
    assert len(spent_by) > 1, "the other one, and the whole"
    for event in spent_by:
        assert event.numbers["input tokens"] <= event.numbers["l_max"] <= 2000


def test_a_limit_of_the_question_is_not_swallowed():
    with pytest.raises(LimitReached):
        run(with_other(Failing(LimitReached("enough"))))


def test_other_methods_bring_their_needs():
    text_only = ScriptedModel(capabilities=frozenset({"chat"}), signals=frozenset())
    with pytest.raises(MissingAbility, match="airrag needs"):
        run(make_method("airrag", {"actions": "ra,qt,sa,dragin"}), text_only)
    assert make_method("airrag", {"actions": "ra,qt,sa,dragin"}).needs.attention
    assert not AirragLite().needs.attention
    native = Actions((("selfrag", Selfrag(scorer="native")),))
    with pytest.raises(MissingAbility, match="reflection tokens"):
        run(Airrag(actions=native))
