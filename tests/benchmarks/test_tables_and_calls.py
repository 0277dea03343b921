"""What calls need at the least, and the rows of the tables."""

import pytest
from benchmarks.calls import Call, Work, needed_tokens
from benchmarks.table import Row, row, with_entry


def call(began, ended, prompt=(1,), *written, question="one"):
    return Call(question, [prompt], written, None, began, ended)


FIRST = call(0, 1, (1, 2), (3, 4, 5))
TEN, THIRTY = (7,) * 11, (7,) * 31
"""Texts of so many passes: the first token comes with the prompt."""


@pytest.mark.parametrize(
    ("calls", "prompt_tokens"),
    [
        # Common beginnings are read once.
        ([call(0, 1, (1, 2, 3)), call(1, 2, (1, 2, 4))], 4),
        ([Call("one", [(1, 2, 3), (1, 2, 4), (1, 2)], (), None, 0, 1)], 4),
        # What was written is not read, except for its last token, and behind another prompt it is.
        ([FIRST, call(1, 2, (1, 2, 3, 4, 5, 6))], 2 + 2),
        ([FIRST, call(1, 2, (9, 3, 4, 5))], 2 + 4),
    ],
)
def test_prompt_tokens_that_calls_need(calls, prompt_tokens):
    assert Work.of(calls).prompt_tokens == prompt_tokens


@pytest.mark.parametrize(
    ("calls", "critical_passes", "passes"),
    [
        ([call(0, 1, (1,), (2,))], 0, 0),
        ([call(0, 1, (1,), ())], 0, 0),
        ([call(0, 1, (1,), (2, 3, 4), (5, 6))], 2, 3),
        # A call waits for those of its question that ended before, and runs beside others.
        ([call(0, 1, (1,), TEN), call(1, 2, (1,), THIRTY)], 40, 40),
        ([call(0, 2, (1,), TEN), call(1, 3, (1,), THIRTY)], 30, 40),
        ([call(0, 1, (1,), TEN), call(0, 2, (1,), THIRTY), call(2, 3, (1,), TEN)], 40, 50),
        (
            [
                call(0, 1, (1,), TEN),
                call(2, 3, (1,), THIRTY, question="two"),
                call(4, 5, (1,), TEN),
                call(6, 7, (1,), TEN, question="two"),
            ],
            40,
            60,
        ),
    ],
)
def test_passes_that_calls_need(calls, critical_passes, passes):
    work = Work.of(calls)
    assert (work.critical_passes, work.passes) == (critical_passes, passes)
    assert work.num_texts == passes / max(1, critical_passes)


def test_depth_is_the_mean_number_of_tokens_before_a_written_one():
    # The second and third token of a text behind four: five and six stand before them.
    assert Work.of([call(0, 1, (1, 2, 3, 4), (5, 6, 7))]).depth == 5.5
    assert Work.of([]).depth == 0


def test_separate_attention_passes_share_nothing_with_texts():
    attended = Call("one", [(1, 2, 3)], (), None, 1, 2, is_separate=True)
    assert needed_tokens([call(0, 1, (1, 2, 3), (4, 5)), attended, attended]) == (4, 6)


@pytest.mark.parametrize(
    ("values", "goal", "told"),
    [
        ([1, 9, 3], {"at_least": 3}, ">= 3: met"),
        ([1, 9, 3], {"at_least": 3.5}, ">= 3.5: missed"),
        ([1, 9, 3], {"at_most": 3}, "<= 3: met"),
        ([1, 9, 3], {"at_most": 2.5}, "<= 2.5: missed"),
        ([1, 9, 3], {}, ""),
    ],
)
def test_a_row_has_the_median_and_tells_whether_it_meets_its_goal(values, goal, told):
    assert row("time", values, "s", "another", **goal) == Row("time", 3, "s", against="another", goal=told)


def test_a_table_in_the_log_is_the_newest_entry():
    rows = [Row("time", 1234.5, "s", 0.5, "another", "<= 2: missed")]
    log = with_entry("# Log\n\n## 2026-01-01: old\n", rows, "a machine")
    assert "| time | 1,234.50 | s | 0.50 | another | <= 2: missed |" in log
    assert log.startswith("# Log\n\n## ")
    assert log.index("a machine") < log.index("old")
    assert Row("time", 1, "s").cells[3] == ""
