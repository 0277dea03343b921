"""AirRAG on scripted models: its paths, its samples, and models that do not keep to the format."""

from dataclasses import replace

import pytest

from askance.core.errors import ModelFailure, ParameterError
from askance.core.types import Question
from askance.evaluation.metrics.answers import exact_match
from askance.methods.airrag.method import Airrag, AirragLite
from askance.methods.airrag.prompts import OWN, REFUSAL
from tests.methods.bridge import (
    CREEK,
    MOUTH,
    PATHS_ALONE,
    QUESTION,
    TRANSFORMED,
    WHERE,
    Varied,
    calls,
    decisions,
    ends,
    model,
    nodes,
    path,
    playing,
    run,
)
from tests.tolerances import near


def test_the_path_of_the_papers_second_case():
    result, queries = run(Airrag(actions=PATHS_ALONE))
    assert path(result, "0.1.1.1.1.1") == ["say", "ra", "qt", "ra", "sa"]
    assert ends(result) == ["0.1.1.1.1.1"]
    assert queries == [WHERE, TRANSFORMED]
    assert result.answer.text == "It is the Delaware River"
    summary = result.trace.events[max(event.id for event in result.trace.events if event.type == "generate")]
    assert f"Known: {WHERE} Over Crum Creek\nKnown: {TRANSFORMED} The Delaware River\n" in summary.prompt
    assert [citation.passage for citation in result.answer.citations] == [CREEK], "it names the answer"
    assert exact_match(result.answer.text, ["Delaware River"]) == 0, "a sentence"
    assert [each.why for each in decisions(result) if each.name == "choose"] == ["it is the only answer"]


def test_a_repeated_follow_up_is_none_and_the_path_sums_up():
    reply = "Which body of water is the bridge on?"
    result, queries = run(Airrag(), model(say="None", qt=QUESTION.text, ra=reply))
    assert queries == [QUESTION.text]
    assert path(result, ends(result)[0]) == ["say", "ra", "qt", "sa"]
    assert [event.text for event in nodes(result).values()][2] == "None"


def test_a_model_that_asks_the_same_for_ever_comes_to_an_end_in_every_rollout():
    result, queries = run(Airrag(rollouts=16), model(say=WHERE, qt=WHERE))
    assert set(queries) == {WHERE}
    for end in ends(result):
        assert len(end.split(".")) <= 7, "two repeats on a path force its summary"


@pytest.mark.parametrize(
    ("capabilities", "queries"),
    [({"chat", "raw", "score"}, [WHERE, TRANSFORMED]), ({"raw", "score"}, [QUESTION.text, TRANSFORMED])],
)
def test_a_list_behind_an_announcement_is_read_in_a_chat(capabilities, queries):
    say = f"Here are the queries:\n\n1. {WHERE}\n\n2. {MOUTH}"
    assert run(Airrag(), model(say=say, capabilities=capabilities))[1] == queries


def test_without_a_plan_the_question_is_asked_and_a_follow_up_is_sought():
    result, queries = run(Airrag(), model(say="None", qt="None"))
    assert queries == [QUESTION.text]
    assert path(result, ends(result)[0]) == ["say", "ra", "qt", "sa"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"say": f"{WHERE}\n{MOUTH}"}, ["say", "ra", "qt", "ra", "sa"]),
        ({"say": f"{WHERE}\n{MOUTH}", "ra": REFUSAL}, ["say", "ra", "qt", "ra", "qt", "sa"]),
        ({"say": WHERE}, ["say", "ra", "qt", "sa"]),
    ],
    ids=["after a plan", "after a refusal", "without a plan"],
)
def test_when_the_first_rollout_asks_for_a_follow_up(changes, expected):
    result, _ = run(Airrag(), model(qt="None", **changes))
    assert path(result, ends(result)[0]) == expected


def test_lite_begins_with_a_retrieval():
    result, queries = run(
        AirragLite(), model(qt=lambda prompt: "None" if TRANSFORMED in prompt else TRANSFORMED)
    )
    assert path(result, ends(result)[0]) == ["ra", "qt", "ra", "qt", "sa"]
    assert queries == [QUESTION.text, TRANSFORMED]
    assert {key[-1] for key in calls(result)} <= {"ra", "qt", "sa", "verify"}


@pytest.mark.parametrize(
    ("parameters", "is_there"), [({}, True), ({"rollouts": 2}, True), ({"actions": PATHS_ALONE}, False)]
)
def test_a_direct_answer_is_a_candidate_beside_the_paths(parameters, is_there):
    result, _ = run(Airrag(**parameters))
    found = {event.text: event.numbers for event in nodes(result).values() if event.action == "da"}
    assert list(found) == (["The Schuylkill River"] if is_there else [])
    for numbers in found.values():
        assert (numbers["visits"], numbers["votes"]) == (1, 1)
        assert numbers["reward"] > 0
    assert len([key for key in calls(result) if key[-1] == "da"]) == is_there


def test_equal_samples_are_one_child_with_all_votes():
    result, _ = run(Airrag(samples=3, answer_samples=2))
    assert nodes(result)["0.1"].numbers["votes"] == 3
    assert nodes(result)["0.1.1"].numbers["votes"] == 2
    assert [name for name in nodes(result) if name.endswith(".2")] == ["0.2"], "the direct answer"
    say = [key for key in calls(result) if key[-1] == "say"]
    assert len(say) == 3, "one event for each sample"


def test_different_samples_are_children_and_candidates_though_only_one_is_entered():
    varied = Varied(playing(say=f"{WHERE}/{MOUTH}\n{WHERE}\nNone", sa="Delaware\nMohawk\nthe Delaware."))
    method = Airrag(samples=3, answer_samples=3, verifier="jcd", actions=PATHS_ALONE)
    result, _ = run(method, varied)
    assert [nodes(result)[f"0.{n}"].text for n in (1, 2, 3)] == [f"{WHERE}; {MOUTH}", WHERE, "None"]
    assert [nodes(result)[f"0.{n}"].numbers["visits"] for n in (1, 2, 3)] == [1, 0, 0]
    answers = {event.text: event.numbers["votes"] for event in nodes(result).values() if event.action == "sa"}
    assert answers == {"Delaware": 2, "Mohawk": 1}
    assert result.answer.text == "Delaware"
    chosen = next(each for each in decisions(result) if each.name == "choose")
    assert chosen.numbers == near({"Delaware": 2 / 3, "Mohawk": 1 / 3})


def test_of_several_plans_the_one_with_most_in_common_with_the_others_is_followed():
    plans = f"Something else?\n{WHERE}/{MOUTH}\n{WHERE}"
    result, queries = run(Airrag(samples=3), Varied(playing(say=plans, qt="None")))
    assert [nodes(result)[f"0.{n}"].text for n in (1, 2, 3)] == [
        f"{WHERE}; {MOUTH}",
        WHERE,
        "Something else?",
    ]
    assert queries == [WHERE, MOUTH]
    assert run(Airrag(), Varied(playing(say=plans, qt="None")))[1] == ["Something else?"]


def test_replies_that_come_to_the_same_state_are_one_child():
    varied = Varied(playing(say=WHERE, qt=f"{WHERE}\nNone\nNone"))
    result, _ = run(Airrag(samples=3), varied)
    assert nodes(result)["0.1.1.1"].numbers["votes"] == 3
    assert "0.1.1.2" not in nodes(result)


def test_what_is_sampled_how():
    asked = {}

    class Watching(Varied):
        async def generate(self, request):
            asked[request.key[-1]] = (request.sampling, request.n)
            return await super().generate(request)

    run(Airrag(rollouts=6, samples=3, answer_samples=2, q_div=0.5, top_k=40), Watching(playing()))
    for action in ("say", "qt"):
        sampling, n = asked[action]
        assert (sampling.temperature, sampling.top_p) == near((0.85, 0.9))
        assert (sampling.top_k, sampling.max_tokens, n) == (40, 256, 3)
    for action, tokens in (("ra", 256), ("sa", 128), ("da", 128)):
        sampling, n = asked[action]
        assert (sampling.temperature, sampling.top_p, sampling.max_tokens, n) == (0.7, 0.8, tokens, 2)
    assert (asked["verify"][0].temperature, asked["verify"][1]) == (0, 1)


def test_worked_examples_stand_in_the_prompts():
    shown = model()
    run(Airrag(prompts=replace(OWN, examples=2)), shown)
    assert sum("saxophone" in prompt for prompt in shown.prompts) == 3, "SAY, QT and SA"
    plain = model()
    run(Airrag(), plain)
    assert not any("saxophone" in prompt for prompt in plain.prompts)


def test_an_exhausted_tree_ends_the_search():
    result, _ = run(Airrag(rollouts=1000), model(say=WHERE, qt="None"))
    assert len(ends(result)) < 30


def seen(result):
    return [(event.node, event.action, event.text, event.numbers) for event in nodes(result).values()]


def test_the_same_seed_gives_the_same_tree_and_another_one_another():
    def tree(seed, wave):
        varied = Varied(None)
        return seen(run(Airrag(rollouts=6, samples=2, wave=wave), varied, seed=seed)[0])

    assert tree(1, 1) == tree(1, 1)
    assert tree(1, 4) == tree(1, 4)
    assert tree(1, 1) != tree(2, 1)


def test_the_width_of_a_wave_does_not_change_the_answer():
    method = {wave: run(Airrag(rollouts=100, wave=wave))[0] for wave in (1, 2, 4)}
    assert len({result.answer for result in method.values()}) == 1
    paths = [{tuple(path(result, end)) for end in ends(result)} for result in method.values()]
    assert paths[0] == paths[1] == paths[2]


@pytest.mark.parametrize("method", [Airrag, AirragLite])
def test_visits_and_values_add_up_in_every_tree(method):
    for seed in range(4):
        made = method(rollouts=9, samples=2, answer_samples=2)
        found = nodes(run(made, Varied(None), seed=seed)[0])
        for name, event in found.items():
            children = [each for at, each in found.items() if at.rpartition(".")[0] == name]
            if children:
                assert event.numbers["visits"] == sum(each.numbers["visits"] for each in children)
                total = sum(each.numbers["value"] for each in children)
                assert event.numbers["value"] == near(total)
            elif event.action in ("sa", "da"):
                assert event.numbers["value"] == near(event.numbers["reward"] * event.numbers["visits"])


@pytest.mark.parametrize("text", ["", "   ", "\n", "!", "None", "I cannot help with that.", "1.", "- \n- "])
@pytest.mark.parametrize("method", [Airrag(rollouts=5), AirragLite(rollouts=3), Airrag(answer_samples=2)])
def test_a_model_that_says_one_thing_whatever_it_is_asked(method, text):
    always = dict.fromkeys(("say", "ra", "qt", "sa", "da", "verify"), text)
    result, _ = run(method, model(**always))
    expected = {"None": "None", "I cannot help with that.": "I cannot help with that", "1.": "1"}
    assert result.answer.text == expected.get(text, "")
    if not result.answer.text:
        assert result.answer.citations == ()
        assert [each.why for each in decisions(result) if each.name == "end"] == ["no path reached an answer"]


def test_refusals_give_way_to_any_answer():
    refusal = "The passages do not contain the answer."
    result, _ = run(Airrag(rollouts=4), model(ra=refusal, sa=refusal))
    assert result.answer.text == "The Schuylkill River"
    result, _ = run(Airrag(rollouts=4), model(ra=refusal, sa=refusal, da="unknown", verify=refusal))
    assert result.answer.text == refusal.removesuffix("."), "better than nothing"


def test_nothing_found_is_a_refusal_without_a_call():
    result, queries = run(Airrag(), model(qt=MOUTH), passages=())
    assert queries == [WHERE, MOUTH]
    assert "ra" not in {key[-1] for key in calls(result)}
    assert nodes(result)["0.1.1"].text == f"{WHERE} → The passages do not contain the answer."
    assert result.answer.citations == ()


def test_a_failure_is_the_questions_failure():
    with pytest.raises(ModelFailure, match="broken"):
        run(Airrag(rollouts=4), model(qt=OSError("broken")))


def test_choices_and_yes_or_no():
    question = Question("q", "Which?", "choice", ("Mohawk", "Delaware River"))
    assert run(Airrag(), question=question)[0].answer.short == "Delaware River"
    question = Question("q", "Is it?", "yes_no")
    said = model(sa="Yes, it is.", verify="Yes, it is.")
    assert run(Airrag(), said, question=question)[0].answer.short == "yes"


def test_a_model_of_raw_text():
    raw = model(capabilities={"raw", "score"})
    result, _ = run(Airrag(rollouts=3), raw)
    assert result.answer.text == "the Delaware River"
    assert all(prompt.endswith(("Answer:", "Queries:")) for prompt in raw.prompts)


def test_parameters_are_checked():
    wrong = {"rollouts": 0, "q_div": 1.5, "l_max": 0, "verifier": "votes", "max_tokens": 1}
    for parameters in ({name: value} for name, value in wrong.items()):
        with pytest.raises(ParameterError, match=f"parameter {next(iter(parameters))}="):
            Airrag(**parameters)
