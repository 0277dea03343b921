"""AirRAG on scripted models: whole trees, answers, other methods as actions, early stops, and bad input."""

from dataclasses import replace

import pytest

from askance.configuration.methods import make_method
from askance.core.errors import LimitReached, MissingAbility, ModelFailure, ParameterError, UnknownName
from askance.core.trace import Generated
from askance.core.types import Question
from askance.methods.airrag.method import Airrag, AirragLite
from askance.methods.airrag.parameters import ALL, WITHOUT_ANALYSIS, Actions
from askance.methods.baselines import ClosedBook
from askance.methods.dragin.method import Dragin
from askance.methods.selfrag.method import Selfrag
from askance.models.scripted import ScriptedModel
from askance.text.answers import normalise_answer
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
    playing,
    run,
    spent,
    tree,
)
from tests.tolerances import near

REFUSAL = "The passages do not contain the answer."
BOTH = f"{WHERE}; {MOUTH}"
ALONE = Airrag(actions=PATHS_ALONE)
TREES = {
    "the second case of the paper, and a direct answer beside the path": (
        Airrag(),
        {},
        f"""0.1 say {BOTH} · 1 1
            0.1.1 ra {WHERE} → Over Crum Creek · 1 1
            0.1.1.1 qt {TRANSFORMED} · 1 1
            0.1.1.1.1 ra {TRANSFORMED} → The Delaware River · 1 1
            0.1.1.1.1.1 sa It is the Delaware River · 1 1 0.6 chosen
            0.2 da The Schuylkill River · 1 1 0.6""",
    ),
    "without a plan, the question is asked; a repeated follow-up counts as none": (
        ALONE,
        {"say": "None", "qt": QUESTION.text, "ra": "Which body of water is the bridge on?"},
        f"""0.1 say None · 1 1
            0.1.1 ra {QUESTION.text} → Which body of water is the bridge on? · 1 1
            0.1.1.1 qt None · 1 1 repeats
            0.1.1.1.1 sa It is the Delaware River · 1 1 1 repeats chosen""",
    ),
    "AirRAG-Lite": (
        AirragLite(),
        {"qt": lambda prompt: "None" if TRANSFORMED in prompt else TRANSFORMED},
        f"""0.1 ra {QUESTION.text} → The Delaware River · 1 1
            0.1.1 qt {TRANSFORMED} · 1 1
            0.1.1.1 ra {TRANSFORMED} → The Delaware River · 1 1
            0.1.1.1.1 qt None · 1 1
            0.1.1.1.1.1 sa It is the Delaware River · 1 1 1 chosen""",
    ),
    "equal samples are one child; of others, the one most like all is entered": (
        replace(ALONE, samples=3, answer_samples=3, verifier="jcd"),
        {
            "say": f"Something else?\n{WHERE}/{MOUTH}\n{WHERE}",
            "sa": "Delaware\nMohawk\nthe Delaware.",
            "qt": f"{WHERE}\nNone\nNone",
        },
        f"""0.1 say {BOTH} · 1 1
            0.1.1 ra {WHERE} → Over Crum Creek · 1 3
            0.1.1.1 qt None · 1 3
            0.1.1.1.1 ra {MOUTH} → The Delaware River · 1 3
            0.1.1.1.1.1 sa Delaware · 1 2 1 chosen
            0.1.1.1.1.2 sa Mohawk · 0 1 0
            0.2 say {WHERE} · 0 1
            0.3 say Something else? · 0 1""",
    ),
    "two repeats on a path end it, and any answer is better than a refusal": (
        Airrag(rollouts=2),
        {"ra": REFUSAL, "sa": REFUSAL},
        f"""0.1 say {BOTH} · 2 1
            0.1.1 ra {WHERE} → {REFUSAL[:-1]} · 1 1
            0.1.1.1 qt {TRANSFORMED} · 1 1
            0.1.1.1.1 ra {TRANSFORMED} → {REFUSAL[:-1]} · 1 1
            0.1.1.1.1.1 qt None · 1 1 repeats
            0.1.1.1.1.1.1 sa {REFUSAL[:-1]} · 1 1 0 repeats
            0.1.2 qt {TRANSFORMED} · 1 1
            0.1.2.1 ra {TRANSFORMED} → {REFUSAL[:-1]} · 1 1
            0.1.2.1.1 qt None · 1 1 repeats
            0.1.2.1.1.1 ra {MOUTH} → {REFUSAL[:-1]} · 1 1 repeats
            0.1.2.1.1.1.1 qt None · 1 1 repeats
            0.1.2.1.1.1.1.1 sa {REFUSAL[:-1]} · 1 1 0 repeats
            0.2 da The Schuylkill River · 1 1 1 chosen""",
    ),
    "rollouts extend one tree in the order of UCT": (
        Airrag(rollouts=3, wave=1),
        {"say": WHERE, "qt": "None"},
        f"""0.1 say {WHERE} · 3 1
            0.1.1 ra {WHERE} → Over Crum Creek · 2 1
            0.1.1.1 qt None · 1 1
            0.1.1.1.1 sa It is the Delaware River · 1 1 0.8 chosen
            0.1.1.2 sa It is the Delaware River · 1 1 0.8
            0.1.2 qt None · 1 1
            0.1.2.1 ra {WHERE} → Over Crum Creek · 1 1
            0.1.2.1.1 qt None · 1 1
            0.1.2.1.1.1 sa It is the Delaware River · 1 1 0.8
            0.2 da The Schuylkill River · 1 1 0.4""",
    ),
    "independent paths have roots and samples of their own; the last queries of a chat are read": (
        replace(ALONE, search="paths", rollouts=2, verifier="vote"),
        {"say": f"Here is the query:\n\n1. {WHERE}", "qt": "None", "sa": "Mohawk"},
        f"""0.1 say {WHERE} · 1 1
            0.1.1 ra {WHERE} → Over Crum Creek · 1 1
            0.1.1.1 qt None · 1 1
            0.1.1.1.1 sa Mohawk · 1 1 1 chosen
            1.1 say {WHERE} · 1 1
            1.1.1 ra {WHERE} → Over Crum Creek · 1 1
            1.1.1.1 qt None · 1 1
            1.1.1.1.1 sa Mohawk · 1 1 1""",
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_the_tree(name):
    method, script, expected = TREES[name]
    result, queries = run(method, (Varied if method.samples > 1 else ScriptedModel)(playing(**script)))
    assert tree(result) == [line.strip() for line in expected.splitlines()]
    assert len(queries) == sum(event.action == "ra" for event in nodes(result).values())
    keys = calls(result)
    assert len(keys) == len({*keys}) * method.samples, "each call has a key of its own"


def test_the_answer_and_its_citation():
    result, queries = run(ALONE)
    assert (queries, result.answer.text) == ([WHERE, TRANSFORMED], "It is the Delaware River")
    summary = [event for event in result.trace.events if isinstance(event, Generated)][-1].prompt
    assert f"Known: {WHERE} Over Crum Creek\nKnown: {TRANSFORMED} The Delaware River\n" in summary
    assert [citation.passage for citation in result.answer.citations] == [CREEK], "it names the answer"
    assert [each.why for each in decisions(result) if each.name == "choose"] == ["it is the only answer"]
    assert result.answer.agreement is None
    agreed, _ = run(replace(ALONE, answer_samples=2), model(sa="Delaware"))
    assert agreed.answer.agreement == 1.0
    assert [each.why for each in decisions(agreed) if each.name == "choose"] == ["all 2 answers agree"]


CHOICE = Question("q", "Which?", "choice", ("Mohawk", "Delaware River"))


@pytest.mark.parametrize(
    ("script", "question", "queries", "short"),
    [
        ({}, CHOICE, [WHERE, TRANSFORMED], "Delaware River"),
        ({"verify": "Yes, it is."}, Question("q", "Is it?", "yes_no"), [WHERE, TRANSFORMED], "yes"),
        ({"verify": "It is so. Really."}, Question("q", "Why?", "open"), None, "It is so. Really"),
        ({"say": f"Here they are:\n\n1. {WHERE}"}, QUESTION, [WHERE, TRANSFORMED], "the Delaware River"),
        ({"say": f"Here they are:\n\n1. {WHERE}", "capabilities": {"raw", "score"}}, QUESTION,
         [QUESTION.text, TRANSFORMED], "the Delaware River"),
        ({"ra": REFUSAL, "sa": REFUSAL, "da": "unknown", "verify": REFUSAL}, QUESTION, None, REFUSAL[:-1]),
    ],
    ids=["choice", "yes or no", "open", "a list in a chat", "a list in raw text", "a refusal or nothing"],
)  # fmt: skip
def test_queries_and_short_answers(script, question, queries, short):
    result, asked = run(Airrag(), model(**script), question=question)
    assert result.answer.short == short
    assert queries is None or asked == queries


def test_nothing_found_is_a_refusal_without_a_call():
    result, queries = run(Airrag(), model(qt=MOUTH), passages=())
    assert queries == [WHERE, MOUTH]
    assert "ra" not in {key[-1] for key in calls(result)}
    assert nodes(result)["0.1.1"].text == f"{WHERE} → {REFUSAL}"
    assert result.answer.citations == ()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", ""),
        (" \n", ""),
        ("!", ""),
        ("- \n- ", ""),
        ("None", "None"),
        ("1.", "1"),
        ("I can't.", "I can't"),
    ],
)
@pytest.mark.parametrize("method", [Airrag(rollouts=5), AirragLite(rollouts=3), Airrag(answer_samples=2)])
def test_a_model_that_says_one_thing_whatever_it_is_asked(method, text, answer):
    result, _ = run(method, model(**dict.fromkeys(("say", "ra", "qt", "sa", "da", "verify"), text)))
    assert (result.answer.text, result.answer.citations) == (answer, ())
    ended = [each.why for each in decisions(result) if each.name == "end"]
    assert ended == ([] if answer else ["no path reached an answer"])


def test_how_actions_are_sampled():
    asked = {}

    class Watching(Varied):
        async def generate(self, request):
            asked[request.key[-1]] = (*_sampling(request), request.n)
            return await super().generate(request)

    def _sampling(request):
        sampling = request.sampling
        return sampling.temperature, sampling.top_p, sampling.top_k, sampling.max_tokens

    run(Airrag(rollouts=6, samples=3, answer_samples=2, q_div=0.5, top_k=40), Watching(playing()))
    assert asked["say"] == asked["qt"] == near((0.85, 0.9, 40, 256, 3))
    assert asked["ra"] == (0.7, 0.8, 40, 256, 2)
    assert asked["sa"] == asked["da"] == (0.7, 0.8, 40, 128, 2)
    assert (asked["verify"][0], asked["verify"][-1]) == (0, 1)


def test_the_same_seed_gives_the_same_tree_and_another_one_another():
    def shape(seed, wave):
        return tree(run(Airrag(rollouts=6, samples=2, wave=wave), Varied(None), seed=seed)[0])

    assert shape(1, 1) == shape(1, 1)
    assert shape(1, 4) == shape(1, 4)
    assert shape(1, 1) != shape(2, 1)


def test_a_model_that_asks_the_same_for_ever_comes_to_an_end_in_every_rollout():
    result, queries = run(Airrag(rollouts=1000), model(say=WHERE, qt=WHERE))
    assert set(queries) == {WHERE}
    assert len(ends(result)) < 30
    assert all(len(end.split(".")) <= 7 for end in ends(result)), "two repeats on a path force its summary"


def test_a_model_of_its_own_plans_and_transforms():
    models = {"answer": model(say="None", qt="None"), "plan": model(named="planner", sa="wrong", ra="wrong")}
    result, queries = run(Airrag(), models)
    asked = [event for event in result.trace.events if isinstance(event, Generated)]
    roles = {role: {event.key[-1] for event in asked if event.role == role} for role in models}
    assert roles == {"plan": {"say", "qt"}, "answer": {"ra", "sa", "da", "verify"}}
    assert (queries, result.answer.text) == ([WHERE, TRANSFORMED], "the Delaware River")
    _, queries = run(Airrag(), {"answer": model(), "plan": model(named="planner", context_tokens=300)})
    assert queries == [QUESTION.text], "without room for the planner, the question itself is searched"


def test_actions_from_text():
    assert make_method("airrag", {"actions": "say, da,RA,qt,sa"}) == Airrag()
    assert make_method("airrag", {"actions": "sa,qt,ra"}).actions == WITHOUT_ANALYSIS
    assert make_method("airrag_lite", {"actions": "say,da,ra,qt,sa"}).actions == ALL
    made = make_method("airrag", {"actions": "say,ra,qt,sa,dragin"})
    assert (made.actions.names, made.actions.named[0][1]) == (("dragin",), Dragin())
    assert str(made.actions) == "say,ra,qt,sa,dragin"
    assert "dragin=dragin()" in repr(made)
    assert made.needs.attention
    assert not AirragLite().needs.attention


class Failing:
    """A method that always fails."""

    needs = ClosedBook().needs

    def __init__(self, error):
        self.error = error

    async def answer(self, question, run):
        raise self.error


def with_other(method, **parameters):
    return Airrag(actions=Actions((("other", method),)), rollouts=6, **parameters)


def other_says_mohawk(prompt, key):
    return "The Mohawk River." if "other" in key else playing()(prompt, key)


def test_another_method_is_a_path_of_its_own():
    result, _ = run(with_other(ClosedBook(ask_short_answer=False)), ScriptedModel(other_says_mohawk))
    others = [event.text for event in nodes(result).values() if event.action == "other"]
    assert others == ["The Mohawk River."]
    assert result.trace.committed == result.answer.text, "what the other method wrote is no answer"
    assert any(key[0] == "other" for key in calls(result)), "its calls have keys of their own"
    prompts = {event.key: event.prompt_tokens for event in result.trace.events if event.type == "generate"}
    assert sum(prompts.values()) == spent(result)["input tokens"]


@pytest.mark.parametrize(
    "name", ["ircot", "iter_retgen", "self_ask", "auto_rag", "adaptive_rag", "search_agent"]
)
def test_a_loop_method_may_be_an_action(name):
    def reply(prompt, key):
        said = " It is the Mohawk River. So the final answer is: the Mohawk River. Then"
        return f"{said} <answer>it</answer>" if "other" in key else playing()(prompt, key)

    result, _ = run(with_other(make_method(name)), ScriptedModel(reply))
    others = [event.text for event in nodes(result).values() if event.action == "other"]
    assert others == ["it" if name == "search_agent" else "the Mohawk River"]
    assert any(key[0] == "other" for key in calls(result))
    assert make_method("airrag", {"actions": f"da,{name}"}).actions.names == (name,)


@pytest.mark.parametrize(
    ("method", "outcomes"),
    [
        (with_other(Failing(UnknownName("thing", "x", ()))), {"failed"}),
        (with_other(make_method("single", {"passages": 3}), l_max=840), {"no room"}),
    ],
)
def test_another_method_that_fails_leaves_the_tree_as_it_was(method, outcomes):
    result, _ = run(method, ScriptedModel(other_says_mohawk))
    assert "other" not in {event.action for event in nodes(result).values()}
    assert {each.outcome for each in decisions(result) if each.name == "action"} == outcomes
    assert result.answer.text == "the Delaware River"


def test_another_method_plans_with_its_budget():
    """A method without a budget would count tokens that it never had."""
    result, _ = run(with_other(Airrag(rollouts=8), l_max=2000), ScriptedModel(playing()))
    spent_by = [event.numbers for event in decisions(result) if "rollouts" in event.numbers]
    assert len(spent_by) > 1, "the other one, and the whole"
    assert all(numbers["input tokens"] <= numbers["l_max"] <= 2000 for numbers in spent_by)


def stops(result):
    return [each for each in decisions(result) if each.name == "rollouts"]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("parameters", [{}, {"answer_samples": 2}, {"search": "paths"}])
def test_the_answer_is_that_of_all_rollouts_if_the_lead_is_out_of_reach(seed, parameters):
    method = Airrag(**{"rollouts": 12, "samples": 2, "wave": 2, "verifier": "vote"} | parameters)
    result, whole = (run(replace(method, stop_lead=lead), Varied(None), seed=seed)[0] for lead in (99.0, 0.0))
    assert not stops(whole)
    assert normalise_answer(result.answer.text) == normalise_answer(whole.answer.text)
    assert result.usage.prompt_tokens <= whole.usage.prompt_tokens


@pytest.mark.parametrize(("stop_lead", "rollouts"), [(0.0, 5), (1.0, 2), (2.0, 3), (9.0, 4)])
def test_the_search_ends_once_an_answer_leads_by_enough_votes(stop_lead, rollouts):
    """The direct answer differs, so two paths are one vote ahead of it. The fifth can't change the answer."""
    method = Airrag(rollouts=5, wave=1, search="paths", verifier="vote", stop_lead=stop_lead)
    result, _ = run(method, model(da="Mohawk"))
    assert spent(result)["rollouts"] == rollouts
    assert all(each.threshold == stop_lead for each in stops(result) if each.signal)
    outcomes = [each.outcome for each in stops(result)]
    assert outcomes == ([*["continue"] * (rollouts - 1), "stop"] if stop_lead else [])
    is_decided = stop_lead == 9.0
    why = "no further vote can change the words of the answer"
    assert (outcomes != [] and stops(result)[-1].why == why) == is_decided


@pytest.mark.parametrize("search", ["tree", "paths"])
@pytest.mark.parametrize("wave", [1, 4])
def test_more_rollouts_begin_with_those_of_fewer(search, wave):
    """So a cache gives their replies, and only the further rollouts are computed."""
    replies = playing(
        say=f"{WHERE}/{MOUTH}\n{MOUTH}\nNone", sa="the Delaware River\nMohawk", qt=f"{WHERE}\nNone"
    )
    method = Airrag(samples=3, answer_samples=2, search=search, wave=wave, verifier="vote")
    before, asked = (
        {
            (event.key, event.prompt)
            for event in run(replace(method, rollouts=rollouts), Varied(replies))[0].trace.events
            if isinstance(event, Generated)
        }
        for rollouts in (4, 12)
    )
    assert before < asked


def make(**parameters):
    return lambda: make_method("airrag", parameters)


def running(method, *models):
    return lambda: run(method, *models)


BLIND = ScriptedModel(playing(), capabilities=frozenset({"chat"}), signals=frozenset())
NATIVE = Airrag(actions=Actions((("selfrag", Selfrag(scorer="native")),)))
BAD = [
    *(
        (lambda wrong=wrong: Airrag(**wrong), ParameterError, f"parameter {next(iter(wrong))}=")
        for wrong in ({"rollouts": 0}, {"q_div": 1.5}, {"l_max": 0}, {"verifier": "votes"}, {"max_tokens": 1})
    ),
    *(
        (make(actions=text), ParameterError, r"no path can be made of.*say,da,ra,qt,sa; say,ra,qt,sa; ra,qt")
        for text in ("say", "ra,sa", "say,da", "da,ra,qt,sa", "dragin", "ra,ra,qt,sa")
    ),
    (make(actions="ra,qt,sa,single,single"), ParameterError, "single occurs twice"),
    (make(actions="say,da,ra,qt,sa,dragn"), UnknownName, "'dragn' in actions=.*did you mean 'dragin'"),
    (make(actions=""), UnknownName, "unknown action ''"),
    (running(Airrag(rollouts=4), model(qt=OSError("broken"))), ModelFailure, "broken"),
    (running(with_other(Failing(LimitReached("enough")))), LimitReached, "enough"),
    (running(make_method("airrag", {"actions": "ra,qt,sa,dragin"}), BLIND), MissingAbility, "airrag needs"),
    (running(NATIVE), MissingAbility, "reflection tokens"),
    (running(make_method("airrag", {"actions": "da"}), {"answer": model(), "plan": model()}),
     MissingAbility, "no model in the role plan"),
    (running(Airrag(), {"answer": model(), "reward": model()}), MissingAbility, "model in the role reward"),
    (running(Airrag(verifier="rm"), BLIND), MissingAbility,
     "scores paths, which scripted can't.*--model reward=bundled"),
    (running(Airrag(verifier="emb")), MissingAbility, "no encoder is given.*--set verifier=jcd"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), BAD, ids=range(len(BAD)))
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
