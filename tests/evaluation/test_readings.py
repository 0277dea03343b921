"""Answers read as the DRAGIN authors read them: in runs, grids and tables, and in runs read again."""

import asyncio
import json
from contextlib import nullcontext
from dataclasses import replace

import pytest

from askance.configuration.experiment import Experiment, prepare_experiment
from askance.configuration.grid import prepare_experiments, read_grid
from askance.core.answers import Answer
from askance.core.errors import GridError, InputError, UnknownName
from askance.core.trace import Trace
from askance.evaluation.report.tables import results_table, setting_lines
from askance.evaluation.run.readings import AnswerReading, open_reading
from askance.evaluation.run.runner import RunOptions, evaluate, run_grid
from askance.evaluation.statistics.paired_runs import compare_group
from askance.evaluation.statistics.run_groups import group_runs, names_of
from askance.evaluation.statistics.summaries import summarise
from askance.models.scripted import Reply, ScriptedModel
from askance.text.answers import authors_statement
from tests.laboratory import usable

WITHOUT_MARKER = " Nobody knows. It may be so."
STRATEGY = [
    {"qid": "stated", "question": "Is Bonn on the Rhine?", "answer": True},
    {"qid": "unstated", "question": "Is Rome on the Rhine?", "answer": False},
]
HOTPOT = [
    {"_id": id, "question": question, "answer": answer, "supporting_facts": [["R", 0]]}
    for id, question, answer in (
        ("stated", "Which river?", "Rhine. It is long"), ("unstated", "Which town?", "Bonn"),
    )
]  # fmt: skip


class Told:
    """States some answers and not others; asked for one, it names Bonn. It counts how often it is asked."""

    def __init__(self):
        self.num_asked = 0

    def __call__(self, specs):
        return {"answer": ScriptedModel(self.reply)}

    def reply(self, prompt, key):
        self.num_asked += 1
        if key[-1] == "elicit":
            return Reply(" Bonn. Question: Who?")
        return " It is. So the answer is Rhine. It is long." if key[1] == "stated" else WITHOUT_MARKER


@pytest.fixture
def experiment(tmp_path):
    def make(dataset, rows, **fields):
        path = tmp_path / f"{dataset}.json"
        path.write_text(json.dumps(rows))
        given = {"method": "closed_book", "parameters": {"ask_short_answer": "no", "max_tokens": "30"}}
        return Experiment(dataset=f"{dataset}:{path}", models={"answer": "scripted"}, **given | fields)

    return make


def run(experiment, folder, model=None):
    return asyncio.run(evaluate(prepare_experiment(experiment), folder, model or Told(), RunOptions()))


def shorts(found):
    return {record.id: record.short for record in found.records}


def test_strategyqa_without_the_marker_is_an_empty_answer_and_wrong(experiment, tmp_path):
    found = run(experiment("strategyqa", STRATEGY, reading="authors"), tmp_path / "run")
    assert shorts(found) == {"stated": "no", "unstated": ""}
    assert [record.scores["yes_no_accuracy"] for record in found.records] == [0.0, 0.0]
    assert {record.reading for record in found.records} == {found.settings.reading} == {"authors"}
    assert summarise(found).share_answered == 0.5


def test_all_that_follows_the_marker_counts_and_is_scored(experiment, tmp_path):
    own = run(experiment("hotpotqa", HOTPOT), tmp_path / "own")
    authors = run(experiment("hotpotqa", HOTPOT, reading="authors"), tmp_path / "authors")
    assert shorts(own)["stated"] == "Rhine"
    assert shorts(authors) == {"stated": "Rhine. It is long", "unstated": ""}
    assert own.records[0].scores["exact_match"] == 0.0
    assert authors.records[0].scores["exact_match"] == 1.0
    assert [record.text for record in own.records] == [record.text for record in authors.records]


def test_what_2wikimultihopqa_does_not_state_is_the_whole_text(experiment, tmp_path):
    rows = [row | {"type": "bridge", "context": []} for row in HOTPOT]
    found = run(experiment("2wikimultihopqa", rows, reading="authors"), tmp_path / "run")
    assert shorts(found)["unstated"] == WITHOUT_MARKER.strip()


@pytest.mark.parametrize("method", usable("closed_book", "closed_book_authors"))
def test_what_was_elicited_is_read_from_the_trace(experiment, tmp_path, method):
    parameters = {"max_tokens": "30"}
    found = run(experiment("hotpotqa", HOTPOT, reading="authors", parameters=parameters), tmp_path / "run")
    assert shorts(found)["unstated"].strip() == "Bonn"
    assert found.records[1].scores["exact_match"] == 1.0


def test_a_run_is_read_anew_without_asking_again(experiment, tmp_path):
    own = experiment("hotpotqa", HOTPOT)
    before, model = run(own, tmp_path / "run"), Told()
    read = run(replace(own, reading="authors"), tmp_path / "run", model)
    assert model.num_asked == 0
    assert (read.settings.reading, shorts(read)["stated"]) == ("authors", "Rhine. It is long")
    again = run(own, tmp_path / "run", model)
    assert [(record.short, record.scores) for record in again.records] == [
        (record.short, record.scores) for record in before.records
    ]


def test_tables_tell_how_answers_were_read(experiment, tmp_path):
    own = run(experiment("hotpotqa", HOTPOT), tmp_path / "own")
    authors = run(experiment("hotpotqa", HOTPOT, reading="authors"), tmp_path / "authors")
    assert names_of([own, authors]) == (
        "closed_book, reading=own",
        "closed_book, reading=authors",
    )
    (both,) = group_runs([own, authors])
    told = setting_lines(compare_group(both))
    assert any(line.startswith("reading: ") and "authors" in line for line in told)
    (alone,) = group_runs([authors])
    assert "answers read as the DRAGIN authors read them" in results_table(compare_group(alone)).note
    assert "authors" not in results_table(compare_group(both)).note


def test_a_reading_is_refused_where_the_authors_have_none(experiment):
    with pytest.raises(InputError, match="not of jsonl: use --reading own"):
        open_reading("authors", "jsonl:x")
    with pytest.raises(UnknownName, match="did you mean 'authors'"):
        open_reading("author", "hotpotqa:x")
    with pytest.raises(InputError, match="not of musique"):
        prepare_experiment(experiment("musique", [], reading="authors"))


def test_a_grid_has_a_reading_for_all_or_for_one_dataset(tmp_path, experiment):
    hotpot, strategy = experiment("hotpotqa", HOTPOT).dataset, experiment("strategyqa", STRATEGY).dataset
    path = tmp_path / "grid.toml"
    text = (
        f'reading = "authors"\n[datasets.hotpot]\nquestions = "{hotpot}"\nreading = "own"\n'
        f'[datasets.strategy]\nquestions = "{strategy}"\n[models.fake]\nanswer = "scripted"\n'
        "[methods.closed_book]\n"
    )
    path.write_text(text)
    experiments = prepare_experiments(read_grid(path).experiments())
    assert [ready.scoring.reading.name for ready in experiments.values()] == ["own", "authors"]
    work = run_grid(
        experiments, tmp_path / "out", Told(), RunOptions(), lambda name: nullcontext(lambda status: None)
    )
    found = asyncio.run(work)
    assert [each.settings.reading for each in found.values()] == ["own", "authors"]
    path.write_text(text.replace("strategyqa", "jsonl").replace("hotpotqa", "jsonl"))
    with pytest.raises((GridError, InputError)):
        prepare_experiments(read_grid(path).experiments())


def test_on_the_command_line(run_cli, experiment, tmp_path):
    dataset = experiment("strategyqa", STRATEGY).dataset
    given = ("eval", "--dataset", dataset, "--method", "closed_book", "--model", "scripted")
    code, out, _ = run_cli(*given, "--out", tmp_path / "run", "--reading", "authors")
    assert code == 0
    assert "answers read as the DRAGIN authors read them" in " ".join(out.split())
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["reading"] == "authors"
    code, _, err = run_cli(*given, "--out", tmp_path / "other", "--reading", "theirs")
    assert code == 2
    assert "authors" in err


@pytest.fixture
def run_cli(request):
    return request.getfixturevalue("run")


@pytest.mark.parametrize(
    ("text", "prompt", "elicited", "expected"),
    [
        ("It rains.", "A: It rains. So the answer is ", "Arno.", "It rains. the answer is Arno."),
        ("It rains.", "A: It rains. So the answer is", " Arno.", "It rains. the answer is Arno."),
        ("It rains.", "A: It rains. So the answer is ", " yes\n", "It rains. the answer is yes"),
        ("It rains.", "A: It rains. So the answer is", "yes", "It rains. the answer is yes"),
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
    assert AnswerReading().read(answer, Trace().events) is answer
