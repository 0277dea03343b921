"""Runs in the formats that the evaluations of ALCE and FActScore read."""

import json

import pytest

from askance.configuration.evaluation import find_dataset, read_dataset
from askance.core.answers import Answer, Citation
from askance.core.errors import DatasetError, InputError, RunFolderError
from askance.core.types import Hit, Passage
from askance.evaluation.report.export import alce, factscore, trec
from tests.evaluation.datasets.rows import write
from tests.evaluation.datasets.test_files import FILES
from tests.evaluation.hand_made import answered, record, written

BRIDGE, BONN = Passage("1", "Kennedy Bridge", "Opened in 1949."), Passage("2", "Bonn", "A city.")
TEXT = "The old one opened in 1898. The new one opened in 1949."
ASQA = f"asqa:{FILES / 'asqa.json'}"
ITEMS = json.loads((FILES / "asqa.json").read_text())


def asked(example, number, **fields):
    question = {"id": example.question.id, "question": example.question.text, "golds": example.golds}
    of_example = {"kind": example.kind, "supporting_titles": example.supporting_titles}
    return record(number, **question, **of_example, **fields)


@pytest.fixture
def run(tmp_path):
    first, second = read_dataset(ASQA)
    answer = Answer(TEXT, "", (Citation(2, BONN, 28, 55), Citation(1, BRIDGE, 28, 55)))
    records = [
        asked(second, 2, text="", error="ModelFailure: no"),
        asked(first, 1, text=TEXT, cited_titles=("Bonn",)),
    ]
    return written(tmp_path / "run", records, [answered(Answer("")), answered(answer)], dataset=ASQA)


def test_a_run_as_alce_reads_it(run, tmp_path):
    docs = [
        {"title": "Kennedy Bridge", "text": "Opened in 1949."},
        {"title": "Bonn", "text": "A city."},
    ]
    output = "The old one opened in 1898. The new one opened in 1949 [1][2]."
    first, second = ITEMS[0] | {"output": output, "docs": docs}, ITEMS[1] | {"output": "", "docs": []}
    assert json.loads(alce(run, find_dataset(ASQA)))["data"] == [first, second]
    traces = [answered(run.answer(run.records[0]))]
    unfinished = written(tmp_path / "unfinished", run.records[:1], traces, dataset=ASQA)
    assert json.loads(alce(unfinished, find_dataset(ASQA)))["data"] == [first]


def test_questions_that_are_not_those_of_the_run(run, tmp_path):
    other = write(tmp_path / "other.json", [ITEMS[0] | {"question": "When?"}, ITEMS[1]])
    for spec, message in (
        (f"asqa:{FILES / 'asqa_splits.json'}", r"lacks 2 questions of the run .*, such as '-3'"),
        (f"asqa:{other}", "has the question '-3' with another question than the run"),
        (f"jsonl:{FILES / 'own.jsonl'}", r"is over ASQA; name asqa:FILE"),
        ("asqa:absent.json", "can't read"),
    ):
        with pytest.raises(DatasetError, match=message):
            alce(run, find_dataset(spec))


def test_runs_that_can_not_be_exported(tmp_path):
    own = written(tmp_path / "own", [record(1)])
    with pytest.raises(InputError, match="own is over jsonl, and the format alce is for runs over asqa"):
        alce(own, find_dataset(ASQA))
    with pytest.raises(InputError, match="the format factscore is for runs over biographies"):
        factscore(own)
    uncited = written(tmp_path / "uncited", [asked(read_dataset(ASQA)[0], 1)], dataset=ASQA)
    with pytest.raises(InputError, match="cites anything"):
        alce(uncited, find_dataset(ASQA))
    with pytest.raises(RunFolderError, match="no finished question yet: nothing to export"):
        factscore(written(tmp_path / "none", [], dataset="biographies:x.txt"))


def test_a_run_as_tools_of_trec_read_it(tmp_path):
    import ir_measures

    hits = (Hit(BONN, 9.0, 1), Hit(Passage("3", "Bonn", "Old."), 8.0, 2), Hit(BRIDGE, 7.0, 3))
    searches = ("a", hits), ("b", (Hit(Passage("4", "", "Untitled."), 9.0, 1), Hit(BONN, 1.0, 2)))
    records = [
        record(1, id="q 1", supporting_titles=("Kennedy Bridge", "Rhine")),
        record(2, id="q2", supporting_titles=()),
    ]
    run = written(tmp_path / "run", records, [answered(Answer(""), *searches), answered(Answer(""))])
    assert trec(run, qrels=False).splitlines() == [
        "q%201 Q0 Bonn 1 1.000000000 askance",
        "q%201 Q0 Kennedy%20Bridge 2 0.500000000 askance",
        "q%201 Q0 4 3 0.333333333 askance",
    ]
    assert trec(run, qrels=True) == "q%201 0 Kennedy%20Bridge 1\nq%201 0 Rhine 1\n"
    files = [write(tmp_path / f"{qrels}", trec(run, qrels)) for qrels in (True, False)]
    read = ir_measures.read_trec_qrels(str(files[0])), ir_measures.read_trec_run(str(files[1]))
    assert ir_measures.calc_aggregate([ir_measures.RR, ir_measures.AP], *read) == {
        ir_measures.RR: 0.5,
        ir_measures.AP: 0.25,
    }
    bare = written(tmp_path / "bare", [record(1, supporting_titles=())])
    for qrels, lacking in (
        (True, "supporting titles in its dataset"),
        (False, "question whose searches found"),
    ):
        with pytest.raises(InputError, match=f"the run .*bare has no {lacking}"):
            trec(bare, qrels)


def test_biographies_as_factscore_reads_them(tmp_path):
    people = read_dataset(f"biographies:{FILES / 'biographies.jsonl'}")
    records = [asked(example, number) for number, example in enumerate(people, start=1)]
    searched = ("Clara", (Hit(BONN, 1.0, 1),))
    traces = [answered(Answer("She was a pianist [1]."), searched), answered(Answer(""))]
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
