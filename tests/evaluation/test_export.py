import json

import pytest

from askance.configuration.evaluation import find_dataset, read_dataset
from askance.core.answers import Answer, Citation
from askance.core.errors import DatasetError, InputError, RunFolderError
from askance.core.types import Hit, Passage
from askance.evaluation.report.export import alce, factscore
from tests.evaluation.datasets.test_files import FILES
from tests.evaluation.hand_made import answered, record, written

BRIDGE, BONN = Passage("1", "Kennedy Bridge", "Opened in 1949."), Passage("2", "Bonn", "A city.")
TEXT = "The old one opened in 1898. The new one opened in 1949."
ASQA = f"asqa:{FILES / 'asqa.json'}"


def asked(example, number, **fields):
    question = example.question
    return record(
        number, id=question.id, question=question.text, golds=example.golds, kind=example.kind,
        supporting_titles=example.supporting_titles, **fields,
    )  # fmt: skip


@pytest.fixture
def run(tmp_path):
    first, second = read_dataset(ASQA)
    answer = Answer(TEXT, "", (Citation(2, BONN, 28, 55), Citation(1, BRIDGE, 28, 55)))
    records = [
        asked(second, 2, text="", error="ModelFailure: no"),
        asked(first, 1, text=TEXT, cited_titles=("Bonn",)),
    ]
    return written(tmp_path / "run", records, [answered(Answer("")), answered(answer)], dataset=ASQA)


def test_a_run_as_alce_reads_it(run):
    items = json.loads((FILES / "asqa.json").read_text())
    (first, second) = json.loads(alce(run, find_dataset(ASQA)))["data"]
    assert first == items[0] | {
        "output": "The old one opened in 1898. The new one opened in 1949 [1][2].",
        "docs": [
            {"title": "Kennedy Bridge", "text": "Opened in 1949."},
            {"title": "Bonn", "text": "A city."},
        ],
    }
    assert second == items[1] | {"output": "", "docs": []}


def test_only_finished_questions_are_exported(tmp_path):
    (first, _) = read_dataset(ASQA)
    answer = Answer(TEXT, "", (Citation(1, BRIDGE, 28, 55),))
    one = asked(first, 1, text=TEXT, cited_titles=("Kennedy Bridge",))
    run = written(tmp_path / "run", [one], [answered(answer)], dataset=ASQA)
    assert [item["sample_id"] for item in json.loads(alce(run, find_dataset(ASQA)))["data"]] == ["-3"]


def test_questions_that_are_not_those_of_the_run(run, tmp_path):
    with pytest.raises(DatasetError, match=r"lacks 2 questions of the run .*, such as '-3'"):
        alce(run, find_dataset(f"asqa:{FILES / 'asqa_splits.json'}"))
    items = json.loads((FILES / "asqa.json").read_text())
    items[0]["question"] = "When?"
    (tmp_path / "other.json").write_text(json.dumps(items))
    with pytest.raises(DatasetError, match="has the question '-3' with another question than the run"):
        alce(run, find_dataset(f"asqa:{tmp_path / 'other.json'}"))
    with pytest.raises(DatasetError, match=r"is over ASQA; name asqa:FILE"):
        alce(run, find_dataset(f"jsonl:{FILES / 'own.jsonl'}"))
    with pytest.raises(DatasetError, match="can't read"):
        alce(run, find_dataset("asqa:absent.json"))


def test_runs_that_can_not_be_exported(tmp_path):
    plain = written(tmp_path / "plain", [record(1)])
    with pytest.raises(InputError, match="plain is over jsonl, and the format alce is for runs over asqa"):
        alce(plain, find_dataset(ASQA))
    with pytest.raises(InputError, match="the format factscore is for runs over biographies"):
        factscore(plain)
    (first, _) = read_dataset(ASQA)
    uncited = written(tmp_path / "uncited", [asked(first, 1)], dataset=ASQA)
    with pytest.raises(InputError, match="cites anything"):
        alce(uncited, find_dataset(ASQA))
    with pytest.raises(RunFolderError, match="no finished question yet: nothing to export"):
        factscore(written(tmp_path / "none", [], dataset="biographies:x.txt"))


def test_biographies_as_factscore_reads_them(tmp_path):
    people = read_dataset(f"biographies:{FILES / 'biographies.jsonl'}")
    records = [asked(example, number) for number, example in enumerate(people, start=1)]
    traces = [
        answered(Answer("She was a pianist [1]."), ("Clara", (Hit(BONN, 1.0, 1),))),
        answered(Answer("")),
    ]
    run = written(tmp_path / "run", records, traces, dataset="biographies:x.jsonl")
    first, second = map(json.loads, factscore(run).splitlines())
    assert first == {
        "input": "Tell me of Clara Schumann.",
        "output": "She was a pianist.",
        "topic": "Clara Schumann",
        "cat": ["rare", "Europe"],
        "intermediate": [{"query": "Clara", "titles": ["Bonn"]}],
    }
    assert (second["output"], second["cat"], second["intermediate"]) == ("", ["very rare"], [])
