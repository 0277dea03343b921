"""AirRAG within `l_max`: it never reads more, with any parameters, and answers while anything fits."""

import asyncio
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance.core.ports import Run
from askance.core.token_ledger import NoRoom, TokenLedger, most_that_fit
from askance.core.trace import Trace
from askance.core.types import Passage, Raw, Span
from askance.methods.airrag.method import Airrag, AirragLite
from askance.methods.airrag.parameters import ALL, WITHOUT_ANALYSIS
from askance.methods.airrag.prompts import OWN
from askance.methods.airrag.state import DA
from askance.methods.airrag.tree_search import TreeSearch
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.methods.bridge import (
    BRIDGE,
    PATHS_ALONE,
    QUESTION,
    Varied,
    calls,
    decisions,
    model,
    nodes,
    run,
    spent,
    tree,
)

LONG = tuple(
    Passage(str(number), f"Creek {number}", " ".join(["It flows to the Delaware"] * (10 * number % 170)))
    for number in range(1, 24)
)
SETTINGS = st.fixed_dictionaries(
    {
        "rollouts": st.integers(1, 8),
        "samples": st.integers(1, 3),
        "answer_samples": st.integers(1, 2),
        "passages": st.sampled_from([0, 1, 3, 30]),
        "wave": st.sampled_from([1, 4]),
        "search": st.sampled_from(["tree", "paths"]),
        "verifier": st.sampled_from(["sa", "jcd", "vote", "rm", "rm_vote"]),
        "reward": st.sampled_from(["consistency", "rm"]),
        "actions": st.sampled_from([ALL, PATHS_ALONE, WITHOUT_ANALYSIS]),
        "prompts": st.sampled_from([OWN, replace(OWN, examples=3)]),
        "l_max": st.sampled_from([1, 40, 100, 200, 400, 900, 2048, 8192]),
        "temperature": st.sampled_from([0.0, 0.7]),
    }
)


class Dawdling(Varied):
    """A model that answers after a varying delay."""

    def __init__(self, chance, **named):
        super().__init__(None, **named)
        self.chance = chance

    async def _wait(self):
        for _ in range(self.chance.randrange(5)):
            await asyncio.sleep(0)

    async def generate(self, request):
        await self._wait()
        return await super().generate(request)

    async def score(self, prompt, options):
        await self._wait()
        return await super().score(prompt, options)


@settings(max_examples=15, deadline=None)
@given(SETTINGS, st.integers(0, 99), st.sampled_from([600, 4096, 32768]))
def test_no_more_than_l_max_is_read_and_timing_changes_neither_tree_nor_answer_nor_cost(
    parameters, seed, context_tokens
):
    (result, _), (late, _) = (
        run(Airrag(**parameters), each, LONG, seed=seed)
        for each in (
            Varied(None, context_tokens=context_tokens),
            Dawdling(random.Random(seed), context_tokens=context_tokens),
        )
    )
    events = result.trace.events
    prompts = {
        each.key: each.prompt_tokens for each in events if each.type == "generate"
    }  # once for all samples
    num_read = sum(prompts.values()) + sum(each.prompt_tokens for each in events if each.type == "score")
    assert num_read == spent(result)["input tokens"] <= parameters["l_max"]
    assert (result.answer, tree(result), spent(result)) == (late.answer, tree(late), spent(late))


def prompts_of(result, action):
    return [each.prompt for each in result.trace.events if each.type == "generate" and each.key[-1] == action]


def test_as_many_passages_are_shown_as_there_is_room_for():
    text = "It flows to the Delaware River at Eddystone, in the south."
    same = [Passage(str(number), "Creek", text) for number in range(60)]
    shown = []
    for l_max in (1000, 2000, 4000, None):
        result, _ = run(Airrag(passages=0, l_max=l_max), model(context_tokens=20_000), same)
        first, _ = (prompt.count("Eddystone") for prompt in prompts_of(result, "ra"))
        shown.append(first)
    assert 1 <= shown[0] < shown[1] < shown[2] <= shown[3] == 60


def test_passages_that_had_no_room_in_their_call_are_shown_to_the_summary():
    result, _ = run(AirragLite(passages=0, l_max=2000), model(qt="None"), LONG)
    (answering,), (summary,) = prompts_of(result, "ra"), prompts_of(result, "sa")
    assert summary.count("Creek ") > answering.count("Creek ") > 0
    assert not any(event.numbers.get("cut") for event in nodes(result).values()), "as many as fit is no cut"


def test_every_stage_of_running_out():
    results = [
        run(Airrag(l_max=l_max, actions=PATHS_ALONE), model(), LONG[5:8])[0]
        for l_max in (*range(10, 1000, 30), 3000)
    ]
    shown = {prompt.count("Creek ") for each in results for prompt in prompts_of(each, "ra")}
    assert {3} < shown <= {1, 2, 3}, "some calls have fewer passages"
    summaries = [prompt for each in results for prompt in prompts_of(each, "sa")]
    assert {1, 2} <= {prompt.count("Known:") for prompt in summaries}, "paths sum up early"
    assert any("Creek " not in prompt for prompt in summaries), "a summary has no passages"
    answers = [each.answer.text for each in results]
    first = answers.index("The Schuylkill River")
    assert first > 0
    assert set(answers[:first]) == {""}, "nothing fits"
    assert "" not in answers[first:], "once a direct answer fits, there always is an answer"
    assert answers[-1] == "It is the Delaware River"


def test_if_no_summary_fits_the_last_answer_is_the_final_one_and_is_marked():
    long_answer = model(ra="The " + "very " * 150 + "long river.")
    marked = set()
    for l_max in range(100, 1200, 60):
        result, _ = run(Airrag(l_max=l_max), long_answer, (BRIDGE,))
        cut = [event for event in nodes(result).values() if event.numbers.get("cut")]
        marked |= {(event.action, event.text[:8]) for event in cut}
    assert ("sa", "The very") in marked


def test_no_rollout_starts_that_could_not_end():
    few, many = (spent(run(Airrag(rollouts=20, l_max=l_max), model())[0]) for l_max in (600, 20_000))
    assert few["rollouts"] < many["rollouts"]
    assert few["l_max"] == 600


def test_a_ledger_shares_its_tokens_and_takes_back_what_is_left_over():
    ledger = TokenLedger(1000)
    first, second = ledger.share(4), ledger.share(3)
    assert (first.most, second.most) == (250, 250)
    first.close()
    assert (ledger.left, ledger.share(2).most) == (750, 375)
    second.close()
    first.close()
    assert ledger.set_aside == 375


@pytest.mark.parametrize(("most", "num_words", "max_tokens"), [(5, 6, 1), (None, 30, 1), (None, 10, 11)])
def test_a_ledger_never_gives_more_than_it_has(most, num_words, max_tokens):
    budget, prompt = TokenLedger(most).lend(most), Raw((Span(" word" * num_words),))
    with pytest.raises(NoRoom):
        asyncio.run(budget.read(ScriptedModel(["x"], context_tokens=20), prompt, max_tokens))
    assert budget.was_short
    assert budget.root.num_spent == budget.num_spent == 0


@pytest.mark.parametrize("limit", range(-1, 8))
def test_the_most_that_fits(limit):
    async def fits(number):
        return number <= limit

    assert asyncio.run(most_that_fit(5, fits)) == (None if limit < 0 else min(limit, 5))


@pytest.mark.parametrize("rollouts", [1, 5])
def test_tokens_set_aside_for_judged_calls_are_given_back(rollouts):
    method = Airrag(rollouts=rollouts, reward="rm", verifier="rm", l_max=4000)
    models = {"answer": model(scores={"Yes": -1.0, "No": -1.0})}
    searching = TreeSearch(method, QUESTION, Run(models, ScriptedRetriever(LONG), Trace()))
    asyncio.run(searching.search())
    assert DA in {node.action for node in searching.answers}
    assert searching.ledger.set_aside == 0
    assert searching.ledger.left == 4000 - searching.ledger.num_spent


@pytest.mark.parametrize(("context_tokens", "answer"), [(700, "It is the Delaware River"), (100, "")])
def test_a_small_window_is_a_limit_too(context_tokens, answer):
    method = Airrag(passages=30, actions=PATHS_ALONE)
    assert run(method, model(context_tokens=context_tokens), LONG)[0].answer.text == answer


def test_the_verifier_makes_no_call_if_none_fits():
    outcomes = {}
    for l_max in (*range(300, 700, 20), 1500):
        result, _ = run(Airrag(rollouts=2, l_max=l_max), model())
        without = [each for each in decisions(result) if each.outcome == "without a call"]
        outcomes[("verify",) in calls(result), len(without)] = l_max
    assert outcomes.get((True, 0)) == 1500
    assert not any(called and without for called, without in outcomes)
