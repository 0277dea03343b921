"""AirRAG's search stops early only on request: once the vote is decided, or rollouts agree."""

from dataclasses import replace

import pytest

from askance.core.trace import Generated
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.state import Node, PathState
from askance.methods.airrag.verifiers import leading_answer
from askance.text.answers import normalise_answer
from tests.methods.bridge import MOUTH, WHERE, Varied, decisions, model, playing, run
from tests.tolerances import near


def ended(answer, votes=1, share=1.0):
    return Node(PathState(answer=answer, votes=votes), parent=Node(PathState(share=share)))


PARAMETERS = {"rollouts": 12, "samples": 2, "wave": 2, "verifier": "vote"}


def stops(result):
    return [each for each in decisions(result) if each.name == "rollouts"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("parameters", [{}, {"answer_samples": 2}, {"search": "paths"}])
def test_the_answer_is_that_of_all_rollouts_if_the_lead_is_out_of_reach(seed, parameters):
    def found(**more):
        return run(Airrag(**PARAMETERS | parameters | more), Varied(None), seed=seed)[0]

    result, whole = found(stop_lead=99.0), found()
    assert not stops(whole)
    assert normalise_answer(result.answer.text) == normalise_answer(whole.answer.text)
    assert result.usage.prompt_tokens <= whole.usage.prompt_tokens


def test_it_ends_at_a_majority_and_says_so():
    plan = {"say": "None", "qt": lambda prompt: f"What is it, {len(prompt)}?"}
    method = Airrag(rollouts=7, wave=1, verifier="vote")
    assert not stops(run(method, model(**plan))[0]), "only where it is wanted"
    result, _ = run(replace(method, stop_lead=99.0), model(**plan))
    *others, stop = stops(result)
    assert [each.outcome for each in (*others, stop)] == [*["continue"] * len(others), "stop"]
    assert stop.why == "no further vote can change the words of the answer"
    assert stop.numbers["rollouts"] < 7


def test_the_lead_is_in_votes_of_valid_answers():
    endings = [ended("Po", 2, share=0.5), ended("the Po"), ended("Arno", share=0.25), ended("unknown", 9)]
    answer, lead = leading_answer(endings)
    assert normalise_answer(answer) == "po"
    assert lead == near(1.75)
    assert leading_answer([ended("unknown", 3)]) == ("", 0.0)


@pytest.mark.parametrize(("stop_lead", "rollouts"), [(0.0, 5), (1.0, 2), (2.0, 3), (9.0, 4)])
def test_it_ends_where_an_answer_leads_by_enough_votes_if_that_is_wanted(stop_lead, rollouts):
    method = Airrag(rollouts=5, wave=1, search="paths", verifier="vote", stop_lead=stop_lead)
    same, _ = run(method, model(da="Mohawk"))
    (budget,) = [each for each in decisions(same) if each.name == "budget"]
    # The direct answer is another one, so two paths are one vote ahead of it, and three are two. After four
    # paths, the last one can't change the answer.
    assert budget.numbers["rollouts"] == rollouts
    assert all(each.threshold == stop_lead for each in stops(same) if each.signal)
    assert bool(stops(same)) == bool(stop_lead)


@pytest.mark.parametrize("search", ["tree", "paths"])
@pytest.mark.parametrize("wave", [1, 4])
def test_more_rollouts_begin_with_those_of_fewer(search, wave):
    """So a cache gives their replies, and only the further rollouts are computed."""
    replies = playing(
        say=f"{WHERE}/{MOUTH}\n{MOUTH}\nNone", sa="the Delaware River\nMohawk", qt=f"{WHERE}\nNone"
    )
    few, many = (
        run(
            Airrag(rollouts=rollouts, samples=3, answer_samples=2, search=search, wave=wave, verifier="vote"),
            Varied(replies),
        )[0]
        for rollouts in (4, 12)
    )
    asked = {(event.key, event.prompt) for event in many.trace.events if isinstance(event, Generated)}
    before = {(event.key, event.prompt) for event in few.trace.events if isinstance(event, Generated)}
    assert before < asked
