"""AirRAG's search stops early only on request: once the vote is decided, or rollouts agree."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.trace import Generated
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.state import PathState
from askance.methods.airrag.verifiers import (
    FinishedPath,
    is_decided,
    jcd_scores,
    leading_answer,
    rank_paths,
)
from askance.text.answers import normalise_answer
from tests.methods.bridge import MOUTH, WHERE, Varied, decisions, model, playing, run
from tests.tolerances import near

ANSWERS = st.lists(st.sampled_from("abcd"), min_size=0, max_size=3).map(" ".join)


def ended(answer, copies=1, **more):
    return FinishedPath(PathState(answer=answer), copies, **more)


ENDINGS = st.lists(st.builds(ended, ANSWERS, st.integers(1, 3)), min_size=1, max_size=5)


def chosen(endings):
    scores = jcd_scores([each.answer for each in endings], [each.copies for each in endings])
    return set(normalise_answer(endings[rank_paths(endings, scores)[0]].answer).split())


@given(ENDINGS, st.lists(ANSWERS, max_size=4))
def test_what_is_decided_no_further_answer_changes(endings, further):
    if is_decided("jcd", endings, len(further)):
        assert chosen([*endings, *map(ended, further)]) == chosen(endings)


def test_a_majority_of_all_answers_that_there_will_be_decides():
    endings = [ended("the Po", 3), ended("po"), ended("Arno")]
    assert is_decided("jcd", endings, 2)
    assert not is_decided("jcd", endings, 3)
    assert not is_decided("jcd", [], 0)


@pytest.mark.parametrize(
    ("verifier", "num_more", "expected"),
    [("jcd", 1, False), ("jcd", 0, True), ("rm_vote", 1, True), ("rm_vote", 2, False)]
    + [("vote", 0, True), ("vote", 1, False)]
    + [(other, 0, False) for other in ("sa", "emb", "rm")],
)
def test_votes_tell_beforehand_and_other_verifiers_do_not(verifier, num_more, expected):
    endings = [ended("Po", 2, score=0.9), ended("Arno", score=0.3)]
    assert is_decided(verifier, endings, num_more) == expected
    assert not is_decided(verifier, [ended("unknown", 9, score=0.9)], 0), "no answer at all"


PARAMETERS = {"rollouts": 12, "samples": 2, "wave": 2, "verifier": "jcd", "stop_decided": True}


def stops(result):
    return [each for each in decisions(result) if each.name == "rollouts"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("parameters", [{}, {"answer_samples": 2}, {"verifier": "rm_vote"}])
def test_the_answer_is_that_of_all_rollouts(seed, parameters):
    def found(**more):
        varied = Varied(None, scores=lambda prompt, option: -0.1 if option.strip() == "Yes" else -2.0)
        return run(Airrag(**PARAMETERS | parameters | more), varied, seed=seed)[0]

    result, whole = found(), found(stop_decided=False)
    assert not stops(whole)
    assert normalise_answer(result.answer.text) == normalise_answer(whole.answer.text)
    assert result.usage.prompt_tokens <= whole.usage.prompt_tokens


def test_it_ends_at_a_majority_and_says_so():
    plan = {"say": "None", "qt": lambda prompt: f"What is it, {len(prompt)}?"}
    method = Airrag(rollouts=7, wave=1, verifier="jcd")
    assert not stops(run(method, model(**plan))[0]), "only where it is wanted"
    result, _ = run(replace(method, stop_decided=True), model(**plan))
    (stop,) = stops(result)
    assert stop.outcome == "stop"
    assert stop.why == "no further vote can change the words of the answer"
    assert stop.numbers["rollouts"] < 7


def test_the_lead_is_in_votes_of_valid_answers():
    endings = [ended("Po", 2, share=0.5), ended("the Po"), ended("Arno", share=0.25), ended("unknown", 9)]
    answer, lead = leading_answer(endings)
    assert normalise_answer(answer) == "po"
    assert lead == near(1.75)
    assert leading_answer([ended("unknown", 3)]) == ("", 0.0)


@pytest.mark.parametrize(("stop_lead", "rollouts"), [(0.0, 5), (1.0, 2), (2.0, 3), (9.0, 5)])
def test_it_ends_where_an_answer_leads_by_enough_votes_if_that_is_wanted(stop_lead, rollouts):
    method = Airrag(rollouts=5, wave=1, search="paths", verifier="vote", stop_lead=stop_lead)
    same, _ = run(method, model(da="Mohawk"))
    (budget,) = [each for each in decisions(same) if each.name == "budget"]
    # The direct answer is another one, so two paths are one vote ahead of it, and three are two.
    assert budget.numbers["rollouts"] == rollouts
    assert all(each.threshold == stop_lead for each in stops(same))
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
