"""AirRAG's verifiers and rewards: which model is called, what it scores, and which answer wins."""

import asyncio
import math

import pytest

from askance.core.errors import MissingAbility
from askance.core.types import Hit
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.prompts import PromptBuilder
from askance.methods.airrag.reward import PASSAGE_TOKENS, PathRewardModel
from askance.methods.airrag.state import DA, SA, Node, PathState
from askance.methods.airrag.verifiers import choose_answer
from askance.models.scripted import ScriptedEncoder, ScriptedModel
from tests.methods.bridge import (
    BRIDGE,
    CREEK,
    MOUTH,
    PATHS_ALONE,
    QUESTION,
    SCRIPT,
    WHERE,
    Varied,
    calls,
    decisions,
    ends,
    model,
    nodes,
    playing,
    run,
    scored,
    spent,
)
from tests.tolerances import near


def answers(*given):
    """Return a model of one path whose summaries are these, sample by sample."""
    return Varied(playing(say=WHERE, qt="None", sa="\n".join(given)))


def drawing(verifier, number, **parameters):
    parameters = {"actions": PATHS_ALONE, **parameters}
    return Airrag(answer_samples=number, verifier=verifier, **parameters)


def chosen(result):
    return next(each for each in decisions(result) if each.name == "choose")


def test_common_words_choose():
    given = ("Delaware River", "the Delaware River in Eddystone", "Mohawk River")
    result, _ = run(drawing("jcd", 3), answers(*given))
    assert result.answer.text == "Delaware River"
    assert list(chosen(result).numbers.values()) == near([0.6111, 0.5667, 0.5111], "as told", "4 decimals")


def test_vectors_choose():
    given = ("Mohawk", "Delaware River", "River Delaware")
    result, _ = run(drawing("emb", 3), answers(*given), encoder=ScriptedEncoder())
    assert result.answer.text == "Delaware River"
    scores = chosen(result).numbers
    assert scores["Delaware River"] == near(scores["River Delaware"]) != scores["Mohawk"]


def test_vectors_need_an_encoder():
    with pytest.raises(MissingAbility, match=r"no encoder is given.*--set verifier=jcd"):
        run(Airrag(verifier="emb"))


def test_a_call_that_sees_all_candidates_chooses():
    varied = Varied(
        playing(say=WHERE, sa="Mohawk River\nDelaware River\nmohawk river", verify="The Delaware River.")
    )
    result, _ = run(drawing("sa", 3), varied)
    assert result.answer.text == "The Delaware River"
    prompt = next(
        event.prompt for event in result.trace.events if event.type == "generate" and event.key == ("verify",)
    )
    assert "- Mohawk River (2)\nKnown: " in prompt
    assert prompt.index("Mohawk River (2)") < prompt.index("- Delaware River\n")
    assert spent(result)["input tokens of the verifier"] > 0


@pytest.mark.parametrize("given", [("Delaware",), ("Delaware", "delaware.", "The Delaware")])
def test_without_a_choice_nobody_is_asked(given):
    result, _ = run(drawing("sa", len(given)), answers(*given))
    assert ("verify",) not in calls(result)
    assert result.answer.text == "Delaware"


@pytest.mark.parametrize("reply", ["", "unknown", "The passages do not contain the answer."])
def test_a_verifier_that_says_nothing_leaves_it_to_common_words(reply):
    varied = Varied(playing(say=WHERE, sa="Mohawk\nDelaware\nDelaware", verify=reply))
    assert run(drawing("sa", 3), varied)[0].answer.text == "Delaware"


def judging(**likely):
    """Return a reward model that scores a path by the answer that it ends in; 0.1 for any other."""

    def score(prompt, option):
        last = prompt.rpartition("Answer: ")[2]
        probability = next((value for answer, value in likely.items() if answer in last), 0.1)
        return math.log(probability if "Yes" in option else 1 - probability)

    return ScriptedModel(scores=score, name="judge")


def test_the_reward_model_chooses_alone_or_by_votes():
    given = ("Mohawk", "Delaware", "Delaware")
    models = {"answer": answers(*given), "reward": judging(Mohawk=0.7, Delaware=0.5)}
    result, _ = run(drawing("rm", 3), models)
    assert result.answer.text == "Mohawk"
    assert chosen(result).numbers == near({"Mohawk": 0.7, "Delaware": 0.5})
    result, _ = run(drawing("rm_vote", 3), models)
    assert result.answer.text == "Delaware"
    assert chosen(result).numbers == near({"Mohawk": 0.7, "Delaware": 1.0})
    assert len(scored(result)) == 2, "each path once"


def test_a_vote_counts_copies_and_the_shares_along_their_paths():
    def choose(*paths):
        return asyncio.run(choose_answer("vote", paths, None, 1, None))

    def ended(answer, votes, share):
        return Node(PathState(answer=answer, votes=votes), parent=Node(PathState(share=share)))

    many = choose(ended("Mohawk", 2, 0.25), ended("Delaware", 1, 0.75), ended("mohawk.", 1, 0.1))
    assert (many.answer, [*many.scores.values()]) == ("Delaware", near([0.6, 0.75, 0.6]))
    assert choose(ended("Mohawk", 2, 0.5), ended("Delaware", 1, 0.75)).answer == "Mohawk"


def test_the_share_of_a_path_is_that_of_the_samples_that_led_along_it():
    varied = Varied(playing(say=f"{WHERE}\n{WHERE}\n{MOUTH}", sa="Mohawk", ra="Delaware", qt="None"))
    parameters = {"rollouts": 2, "samples": 3, "wave": 1, "verifier": "vote", "actions": PATHS_ALONE}
    result, _ = run(Airrag(**parameters), varied)
    assert chosen(result).numbers == near({"Mohawk": 1.0}), "plans with shares of 2/3 and 1/3"


def test_independent_paths_have_calls_of_their_own():
    varied = Varied(playing(say=WHERE, sa="Mohawk", qt="None"))
    parameters = {"rollouts": 3, "verifier": "vote", "actions": PATHS_ALONE}
    result, queries = run(Airrag(search="paths", **parameters), varied)
    keys = calls(result)
    assert len(keys) == len({*keys}) == 3 * 4, "each path plans, answers, transforms and sums up"
    assert queries == [WHERE] * 3
    assert chosen(result).numbers == near({"Mohawk": 3.0}), "equal paths are copies"
    nodes = [event.node for event in result.trace.events if event.type == "expand"]
    assert nodes == [f"{tree}.{below}" for tree in range(3) for below in ("1", "1.1", "1.1.1", "1.1.1.1")]
    assert spent(result)["rollouts"] == 3
    alone, _ = run(Airrag(**parameters | {"rollouts": 1}), varied)
    assert calls(alone) == [key for key in keys if key[0].startswith("0")], "the first is that of a tree"


class OnePlanAndThenTwo(Varied):
    """Draws the same plan twice for the first path, and two different plans for the others."""

    def _reply(self, shown, key):
        reply = super()._reply(shown, key)
        is_other = "say" in key and "0" not in key and self.sample
        return type(reply)(MOUTH) if is_other else reply


def test_equal_paths_keep_the_shares_of_their_own():
    parameters = {"rollouts": 2, "samples": 2, "verifier": "vote", "actions": PATHS_ALONE, "wave": 1}
    model = OnePlanAndThenTwo(playing(say=WHERE, sa="Mohawk", qt="None"))
    result, _ = run(Airrag(search="paths", **parameters), model)
    assert chosen(result).numbers == near({"Mohawk": 1.5}), "a share of 1, and one of a half"


def test_independent_paths_stop_once_they_agree():
    varied = Varied(playing(say=WHERE, sa="Mohawk", qt="None"))
    parameters = {"rollouts": 9, "verifier": "vote", "actions": PATHS_ALONE, "wave": 2}
    agreed, _ = run(Airrag(search="paths", stop_lead=2.0, **parameters), varied)
    assert spent(agreed)["rollouts"] == 2
    decided, _ = run(Airrag(search="paths", stop_lead=99.0, **parameters), varied)
    assert spent(decided)["rollouts"] == 6, "of nine votes, six can't be outvoted; two at a time"


def test_the_answering_model_judges_where_no_other_is_given():
    varied = Varied(playing(say=WHERE, sa="Mohawk\nDelaware"), scores={"Yes": -1.0, "No": -1.0})
    result, _ = run(drawing("rm", 2), varied)
    assert chosen(result).numbers == near({"Mohawk": 0.5, "Delaware": 0.5})
    blind = ScriptedModel(playing(), capabilities=frozenset({"chat"}))
    with pytest.raises(MissingAbility, match=r"scores paths, which scripted can't.*--model reward=bundled"):
        run(Airrag(verifier="rm"), blind)
    with pytest.raises(MissingAbility, match="uses no model in the role reward"):
        run(Airrag(), {"answer": model(), "reward": judging()})


@pytest.mark.parametrize(("reward", "expected"), [("consistency", 0.5), ("rm", 0.8)])
def test_what_a_path_earns(reward, expected):
    models = {"answer": model(), "reward": judging(Delaware=0.8, Schuylkill=0.3)}
    models["answer"] = model(sa="Delaware")
    method = Airrag(reward=reward, verifier="rm")
    result, _ = run(method, models)
    (path,) = [name for name in ends(result) if nodes(result)[name].action == SA]
    assert nodes(result)[path].numbers["reward"] == near(expected)
    assert result.answer.text == "Delaware"


def test_rewards_lead_the_search():
    script = {
        "say": f"{WHERE}/None\n{WHERE}",
        "sa": lambda prompt: "Mohawk" if "Crum" in prompt else "Delaware",
    }

    def visits(likely):
        models = {"answer": Varied(playing(**script)), "reward": judging(**likely)}
        result, _ = run(Airrag(rollouts=12, samples=2, reward="rm", exploration=0.1, wave=1), models)
        return spent(result)["input tokens of rewards"], nodes(result)

    tokens, found = visits({"Mohawk": 0.9})
    assert tokens > 0
    assert all(0 <= event.numbers["value"] <= event.numbers["visits"] for event in found.values())


def test_a_refusal_earns_nothing():
    models = {"answer": model(sa="unknown"), "reward": judging(unknown=0.9)}
    result, _ = run(Airrag(reward="rm", verifier="rm"), models)
    rewards = {
        event.action: event.numbers["reward"] for event in nodes(result).values() if "reward" in event.numbers
    }
    assert rewards == near({SA: 0.0, DA: 0.1})
    assert result.answer.text == SCRIPT["da"]


def test_refusals_are_not_counted_among_the_answers_that_a_path_is_compared_with():
    def rewards(**script):
        result, _ = run(Airrag(verifier="jcd"), model(**script))
        return {name: nodes(result)[name].numbers["reward"] for name in ends(result)}

    assert list(rewards(sa="unknown", da="Delaware").values()) == [0.0, 1.0]
    assert list(rewards(sa="Mohawk", da="Delaware").values()) == [0.5, 0.5]
    assert list(rewards(sa="unknown", da="I do not know.").values()) == [0.0, 0.0]


def test_of_answers_with_as_much_in_common_one_from_passages_is_taken():
    result, _ = run(Airrag(verifier="jcd"), model(sa="the river Delaware", da="Schuylkill"))
    assert chosen(result).numbers == {"the river Delaware": 0.5, "Schuylkill": 0.5}
    assert result.answer.text == "the river Delaware", "although it has more words"


@pytest.mark.parametrize("options", [{"Yes": -math.inf, "No": -math.inf}, {"Yes": -1000.0, "No": -1.0}])
def test_impossible_scores(options):
    judge = ScriptedModel(scores=options)
    result, _ = run(drawing("rm_vote", 2), {"answer": answers("Mohawk", "Delaware"), "reward": judge})
    assert result.answer.text == "Mohawk"
    assert set(chosen(result).numbers.values()) == {0.0}


def test_what_a_reward_model_is_shown():
    long = type(CREEK)("2", "Creek", "word " * 1000)
    state = PathState().with_plan((WHERE,), QUESTION.text)
    state = state.with_answer(WHERE, "Over Crum Creek", (Hit(long, 1, 1), Hit(BRIDGE, 1, 2)))
    state = state.with_queries(()).with_final_answer(SA, "the Delaware")
    raw = ScriptedModel(capabilities=frozenset({"raw", "score"}))
    judge = PromptBuilder(raw, QUESTION)
    shown = raw.decode(raw.prompt_ids(PathRewardModel(judge, QUESTION).prompt(judge, state)))
    assert shown.endswith(f"Found: {WHERE} Over Crum Creek\nNext: None\nAnswer: the Delaware\nJudgement:")
    assert f"Question: {QUESTION.text}\nPlan: {WHERE}\nPassage: Creek" in shown
    assert PASSAGE_TOKENS - 9 < shown.count("word") < PASSAGE_TOKENS
    chat = ScriptedModel()
    judge = PromptBuilder(chat, QUESTION)
    prompt = PathRewardModel(judge, QUESTION).prompt(judge, state, with_passages=False)
    assert len(chat.prompt_ids(prompt)) < 100


def test_a_judge_with_a_small_window_sees_no_passages_or_nothing():
    judge, found = judging(Mohawk=0.9), set()
    for window in range(20, 200, 4):
        judge.context_tokens = window
        models = {"answer": answers("Mohawk", "Delaware"), "reward": judge}
        result, _ = run(drawing("rm", 2), models, passages=(CREEK,))
        found.add(("Passage:" in "".join(scored(result)), round(chosen(result).numbers["Mohawk"], 6)))
    assert found == {(True, 0.9), (False, 0.9), (False, 0.0)}
