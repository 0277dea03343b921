"""Judging recorded runs: judgements are kept and continued, and the scores are right."""

import asyncio
import json
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
TEXTS = ["Bonn is old.", "Bonn is new.", ""]


@pytest.fixture
def run(tmp_path):
    """Three questions: the citation bears out the first answer, but not the second; the third failed."""
    records = [
        record(
            number,
            text=text,
            cited_titles=("Bonn",) if text else (),
            error="" if text else "ModelFailure: no",
        )
        for number, text in enumerate(TEXTS, start=1)
    ]
    traces = [
        answered(Answer(text, "", (Citation(1, BONN, 0, len(text)),) if text else ())) for text in TEXTS
    ]
    return written(tmp_path / "run", records, traces, title="dragin")


def citations(run, entailment, progress=lambda *_: None):
    return asyncio.run(judge_run(run, citation_judge(entailment, "hf:judge"), progress))


def lines(run, kind):
    (path,) = (run.folder / "judged").glob(f"{kind}-*.jsonl")
    return path, [json.loads(line) for line in path.read_text().splitlines()]


def test_citations_of_a_run(run):
    steps = []
    judged = citations(run, ScriptedEntailment(), lambda *step: steps.append(step))
    assert {name: value.mean for name, value in judged.scores.items()} == {
        "nli_citation_recall": near(1 / 3),
        "nli_citation_precision": near(1 / 3),
    }
    assert steps == [("citations", done, 3) for done in range(4)]
    numbers = json.loads(Path(judged.file).read_text())
    assert (numbers["judge"], numbers["model"], numbers["num_questions"]) == ("hf:judge", "scripted", 3)
    assert numbers["scores"]["nli_citation_recall"]["num_questions"] == 3
    _, (header, first, *_) = lines(run, "citations")
    assert (header["format"], header["kind"], header["judge"]) == (
        "askance-judgements",
        "citations",
        "hf:judge",
    )
    assert first["findings"] == [{"text": "Bonn is old.", "is_supported": True, "cited": 1, "relevant": 1}]
    assert read_run(run.folder) == run


def test_what_is_judged_is_not_judged_again(run):
    before = citations(run, ScriptedEntailment())
    path, _ = lines(run, "citations")
    whole = path.read_bytes()
    again = ScriptedEntailment()
    assert citations(run, again) == before
    assert again.calls == []
    path.write_bytes(whole[: whole.index(b"q2") + 5])  # as a kill leaves it
    citations(run, again)
    assert [claim for _, claim in again.calls] == ["Bonn is new."]
    assert path.read_bytes() == whole


def test_another_answer_to_the_same_question_is_judged_anew(run, tmp_path):
    citations(run, ScriptedEntailment())
    other = written(
        tmp_path / "other",
        [record(1, text="Bonn is an old city.", cited_titles=("Bonn",))],
        [answered(Answer("Bonn is an old city.", "", (Citation(1, BONN, 0, 20),)))],
    )
    (run.folder / "judged").rename(other.folder / "judged")
    again = ScriptedEntailment()
    judged = citations(other, again)
    assert [claim for _, claim in again.calls] == ["Bonn is an old city."]
    assert judged.scores["nli_citation_recall"].num_questions == 1


def test_judges_stand_beside_each_other(run):
    citations(run, ScriptedEntailment())
    asyncio.run(judge_run(run, citation_judge(ScriptedEntailment(name="other"), "hf:other")))
    assert len(list((run.folder / "judged").glob("citations-*.jsonl"))) == 2


def reply(shown, key):
    return "- Bonn is old." if key[2] == "split" else "true"


def facts(run, model, **settings):
    judge = fact_judge(model, ScriptedRetriever([BONN]), "scripted", **settings)
    return asyncio.run(judge_run(run, judge))


def test_facts_of_a_run(run):
    judged = facts(run, ScriptedModel(reply), gamma=2, in_flight=2)
    means = {name: (round(value.mean, 3), value.num_questions) for name, value in judged.scores.items()}
    assert means == {
        "factscore": (0.368, 2),  # exp(1 - 2)
        "supported_facts": (1.0, 2),
        "facts": (1.0, 2),
        "responded": (0.667, 3),
    }
    # Another gamma is another sum of the same judgements.
    model = ScriptedModel(reply)
    assert facts(run, model, gamma=0).scores["factscore"].mean == 1
    assert model.prompts == []


def test_a_judge_that_breaks_keeps_what_is_judged(run):
    def breaks(shown, key):
        return ValueError("out of order") if key[1] == "q2" else reply(shown, key)

    with pytest.raises(
        ModelFailure,
        match=r"failed at question 'q2' of the run .*: ValueError: out of order\. The results so far",
    ):
        facts(run, ScriptedModel(breaks))
    assert [line.get("id") for line in lines(run, "facts")[1]] == [None, "q1"]
    model = ScriptedModel(reply)
    facts(run, model)
    assert len(model.prompts) == 2


def test_the_topic_of_a_question():
    assert topic_of(record(1, supporting_titles=("Ada",))) == "Ada"
    assert topic_of(record(1, supporting_titles=("Ada", "Bonn"))) == "Who built bridge 1?"


def test_runs_that_can_not_be_judged(tmp_path, run):
    plain = written(tmp_path / "plain", [record(1)])
    check_can_be_judged(plain, ["facts"])
    check_can_be_judged(run, ["citations", "facts"])
    with pytest.raises(InputError, match=r"no answer of the run .*plain cites anything \(method single\)"):
        check_can_be_judged(plain, ["citations"])
    with pytest.raises(RunFolderError, match="has no finished question yet"):
        check_can_be_judged(written(tmp_path / "empty", []), [])


def test_a_second_process_and_damage_are_told(run):
    with (
        locked_folder(run.folder / "judged", LOCK),
        pytest.raises(
            RunFolderError, match=r"can't write .*citations-.*: another process is writing there\. Wait until"
        ),
    ):
        citations(run, ScriptedEntailment())
    citations(run, ScriptedEntailment())
    path, _ = lines(run, "citations")
    whole = path.read_text()
    path.write_text(whole + sealed(b'{"id": 7}').decode() + "\n")
    with pytest.raises(
        RunFolderError, match=r"line 5, field id: .*string\. The file is damaged: restore it, or move it away"
    ):
        citations(run, ScriptedEntailment())
    path.write_text(whole.replace("askance-judgements", "x"))
    with pytest.raises(
        RunFolderError,
        match=r"line 1: its checksum does not match its content. The file is damaged: restore it",
    ):
        citations(run, ScriptedEntailment())


def test_judgements_of_another_judge_are_not_taken_for_those_of_this_one(run):
    for name in ("one", "other"):
        citations(run, ScriptedEntailment(name=name))
    one, other = sorted((run.folder / "judged").glob("citations-*.jsonl"))
    other.write_bytes(one.read_bytes())
    one.unlink()
    with pytest.raises(
        RunFolderError,
        match=r"line 1: .* made with model '\w+', now it is '\w+': .* move the file away",
    ):
        [citations(run, ScriptedEntailment(name=name)) for name in ("one", "other")]


def test_a_folder_that_can_not_be_written(run):
    (run.folder / "judged").write_text("in the way")
    with pytest.raises(RunFolderError, match=r"can't write .*judged.*: "):
        citations(run, ScriptedEntailment())
