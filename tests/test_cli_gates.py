"""Gates on the command line: recorded outcomes become tables, JSON and a chart."""

import json

import pytest

from askance.configuration.methods import make_method
from askance.core.types import Token
from askance.methods.gates.signals import Signals, Written

PLUGIN = """
import askance
from askance.methods.gates.signals import Gate

@askance.implements(Gate)
def doubt(signals):
    return signals.draft.number("doubt")
"""


@pytest.fixture
def recorded(tmp_path):
    """Two files with 40 questions each, in which doubt says where memory is wrong."""
    for name in ("dev", "test"):
        lines = [
            {"id": f"{at}", "gold": ["Bonn"], "none": {"answer": knows, "doubt": float(knows != "Bonn")},
             "one": "Bonn \x1b[31m", "model": f"of {name}"}
            for at, knows in enumerate(["Bonn", "Kiel"] * 20)
        ]  # fmt: skip
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path / "dev.jsonl", tmp_path / "test.jsonl"


def test_gates_shows_each_file_and_all_together_and_writes_a_chart(run, recorded, tmp_path):
    code, out, err = run("gates", *recorded, "--chart", tmp_path / "gates.svg")
    assert (code, err) == (0, "")
    for text in (
        "dev.jsonl, 40 questions",
        "test.jsonl, 40 questions",
        "all together, 80 questions",
        "doubt",
        "model: of dev; metric",
        "models: of dev, of test; metric",
    ):
        assert text in out
    assert "not possible, because attention was not recorded: rind" in out
    chart = (tmp_path / "gates.svg").read_text()
    assert "<svg" in chart
    assert "doubt" in chart


def test_gates_chooses_on_a_development_set_and_prints_markdown_and_json(run, recorded):
    dev, test = recorded
    code, out, _ = run("gates", "--recorded", test, "--dev", dev, "--metric", "f1", "--markdown")
    assert code == 0
    assert "metric: f1; thresholds chosen on 40 questions of their own" in out
    assert "| doubt |" in out
    code, out, _ = run("gates", "--recorded", test, "--json")
    (found,) = json.loads(out)["outcomes"]
    (gate,) = found["gates"]
    assert (code, gate["name"], gate["score"]["mean"], gate["threshold"]) == (0, "doubt", 1.0, 0.5)


def test_gates_measures_somebody_elses_function(run, recorded, tmp_path, monkeypatch):
    (tmp_path / "mine_of_gates.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("gates", recorded[0], "--gate", "mine_of_gates:doubt", "--json")
    (gate,) = json.loads(out)["outcomes"][0]["gates"]
    assert (code, gate["name"], gate["score"]["mean"]) == (0, "mine_of_gates:doubt", 1.0)
    (tmp_path / "mine_of_gates2.py").write_text(PLUGIN.replace("@askance", "# @askance"))
    code, _, err = run("gates", recorded[0], "--gate", "mine_of_gates2:doubt")
    assert (code, "does not declare itself a gate" in err) == (2, True)


def test_a_trained_router_is_a_preset_that_chooses_none_one_or_several_searches(run, sample_index, tmp_path):
    def draft(sureness):
        return {"texts": ["Bonn"], "logprobs": [sureness], "entropies": [], "best": [], "second": []}

    ways = ((-0.1, "Bonn", "Kiel", "Kiel"), (-1.0, "Kiel", "Bonn", "Kiel"), (-2.0, "Kiel", "Bonn", "Bonn"))
    lines = [
        {"id": f"{at}", "gold": ["Bonn"], "none": {"answer": knows, "draft": draft(sureness)}, "one": one,
         "ircot": several if at % 3 else "Kiel"}
        for at, (sureness, knows, one, several) in enumerate(ways * 8)
    ]  # fmt: skip
    lines += [{**lines[2], "id": f"hard {at}", "one": "Kiel"} for at in range(10)]
    recorded, preset = tmp_path / "outcomes.jsonl", tmp_path / "router.toml"
    recorded.write_text("\n".join(map(json.dumps, lines)))
    code, _, err = run("gates", recorded, "--router", preset)
    assert (code, err) == (0, "")
    assert preset.read_text().startswith(
        f"# trained on 34 questions of {recorded}\n[adaptive_rag]\nrouter = "
    )
    method = make_method("adaptive_rag", preset=preset)
    assert make_method(repr(method)) == method
    for way, (sureness, *_) in enumerate(ways):
        tokens = (Token(-1, "Bonn", 0, 4, sureness),)
        number = method.gate.values(Signals("", Written("Bonn", tokens)))
        assert sum(number > each for each in method.thresholds) == way
    ask = (
        "ask",
        "Who wrote Turandot?",
        "--index",
        sample_index,
        "--model",
        "scripted",
        "--method",
        "adaptive_rag",
    )
    code, out, _ = run(*ask, "--preset", preset)
    assert (code, "the weighted sum is" in out) == (0, True)
    recorded.write_text("\n".join(json.dumps({**each, "none": "Kiel", "one": "Bonn"}) for each in lines))
    code, _, err = run("gates", recorded, "--router", tmp_path / "none.toml")
    found = "of 34 questions, a search makes 34 better and 0 worse: a router needs both to learn from."
    assert (code, found in " ".join(err.split()), (tmp_path / "none.toml").exists()) == (2, True, False)


@pytest.mark.parametrize(
    ("router", "message"),
    [
        ("0.3*perplexity + 2", "it can't be read at ' + 2': write it without spaces"),
        ("2*perplexities", "perplexities"),
        ("2*os:getcwd", "it can't be read at ':getcwd'"),
        ("2*semantic_entropy", "sampled answers were not recorded. Name another."),
        ("perplexity*2", "it can't be read at 'perplexity*2'"),
    ],
)
def test_a_weighted_sum_that_cannot_be_read_is_refused_with_its_place(run, tmp_path, router, message):
    (preset := tmp_path / "router.toml").write_text(f'[adaptive_rag]\nrouter = "{router}"\n')
    code, _, err = run("ask", "Who?", "--model", "scripted", "--method", "adaptive_rag", "--preset", preset)
    assert (code, message in " ".join(err.split())) == (2, True), err


def test_signals_are_recorded_and_gates_measures_them(run, sample_index, tmp_path):
    command = (
        "signals",
        "--dataset",
        "sample",
        "--limit",
        10,
        "--index",
        sample_index,
        "--model",
        "scripted",
    )
    folder = tmp_path / "signals"
    code, out, _ = run(*command, "--out", folder, "--samples", 2, "--also", "fixed_length")
    assert (code, f"measure gates: askance gates {folder}" in out.replace("\n", "")) == (0, True)
    code, out, _ = run("gates", folder, "--json")
    (found,) = json.loads(out)["outcomes"]
    assert (code, found["num_questions"]) == (0, 10)
    assert "fixed_length" in {each["name"] for each in found["constants"]}
    assert {"rind", "semantic_entropy"} <= {each["name"] for each in found["gates"]}
    code, _, err = run(*command, "--out", folder, "--samples", 3)
    assert (code, "made with samples 2, now it is 3" in err.replace("\n", " ")) == (2, True)
