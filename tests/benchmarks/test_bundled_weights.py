"""The table of types of weights, and what is asked: the datasets in turn, each where it searches."""

import json

import pytest
from benchmarks.bundled_weights import AS_IT_CAME, EXACT, TYPES, main, table

from askance.models.scripted import ScriptedModel
from benchmarks import bundled_weights
from tests.models.tiny import save_adapter, save_tiny_gguf


def row(number, dataset, exact, other):
    return {
        "id": f"{dataset}/{number}",
        "dataset": dataset,
        EXACT: {"answer": f"a{number}", "f1": exact},
        "Q8_0": {"answer": f"a{number}" if exact == other else "b", "f1": other},
    }


ROWS = [row(1, "one", 1.0, 0.0), row(2, "one", 1.0, 1.0), row(3, "two", 0.5, 0.5)]


def test_each_type_is_held_against_float32_over_the_same_questions():
    lines = {(line["weights"], line["dataset"]): line for line in table(ROWS, [EXACT, "Q8_0"])}
    assert len(lines) == 6
    assert lines["Q8_0", "one"]["gain"] == "-0.500 (-1.000 to +0.000)"
    assert lines["Q8_0", "one"]["same"] == "1"
    assert lines["Q8_0", "two"]["gain"] == "+0.000 (+0.000 to +0.000)"
    assert lines["Q8_0", "all"]["questions"] == "3"
    assert lines["Q8_0", "all"]["f1"].startswith("0.500 ")
    assert lines[EXACT, "all"]["gain"] == "+0.000 (+0.000 to +0.000)"
    assert lines[EXACT, "all"]["same"] == "3"


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A tiny base and an adapter in place of the real ones."""
    base = save_tiny_gguf(tmp_path / "base.gguf")
    monkeypatch.setattr("askance.models.bundled.gguf_path", lambda: base)
    folder = save_adapter(tmp_path / "reader", str(base), base_spec="bundled:base")
    monkeypatch.setattr("askance.models.bundled.READER", folder)


def squad(tmp_path, titles=("Vienna", "Pisa")):
    articles = [
        {
            "title": title,
            "paragraphs": [
                {
                    "context": f"{title} lies on a river.",
                    "qas": [
                        {
                            "id": f"{title}-{number}",
                            "question": f"What does {title} lie on?",
                            "answers": [{"text": "a river", "answer_start": len(title) + 9}],
                            "is_impossible": False,
                        }
                        for number in range(2)
                    ],
                }
            ],
        }
        for title in titles
    ]
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"version": "v2.0", "data": articles}))
    return f"squad2:{path}"


def test_every_type_answers_the_same_questions_and_a_stopped_run_goes_on(tiny, tmp_path, monkeypatch, capsys):
    asked = []

    def load(spec):
        def reply(prompt, key):
            asked.append((spec, prompt))
            return "So the answer is a river."

        return ScriptedModel(reply)

    monkeypatch.setattr(bundled_weights, "load_model", load)
    given = ["--out", str(tmp_path / "out"), "--read", squad(tmp_path), "--articles", "Pisa"]
    main([*given, "--limit", "1"])
    files = {spec.removeprefix("gguf:").partition("?")[0] for spec, _ in asked}
    assert len(asked) == len(files) == len(TYPES)
    assert {str(path) for path in (tmp_path / "out").glob("*.gguf")} == files
    assert all("Pisa lies on a river." in prompt and "Vienna" not in prompt for _, prompt in asked)
    asked.clear()
    main(given)
    assert len(asked) == len(TYPES)
    lines = json.loads((tmp_path / "out" / "accuracy.json").read_text())
    assert [line["weights"] for line in lines] == list(TYPES)
    assert all(line["questions"] == line["same"] == "2" and line["f1"].startswith("1.000") for line in lines)
    assert "| Q8_0 | squad2 | 2 |" in capsys.readouterr().out


def test_searching_needs_an_index(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--out", str(tmp_path), "--searched", squad(tmp_path)])
    assert ended.value.code == 2
    assert "name its folder with --index" in capsys.readouterr().err


def test_speed_is_told_of_each_type(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bundled_weights, "PROMPT_NUMBERS", 10)
    main(["--out", str(tmp_path / "out"), "--speed", "--rounds", "2", "--types", "Q8_0", "Q4_0"])
    lines = json.loads((tmp_path / "out" / "speed.json").read_text())
    assert [line["weights"] for line in lines] == [AS_IT_CAME, "Q8_0", "Q4_0"]
    assert [line["seconds"] == "—" for line in lines] == [True, False, False]
    assert "| weights | MB | seconds to write | prompt tokens/s | new tokens/s |" in capsys.readouterr().out
