"""`askance judge` and `askance export` as a user types them."""

import json

import pytest

from askance.configuration.evaluation import read_dataset
from askance.core.answers import Answer, Citation
from askance.core.types import Passage
from askance.models.scripted import Reply, ScriptedModel
from tests.evaluation.datasets.test_files import FILES
from tests.evaluation.hand_made import answered, record, written

BONN = Passage("1", "Bonn", "Bonn is an old city.")


def words(text):
    return " ".join(text.split())


def asked(example, **fields):
    question = example.question
    return record(
        1, id=question.id, question=question.text, golds=example.golds, kind=example.kind,
        supporting_titles=example.supporting_titles, **fields,
    )  # fmt: skip


@pytest.fixture
def long(tmp_path):
    """A run over ASQA, of which one question is finished."""
    spec = f"asqa:{FILES / 'asqa.json'}"
    answer = Answer("Bonn is old.", "", (Citation(1, BONN, 0, 12),))
    one = asked(read_dataset(spec)[0], text=answer.text, cited_titles=("Bonn",))
    written(tmp_path / "long", [one], [answered(answer)], dataset=spec, num_questions=2)
    return tmp_path / "long"


@pytest.fixture
def life(tmp_path):
    """A run over one biography."""
    spec = f"biographies:{FILES / 'biographies.txt'}"
    one = asked(read_dataset(spec)[0], text="She played.")
    written(tmp_path / "life", [one], [answered(Answer("She played."))], dataset=spec, title="flare")
    return tmp_path / "life"


def test_citations(run, long):
    code, out, _ = run("judge", long, "--citations", "scripted")
    assert code == 0
    lines = [words(line) for line in out.splitlines()]
    (file,) = (long / "judged").glob("citations-*.json")
    assert lines == [
        "single citations by scripted, 1 answers",
        "metric mean 95 % interval questions",
        "nli_citation_recall 1.000 1.000 to 1.000 1",
        "nli_citation_precision 1.000 1.000 to 1.000 1",
        f"judged: {file}",
        "unfinished: 1 of 2 questions",
    ]


def test_facts_of_several_runs_as_json(run, life, long, sample_index, monkeypatch):
    def reply(self, shown, key):
        return Reply("- Radium was found." if key[2] == "split" else "true")

    monkeypatch.setattr(ScriptedModel, "_reply", reply)
    given = ("--facts", "scripted", "--index", sample_index, "--gamma", 0)
    code, out, _ = run("judge", life, long, *given, "--json")
    assert code == 0
    first, second = json.loads(out)["runs"]
    assert (first["run"], second["run"]) == (str(life), str(long))
    (judged,) = first["judged"]
    assert (judged["kind"], judged["judge"]["judge"]) == ("facts", "scripted")
    assert judged["scores"]["factscore"]["mean"] == 1
    code, out, _ = run("judge", long, *given, "--citations", "scripted", "--json")
    assert [each["kind"] for each in json.loads(out)["runs"][0]["judged"]] == ["citations", "facts"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], "no judge is named: give --citations hf:NAME"),
        (["--facts", "scripted"], "--facts is given without --index DIR"),
        (["--index", "."], "--index is given without --facts SPEC"),
        (["--citations", "scripted"], "no answer of the run"),
        (["--citations", "bundled"], "no answer of the run"),
        (["--facts", "scripted", "--index", "absent"], "absent"),
        (["--facts", "scrpted", "--index", "."], "."),
        (["--gamma", "-1", "--citations", "scripted"], "--gamma"),
    ],
)
def test_bad_input_of_judge_writes_nothing(run, life, given, expected):
    code, out, err = run("judge", life, *given)
    assert (code, out) == (2, "")
    assert expected in words(err)
    assert not (life / "judged").exists()


def test_a_model_that_judges_no_entailment(run, long):
    code, out, err = run("judge", long, "--citations", "bundled")
    assert (code, out) == (2, "")
    assert "unknown entailment 'bundled'" in words(err)
    _, _, err = run("judge", "absent", "--citations", "scripted")
    assert "absent holds no run" in words(err)


def test_a_file_of_the_configuration_is_not_blamed_for_an_option(run, long, tmp_path, monkeypatch):
    (tmp_path / "askance.toml").write_text("index = 'mine'\nmodel = 'scripted'\ncache = 'kept.sqlite'\n")
    monkeypatch.chdir(tmp_path)
    _, _, err = run("judge", long, "--facts", "scripted", "--index", "absent")
    assert err.startswith("error: the index absent")
    assert run("judge", long, "--citations", "scripted", "--config", tmp_path / "askance.toml")[0] == 0


def test_export_alce(run, long, tmp_path):
    file = tmp_path / "alce.json"
    code, out, _ = run("export", "alce", long, "--out", file)
    assert code == 0
    assert words(out) == words(f"1 of 2 questions: {file}")
    (item,) = json.loads(file.read_text())["data"]
    assert (item["sample_id"], item["output"]) == ("-3", "Bonn is old [1].")
    code, _, err = run("export", "alce", long, "--dataset", f"asqa:{FILES / 'asqa.json'}", "--out", file)
    assert code == 2
    assert "it exists already" in words(err)


def test_export_factscore(run, life, tmp_path):
    file = tmp_path / "lives.jsonl"
    code, out, _ = run("export", "factscore", life, "--out", file)
    assert (code, words(out)) == (0, words(f"1 questions: {file}"))
    assert json.loads(file.read_text())["topic"] == "Clara Schumann"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            ["alce", "life", "--out", "a.json"],
            "is over biographies, and the format alce is for runs over asqa",
        ),
        (["factscore", "long", "--out", "a.json"], "is over asqa, and the format factscore is for"),
        (["factscore", "life", "--out", "absent/a.json"], "the folder absent does not exist"),
        (["alce", "long", "--dataset", "asqa:absent.json", "--out", "a.json"], "can't read absent.json"),
        (["alce", "absent", "--out", "a.json"], "absent holds no run"),
        (["alce", "long"], "--out"),
    ],
)
def test_bad_input_of_export_writes_nothing(run, life, long, monkeypatch, given, expected):
    monkeypatch.chdir(life.parent)
    code, out, err = run("export", *given)
    assert (code, out) == (2, "")
    assert expected in words(err)
    assert not (life.parent / "a.json").exists()
