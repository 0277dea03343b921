"""The rows of AirRAG's tables on the scripted model: which runs there are, and what is made of them."""

import json

import pytest
from runs.airrag_rows import BASE, MANY, ROWS
from runs.airrag_rows import main as main_of_rows
from runs.airrag_samples import SAMPLES
from runs.airrag_samples import main as main_of_samples
from runs.airrag_table import METRICS, Spent, difference, lines_of, spent, table
from runs.side_by_side import methods_of

from askance.core.trace import Attended, Decided, Generated, ScoredOptions, Trace
from askance.eval.recorded_run import read_run
from askance.wire import METHODS
from tests.eval.hand_made import record, written
from tests.runs.counting import Counting
from tests.tolerances import near

SHORT = ("query_tokens=8", "answer_tokens=8", "summary_tokens=8")
TOLD = ["vanilla", "airrag_lite", "airrag", MANY]


def kept_lines(folder):
    return json.loads((folder / "rows.json").read_text())


def test_every_row_has_its_runs_and_only_one_has_several_seeds(options, tmp_path, capsys):
    given = [*options, "--rows", *TOLD, "--seeds", "2", "--set", *SHORT, "max_tokens=8", "passages=2"]
    main_of_rows(given)
    printed = capsys.readouterr().out
    out = tmp_path / "out"
    found = {
        str(folder.relative_to(out)): read_run(folder).settings
        for folder in sorted(out.glob("seed-*/runs/jsonl/scripted/*"))
    }
    many = "airrag,rollouts=8,samples=3,q_div=1"
    assert [*found] == [
        *(f"seed-0/runs/jsonl/scripted/{name}" for name in ("airrag", many, "airrag_lite", "single")),
        f"seed-1/runs/jsonl/scripted/{many}",
    ]
    assert [each.seed for each in found.values()] == [0, 0, 0, 0, 1]
    assert {each.knobs["passages"] for each in found.values()} == {"2"}
    knobs = found[f"seed-1/runs/jsonl/scripted/{many}"].knobs
    assert (knobs["rollouts"], knobs["samples"], knobs["q_div"]) == ("8", "3", "1.0")
    lines = kept_lines(out)
    assert [(line["row"], line["part"], len(line["f1_of_seeds"])) for line in lines] == [
        ("vanilla", "all", 1), ("airrag_lite", "all", 1), ("airrag", "all", 1), (MANY, "all", 2),
    ]  # fmt: skip
    assert [line["gain"] is None for line in lines] == [True, False, False, False]
    assert lines[0]["calls"] == 2, "the answer, and its short form"
    main_of_rows(given)
    assert capsys.readouterr().out == printed, "nothing is asked again"


def test_what_was_read_is_what_airrag_says_it_read(options, tmp_path):
    main_of_rows([*options, "--rows", MANY, "--seeds", "1", "--set", *SHORT, "l_max=4000"])
    run = read_run(next((tmp_path / "out" / "seed-0" / "runs" / "jsonl" / "scripted").iterdir()))
    for each in run.records:
        events = run.trace(each)
        (told,) = [event for event in events if isinstance(event, Decided) and event.name == "budget"]
        assert spent(events) == Spent(
            told.numbers["calls"], told.numbers["input tokens"], told.numbers["tokens"]
        )
        assert 0 < told.numbers["input tokens"] <= 4000
    (line,) = kept_lines(tmp_path / "out")
    assert line["input_tokens"] == near(sum(spent(run.trace(each)).input_tokens
                                                     for each in run.records) / 3)  # fmt: skip


def test_the_prompt_of_several_samples_counts_once():
    trace = Trace()
    common = {"role": "answer", "prompt": "", "text": "", "finish": "end", "tokens": (), "reused_tokens": 0}
    for key, prompt_tokens, written_tokens in (
        (("0", "say"), 10, 3),
        (("0", "say"), 10, 4),
        (("0.1",), 20, 5),
    ):
        trace.add(Generated, key=key, prompt_tokens=prompt_tokens, generated_tokens=written_tokens, **common)
    trace.add(ScoredOptions, role="reward", prompt="", options=(), logprobs=(), prompt_tokens=7)
    trace.add(Attended, role="attend", prompt_tokens=5)
    assert spent(trace.events) == Spent(4, 42, 54)


def asked(number, f1, hops, **fields):
    scores = dict.fromkeys(METRICS, 0.0) | {"f1:airrag": f1, "accuracy": float(f1 > 0.5)}
    return record(number, scores | {"supporting_recall": None}, hops=hops, **fields)


def test_seeds_are_averaged_and_parts_are_by_hops(tmp_path):
    runs = {
        "vanilla": [written(tmp_path / "v", [asked(1, 0.0, 2), asked(2, 0.5, 4)])],
        "many": [
            written(tmp_path / "0", [asked(1, 1.0, 2), asked(2, 0.5, 4, error="ModelFailure: x")]),
            written(tmp_path / "1", [asked(1, 0.5, 2), asked(2, 1.0, 4)], seed=1),
        ],
    }
    lines = {(line.part, line.row): line for line in lines_of("sample", runs, "vanilla")}
    assert [*lines] == [(part, row) for part in ("all", "2 hops", "4 hops") for row in runs]
    many = lines["all", "many"]
    assert (many.f1.mean, many.f1_of_seeds, many.num_questions) == (0.75, (0.75, 0.75), 2)
    assert (many.gain.mean, many.failures, many.recall) == (0.5, 0.5, None)
    assert lines["2 hops", "many"].gain.mean == 0.75
    assert lines["4 hops", "many"].f1_of_seeds == (0.5, 1.0)
    assert lines["all", "vanilla"].gain is None
    assert table([lines["2 hops", "many"]], "vanilla").splitlines()[-1] == (
        "| sample | 2 hops | many | 0.750 (0.750 to 0.750) | +0.750 (+0.750 to +0.750) "
        "| 0.500 (0.500 to 0.500) | – | 0.0 | 0 | 0 | 1.0 | 1 | 0 |"
    )


def test_a_question_that_one_row_lacks_is_in_no_difference():
    assert difference({"a": 1.0, "b": 0.0}, {"a": 0.5}).mean == 0.5
    assert difference({"a": 1.0}, {}) is None


def test_the_samples_of_table_2(options, tmp_path):
    main_of_samples([*options, "--rollouts", "2", "--sample", "1", "--set", *SHORT])
    folder = tmp_path / "out" / "seed-0" / "runs" / "jsonl" / "scripted"
    found = [read_run(each).settings.knobs for each in folder.iterdir()]
    assert sorted((each["samples"], each["answer_samples"], each["q_div"]) for each in found) == [
        ("1", "1", "0.0"), ("3", "1", "0.0"), ("3", "1", "1.0"), ("3", "3", "0.0"),
    ]  # fmt: skip
    assert {each["rollouts"] for each in found} == {"2"}
    assert [line["row"] for line in kept_lines(tmp_path / "out")] == [*SAMPLES]


def test_a_cache_keeps_the_calls_of_all_rows(options, tmp_path, monkeypatch):
    monkeypatch.setattr("runs.grids.load_models", lambda specs: {"answer": Counting()})
    given = [*options, "--rows", "airrag", "--set", *SHORT, "--cache", str(tmp_path / "calls")]
    main_of_rows(given)
    before = Counting.calls
    assert before > 3
    main_of_rows([*given, "--out", str(tmp_path / "again")])
    assert Counting.calls == before
    first, second = (kept_lines(tmp_path / name)[0] for name in ("out", "again"))
    assert first | {"seconds": 0} == second | {"seconds": 0}


def test_what_is_not_there_is_told(options, capsys):
    for further, expected in (
        (["--rows", "vanila"], "unknown row 'vanila'"),
        (["--seeds", "0"], "--seeds 0 leaves no run"),
        (["--rows", BASE, "--set", "rollouts=2"], "unknown knob 'rollouts'"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main_of_rows([*options, *further])
        assert stopped.value.code == 2
        assert expected in capsys.readouterr().err


def test_rows_that_can_be_made_here_are_made_of_knobs_that_exist():
    here = [cell for cell in ROWS.values() if cell.partition(",")[0] in METHODS]
    assert len(here) >= 4
    assert len(methods_of(here, ["passages=3", "l_max=8192"])) == len(here)
