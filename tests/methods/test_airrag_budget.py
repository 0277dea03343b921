"""AirRAG within L_max: it never reads more, with any parameters, and answers while anything fits."""

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
    MOUTH,
    PATHS_ALONE,
    QUESTION,
    TRANSFORMED,
    Varied,
    calls,
    decisions,
    nodes,
    run,
    spent,
)
from tests.methods.bridge import model as made

LONG = tuple(
    Passage(str(number), f"Creek {number}", " ".join(["It flows to the Delaware"] * (10 * number % 170)))
    for number in range(1, 60)
)


def ledger(result):
    """Return the input tokens of all calls; samples drawn at once count once."""
    prompts = {}
    for event in result.trace.events:
        if event.type == "generate":
            prompts[event.key] = event.prompt_tokens
    return sum(prompts.values()) + sum(e.prompt_tokens for e in result.trace.events if e.type == "score")


many_settings = {
    "rollouts": st.integers(1, 12),
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
}


@settings(max_examples=40, deadline=None)
@given(st.fixed_dictionaries(many_settings), st.integers(0, 9))
def test_no_more_than_l_max_is_read(parameters, seed):
    varied = Varied(None, context_tokens=random.Random(seed).choice([600, 4096, 32768]))
    result, _ = run(Airrag(**parameters), varied, LONG, seed=seed)
    assert ledger(result) == spent(result)["input tokens"] <= parameters["l_max"]


class Dawdling(Varied):
    """A model that answers after a varying delay."""

    def __init__(self, chance, **named):
        super().__init__(None, **named)
        self.chance = chance

    async def generate(self, request):
        for _ in range(self.chance.randrange(5)):
            await asyncio.sleep(0)
        return await super().generate(request)

    async def score(self, prompt, options):
        for _ in range(self.chance.randrange(5)):
            await asyncio.sleep(0)
        return await super().score(prompt, options)


@settings(max_examples=15, deadline=None)
@given(st.fixed_dictionaries(many_settings | {"temperature": st.sampled_from([0.0, 0.7])}), st.integers())
def test_timing_changes_neither_tree_nor_answer_nor_cost(parameters, seed):
    def found(model):
        result, _ = run(Airrag(**parameters), model, LONG)
        tree = [(event.text, event.numbers) for event in nodes(result).values()]
        return result.answer, tree, spent(result)

    prompt_model = Varied(None, context_tokens=8192)
    assert found(prompt_model) == found(Dawdling(random.Random(seed), context_tokens=8192))


def test_as_many_passages_as_there_is_room_for():
    same = [
        Passage(str(n), "Creek", "It flows to the Delaware River at Eddystone, in the south.")
        for n in range(60)
    ]
    found = {}
    for l_max in (1000, 2000, 4000, None):
        result, _ = run(Airrag(passages=0, l_max=l_max), made(context_tokens=20_000), same)
        shown = [
            e.prompt.count("Eddystone")
            for e in result.trace.events
            if e.type == "generate" and e.key[-1] == "ra"
        ]
        assert len(shown) == 2
        found[l_max] = shown[0]
    assert 1 <= found[1000] < found[2000] < found[4000] <= found[None] == 60


def test_what_had_no_room_in_its_call_is_shown_to_the_summary():
    result, _ = run(AirragLite(passages=0, l_max=2000), made(qt="None"), LONG)
    (answering,) = retrieval_prompts(result)
    assert summary_prompt(result).count("Creek ") > answering.count("Creek ") > 0
    assert not any(event.numbers.get("cut") for event in nodes(result).values()), "as many as fit is no cut"


def summary_prompt(result):
    return next((e.prompt for e in result.trace.events if e.type == "generate" and e.key[-1] == "sa"), "")


def retrieval_prompts(result):
    return [e.prompt for e in result.trace.events if e.type == "generate" and e.key[-1] == "ra"]


def test_every_stage_of_running_out():
    results = {
        l_max: run(Airrag(l_max=l_max, actions=PATHS_ALONE), made(), LONG[5:8])[0]
        for l_max in (*range(10, 1000, 15), 3000)
    }
    shown = {
        l_max: [prompt.count("Creek ") for prompt in retrieval_prompts(each)]
        for l_max, each in results.items()
    }
    assert {3} <= {number for numbers in shown.values() for number in numbers}
    assert any(set(numbers) & {1, 2} for numbers in shown.values()), "a call has fewer passages"
    summaries = {l_max: summary_prompt(each) for l_max, each in results.items() if summary_prompt(each)}
    with_histories = {prompt.count("Known:") for prompt in summaries.values()}
    assert {1, 2} <= with_histories, "a path sums up before its queries are answered"
    assert any("Creek " not in prompt for prompt in summaries.values()), "a summary has no passages"
    answers = [results[l_max].answer.text for l_max in sorted(results)]
    assert answers[0] == "", "nothing fits"
    assert "The Schuylkill River" in answers, "a direct answer fits"
    first = answers.index("The Schuylkill River")
    assert set(answers[:first]) == {""}
    assert "" not in answers[first:], "with more, there always is an answer"
    assert answers[-1] == "It is the Delaware River"


def test_where_no_summary_fits_the_last_answer_stands_and_is_marked():
    long_answer = made(ra="The " + "very " * 150 + "long river.")
    found = {}
    for l_max in range(100, 1200, 40):
        result, _ = run(Airrag(l_max=l_max), long_answer, (BRIDGE,))
        cut = [event for event in nodes(result).values() if event.numbers.get("cut")]
        found[l_max] = {(event.action, event.text[:8]) for event in cut}
    assert {("sa", "The very")} in found.values()


def test_no_rollout_starts_that_could_not_end():
    few, many = (spent(run(Airrag(rollouts=20, l_max=l_max), made())[0]) for l_max in (600, 20_000))
    assert few["rollouts"] < many["rollouts"]
    assert few["l_max"] == 600


def test_l_max_is_shared_between_rollouts_and_what_is_left_over_goes_on():
    account = TokenLedger(1000)
    first = account.share(4)
    second = account.share(3)
    assert (first.most, second.most) == (250, 250)
    first.close()
    assert account.left == 750
    assert account.share(2).most == 375
    second.close()
    first.close()
    assert account.set_aside == 375


def test_an_allowance_never_gives_more_than_it_has():
    model = ScriptedModel(["x"], context_tokens=20)
    for most, num_words, max_tokens in ((5, 6, 1), (None, 30, 1), (None, 10, 11)):
        budget = TokenLedger(most).lend(most)
        with pytest.raises(NoRoom):
            asyncio.run(budget.read(model, Raw((Span(" word" * num_words),)), max_tokens))
        assert budget.was_short
        assert budget.root.num_spent == budget.num_spent == 0


@pytest.mark.parametrize("limit", range(-1, 8))
def test_the_most_that_fits(limit):
    async def fits(number):
        return number <= limit

    assert asyncio.run(most_that_fit(5, fits)) == (None if limit < 0 else min(limit, 5))


@pytest.mark.parametrize("rollouts", [1, 5])
def test_what_was_set_aside_for_judged_calls_is_given_back(rollouts):
    method = Airrag(rollouts=rollouts, reward="rm", verifier="rm", l_max=4000)
    models = {"answer": made(scores={"Yes": -1.0, "No": -1.0})}
    searching = TreeSearch(method, QUESTION, Run(models, ScriptedRetriever(LONG), Trace()))
    asyncio.run(searching.search())
    assert DA in {node.action for node in searching.answers}
    assert searching.ledger.set_aside == 0
    assert searching.ledger.left == 4000 - searching.ledger.num_spent


def test_a_small_window_is_a_limit_too():
    result, _ = run(Airrag(passages=30, actions=PATHS_ALONE), made(context_tokens=700), LONG)
    assert result.answer.text == "It is the Delaware River"
    result, _ = run(Airrag(), made(context_tokens=100), LONG)
    assert result.answer.text == ""


def test_the_verifier_does_without_a_call_where_none_fits():
    answers = {}
    for l_max in range(300, 1500, 20):
        result, _ = run(Airrag(rollouts=2, l_max=l_max), made())
        verified = ("verify",) in calls(result)
        why = [each.outcome for each in decisions(result) if each.name == "choose"]
        answers.setdefault((verified, "without a call" in why), l_max)
    assert {(True, False)} <= answers.keys()


def test_passages_are_searched_for_as_the_queries_stand():
    retriever = ScriptedRetriever([BRIDGE])
    run(Airrag(passages=0), passages=retriever)
    assert retriever.queries[1] == TRANSFORMED != MOUTH
    assert QUESTION.text not in retriever.queries
