"""AirRAG's verifiers over the same candidates, by hand and on a scripted model."""

import json

import pytest
from runs.airrag_verifiers import lines_of, main, table

from askance.models.scripted import ScriptedModel
from runs import grids
from tests.methods.bridge import WHERE, Varied, playing
from tests.tolerances import near

GOLD = "Delaware River"
ENCODER = "scripted"
KNOBS = ("rollouts=1", "samples=1", "answer_samples=3", "followup_qt=never", "actions=say,ra,qt,sa")


@pytest.fixture
def options(tmp_path, sample_index):
    file = tmp_path / "questions.jsonl"
    rows = [
        {"id": f"asked {number}", "question": f"Which river, {number}?", "answers": [GOLD], "hops": hops}
        for number, hops in enumerate((2, 4))
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return [
        "--dataset", f"jsonl:{file}", "--index", str(sample_index), "--model", "scripted",
        "--out", str(tmp_path / "out"), "--set", *KNOBS,
    ]  # fmt: skip


@pytest.fixture
def scripted(monkeypatch):
    """A model with three candidates of different worth; the call takes another wording of the best."""
    model = Varied(playing(say=WHERE, sa="Mohawk\nDelaware River\nDelaware", verify="the Delaware River"))
    monkeypatch.setattr(grids, "load_models", lambda specs: {"answer": model})
    return model


def kept(tmp_path):
    return [json.loads(line) for line in (tmp_path / "out" / "questions.jsonl").read_text().splitlines()[1:]]


def test_all_verifiers_choose_from_one_search(scripted, options, tmp_path, capsys):
    main([*options, "--encoder", ENCODER])
    searches = [prompt for prompt in scripted.prompts if "Rephrase" in prompt]
    assert len(searches) == 2, "one analysis a question"
    assert len([prompt for prompt in scripted.prompts if "Candidates:" in prompt]) == 2
    for row in kept(tmp_path):
        assert row["candidates"] == ["Delaware River", "Delaware", "Mohawk"]
        assert row["chosen"]["jcd"] == "Delaware River"
        assert row["chosen"]["sa"] == "the Delaware River"
        assert row["chosen"]["emb"] in row["candidates"]
        scores = {name: each["f1:airrag"] for name, each in row["scores"].items()}
        assert scores["average"] == near((0 + 1 + 2 / 3) / 3)
        assert scores["jcd"] == 1
        assert scores["sa"] == 1
        assert row["scores"]["average"]["accuracy"] == near(1 / 3)
    lines = json.loads((tmp_path / "out" / "verifiers.json").read_text())["lines"]
    names = ["average", "jcd", "emb", "sa"]
    assert [(line["part"], line["row"]) for line in lines] == [
        (part, name) for part in ("all", "2 hops", "4 hops") for name in names
    ]
    assert lines[3]["gain"]["mean"] == near(1 - 5 / 9)
    assert "| all | average | 0.556 (0.556 to 0.556) | – |" in capsys.readouterr().out


def test_without_an_encoder_a_row_is_missing_and_that_is_told(scripted, options, tmp_path, capsys):
    main(options)
    printed, told = capsys.readouterr()
    assert "no --encoder is given: the row emb is left out" in told
    assert "| all | emb |" not in printed
    assert "| all | jcd |" in printed
    assert {*kept(tmp_path)[0]["scores"]} == {"average", "jcd", "sa"}


def test_a_measurement_goes_on(scripted, options, tmp_path, monkeypatch, capsys):
    main(options)
    printed = capsys.readouterr().out
    monkeypatch.setattr(grids, "load_models", lambda specs: {"answer": ScriptedModel(["not asked again"])})
    main(options)
    assert capsys.readouterr().out == printed


def test_a_question_without_a_candidate_is_wrong_in_every_row(options, tmp_path, monkeypatch):
    silent = ScriptedModel(lambda prompt, key: "")
    monkeypatch.setattr(grids, "load_models", lambda specs: {"answer": silent})
    main(options)
    for row in kept(tmp_path):
        assert (row["candidates"], row["chosen"]) == ([], {})
        assert {each["f1:airrag"] for each in row["scores"].values()} == {0}


@pytest.mark.parametrize(
    ("further", "expected"),
    [
        (["--encoder", "nothing"], "unknown model 'nothing'"),
        (["--encoder", "scripted?devise=cpu"], "unknown model option 'devise'"),
        (["--set", "verifier=jcd"], "all of them are measured here"),
    ],
)
def test_what_can_not_be_measured_is_told(options, further, expected, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*options, *further])
    assert stopped.value.code == 2
    assert expected in capsys.readouterr().err


def test_a_failure_ends_the_measurement(options, monkeypatch, capsys):
    broken = ScriptedModel(lambda prompt, key: OSError("broken"))
    monkeypatch.setattr(grids, "load_models", lambda specs: {"answer": broken})
    with pytest.raises(SystemExit) as stopped:
        main(options)
    assert stopped.value.code == 1
    assert "broken" in capsys.readouterr().err


def row(id, average, sa, hops=None):
    scores = {name: {"f1:airrag": f1, "accuracy": None} for name, f1 in (("average", average), ("sa", sa))}
    return {"id": id, "hops": hops, "candidates": ["a", "a", "b"], "scores": scores}


def test_lines_are_paired_and_leave_out_what_does_not_apply():
    average, sa = lines_of([row("a", 0.5, 1.0), row("b", 0.25, 0.5)], ("average", "sa"))
    assert (average.gain, average.accuracy, average.f1.mean) == (None, None, 0.375)
    assert (sa.gain.mean, sa.candidates, sa.answers) == (0.375, 3, 2)
    assert table([sa]).splitlines()[-1].endswith("| – | 3.0 | 2.0 | 2 |")
