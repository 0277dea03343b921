"""AirRAG asks for the first sub-query while its plan is still being written, and nothing else changes."""

import asyncio
from dataclasses import replace

import pytest

from askance.core.errors import ModelFailure
from askance.methods.airrag.method import Airrag, AirragLite
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.methods.bridge import (
    MOUTH,
    PASSAGES,
    PATHS_ALONE,
    TRANSFORMED,
    WHERE,
    calls,
    decisions,
    nodes,
    playing,
    run,
)

PLAN = f"1. {WHERE}\n2. {MOUTH}\n"


class Slow(ScriptedModel):
    """Shows what it writes piece by piece, and lets others work in between.

    Attributes:
        log: what began and ended, in order.
    """

    def __init__(self, *, shows=True, **changes):
        super().__init__(playing(**{"say": PLAN, "qt": f"{TRANSFORMED}\nAnd then?\n"} | changes))
        self.log, self.shows = [], shows

    async def generate(self, request):
        watch = request.watch
        action = next(each for each in reversed(request.key) if isinstance(each, str))
        self.log.append(f"{action} begins")
        found = await super().generate(replace(request, watch=None))
        for piece in found[0].text.splitlines(keepends=True):
            if watch and self.shows:
                watch(piece)
            for _ in range(20):
                await asyncio.sleep(0)
        self.log.append(f"{action} ends")
        return found


class Logged(ScriptedRetriever):
    def __init__(self, model):
        super().__init__(list(PASSAGES))
        self._model = model

    async def search(self, query, k, *, exclude=frozenset()):
        self._model.log.append("searched")
        return await super().search(query, k, exclude=exclude)


def test_the_first_sub_query_is_answered_while_the_plan_is_written():
    slow = Slow()
    run(Airrag(actions=PATHS_ALONE), slow, Logged(slow))
    assert slow.log[:5] == ["say begins", "searched", "ra begins", "ra ends", "say ends"]
    assert slow.log[5:9] == ["qt begins", "searched", "ra begins", "ra ends"], "and so for a transformation"
    slow = Slow(say=WHERE)
    run(Airrag(actions=PATHS_ALONE), slow, Logged(slow))
    assert slow.log[:3] == ["say begins", "say ends", "searched"], "a line that may go on is no query yet"


def everything(method, shows, seed=0, **changes):
    slow = Slow(shows=shows, **changes)
    result, queries = run(method, slow, seed=seed)
    tree = {name: (step.action, step.text, step.numbers) for name, step in nodes(result).items()}
    made = sorted((each.name, each.outcome, each.query, each.why) for each in decisions(result))
    return result.answer, tree, made, sorted(queries), sorted(calls(result)), sorted(slow.prompts)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", [Airrag, AirragLite])
@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"rollouts": 6},
        {"rollouts": 6, "early_sa": True, "followup_qt": "always"},
        {"rollouts": 4, "samples": 2},
        {"rollouts": 4, "answer_samples": 2, "passages": 0},
        {"rollouts": 4, "multi_query": True},
        {"rollouts": 4, "expansion": "eager"},
        {"rollouts": 4, "l_max": 2000},
        {"rollouts": 4, "temperature": 0.0},
    ],
)
def test_nothing_is_asked_that_would_not_be_asked_anyhow(method, knobs, seed):
    assert everything(method(**knobs), True, seed) == everything(method(**knobs), False, seed)


@pytest.mark.parametrize(
    "say",
    [
        "None\n",
        f"Here they are:\n\n{PLAN}",
        f"{WHERE}\n{WHERE}\n",
        "```\n\n",
        f"{WHERE.removesuffix('?')} [1]?\n{MOUTH}\n",
        f"{WHERE} [1, 2]\n{MOUTH} [3]\n",
    ],
)
def test_plans_of_all_kinds(say):
    qt = f"{WHERE}\n{TRANSFORMED}\n"
    assert everything(Airrag(), True, say=say, qt=qt) == everything(Airrag(), False, say=say, qt=qt)


def test_a_plan_that_breaks_off_stops_what_was_begun():
    class Broken(Slow):
        async def generate(self, request):
            found = await super().generate(request)
            if "say" in request.key:
                raise OSError("broken")
            return found

    class Never(Logged):
        async def search(self, query, k, *, exclude=frozenset()):
            try:
                await asyncio.Event().wait()
            finally:
                self._model.log.append("stopped")

    broken = Broken()
    with pytest.raises(ModelFailure, match="broken"):
        run(Airrag(actions=PATHS_ALONE), broken, Never(broken))
    assert broken.log[-1] == "stopped"
