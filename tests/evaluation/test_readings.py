"""Answers read as the DRAGIN authors read them: in runs, grids and tables, and in runs read again."""

import asyncio
import json
from dataclasses import replace

import pytest

from askance.configuration.evaluation import open_reading
from askance.configuration.experiment import Experiment, prepare_experiment
from askance.core.answers import Answer
from askance.core.errors import InputError, UnknownName
from askance.core.trace import Trace
from askance.core.types import Question
from askance.evaluation.report.tables import results_table, setting_lines
from askance.evaluation.run.readings import AnswerReading
from askance.evaluation.run.runner import RunOptions, evaluate
from askance.evaluation.statistics.paired_runs import compare_group
from askance.evaluation.statistics.run_groups import group_runs, names_of
from askance.evaluation.statistics.summaries import summarise
from askance.models.scripted import Reply, ScriptedModel
from askance.text.answers import authors_statement
from tests.laboratory import usable

UNSTATED = " Nobody knows. It may be so."
STRATEGY = [
    {"qid": "stated", "question": "Is Bonn on the Rhine?", "answer": True},
    {"qid": "unstated", "question": "Is Rome on the Rhine?", "answer": False},
]
HOTPOT = [
    {"_id": id, "question": "Which?", "answer": answer, "supporting_facts": [["R", 0]], "type": "bridge"}
    for id, answer in (("stated", "Rhine. It is long"), ("unstated", "Bonn"))
]


class Stating:
    """A loader of a model that states some answers and, asked for the others, names Bonn."""

    def __init__(self):
        self.num_asked = 0

    def __call__(self, specs):
        return {"answer": ScriptedModel(self.reply)}

    def reply(self, prompt, key):
        self.num_asked += 1
        if key[-1] == "elicit":
            return Reply(" Bonn. Question: Who?")
        return " It is. So the answer is Rhine. It is long." if key[1] == "stated" else UNSTATED


@pytest.fixture
def experiment(tmp_path):
    def make(dataset, rows, **fields):
        path = tmp_path / f"{dataset}.json"
        path.write_text(json.dumps(rows))
        settings = {"method": "closed_book", "parameters": {"ask_short_answer": "no", "max_tokens": "30"}}
        return Experiment(dataset=f"{dataset}:{path}", models={"answer": "scripted"}, **settings | fields)

    return make


def run(experiment, folder, model=None):
    return asyncio.run(evaluate(prepare_experiment(experiment), folder, model or Stating(), RunOptions()))


def shorts(run):
    return {record.id: record.short for record in run.records}


@pytest.mark.parametrize(
    ("dataset", "rows", "answers", "metric", "scores"),
    [
        ("strategyqa", STRATEGY, ["no", ""], "yes_no_accuracy", [0.0, 0.0]),
        ("hotpotqa", HOTPOT, ["Rhine. It is long", ""], "exact_match", [1.0, 0.0]),
        ("2wikimultihopqa", HOTPOT, ["Rhine. It is long", UNSTATED.strip()], "exact_match", [1.0, 0.0]),
    ],
)
def test_the_authors_reading_of_each_dataset(experiment, tmp_path, dataset, rows, answers, metric, scores):
    """All that follows the marker counts; what a text without the marker states depends on the dataset."""
    found = run(experiment(dataset, rows, reading="authors"), tmp_path / "run")
    assert list(shorts(found).values()) == answers
    assert [record.scores[metric] for record in found.records] == scores
    assert {record.reading for record in found.records} == {found.settings.reading} == {"authors"}
    assert summarise(found).share_answered == sum(map(bool, answers)) / 2


@pytest.mark.parametrize("method", usable("closed_book", "closed_book_authors"))
def test_what_was_elicited_is_read_from_the_trace(experiment, tmp_path, method):
    fields = {"reading": "authors", "method": method, "parameters": {"max_tokens": "30"}}
    found = run(experiment("hotpotqa", HOTPOT, **fields), tmp_path / "run")
    assert shorts(found)["unstated"].strip() == "Bonn"
    assert found.records[1].scores["exact_match"] == 1.0


def test_a_run_is_read_anew_without_asking_again(experiment, tmp_path):
    own, model = experiment("hotpotqa", HOTPOT), Stating()
    before = run(own, tmp_path / "run")
    read = run(replace(own, reading="authors"), tmp_path / "run", model)
    assert (read.settings.reading, shorts(read)["stated"]) == ("authors", "Rhine. It is long")
    again = run(own, tmp_path / "run", model)
    assert (shorts(again)["stated"], shorts(again)) == ("Rhine", shorts(before))
    assert [record.scores for record in again.records] == [record.scores for record in before.records]
    assert model.num_asked == 0


def test_tables_tell_how_answers_were_read(experiment, tmp_path):
    own, authors = (
        run(experiment("hotpotqa", HOTPOT, reading=reading), tmp_path / reading)
        for reading in ("own", "authors")
    )
    assert names_of([own, authors]) == ("closed_book, reading=own", "closed_book, reading=authors")
    (both,), (alone,) = (
        map(compare_group, group_runs([own, authors])),
        map(compare_group, group_runs([authors])),
    )
    assert any(line.startswith("reading: ") and "authors" in line for line in setting_lines(both))
    assert "answers read as the DRAGIN authors read them" in results_table(alone).note
    assert "authors" not in results_table(both).note


def test_a_reading_is_refused_where_the_authors_have_none(experiment):
    with pytest.raises(InputError, match="not of jsonl: use --reading own"):
        open_reading("authors", "jsonl:x")
    with pytest.raises(UnknownName, match="did you mean 'authors'"):
        open_reading("author", "hotpotqa:x")
    with pytest.raises(InputError, match="not of musique"):
        prepare_experiment(experiment("musique", [], reading="authors"))


@pytest.mark.parametrize(
    ("text", "prompt", "elicited", "expected"),
    [
        ("It rains.", "A: It rains. So the answer is ", "Arno.", "It rains. the answer is Arno."),
        ("It rains.", "A: It rains. So the answer is", " Arno.", "It rains. the answer is Arno."),
        ("It rains.", "A: It rains. So the answer is ", " yes\n", "It rains. the answer is yes"),
        ("It rains.", "…the answer is ", "Question: x", "It rains. the answer is "),
        ("Question: x", "…the answer is ", "Arno", ""),
        (" It rains. Question: x", "…the answer is ", "Po Note: y", "It rains.  the answer is Po "),
        ("So the answer is Po.", "…the answer is ", "Arno", "So the answer is Po."),
        ("It rains.", "", "", "It rains."),
        ("It rains.", "the answer is Po.\n\nA: It rains. In short", " Arno", "It rains."),
    ],
)
def test_what_the_authors_go_on_from(text, prompt, elicited, expected):
    assert authors_statement(text, prompt, elicited) == expected


def test_our_own_reading_leaves_an_answer_as_it_is():
    answer = Answer("So the answer is Po. Or not.", "Po")
    assert AnswerReading().read(answer, Question("", "?"), Trace().events) is answer
