import pytest

from askance.core.errors import InputError
from askance.core.types import Usage
from askance.eval.metrics.costs import COSTS, SUMMARIES
from tests.tolerances import near

USAGE = Usage(prompt_tokens=100, generated_tokens=8, reused_tokens=60, searches=3, seconds=1.5)


def test_costs_of_one_question():
    assert {name: cost.of(USAGE) for name, cost in COSTS.items()} == {
        "searches": 3,
        "tokens_prompt": 100,
        "tokens_reused": 60,
        "tokens_generated": 8,
        "tokens_computed": 48,
        "seconds": 1.5,
    }


def test_summaries_over_questions():
    usages = [Usage(searches=n, seconds=float(seconds)) for n, seconds in enumerate((1, 2, 3, 4, 10))]
    assert COSTS["searches"].summary(usages) == {"mean": 2.0}
    # The 95th percentile lies at place 0.95 · 4 = 3.8 of 0 to 4: 4 + 0.8 · (10 − 4).
    assert COSTS["seconds"].summary(usages) == {"median": 3.0, "p95": near(8.8)}
    assert COSTS["seconds"].summary(usages[:2]) == {"median": 1.5, "p95": near(1.95)}
    assert COSTS["seconds"].summary([USAGE]) == {"median": 1.5, "p95": 1.5}


def test_every_summary_is_known():
    assert {name for cost in COSTS.values() for name in cost.summaries} == set(SUMMARIES)


@pytest.mark.parametrize("name", COSTS)
def test_no_questions_have_no_costs(name):
    with pytest.raises(InputError, match="no questions"):
        COSTS[name].summary([])
