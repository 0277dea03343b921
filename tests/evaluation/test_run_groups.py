from dataclasses import replace
from pathlib import Path

import pytest

from askance.core.errors import InputError, RunFolderError, UnknownName
from askance.core.spec import call_spec
from askance.evaluation.statistics.run_groups import (
    base_indices,
    group_runs,
    names_of,
    non_default_parameters,
)
from tests.evaluation.hand_made import record, run_of


def three():
    return [record(number) for number in (1, 2, 3)]


def test_runs_over_the_same_questions_are_one_group():
    runs = [run_of(three(), "runs/a"), run_of(three(), "runs/b", title="dragin")]
    (group,) = group_runs(runs)
    assert group.whole == group.runs == tuple(runs)
    assert group.names == ("single", "dragin")
    assert group.dataset == "jsonl:bridges.jsonl"


def test_datasets_are_apart_and_so_are_files_that_share_no_question():
    castles = [replace(each, question="Who built the castle?") for each in three()]
    runs = [
        run_of(three(), "runs/a"),
        run_of(three(), "runs/b", dataset="hotpotqa:dev.json"),
        run_of(castles, "runs/c"),
        run_of(three(), "runs/d", dataset="hotpotqa:elsewhere/dev.json"),
    ]
    assert [[run.folder.name for run in group.runs] for group in group_runs(runs)] == [
        ["a"],
        ["b", "d"],
        ["c"],
    ]


def test_other_questions_are_an_error_that_names_one():
    other = [record(1), record(3), record(4)]
    runs = [run_of(three(), "runs/a"), run_of(other, "runs/b")]
    with pytest.raises(InputError, match=r"\(2 in all\): 'q2' is only in runs/a\. .*--common"):
        group_runs(runs)
    changed = [record(1), record(2), record(3, golds=("Köln",))]
    with pytest.raises(InputError, match=r"'q3' differs in golds \(\('Köln',\) there, not \('Bonn"):
        group_runs([runs[0], run_of(changed, "runs/b")])
    asked = [record(1), record(2, question="Who?"), record(3)]
    with pytest.raises(InputError, match=r"'q2' differs in question \('Who\?' there"):
        group_runs([runs[0], run_of(asked, "runs/b")])


def test_an_unfinished_run_is_an_error_but_alone():
    unfinished = run_of([record(1), record(2)], "runs/b", num_questions=3)
    with pytest.raises(RunFolderError, match=r"runs/b is not finished \(2 of 3 questions\).*--common"):
        group_runs([run_of(three(), "runs/a"), unfinished])
    (alone,) = group_runs([unfinished])
    assert alone.runs == (unfinished,)
    with pytest.raises(RunFolderError, match="runs/c has no finished question yet"):
        group_runs([run_of([], "runs/c", num_questions=3)])


def test_common_questions():
    changed = [record(1, golds=("Köln",)), record(3), record(4)]
    runs = [run_of(three(), "runs/a"), run_of(changed, "runs/b", num_questions=9)]
    (group,) = group_runs(runs, common=True)
    assert [[each.id for each in run.records] for run in group.runs] == [["q3"], ["q3"]]
    assert all(run.is_complete for run in group.runs)
    nothing = run_of([record(1, golds=("Köln",))], "runs/c")
    with pytest.raises(InputError, match="no finished question in common"):
        group_runs([runs[0], nothing], common=True)


def test_a_run_given_twice(tmp_path):
    runs = [run_of(three(), tmp_path / "a"), run_of(three(), tmp_path / "b" / ".." / "a")]
    with pytest.raises(InputError, match="more than once"):
        group_runs(runs)


def test_names_say_what_differs():
    def named(*fields):
        return names_of(
            [run_of(three(), **{"folder": f"runs/{at}", **each}) for at, each in enumerate(fields)]
        )

    assert named({}, {"title": "dragin"}) == ("single", "dragin")
    assert named({}, {"model_specs": {"answer": "hf:big"}}) == (
        "single, answer=hf:tiny",
        "single, answer=hf:big",
    )
    assert named({"seed": 1}, {"seed": 2}, {"title": "dragin"}) == (
        "single, seed=1",
        "single, seed=2",
        "dragin",
    )
    assert named({"index": "x/wiki"}, {"index": ""}) == ("single, index=wiki", "single, index=none")
    with_proxy = {"model_specs": {"answer": "hf:tiny", "attend": "hf:proxy"}}
    assert named({}, {**with_proxy, "seed": 1}) == ("single, seed=0", "single, attend=hf:proxy, seed=1")
    assert named({}, {}) == ("0", "1")
    assert named({"folder": "a/run"}, {"folder": "b/run"}) == (str(Path("a/run")), str(Path("b/run")))


def dragin(folder, method="dragin", **parameters):
    defaults = {"threshold": "1.0", "max_tokens": "128"}
    title = str(call_spec(method, parameters))
    return run_of(three(), folder, method=method, title=title, parameters=defaults | parameters)


def test_a_name_tells_only_the_parameters_that_other_runs_of_the_method_set_otherwise():
    runs = [
        run_of(three(), "a", title="single(max_tokens=64)", parameters={"passages": "3", "max_tokens": "64"}),
        dragin("b", threshold="1.3", max_tokens="64"),
        dragin("c", max_tokens="64"),
    ]
    (group,) = group_runs(runs)
    assert group.names == ("single", "dragin(threshold=1.3)", "dragin")
    assert group.shared_parameters == {"max_tokens": "64"}
    assert not group.differing
    (alone,) = group_runs(runs[1:2])
    assert alone.names == ("dragin",)
    assert alone.shared_parameters == {"threshold": "1.3", "max_tokens": "64"}


def test_the_parameters_of_members_are_not_the_method_s_own():
    title = "blender(single=single(passages=5), other=flare())"
    parameters = {"passages": "0", "methods": "single=single(passages=5),other=flare"}
    run = run_of(three(), "a", method="blender", title=title, parameters=parameters)
    assert non_default_parameters(run.settings) == {"methods": parameters["methods"]}
    assert non_default_parameters(replace(run.settings, title="blender (x)")) == {}


def test_a_base_may_be_named_by_its_method_where_one_run_is_of_it():
    runs = [run_of(three(), "a"), dragin("b"), dragin("c", method="dragin_paper")]
    groups = group_runs(runs)
    assert base_indices("single", groups) == [0]
    assert base_indices("dragin_paper", groups) == [2]
    with pytest.raises(UnknownName, match="dragin_paper"):
        base_indices("dragin_authors", groups)


def test_settings_that_differ():
    runs = [
        run_of(three(), "runs/a", index_content="a" * 64 + ", plain"),
        run_of(
            three(), "runs/b", title="dragin", method="dragin", parameters={"passages": "5", "threshold": "1"}
        ),
        run_of(
            three(), "runs/c", title="flare", method="flare", model_specs={"answer": "hf:x", "attend": "y"}
        ),
        run_of(three(), "runs/d", title="closed_book", method="closed_book", parameters={}, seed=0),
    ]
    (group,) = group_runs(runs)
    assert [each.line for each in group.differing] == [
        "parameter passages: 5 (dragin); 3 (single, flare)",
        "model answer: hf:x (flare); hf:tiny (the others)",
        "index content: aaaaaaaaaaaa…, plain (single); c0ffee, plain (the others)",
        "model attend: y (flare); none (the others)",
    ]


def test_long_values_that_begin_alike_still_differ():
    runs = [
        run_of(three(), "runs/a", title="a", parameters={"prompt": "x" * 99 + "1"}),
        run_of(three(), "runs/b", title="b", parameters={"prompt": "x" * 99 + "2"}),
    ]
    (group,) = group_runs(runs)
    shown = "x" * 59 + "…"
    assert [each.line for each in group.differing] == [f"parameter prompt: {shown} (a); {shown} (b)"]
