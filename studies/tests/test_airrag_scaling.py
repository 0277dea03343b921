"""Scaling curves of AirRAG: what is run, which numbers come of it, and what is refused."""

import csv
import json
import re
import sys

import pytest
from tests.evaluation.hand_made import record, written
from tests.tolerances import near

from askance.configuration.experiment import Experiment, prepare_experiment
from askance.configuration.grid import Grid
from askance.configuration.presets import open_preset
from askance.core.errors import AskanceError, GridError, InputError
from askance.core.parameters import parse_parameters
from askance.core.trace import Expanded, Trace
from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.report.charts import frontier
from askance.evaluation.statistics.compare import MeanInterval, average_interval, mean_interval
from askance.methods.airrag.method import Airrag
from askance.models.scripted import ScriptedModel
from askance.retrieval.index.documents import Document
from askance.retrieval.index.index_folder import read_manifest
from studies import shared
from studies.airrag_scaling import database
from studies.airrag_scaling.database import build_database
from studies.airrag_scaling.equal_tokens import paths_at_equal_tokens
from studies.airrag_scaling.figures import figures_of
from studies.airrag_scaling.results import (
    AVERAGE,
    CANDIDATES,
    ORACLE,
    READ,
    TOKENS,
    VALID,
    Result,
    numbers_of,
    points_of,
    result_of,
)
from studies.airrag_scaling.run import main
from studies.airrag_scaling.settings import Setting, grid_at, settings_of

CITIES = ("Bonn", "Rome", "Oslo", "Riga")


@pytest.fixture
def folder(tmp_path):
    """A grid over four questions to report and four to choose by, with their documents and distractors."""
    rows = [
        {"id": f"d{n}", "title": city, "text": f"{city} lies on river {n}."} for n, city in enumerate(CITIES)
    ]
    rows += [{"id": f"x{n}", "title": f"Other {n}", "text": f"Nothing on rivers, {n}."} for n in range(40)]
    lines(tmp_path / "documents.jsonl", rows)
    for name, how in (("dev", "On which river does {} lie?"), ("train", "Which river flows through {}?")):
        asked = [
            {"id": f"{name}{n}", "question": how.format(city), "answers": [f"river {n}"]}
            for n, city in enumerate(CITIES)
        ]
        lines(
            tmp_path / f"{name}.jsonl", [each | {"supporting": [CITIES[n]]} for n, each in enumerate(asked)]
        )
    (tmp_path / "grid.toml").write_text(
        f"""
[datasets.dev]
questions = "jsonl:{tmp_path / "dev.jsonl"}"
[datasets.train]
questions = "jsonl:{tmp_path / "train.jsonl"}"
[models.fake]
answer = "scripted"
[methods.airrag]
set = {{ verifier = "vote" }}
[methods.single]
""",
        encoding="utf-8",
    )
    return tmp_path


def lines(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def options(folder, *more):
    documents = ("--documents", folder / "documents.jsonl")
    words = ["--grid", folder / "grid.toml", *documents, "--out", folder / "out", *more]
    return [str(word) for word in words]


def reply(shown, key):
    """A right answer from the passages; a wrong one from memory."""
    number = next(
        (n for n, city in enumerate(CITIES) if city in shown.rpartition("\n")[2] or city in shown), 0
    )
    if "say" in key or "qt" in key:
        return "None"
    return "no river" if "da" in key else f"river {number}"


@pytest.fixture
def model(monkeypatch):
    model = ScriptedModel(reply, context_tokens=100_000, capabilities=frozenset({"raw"}))
    monkeypatch.setattr(shared, "load_models", lambda specs: dict.fromkeys(specs, model))
    return model


def test_the_whole_study(folder, model, capsys):
    """From a grid to figures, numbers and presets; the same command then asks nothing again."""
    words = options(folder, "--rollouts", "1", "2", "--l-max", "none", "2000", "--share", "1", "0.5")
    words += ["--choose-on", "train"]
    main(words)
    out = folder / "out"
    found = {
        (each["setting"], each["share"], each["dataset"], each["number"]): each
        for each in rows_of(out / "numbers.csv")
    }
    reported = {key[:2] for key in found if key[2] == "dev"}
    assert len(reported) == 2 * 2 * 2 + 2 * 2
    one = {key[2:]: each for key, each in found.items() if key[:2] == ("airrag,l_max=none,rollouts=1", "1")}
    assert one["dev", "f1"]["num_questions"] == "4"
    assert one["train", "f1"]["num_questions"] == "4"
    low, mean, high = (float(one["dev", "f1"][name]) for name in ("low", "mean", "high"))
    assert low <= mean <= high
    limited = [float(each["mean"]) for key, each in found.items() if "2000" in key[0] and key[3] == READ]
    assert max(limited) <= 2000
    assert len(limited) > len(reported) / 2
    figures = {"l_max", "rollouts", "share", "valid-rollouts", "choosing", "total", "recall"}
    figures |= {f"{axis}-tokens" for axis in ("l_max", "rollouts", "share")}
    assert {path.stem for path in out.glob("*.svg")} == figures, "none of passages and samples"
    for name in figures:
        assert (out / f"{name}.svg").read_text(encoding="utf-8").startswith("<?xml")
    points = rows_of(out / "figures.csv")
    assert {each["figure"] for each in points} == figures
    (point,) = (
        each
        for each in points
        if (each["figure"], each["line"], each["x"]) == ("l_max", "airrag, f1", "none")
    )
    assert float(point["mean"]) == mean
    assert [each["x"] for each in points if (each["figure"], each["line"]) == ("l_max", "single, f1")] == [
        "2000",
        "none",
    ], "a baseline, too"
    documents = (out / "databases/share=1/documents.jsonl").read_text(encoding="utf-8")
    assert len(documents.splitlines()) == 44
    presets = list((out / "presets").iterdir())
    trees = {name for name, share, dataset, _ in found if (share, dataset) == ("1", "train")}
    points = {
        name: tuple(float(found[name, "1", "train", number]["mean"]) for number in (TOKENS, "f1"))
        for name in trees
    }
    best = {
        (cost, score)
        for cost, score in points.values()
        if all(score > other for price, other in {*points.values()} - {(cost, score)} if price <= cost)
    }
    assert sorted(points[path.stem] for path in presets) == sorted(best), "better than all that cost no more"
    averages = {key[:2]: each["mean"] for key, each in found.items() if key[2:] == (AVERAGE, "f1")}
    for (setting, share), mean in averages.items():
        assert mean == found[setting, share, "dev", "f1"]["mean"], "of one dataset, the average is its mean"
    assert averages.keys() == reported
    made = Airrag(**open_preset(presets[0]).parameters(Airrag, {}, parse_parameters))
    assert made.verifier == "vote"
    assert f"rollouts={made.rollouts}" in presets[0].stem
    assert f"rollouts = {made.rollouts}" in presets[0].read_text(encoding="utf-8"), (
        "also if it is the default"
    )
    assert "compute-optimal on train with scripted: f1 " in presets[0].read_text(encoding="utf-8")
    files = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    asked = len(model.prompts)
    main(words)
    assert len(model.prompts) == asked
    assert files == {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    capsys.readouterr()


def test_figures_of_each_dataset_without_matplotlib(folder, model, monkeypatch):
    """Two datasets that are reported have figures of their own beside the average; CSV needs no extra."""
    monkeypatch.setattr("studies.airrag_scaling.figures.find_spec", lambda name: None)
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.setitem(sys.modules, name, None)
    text = (folder / "grid.toml").read_text(encoding="utf-8")
    metrics = 'metrics = ["supporting_recall", "f1"]'
    (folder / "grid.toml").write_text(f"{metrics}\n{text}", encoding="utf-8")
    main(options(folder, "--passages", "1", "2"))
    points = rows_of(folder / "out/figures.csv")
    lines = {(each["dataset"], each["line"]) for each in points if each["figure"] == "passages"}
    assert {
        (part, line) for part in ("average", "dev", "train") for line in ("airrag, f1", "single, f1")
    } <= lines
    means = {
        each["dataset"]: float(each["mean"])
        for each in points
        if (each["figure"], each["line"], each["x"]) == ("passages", "single, f1", "1")
    }
    assert means["average"] == near((means["dev"] + means["train"]) / 2)
    assert not list((folder / "out").glob("*.svg"))


def test_failed_questions_score_zero_and_stopped_runs_are_named(folder, monkeypatch, capsys):
    """A run that stops is in no figure; a question that fails counts as 0, and both are on the page."""

    def fails(shown, key):
        if {"dev2", "train2"} & set(key):
            raise ValueError("no Oslo")
        return reply(shown, key)

    model = ScriptedModel(fails, context_tokens=100_000, capabilities=frozenset({"raw"}))
    monkeypatch.setattr(shared, "load_models", lambda specs: dict.fromkeys(specs, model))
    evaluate = shared.run_grid

    async def stops(ready, *rest):
        runs = await evaluate(ready, *rest)
        return {
            name: AskanceError("out of paper") if name.endswith("=2") else run for name, run in runs.items()
        }

    monkeypatch.setattr(shared, "run_grid", stops)
    with pytest.raises(SystemExit, match="1"):
        main(options(folder, "--rollouts", "1", "2"))
    error = capsys.readouterr().err
    for name in ("dev", "train"):
        assert f"stopped, so it is in no figure: {name}/fake/airrag,rollouts=2: out of paper" in error
    numbers = [each for each in rows_of(folder / "out/numbers.csv") if each["method"] == "airrag"]
    assert {each["setting"] for each in numbers} == {"airrag,rollouts=1"}
    assert {each["failures"] for each in numbers} == {"2"}
    (best,) = (each for each in numbers if (each["dataset"], each["number"]) == ("dev", f"{ORACLE}f1"))
    assert best["num_questions"] == "4"
    (average,) = (each for each in numbers if (each["dataset"], each["number"]) == (AVERAGE, "f1"))
    assert average["num_questions"] == "8"


NO_AIRRAG = ("[methods.airrag]\nset", "[methods.flare]\n# set")
TWO_MODELS = ("[models.fake]", '[models.other]\nanswer = "scripted"\n[models.fake]')


@pytest.mark.parametrize(
    ("words", "grid", "message"),
    [
        (["--share", "0"], (), "--share 0: give shares of the documents above 0 and at most 1"),
        (
            [],
            ("[datasets.dev]", 'metrics = ["f2"]\n[datasets.dev]'),
            "unknown metric 'f2': did you mean 'f1'?",
        ),
        (["--rollouts", "0"], (), "parameter rollouts=0 of method airrag"),
        (["--choose-on", "trian"], (), "unknown dataset 'trian' in --choose-on: did you mean 'train'?"),
        (["--choose-on", "train", "dev"], (), "--choose-on names every dataset of the grid"),
        (["--choose-on", "train"], ("train.jsonl", "dev.jsonl"), "'dev0' of dev is also in train"),
        ([], NO_AIRRAG, "has no method airrag or airrag_lite"),
        ([], TWO_MODELS, "has 2 models"),
        ([], ("[datasets.train]", "[datasets.average]"), "a dataset can't be named average"),
    ],
)
def test_bad_options(folder, model, words, grid, message):
    if grid:
        text = (folder / "grid.toml").read_text(encoding="utf-8")
        (folder / "grid.toml").write_text(text.replace(*grid), encoding="utf-8")
    with pytest.raises(AskanceError, match=re.escape(message)):
        main(options(folder, *words))
    assert not model.prompts


def test_a_share_needs_documents(folder, model):
    words = ["--grid", f"{folder / 'grid.toml'}", "--out", f"{folder / 'out'}", "--share", "0.5"]
    with pytest.raises(AskanceError, match="name these with --documents FILE"):
        main(words)


GRID = Grid(
    datasets={"sample": {"questions": "sample"}},
    methods={"airrag": {"set": {"verifier": "jcd"}}, "plain": {"method": "single"}},
)


def test_all_combinations_or_one_axis_at_a_time():
    axes = {"passages": (3, 5), "l_max": (None, 2048), "rollouts": (1, 2, 2), "share": (1.0, 0.5)}
    every = settings_of(GRID, axes)
    assert len([each for each in every if each.method == "airrag"]) == 16
    assert {each.name for each in every if not each.is_airrag} == {
        f"plain,passages={passages},l_max={limit}" for passages in (3, 5) for limit in ("none", "2048")
    }
    fixed = {"airrag": {"set": {"rollouts": 8}}, "plain": {"method": "single", "set": {"passages": 0}}}
    own = settings_of(Grid(datasets=GRID.datasets, methods=fixed), axes)
    assert {each.method: sorted(each.values) for each in own} == {
        "airrag": ["l_max", "passages", "share"],
        "plain": ["l_max", "share"],
    }, "what the grid sets for a method does not vary"
    star = [each for each in settings_of(GRID, axes, one_at_a_time=True) if each.is_airrag]
    assert [sum(each.values[axis] != values[0] for axis, values in axes.items()) for each in star] == [
        0, 1, 1, 1, 1,
    ]  # fmt: skip
    assert [each.is_on_curve("passages", axes) for each in star] == [
        each.values | {"passages": 3} == {"passages": 3, "l_max": None, "rollouts": 1, "share": 1.0}
        for each in star
    ]
    (table,) = grid_at(GRID, star[:1], ["sample"], ["f1"]).methods.values()
    assert table == {
        "method": "airrag",
        "set": {"verifier": "jcd", "passages": "3", "l_max": "none", "rollouts": "1"},
    }
    with pytest.raises(GridError, match=r"add \[methods\.airrag\]"):
        settings_of(Grid(datasets=GRID.datasets, methods={"single": {}}), axes)
    with pytest.raises(InputError, match="--share 2: give"):
        settings_of(GRID, {"share": (2.0,)})


def test_a_share_keeps_what_supports_and_grows(tmp_path, monkeypatch):
    rows = [{"id": f"{n}", "title": f"T{n}", "text": f"Text {n}."} for n in range(200)]
    lines(tmp_path / "all.jsonl", rows)
    held, counts = {}, {}
    asked = {"dev": [Example(Question("q", "Why?"), ("T",), supporting_titles=("T7", "T8"))]}
    for share in (0.1, 0.5, 1.0):
        index = build_database([tmp_path / "all.jsonl"], asked, share, tmp_path)
        counts[share] = read_manifest(index).documents
        kept = (index.parent / "documents.jsonl").read_text(encoding="utf-8").splitlines()
        held[share] = {json.loads(line)["title"] for line in kept}
    assert {"T7", "T8"} <= held[0.1] < held[0.5] < held[1.0]
    assert counts == {share: len(titles) for share, titles in held.items()}
    assert counts[1.0] == 200
    drawn = [Document(f"{n}", f"T{n}", f"Text {n}.") for n in range(2000)]
    half = [database._place(each) < 0.5 for each in drawn]
    assert 900 < sum(half) < 1100
    assert counts[0.5] == sum(half[:200]) + sum(not half[n] for n in (7, 8))
    monkeypatch.setattr(database, "_SEED", 1)
    assert [database._place(each) < 0.5 for each in drawn] != half, "another seed draws others"


def tree(*ends):
    """The trace of a search whose paths ended in these answers: (action, answer, visits, rejected)."""
    trace = Trace()
    for number, (action, text, visits, rejected) in enumerate(ends, start=1):
        numbers = {"visits": visits, "reward": 0.5}
        trace.add(Expanded, node=f"0.{number}", action=action, text=text, numbers=numbers, rejected=rejected)
    trace.add(Expanded, node="0.9", action="ra", text="x → y", numbers={"visits": 1.0})
    return trace


def test_the_numbers_of_a_tree(tmp_path):
    """The oracle takes the best candidate. Direct answers, refusals and unvisited ends are no rollouts."""
    (tmp_path / "q.jsonl").write_text('{"id": "q1", "question": "Where?", "answers": ["Bonn"]}\n')
    experiment = Experiment(
        dataset=f"jsonl:{tmp_path / 'q.jsonl'}", method="airrag", index=None, metrics=("f1", "accuracy"),
        parameters={"actions": "da"},
    )  # fmt: skip
    ready = prepare_experiment(experiment)
    trace = tree(
        ("sa", "Bonn in Germany", 1.0, ""), ("sa", "Rome", 2.0, ""), ("sa", "Oslo", 0.0, ""),
        ("sa", "unknown", 1.0, "it says that there is no answer"), ("da", "Riga", 1.0, ""),
    )  # fmt: skip
    scores = {"f1": 0.0, "accuracy": 0.0}
    run = written(tmp_path / "run", [record(1, scores, text="Rome", short="Rome")], [trace])
    numbers = {name: values["q1"] for name, values in numbers_of(run, ready).items()}
    assert numbers[ORACLE + "f1"] == near(0.5)
    assert numbers[ORACLE + "accuracy"] == 1
    assert numbers[CANDIDATES + "f1"] == near(0.5 / 4)
    assert (numbers[VALID], numbers[READ], numbers[TOKENS]) == (2, 100, 110)
    alone = written(tmp_path / "none", [record(1, {"f1": 1.0, "accuracy": 1.0})], [tree()])
    numbers = {name: values["q1"] for name, values in numbers_of(alone, ready).items()}
    assert (numbers[VALID], numbers[ORACLE + "f1"], numbers[CANDIDATES + "f1"]) == (0, 1, 1)


def test_an_average_gives_every_dataset_the_same_weight():
    small, large = {"f1": {"a": 1.0}}, {"f1": {f"q{n}": 0.0 for n in range(9)}, "recall": {"q0": 1.0}}
    average = result_of(Setting("airrag", {}), {"small": small, "large": large}, []).numbers[AVERAGE]
    assert average["f1"].mean == near(0.5)
    assert average["f1"].num_questions == 10
    assert average.keys() == {"f1"}, "a number that one dataset lacks has no average"
    scores = [0.0, 1.0, 0.5, 0.25]
    assert average_interval([scores]) == mean_interval(scores)
    both = average_interval([scores, scores])
    assert both.mean == near(mean_interval(scores).mean)
    assert both.high - both.low < mean_interval(scores).high - mean_interval(scores).low
    with pytest.raises(InputError, match="no datasets"):
        average_interval([])


def result(setting, tokens, score):
    average = {of: MeanInterval(value, value, value, 1) for of, value in ((TOKENS, tokens), ("f1", score))}
    return Result(setting, {AVERAGE: average})


def test_the_frontier():
    """Dearer settings are on it only if they are better than every cheaper one."""
    points = {"a": (900, 0.5), "b": (100, 0.2), "c": (500, 0.5), "d": (300, 0.1), "f": (2000, 0.7)}
    results = [result(Setting(name, {}), *point) for name, point in points.items()]
    smaller = result(Setting("g", {"share": 0.5}), 50, 0.9)
    found = frontier(points_of([*results, smaller], "f1"))
    assert [(each.number, each.name) for each in found] == [(1, "b"), (3, "c"), (5, "f")]
    baselines = [
        result(Setting("single", {"l_max": limit}, is_airrag=False), 100, 0.5) for limit in (8.0, None)
    ]
    figures = figures_of(baselines, {"l_max": (8.0, None), "rollouts": (1, 2)}, ["f1"])
    assert figures.keys() == {"total"}, "every run of AirRAG may have stopped"


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
