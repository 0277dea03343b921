"""Scaling of AirRAG: smaller databases, compute-optimal presets, and paths at equal tokens."""

import csv
import json
import re

import pytest
from tests.evaluation.hand_made import record, written
from tests.tolerances import near

from askance.configuration.presets import open_preset
from askance.core.answers import Usage
from askance.core.errors import InputError
from askance.core.parameters import parse_parameters
from askance.evaluation.statistics.compare import average_interval, mean_interval
from askance.methods.airrag.method import Airrag
from askance.retrieval.index.documents import Document
from askance.retrieval.index.index_folder import read_manifest
from studies.airrag_scaling import choose, database
from studies.airrag_scaling.equal_tokens import paths_at_equal_tokens


def lines(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def run_at(folder, rollouts, tokens, scores, dataset="jsonl:dev.jsonl", **fields):
    """The folder of a run of airrag with this number of rollouts and these scores."""
    rows = [
        record(number, {"f1": score}, usage=Usage(prompt_tokens=tokens - 10, generated_tokens=10))
        for number, score in enumerate(scores, start=1)
    ]
    name = folder / dataset.partition(":")[2] / f"{len(list(folder.rglob('settings.json')))}"
    title = f"airrag(verifier=vote{'' if rollouts == 1 else f', rollouts={rollouts}'})"
    parameters = {"rollouts": f"{rollouts}", "verifier": "vote", "l_max": "none"}
    return written(name, rows, title=title, parameters=parameters, dataset=dataset, **fields).folder


def test_the_settings_on_the_frontier_become_presets(tmp_path):
    """Dearer settings are on it only if they are better than every cheaper one; datasets weigh the same."""
    points = {1: (100, 0.2), 2: (500, 0.5), 3: (300, 0.1), 4: (900, 0.5), 8: (2000, 0.7)}
    runs = [run_at(tmp_path, rollouts, tokens, [score]) for rollouts, (tokens, score) in points.items()]
    runs += [
        run_at(tmp_path, rollouts, tokens, [score] * 3, "jsonl:train.jsonl")
        for rollouts, (tokens, score) in points.items()
    ]
    choose.main([*map(str, runs), "--out", str(tmp_path / "presets")])
    with (tmp_path / "presets/frontier.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [each["preset"] for each in rows] == [f"airrag,rollouts={number}" for number in (1, 2, 8)]
    assert [float(each["tokens"]) for each in rows] == [100, 500, 2000]
    assert [float(each["mean"]) for each in rows] == [near(0.2), near(0.5), near(0.7)]
    assert {path.stem for path in (tmp_path / "presets").glob("*.toml")} == {each["preset"] for each in rows}
    path = tmp_path / "presets/airrag,rollouts=1.toml"
    made = Airrag(**open_preset(path).parameters(Airrag, {}, parse_parameters))
    assert (made.rollouts, made.verifier) == (1, "vote")
    text = path.read_text(encoding="utf-8")
    assert "rollouts = 1" in text, "also if it is the default"
    assert "compute-optimal on jsonl:dev.jsonl, jsonl:train.jsonl with hf:tiny: f1 0.2" in text
    assert text.splitlines()[0].endswith("at 100 tokens per question")


def test_runs_that_can_not_be_compared_are_refused(tmp_path):
    runs = [run_at(tmp_path, 1, 100, [0.5]), run_at(tmp_path, 2, 200, [0.5])]
    alone = run_at(tmp_path, 1, 100, [0.5], "jsonl:train.jsonl")
    other = run_at(tmp_path, 2, 100, [0.5], model_specs={"answer": "hf:other"})
    for more, words, message in (
        ([alone], (), "airrag,rollouts=2 has no f1 on some of jsonl:dev.jsonl, jsonl:train.jsonl"),
        ([other], (), "the runs are of hf:other, hf:tiny: name those of one model"),
        ([], ("--metric", "accuracy"), "airrag,rollouts=1 has no accuracy on some of"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            choose.main([*map(str, [*runs, *more]), "--out", str(tmp_path / "out"), *words])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("share", ["0", "2", "-1", "nan"])
def test_a_share_is_above_0_and_at_most_1(tmp_path, share):
    words = [
        "--documents",
        "absent",
        "--dataset",
        "sample",
        f"--share={share}",
        "--out",
        str(tmp_path / "out"),
    ]
    with pytest.raises(InputError, match=re.escape(f"--share {share}: give shares above 0 and at most 1")):
        database.main(words)
    assert not (tmp_path / "out").exists()


def test_a_share_keeps_what_supports_and_grows(tmp_path, capsys, monkeypatch):
    rows = [{"id": f"{n}", "title": f"T{n}", "text": f"Text {n}."} for n in range(200)]
    lines(tmp_path / "all.jsonl", rows)
    lines(tmp_path / "q.jsonl", [{"question": "Why?", "answers": ["T"], "supporting": ["T7", "T8"]}])
    words = ["--documents", tmp_path / "all.jsonl", "--dataset", f"jsonl:{tmp_path / 'q.jsonl'}"]
    database.main([*map(str, words), "--share", "0.1", "0.5", "1", "--out", str(tmp_path / "out")])
    indexes = [tmp_path / f"out/share={share}/index" for share in ("0.1", "0.5", "1")]
    assert capsys.readouterr().out.splitlines() == [*map(str, indexes)]
    counts = [read_manifest(index).documents for index in indexes]
    kept = [(index.parent / "documents.jsonl").read_text(encoding="utf-8").splitlines() for index in indexes]
    held = [{json.loads(line)["title"] for line in each} for each in kept]
    assert {"T7", "T8"} <= held[0] < held[1] < held[2]
    assert counts == [len(titles) for titles in held]
    assert counts[2] == 200
    drawn = [Document(f"{n}", f"T{n}", f"Text {n}.") for n in range(2000)]
    half = [database._place(each) < 0.5 for each in drawn]
    assert 900 < sum(half) < 1100
    assert counts[1] == sum(half[:200]) + sum(not half[n] for n in (7, 8))
    monkeypatch.setattr(database, "_SEED", 1)
    assert [database._place(each) < 0.5 for each in drawn] != half, "another seed draws others"


def test_an_average_gives_every_dataset_the_same_weight():
    average = average_interval([[1.0], [0.0] * 9])
    assert average.mean == near(0.5)
    assert average.num_questions == 10
    scores = [0.0, 1.0, 0.5, 0.25]
    assert average_interval([scores]) == mean_interval(scores)
    both = average_interval([scores, scores])
    assert both.mean == near(mean_interval(scores).mean)
    assert both.high - both.low < mean_interval(scores).high - mean_interval(scores).low
    with pytest.raises(InputError, match="no datasets"):
        average_interval([])


def test_paths_at_equal_tokens():
    """With 10 tokens a path, 25 tokens are two paths for one half and three for the other, spread evenly."""
    rows, number = paths_at_equal_tokens(lambda number: [10 * number] * 4, float, 25)
    assert (rows, number) == ([20, 30, 20, 30], 2.5)
    assert paths_at_equal_tokens(lambda number: [10] * 4, float, 25, most=5) == ([10] * 4, 5)
    assert paths_at_equal_tokens(lambda number: [10 * number] * 4, float, 5) == ([10] * 4, 1)
    assert paths_at_equal_tokens(lambda number: [10 * number] * 4, float, 25, least=3) == ([30] * 4, 3)


@pytest.mark.parametrize(("grows", "most_runs"), [(lambda n: 10 * n, 3), (lambda n: 10 * n + n * n, 12)])
def test_the_number_of_paths_is_found_without_trying_every_number(grows, most_runs):
    tried = []

    def rows_of(number):
        tried.append(number)
        return [grows(number)] * 2

    wanted = (grows(40) + grows(41)) / 2
    rows, number = paths_at_equal_tokens(rows_of, float, wanted)
    assert (sorted(rows), number) == ([grows(40), grows(41)], 40.5)
    assert len(tried) == len(set(tried)) <= most_runs
