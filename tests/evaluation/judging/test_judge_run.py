"""Judging recorded runs: judgements are kept and continued, and the scores are right."""

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from askance.core.answers import Answer, Citation
from askance.core.errors import InputError, ModelFailure, RunFolderError
from askance.core.types import Passage
from askance.evaluation.judging.citations import citation_judge
from askance.evaluation.judging.facts import fact_judge
from askance.evaluation.judging.judge_run import (
    check_can_be_judged,
    judge_run,
    judged_scores,
    run_scores,
    topic_of,
)
from askance.evaluation.run.recorded_run import read_run
from askance.evaluation.run.result_file import LOCK
from askance.models.scripted import ScriptedEntailment, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.storage.durable_files import locked_folder, sealed
from tests.evaluation.hand_made import answered, record, written
from tests.tolerances import near

BONN = Passage("1", "Bonn", "Bonn is an old city.")


def run_of(folder, *texts):
    """Return a run whose answers cite Bonn; a question without an answer failed."""
    records, traces = [], []
    for number, text in enumerate(texts, start=1):
        titles, error = (("Bonn",), "") if text else ((), "ModelFailure: no")
        records.append(record(number, text=text, cited_titles=titles, error=error))
        cited = (Citation(1, BONN, 0, len(text)),) if text else ()
        traces.append(answered(Answer(text, "", cited)))
    return written(folder, records, traces, title="dragin")


@pytest.fixture
def run(tmp_path):
    return run_of(tmp_path / "run", "Bonn is old.", "Bonn is new.", "")


def judge_citations(run, entailment=None, progress=lambda *_: None, **named):
    entailment = entailment or ScriptedEntailment(**named)
    return asyncio.run(judge_run(run, citation_judge(entailment, "hf:judge"), progress))


def judge_facts(run, model, **settings):
    judge = fact_judge(model, ScriptedRetriever([BONN]), "scripted", **settings)
    return asyncio.run(judge_run(run, judge))


def reply(shown, key):
    return "- Bonn is old." if key[2] == "split" else "true"


def file_of(run, kind):
    (path,) = (run.folder / "judged").glob(f"{kind}-*.jsonl")
    return path


def test_citations_of_a_run(run):
    steps = []
    judged = judge_citations(run, progress=lambda *step: steps.append(step))
    assert {name: value.mean for name, value in judged.scores.items()} == {
        "nli_citation_recall": near(1 / 3),
        "nli_citation_precision": near(1 / 3),
    }
    assert steps == [("citations", done, 3) for done in range(4)]
    numbers = json.loads(Path(judged.file).read_text())
    assert (numbers["judge"], numbers["model"], numbers["num_questions"]) == ("hf:judge", "scripted", 3)
    assert numbers["scores"]["nli_citation_recall"]["num_questions"] == 3
    header, first, *_ = map(json.loads, file_of(run, "citations").read_text().splitlines())
    assert (header["format"], header["kind"], header["judge"]) == (
        "askance-judgements",
        "citations",
        "hf:judge",
    )
    assert first["findings"] == [{"text": "Bonn is old.", "is_supported": True, "cited": 1, "relevant": 1}]
    assert read_run(run.folder) == run


def test_only_what_is_not_judged_is_judged(run, tmp_path):
    before = judge_citations(run)
    path = file_of(run, "citations")
    whole = path.read_bytes()
    other = run_of(tmp_path / "other", "Bonn is an old city.")
    for change, left in (
        (lambda: None, []),
        (lambda: path.write_bytes(whole[: whole.index(b"q2") + 5]), ["Bonn is new."]),  # as a kill leaves it
    ):
        change()
        again = ScriptedEntailment()
        assert judge_citations(run, again) == before
        assert [claim for _, claim in again.calls] == left
        assert path.read_bytes() == whole
    (run.folder / "judged").rename(other.folder / "judged")
    again = ScriptedEntailment()
    assert judge_citations(other, again).scores["nli_citation_recall"].num_questions == 1
    assert [claim for _, claim in again.calls] == ["Bonn is an old city."], (
        "the same question, another answer"
    )


def test_facts_of_a_run(run):
    judged = judge_facts(run, ScriptedModel(reply), gamma=2, in_flight=2)
    means = {name: (round(value.mean, 3), value.num_questions) for name, value in judged.scores.items()}
    assert means == {
        "factscore": (0.368, 2),  # exp(1 - 2)
        "supported_facts": (1.0, 2),
        "facts": (1.0, 2),
        "responded": (0.667, 3),
    }
    model = ScriptedModel(reply)
    assert judge_facts(run, model, gamma=0).scores["factscore"].mean == 1
    assert model.prompts == [], "another gamma is another sum of the same judgements"


def test_a_judge_that_breaks_keeps_what_is_judged(run):
    def breaks(shown, key):
        return ValueError("out of order") if key[1] == "q2" else reply(shown, key)

    told = r"failed at question 'q2' of the run .*: ValueError: out of order\. The results so far"
    with pytest.raises(ModelFailure, match=told):
        judge_facts(run, ScriptedModel(breaks))
    assert [json.loads(line).get("id") for line in file_of(run, "facts").read_text().splitlines()] == [
        None,
        "q1",
    ]
    model = ScriptedModel(reply)
    judge_facts(run, model)
    assert len(model.prompts) == 2


def test_the_topic_of_a_question():
    assert topic_of(record(1, supporting_titles=("Ada",))) == "Ada"
    assert topic_of(record(1, supporting_titles=("Ada", "Bonn"))) == "Who built bridge 1?"


def test_runs_that_can_not_be_judged(tmp_path, run):
    uncited = written(tmp_path / "uncited", [record(1)])
    check_can_be_judged(uncited, ["facts"])
    check_can_be_judged(run, ["citations", "facts"])
    with pytest.raises(InputError, match=r"no answer of the run .*uncited cites anything \(method single\)"):
        check_can_be_judged(uncited, ["citations"])
    with pytest.raises(RunFolderError, match="has no finished question yet"):
        check_can_be_judged(written(tmp_path / "empty", []), [])


def test_the_scores_of_the_judge_that_was_asked_last_count(run):
    assert run_scores(run) == judged_scores(run) == {}
    for at, name in enumerate(("hf:a", "hf:b", "hf:a", "hf:b"), start=1):
        judged = asyncio.run(judge_run(run, citation_judge(ScriptedEntailment(), name)))
        os.utime(judged.file, ns=(at, at))
        assert (run_scores(run)["citations"].judge, judged_scores(run)) == (name, judged.scores)
    judge_facts(run, ScriptedModel(reply))
    assert set(run_scores(run)) == {"citations", "facts"}
    assert set(judged_scores(run)) == {"nli_citation_recall", "nli_citation_precision", "factscore"}


def test_scores_of_other_answers_do_not_count(run):
    judge_citations(run)
    fewer = replace(run, records=run.records[:2])
    changed = replace(run, records=(replace(run.records[0], text="Bonn is small."), *run.records[1:]))
    assert judged_scores(fewer) == judged_scores(changed) == {}
    judge_citations(fewer)
    assert judged_scores(fewer)["nli_citation_recall"].num_questions == 2
    assert judged_scores(run) == {}


def test_files_of_scores_that_can_not_be_read(run):
    path = Path(judge_citations(run).file)
    path.write_text('{"kind": "citations", "judge": "x", "scores": {"nli_citation_recall": 1}}')
    with pytest.raises(RunFolderError, match=r"citations-.*json, field scores\.nli_citation_recall: "):
        judged_scores(run)
    path.unlink()
    path.mkdir()
    with pytest.raises(RunFolderError, match=r"can't read the scores in .*judged: Is a directory"):
        judged_scores(run)


def test_folders_and_files_of_judgements_that_can_not_be_used(run):
    folder = run.folder / "judged"

    def refused(message, **named):
        with pytest.raises(RunFolderError, match=message):
            judge_citations(run, **named)

    with locked_folder(folder, LOCK):
        refused(r"can't write .*citations-.*: another process is writing there\. Wait until")
    judge_citations(run)
    path = file_of(run, "citations")
    whole = path.read_text()
    path.write_text(whole + sealed(b'{"id": 7}').decode() + "\n")
    refused(r"line 5, field id: .*string\. The file is damaged: restore it, or move it away")
    path.write_text(whole.replace("askance-judgements", "x"))
    refused(r"line 1: its checksum does not match its content. The file is damaged: restore it")
    path.write_text(whole)
    judge_citations(run, name="other")
    (of_the_other,) = {*folder.glob("citations-*.jsonl")} - {path}
    of_the_other.write_text(whole)
    refused(r"line 1: .* made with model 'scripted', now it is 'other': .* move the file away", name="other")
    folder.rename(run.folder / "moved")
    folder.write_text("in the way")
    refused(r"can't write .*judged.*: ")
