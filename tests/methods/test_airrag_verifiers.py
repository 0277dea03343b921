"""AirRAG's verifiers and rewards: scores of answers, features of paths, and which answer wins."""

import asyncio
import math

import numpy as np
import pytest

from askance.configuration.build import load_models
from askance.core.errors import ModelFailure
from askance.core.types import Demo, Hit, Question
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.prompts import PromptBuilder
from askance.methods.airrag.reward import (
    FEATURES,
    PASSAGE_TOKENS,
    AnswerSupport,
    PathRewardModel,
    path_features,
    supports_of,
)
from askance.methods.airrag.state import SA, SAY, ActionStep, Node, PathState
from askance.methods.airrag.verifiers import (
    best_node,
    choose_answer,
    cluster_answers,
    emb_scores,
    jcd_scores,
    leading_answer,
)
from askance.models.loaders import load_cross_encoder
from askance.models.scripted import ScriptedEncoder, ScriptedModel
from tests.methods.bridge import (
    BRIDGE,
    CREEK,
    MOUTH,
    PATHS_ALONE,
    QUESTION,
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


def ended(answer, votes=1, share=1.0, **more):
    return Node(PathState(answer=answer, votes=votes), parent=Node(PathState(share=share)), **more)


@pytest.mark.parametrize(
    ("answers", "copies", "scores"),
    [
        (
            ("Delaware River", "the Delaware River in Eddystone", "Mohawk River"),
            None,
            [11 / 18, 17 / 30, 23 / 45],
        ),
        (("Delaware", "Mohawk"), (3, 1), [0.75, 0.25]),
        (("Delaware", "Delaware", "Delaware", "Mohawk"), None, [0.75, 0.75, 0.75, 0.25]),
        (("", "the"), None, [1.0, 1.0]),
        ((), None, []),
    ],
)
def test_jcd_is_the_mean_similarity_of_words(answers, copies, scores):
    assert jcd_scores(answers, copies) == near(scores)


def test_emb_is_the_mean_cosine():
    vectors = np.array([[1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32)
    assert emb_scores(vectors) == near([1.6 / 3, 2.4 / 3, 1.8 / 3], "formula", "float32")
    assert emb_scores(vectors, (2, 1, 1)) == near([2.6 / 4, 3.0 / 4, 1.8 / 4], "formula", "float32")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ended("a", visits=2), ended("b", visits=1, reward=9)),
        (ended("a", reward=0.5), ended("b", reward=0.4)),
        (ended("a"), ended("b c")),
        (ended("a"), ended("b")),
    ],
    ids=["visits", "reward", "words", "earlier"],
)
def test_ties(one, other):
    assert best_node({one: 0.5, other: 0.5 + 1e-12}) is one
    assert best_node({one: 0.4, other: 0.5}) is other


def test_equal_answers_vote_together():
    one, other, again = ended("The Po", 2, 0.5), ended("Arno", share=0.25), ended("po.")
    assert cluster_answers([one, other, again]) == [[one, again], [other]]
    assert leading_answer([one, other, again, ended("unknown", 9)]) == ("The Po", near(1.75))
    assert leading_answer([ended("unknown", 3)]) == ("", 0.0)


@pytest.mark.parametrize(
    ("paths", "answer", "scores"),
    [
        ([("Mohawk", 2, 0.25), ("Delaware", 1, 0.75), ("mohawk.", 1, 0.1)], "Delaware", [0.6, 0.75, 0.6]),
        ([("Mohawk", 2, 0.5), ("Delaware", 1, 0.75)], "Mohawk", [1.0, 0.75]),
    ],
)
def test_a_vote_counts_copies_and_the_shares_along_their_paths(paths, answer, scores):
    chosen = asyncio.run(choose_answer("vote", [ended(*path) for path in paths], None, 1, None))
    assert (chosen.answer, [*chosen.scores.values()]) == (answer, near(scores))


def judging(**likely):
    """Return a reward model that scores a path by the answer that it ends in; 0.1 for any other."""

    def score(prompt, option):
        last = prompt.rpartition("Answer: ")[2]
        probability = next((value for answer, value in likely.items() if answer in last), 0.1)
        return math.log(probability if "Yes" in option else 1 - probability)

    return ScriptedModel(scores=score, name="judge")


def chosen(result):
    return next(each.numbers for each in decisions(result) if each.name == "choose")


def drawing(verifier, number, **parameters):
    return Airrag(answer_samples=number, verifier=verifier, **{"actions": PATHS_ALONE} | parameters)


def summaries(*answers, **script):
    """Return a model of one path whose summaries are these, sample by sample."""
    return Varied(playing(say=WHERE, qt="None", sa="\n".join(answers), **script))


MODELS = {"answer": summaries("Mohawk", "Delaware", "Delaware"), "reward": judging(Mohawk=0.7, Delaware=0.5)}
HALF = Varied(playing(say=WHERE, sa="Mohawk\nDelaware"), scores={"Yes": -1.0, "No": -1.0})
IMPOSSIBLE = [ScriptedModel(scores={"Yes": low, "No": -1.0}) for low in (-math.inf, -1000.0)]


@pytest.mark.parametrize(
    ("verifier", "models", "answer", "scores"),
    [
        (
            "jcd",
            summaries("Mohawk", "Delaware", "Delaware"),
            "Delaware",
            {"Mohawk": 1 / 3, "Delaware": 2 / 3},
        ),
        ("rm", MODELS, "Mohawk", {"Mohawk": 0.7, "Delaware": 0.5}),
        ("rm_vote", MODELS, "Delaware", {"Mohawk": 0.7, "Delaware": 1.0}),
        ("rm", HALF, "Mohawk", {"Mohawk": 0.5, "Delaware": 0.5}),
        *(
            ("rm_vote", MODELS | {"reward": judge}, "Delaware", {"Mohawk": 0, "Delaware": 0})
            for judge in IMPOSSIBLE
        ),
        ("sa", summaries("Delaware", "delaware.", "The Delaware"), "Delaware", {"Delaware": 1}),
        *(
            ("sa", summaries("Mohawk", "Delaware", "Delaware", verify=reply), "Delaware", None)
            for reply in ("", "unknown", "The passages do not contain the answer.")
        ),
    ],
)
def test_the_answer_chosen(verifier, models, answer, scores):
    result, _ = run(drawing(verifier, 3 if models is not HALF else 2), models)
    assert result.answer.text == answer
    assert scores is None or chosen(result) == near(scores)
    assert len(scored(result)) == (2 if verifier.startswith("rm") else 0), "each path is judged once"
    assert (("verify",) in calls(result)) == (verifier == "sa" and scores is None)


def test_vectors_choose():
    models = summaries("Mohawk", "Delaware River", "River Delaware")
    result, _ = run(drawing("emb", 3), models, encoder=ScriptedEncoder())
    assert result.answer.text == "Delaware River"
    scores = chosen(result)
    assert scores["Delaware River"] == near(scores["River Delaware"]) != scores["Mohawk"]


def test_a_call_that_sees_all_candidates_chooses():
    models = summaries("Mohawk River", "Delaware River", "mohawk river", verify="The Delaware River.")
    result, _ = run(drawing("sa", 3), models)
    assert result.answer.text == "The Delaware River"
    (prompt,) = (
        each.prompt for each in result.trace.events if each.type == "generate" and each.key == ("verify",)
    )
    assert "- Mohawk River (2)\nKnown: " in prompt
    assert prompt.index("Mohawk River (2)") < prompt.index("- Delaware River\n")
    assert spent(result)["input tokens of the verifier"] > 0


def test_votes_are_shares_of_samples():
    varied = Varied(playing(say=f"{WHERE}\n{WHERE}\n{MOUTH}", sa="Mohawk", ra="Delaware", qt="None"))
    parameters = {"rollouts": 2, "wave": 1, "verifier": "vote", "actions": PATHS_ALONE}
    result, _ = run(Airrag(samples=3, **parameters), varied)
    assert chosen(result) == near({"Mohawk": 1.0}), "plans with shares of 2/3 and 1/3"

    class OnePlanAndThenTwo(Varied):
        """Draws the same plan twice for the first path, and two different plans for the others."""

        def _reply(self, shown, key):
            reply = super()._reply(shown, key)
            is_other = "say" in key and "0" not in key and self.sample
            return type(reply)(MOUTH) if is_other else reply

    varied = OnePlanAndThenTwo(playing(say=WHERE, sa="Mohawk", qt="None"))
    result, _ = run(Airrag(search="paths", samples=2, **parameters), varied)
    assert chosen(result) == near({"Mohawk": 1.5}), "a share of 1, and one of a half"


@pytest.mark.parametrize(
    ("parameters", "script", "rewards"),
    [
        ({"verifier": "jcd"}, {"sa": "unknown", "da": "Delaware"}, [0.0, 1.0]),
        ({"verifier": "jcd"}, {"sa": "the river Delaware", "da": "Schuylkill"}, [0.5, 0.5]),
        ({"verifier": "jcd"}, {"sa": "unknown", "da": "I do not know."}, [0.0, 0.0]),
        ({"verifier": "rm"}, {"sa": "Delaware"}, [0.5, 0.5]),
        ({"verifier": "rm", "reward": "rm"}, {"sa": "Delaware"}, [0.8, 0.3]),
        ({"verifier": "rm", "reward": "rm"}, {"sa": "unknown"}, [0.0, 0.3]),
    ],
)
def test_what_a_path_earns(parameters, script, rewards):
    """Refusals earn nothing, and are not among the answers that others are compared with."""
    models = {"answer": model(**script)}
    if parameters["verifier"] == "rm":
        models["reward"] = judging(Delaware=0.8, Schuylkill=0.3, unknown=0.9)
    result, _ = run(Airrag(**parameters), models)
    assert [nodes(result)[name].numbers["reward"] for name in ends(result)] == near(rewards)
    expected = script.get("sa") if script.get("sa") != "unknown" else script.get("da", "The Schuylkill River")
    assert rewards == [0.0, 0.0] or result.answer.text == expected, "of equals, one from passages is taken"


def test_a_judge_with_a_small_window_sees_no_passages_or_nothing():
    judge, seen = judging(Mohawk=0.9), set()
    for judge.context_tokens in range(20, 200, 8):
        models = {"answer": summaries("Mohawk", "Delaware"), "reward": judge}
        result, _ = run(drawing("rm", 2), models, passages=(CREEK,))
        seen.add(("Passage:" in "".join(scored(result)), round(chosen(result)["Mohawk"], 6)))
    assert seen == {(True, 0.9), (False, 0.9), (False, 0.0)}


def test_the_prompt_of_a_reward_model():
    long = type(CREEK)("2", "Creek", "word " * 1000)
    state = PathState().with_plan((WHERE,), QUESTION.text)
    state = state.with_answer(WHERE, "Over Crum Creek", (Hit(long, 1, 1), Hit(BRIDGE, 1, 2)))
    state = state.with_queries(()).with_final_answer(SA, "the Delaware")
    raw = ScriptedModel(capabilities=frozenset({"raw", "score"}))
    judge = PromptBuilder(raw, QUESTION)
    shown = raw.decode(raw.prompt_ids(PathRewardModel(judge, QUESTION).prompt(judge, state)))
    assert f"Question: {QUESTION.text}\nPlan: {WHERE}\nPassage: Creek" in shown
    assert shown.endswith(f"Found: {WHERE} Over Crum Creek\nNext: None\nAnswer: the Delaware\nJudgement:")
    assert PASSAGE_TOKENS - 9 < shown.count("word") < PASSAGE_TOKENS


@pytest.mark.parametrize("num_labels", [1, 2])
def test_a_sequence_classifier_gives_rewards(num_labels, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    from torch.nn import Identity

    from tests.models.tiny_cross_encoder import save_cross_encoder

    folder = save_cross_encoder(tmp_path / "classifier", num_labels=num_labels)
    models = {"answer": summaries("Mohawk", "the Po")}
    models |= load_models({"reward": f"cross-encoder:{folder}?device=cpu"})
    result, _ = run(drawing("rm", 2), models, question=Question("q", "Which river?"))
    assert scored(result)
    assert all(0 < number < 1 for number in chosen(result).values())
    assert len({*chosen(result).values()}) > 1, "the answers are read"
    scorer = load_cross_encoder(str(folder), device="cpu")
    state = PathState(pending=(WHERE,))
    for number in range(5):
        state = state.with_answer(f"What is {number} of many words?", "Crum Creek", ())
    _, text = pair = PathRewardModel(scorer, QUESTION).pair(scorer, state.with_final_answer("sa", "the Po"))
    assert scorer.count_tokens(*pair) < scorer.max_tokens
    assert text.endswith("Answer: the Po")
    assert not text.startswith("Found: What is 0"), "the end of a long path is read"
    if num_labels == 2:
        (logits,) = scorer._module.predict([("a", "b")], activation_fn=Identity())
        assert asyncio.run(scorer.score_pairs([("a", "b")])) == near([float(logits[1] - logits[0])])
    monkeypatch.setattr(scorer, "_logits", lambda pairs: [math.nan] * len(pairs))
    with pytest.raises(ModelFailure, match="the score nan, which is no finite number"):
        asyncio.run(scorer.score("Which river?", [CREEK]))


def test_the_support_of_answers():
    one, other, third = supports_of(["the Po", "Po", "Arno"], [1, 2, 1], [1.0, 0.5, 0.5])
    assert (one.equal_share, other.equal_share, third.equal_share) == near((0.8, 0.8, 0.2))
    assert (one.jcd, third.jcd) == near((0.75, 0.25))
    assert supports_of([], [], []) == []


TOWNS = tuple(Demo("Where is Pisa?", answer) for answer in ("Rome", "the Tuscany"))
ANSWERED = (
    Demo("Where?", "unknown"),
    Demo("Where does Crum Creek flow?", "Eddystone"),
    Demo("Which?", "none"),
)
FOUND = ((Hit(BRIDGE, 2.0, 1),), (Hit(CREEK, 4.0, 1),), ())
EVIDENCE = {("Where?", BRIDGE.id): 1.0}
NONE = dict.fromkeys(FEATURES)
SURE = AnswerSupport(1.0, 1.0, 1.0)
OF_ANSWER = {"finished": 1, "jcd": 1, "equal_share": 1, "path_share": 1, "last_answer": 1, "repeats": 0}


@pytest.mark.parametrize(
    ("question", "path", "support", "features"),
    [
        ("Why?", PathState(history=ANSWERED, found=FOUND, num_repeats=1, share=0.5), None,
         {"finished": 0, "path_share": 0.5, "repeats": 1, "retrievals": 3, "refusals": 1,
          "retrieval_score": 3, "evidence": 1, "named": 0.5, "supported": 0.5}),
        ("Is Pisa old?",
         PathState((ActionStep(SAY, ()),), history=TOWNS, found=((), ()), answer="Tuscany"), SURE,
         OF_ANSWER | {"planned": 1, "plan_coverage": 0, "retrievals": 2, "refusals": 0}),
        ("Is Pisa old?",
         PathState((ActionStep(SAY, ("Where is Pisa?", "What is near?")),), history=TOWNS, found=((), ()),
                   answer="Tuscany"), SURE,
         OF_ANSWER | {"planned": 2, "plan_coverage": 0.5, "retrievals": 2, "refusals": 0}),
    ],
)  # fmt: skip
def test_features_of_a_path(question, path, support, features):
    assert path_features(question, path, support, EVIDENCE) == NONE | features
