"""What calls need at the least, and the rows of the tables."""

import pytest
from benchmarks.calls import Call, TextTree, Work, needed_tokens
from benchmarks.table import Row, row, timed, with_entry


def call(began, ended, prompt=(1,), *written, question="one"):
    return Call(question, [prompt], written, None, began, ended)


def test_of_a_text_only_what_no_other_begins_with_is_new():
    tree = TextTree()
    assert [tree.add(ids) for ids in ((1, 2, 3), (1, 2, 4, 5), (2, 3), (1, 2), ())] == [3, 2, 2, 0, 0]


def test_common_beginnings_are_read_once():
    assert Work.of([call(0, 1, (1, 2, 3)), call(1, 2, (1, 2, 4))]).prompt_tokens == 4
    options = Call("one", [(1, 2, 3), (1, 2, 4), (1, 2)], (), None, 0, 1)
    assert Work.of([options]) == Work(4, 0, 0, 0.0)


def test_what_was_written_is_not_read_but_for_its_last_token():
    first = call(0, 1, (1, 2), (3, 4, 5))
    assert Work.of([first, call(1, 2, (1, 2, 3, 4, 5, 6))]).prompt_tokens == 2 + 2
    assert Work.of([first, call(1, 2, (9, 3, 4, 5))]).prompt_tokens == 2 + 4, "behind another prompt it is"


def test_the_first_token_comes_with_the_prompt():
    assert Work.of([call(0, 1, (1,), (2,))]).passes == 0
    assert Work.of([call(0, 1, (1,), ())]) == Work(1, 0, 0, 0.0), "nothing is written"
    work = Work.of([call(0, 1, (1,), (2, 3, 4), (5, 6))])
    assert (work.critical_passes, work.passes, work.num_texts) == (2, 3, 1.5)


def test_calls_wait_for_those_that_ended_before():
    one, other = (7,) * 11, (7,) * 31
    assert Work.of([call(0, 1, (1,), one), call(1, 2, (1,), other)]).critical_passes == 10 + 30
    assert Work.of([call(0, 2, (1,), one), call(1, 3, (1,), other)]).critical_passes == 30, "side by side"
    joined = [call(0, 1, (1,), one), call(0, 2, (1,), other), call(2, 3, (1,), one)]
    assert Work.of(joined).critical_passes == 30 + 10


def test_questions_do_not_wait_for_each_other():
    ten, thirty = (7,) * 11, (7,) * 31
    calls = [
        call(0, 1, (1,), ten),
        call(2, 3, (1,), thirty, question="two"),
        call(4, 5, (1,), ten),
        call(6, 7, (1,), ten, question="two"),
    ]
    work = Work.of(calls)
    assert (work.critical_passes, work.passes) == (30 + 10, 60)
    assert work.num_texts == 1.5


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


def test_work_is_timed():
    done = []
    assert timed(lambda: done.append(1)) >= 0
    assert done
