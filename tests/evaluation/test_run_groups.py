"""Groups of runs over the same questions, the names of runs, and the settings that differ."""

from dataclasses import replace

import pytest

from askance.core.errors import InputError, UnknownName
from askance.core.spec import call_spec
from askance.evaluation.statistics.run_groups import (
    base_indices,
    group_runs,
    headings_of,
    names_of,
    non_default_parameters,
)
from tests.evaluation.hand_made import record, run_of

THREE = [record(number) for number in (1, 2, 3)]
CASTLES = [replace(each, question="Who built the castle?") for each in THREE]


def runs_of(*fields):
    """Return runs over the same three questions."""
    return [run_of(THREE, **({"folder": f"runs/{at}"} | each)) for at, each in enumerate(fields)]


def test_datasets_are_apart_and_so_are_files_that_share_no_question():
    runs = [
        run_of(THREE, "runs/a"),
        run_of(THREE, "runs/b", dataset="hotpotqa:dev.json"),
        run_of(CASTLES, "runs/c"),
        run_of(THREE, "runs/d", dataset="hotpotqa:elsewhere/dev.json", title="dragin"),
    ]
    groups = group_runs(runs)
    assert [group.runs for group in groups] == [(runs[0],), (runs[1], runs[3]), (runs[2],)]
    assert [group.dataset for group in groups] == [
        "bridges.jsonl (1)",
        "hotpotqa",
        "bridges.jsonl (3)",
    ]
    assert groups[1].whole == groups[1].runs
    assert groups[1].names == ("single", "dragin")


@pytest.mark.parametrize(
    ("datasets", "headings"),
    [
        (["hotpotqa:/data/dev.json", "sample"], ["hotpotqa", "sample"]),
        (["jsonl:/data/own.jsonl?id=key", "csv:b.csv"], ["own.jsonl", "b.csv"]),
        (["nq:/data/dev.json", "nq:/data/test.json", "sample"], ["nq:dev.json", "nq:test.json", "sample"]),
        (["jsonl:a/own.jsonl", "jsonl:b/own.jsonl"], ["jsonl:a/own.jsonl", "jsonl:b/own.jsonl"]),
        (["sample", "sample"], ["sample (1)", "sample (2)"]),
    ],
)
def test_headings_of_datasets(datasets, headings):
    assert list(headings_of(datasets)) == headings


@pytest.mark.parametrize(
    ("records", "num_questions", "message"),
    [
        ([1, 3, 4], 3, r"\(2 in all\): 'q2' is only in runs/a\. .*--common"),
        ([1, 2, record(3, golds=("Köln",))], 3, r"'q3' differs in golds \(\('Köln',\) there, not \('Bonn"),
        ([1, record(2, question="Who?"), 3], 3, r"'q2' differs in question \('Who\?' there"),
        ([1, 2], 3, r"runs/b is not finished \(2 of 3 questions\).*--common"),
        ([], 3, "runs/b has no finished question yet"),
    ],
)
def test_runs_that_can_not_be_compared(records, num_questions, message):
    records = [record(each) if isinstance(each, int) else each for each in records]
    other = run_of(records, "runs/b", num_questions=num_questions)
    with pytest.raises(InputError, match=message):
        group_runs([run_of(THREE, "runs/a"), other])
    if records:
        assert group_runs([other])[0].runs == (other,), "alone it can be shown"


def test_common_questions():
    changed = [record(1, golds=("Köln",)), record(3), record(4)]
    runs = [run_of(THREE, "runs/a"), run_of(changed, "runs/b", num_questions=9)]
    (group,) = group_runs(runs, common=True)
    assert [[each.id for each in run.records] for run in group.runs] == [["q3"], ["q3"]]
    assert all(run.is_complete for run in group.runs)
    with pytest.raises(InputError, match="no finished question in common"):
        group_runs([runs[0], run_of(changed[:1], "runs/c")], common=True)


def test_a_run_given_twice(tmp_path):
    runs = [run_of(THREE, tmp_path / "a"), run_of(THREE, tmp_path / "b" / ".." / "a")]
    with pytest.raises(InputError, match="more than once"):
        group_runs(runs)


WITH_PROXY = {"model_specs": {"answer": "hf:tiny", "attend": "hf:proxy"}, "seed": 1}


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ([{}, {"title": "dragin"}], ["single", "dragin"]),
        ([{}, {"model_specs": {"answer": "hf:big"}}], ["single, answer=hf:tiny", "single, answer=hf:big"]),
        ([{"seed": 1}, {"seed": 2}, {"title": "flare"}], ["single, seed=1", "single, seed=2", "flare"]),
        ([{"index": "x/wiki"}, {"index": ""}], ["single, index=wiki", "single, index=none"]),
        ([{}, WITH_PROXY], ["single, seed=0", "single, attend=hf:proxy, seed=1"]),
        ([{}, {}], ["0", "1"]),
        ([{"folder": "a/run"}, {"folder": "b/run"}], ["a/run", "b/run"]),
    ],
)
def test_names_say_what_differs(fields, names):
    assert names_of(runs_of(*fields)) == tuple(names)


def dragin(folder, method="dragin", **parameters):
    defaults = {"threshold": "1.0", "max_tokens": "128"}
    title = str(call_spec(method, parameters))
    return run_of(THREE, folder, method=method, title=title, parameters=defaults | parameters)


def test_a_name_tells_only_the_parameters_that_other_runs_of_the_method_set_otherwise():
    limited = {"passages": "3", "max_tokens": "64"}
    runs = [
        run_of(THREE, "a", title="single(max_tokens=64)", parameters=limited),
        dragin("b", threshold="1.3", max_tokens="64"),
        dragin("c", max_tokens="64"),
    ]
    (group,), (alone,) = group_runs(runs), group_runs(runs[1:2])
    assert group.names == ("single", "dragin(threshold=1.3)", "dragin")
    assert (group.shared_parameters, group.differing) == ({"max_tokens": "64"}, ())
    assert (alone.names, alone.shared_parameters) == (("dragin",), {"threshold": "1.3", "max_tokens": "64"})


def test_the_parameters_of_members_are_not_the_method_s_own():
    title = "blender(single=single(passages=5), other=flare())"
    parameters = {"passages": "0", "methods": "single=single(passages=5),other=flare"}
    run = run_of(THREE, "a", method="blender", title=title, parameters=parameters)
    assert non_default_parameters(run.settings) == {"methods": parameters["methods"]}
    assert non_default_parameters(replace(run.settings, title="blender (x)")) == {}


def test_a_base_may_be_named_by_its_method_where_one_run_is_of_it():
    groups = group_runs([run_of(THREE, "a"), dragin("b"), dragin("c", method="dragin_paper")])
    assert (base_indices("single", groups), base_indices("dragin_paper", groups)) == ([0], [2])
    with pytest.raises(UnknownName, match="dragin_paper"):
        base_indices("dragin_authors", groups)


def test_settings_that_differ():
    runs = runs_of(
        {"index_content": "a" * 64 + ", plain"},
        {"title": "dragin", "method": "dragin", "parameters": {"passages": "5", "threshold": "1"}},
        {"title": "flare", "method": "flare", "model_specs": {"answer": "hf:x", "attend": "y"}},
        {"title": "closed_book", "method": "closed_book", "parameters": {}, "seed": 0},
    )
    (group,) = group_runs(runs)
    assert [each.line for each in group.differing] == [
        "parameter passages: 5 (dragin); 3 (single, flare)",
        "model answer: hf:x (flare); hf:tiny (the others)",
        "index content: aaaaaaaaaaaa…, plain (single); c0ffee, plain (the others)",
        "model attend: y (flare); none (the others)",
    ]
    (group,) = group_runs(
        runs_of(*({"title": end, "parameters": {"prompt": "x" * 99 + end}} for end in ("a", "b")))
    )
    cut = "x" * 59 + "…"  # long values that begin alike still differ
    assert [each.line for each in group.differing] == [f"parameter prompt: {cut} (a); {cut} (b)"]
