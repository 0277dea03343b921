"""Whole runs on the scripted model: what is kept, what fails, what is asked again."""

import asyncio
import json
import re
from dataclasses import replace

import pytest
import sentencex

from askance.configuration.experiment import Experiment, prepare_experiment
from askance.core.errors import InputError, MissingAbility, MissingExtra, RunFolderError, TooManyFailures
from askance.core.installing import install_line
from askance.evaluation.run.recorded_run import read_run
from askance.evaluation.run.runner import RunOptions, evaluate
from askance.models.scripted import ScriptedModel

GOLDS = {"Bonn": "Rhine", "Cairo": "Nile", "Paris": "Seine", "Rome": "Tiber", "Vienna": "Danube"}


class Rivers:
    """Answers "the Rhine" always, and fails on questions about the towns given."""

    def __init__(self, *failing):
        self.failing, self.asked = set(failing), []

    def __call__(self, specs):
        return {"answer": ScriptedModel(self.reply)}

    def reply(self, prompt, key):
        town = key[1]
        self.asked.append(town)
        if town in self.failing:
            raise ValueError(f"{town} is flooded")
        return " It is a river. So the answer is the Rhine."


@pytest.fixture
def experiment(tmp_path, sample_index):
    path = tmp_path / "rivers.jsonl"
    rows = [
        {"id": town, "question": f"Which river flows through {town}?", "answers": [gold],
         "supporting": [town], "type": "south" if town in ("Cairo", "Rome") else "north"}
        for town, gold in GOLDS.items()
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Experiment(
        dataset=f"jsonl:{path}", method="single", index=sample_index, models={"answer": "scripted"}
    )


def run(experiment, folder, model, *, progress=lambda status: None, in_flight=None, **terms):
    experiment = replace(experiment, in_flight=in_flight)
    return asyncio.run(evaluate(prepare_experiment(experiment), folder, model, RunOptions(**terms), progress))


def content(folder):
    """Return the contents of a run without times and paths."""
    return [
        replace(record, usage=replace(record.usage, seconds=0), trace_at=0, trace_bytes=0, trace_checksum="")
        for record in read_run(folder).records
    ]


def test_every_question_is_kept_with_answer_scores_and_trace(experiment, tmp_path):
    found = run(experiment, tmp_path / "run", Rivers())
    assert found.is_complete
    first = found.records[0]
    assert (first.id, first.text, first.short) == (
        "Bonn",
        "It is a river. So the answer is the Rhine.",
        "the Rhine",
    )
    assert (first.scores["exact_match"], found.records[1].scores["exact_match"]) == (1.0, 0.0)
    assert first.usage.searches == 1
    assert found.trace(first)[0].question_id == "Bonn"
    assert [record.kind for record in found.records] == ["north", "south", "north", "south", "north"]
    assert found.settings.title == "single"
    assert found.settings.index_content


def test_the_time_of_a_question_ends_with_its_answer_or_failure(experiment, tmp_path):
    found = run(experiment, tmp_path / "run", Rivers("Cairo"), in_flight=100)
    for record in found.records:
        last = found.trace(record)[-1]
        ended = last.at_seconds if record.is_failure else last.usage.seconds
        assert record.usage.seconds == ended
    assert sum(record.is_failure for record in found.records) == 1


@pytest.mark.parametrize("in_flight", [2, 100])
def test_how_many_are_in_flight_changes_no_answer(experiment, tmp_path, in_flight):
    nonsense = replace(experiment, method="dragin")
    models = {"answer": ScriptedModel()}
    run(nonsense, tmp_path / "one", lambda specs: models, in_flight=1)
    run(nonsense, tmp_path / "many", lambda specs: {"answer": ScriptedModel()}, in_flight=in_flight)
    assert content(tmp_path / "one") == content(tmp_path / "many")


def test_a_failed_question_is_kept_as_wrong_and_the_others_go_on(experiment, tmp_path):
    found = run(experiment, tmp_path / "run", Rivers("Cairo"))
    failed = found.records[1]
    assert failed.error == "ModelFailure: answer model scripted, answer: ValueError: Cairo is flooded"
    assert (failed.text, failed.scores["f1"], failed.scores["yes_no_accuracy"]) == ("", 0.0, None)
    assert found.trace(failed)[-1].type == "error"
    assert [record.is_failure for record in found.records] == [False, True, False, False, False]


def test_a_panic_ends_no_more_than_its_own_question(experiment, tmp_path):
    """A Rust extension's panic is no `Exception`; this one comes out of the sentence splitter itself."""

    class Panics(Rivers):
        def reply(self, prompt, key):
            if key[1] == "Cairo":
                sentencex.get_sentence_boundaries("en", "W\u2028.")
            return super().reply(prompt, key)

    found = run(experiment, tmp_path / "run", Panics())
    assert [record.is_failure for record in found.records] == [False, True, False, False, False]
    assert "PanicException: end byte index 3 is not a char boundary" in found.records[1].error
    assert (found.trace(found.records[1])[-1].type, found.records[1].scores["f1"]) == ("error", 0.0)
    again = run(experiment, tmp_path / "run", Rivers(), retry_failures=True)
    assert not any(record.is_failure for record in again.records)


@pytest.mark.parametrize("method", ["single", "flare", "dragin", "selfrag", "airrag_lite"])
def test_an_answer_that_the_sentence_splitter_panics_at_is_an_answer(experiment, tmp_path, method):
    def odd(specs):
        return {
            "answer": ScriptedModel(
                lambda prompt, key: " W\u2028. W\xa0. It is odd.\u3000So the answer is W\u2028."
            )
        }

    found = run(replace(experiment, method=method), tmp_path / "run", odd)
    assert [record.error for record in found.records] == [""] * 5


def test_a_finished_run_asks_nothing(experiment, tmp_path):
    run(experiment, tmp_path / "run", Rivers())
    model = Rivers()
    assert run(experiment, tmp_path / "run", model).is_complete
    assert not model.asked


def test_a_run_that_was_stopped_asks_only_what_is_left(experiment, tmp_path):
    class Stopped(BaseException):
        pass

    def stop_after_two(status):
        if status.num_finished == 2:
            raise Stopped

    with pytest.raises(Stopped):
        run(experiment, tmp_path / "run", Rivers(), progress=stop_after_two, in_flight=1)
    assert [record.id for record in read_run(tmp_path / "run").records] == ["Bonn", "Cairo"]
    model = Rivers()
    run(experiment, tmp_path / "run", model, in_flight=1)
    assert model.asked == ["Paris", "Rome", "Vienna"]
    run(experiment, tmp_path / "undisturbed", Rivers())
    assert content(tmp_path / "run") == content(tmp_path / "undisturbed")


def test_too_many_failures_stop_the_run_and_lose_nothing(experiment, tmp_path):
    model = Rivers("Bonn", "Cairo", "Paris")
    told = (
        "2 of 2 questions failed, more than --max-failures 1; the first, Bonn: ModelFailure: answer model "
        "scripted, answer: ValueError: Bonn is flooded. Finished questions are kept"
    )
    with pytest.raises(TooManyFailures, match=re.escape(told)):
        run(experiment, tmp_path / "run", model, in_flight=1, max_failures=1)
    assert len(read_run(tmp_path / "run").records) == 2
    with pytest.raises(TooManyFailures):
        run(experiment, tmp_path / "run", model, in_flight=1, max_failures=1)
    assert len(model.asked) == 2
    found = run(experiment, tmp_path / "run", Rivers(), max_failures=1, retry_failures=True)
    assert [record.error for record in found.records] == [""] * 5


def test_the_progress_shows_where_the_run_stands(experiment, tmp_path):
    seen = []

    def note(status):
        mean = round(status.metrics["f1"].mean, 2)
        seen.append((status.num_finished, status.num_failures, mean))

    run(experiment, tmp_path / "run", Rivers("Rome"), in_flight=1, progress=note)
    assert seen == [(0, 0, 0.0), (1, 0, 1.0), (2, 0, 0.5), (3, 0, 0.33), (4, 1, 0.25), (5, 1, 0.2)]


def test_another_method_or_model_in_the_same_folder_is_refused(experiment, tmp_path):
    run(experiment, tmp_path / "run", Rivers())
    model = Rivers()
    with pytest.raises(RunFolderError, match=r"method: single, now flare"):
        run(replace(experiment, method="flare"), tmp_path / "run", model)
    with pytest.raises(RunFolderError, match=r"\(parameter passages: 3, now 2\)"):
        run(replace(experiment, parameters={"passages": "2"}), tmp_path / "run", model)
    assert not model.asked


def test_what_a_method_lacks_is_said_before_anything_is_kept(experiment, tmp_path):
    with pytest.raises(MissingAbility, match="but no index is given"):
        run(replace(experiment, index=None), tmp_path / "run", Rivers())
    assert not (tmp_path / "run").exists()


def test_a_missing_package_of_a_metric_is_named_before_anything_is_asked(experiment, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "rouge_score", None)
    with pytest.raises(MissingExtra, match=re.escape(install_line("eval"))):
        prepare_experiment(replace(experiment, metrics=("f1", "rouge_l")))


def test_prompts_of_the_dataset(experiment):
    own = prepare_experiment(replace(experiment, prompts="dataset")).method
    assert repr(own) == repr(prepare_experiment(experiment).method)
    assert "hotpotqa" in repr(prepare_experiment(replace(experiment, prompts="hotpotqa")).method)


def test_prompts_of_the_dataset_are_none_where_a_method_has_its_own(experiment):
    airrag = replace(experiment, method="airrag", parameters={})
    assert repr(prepare_experiment(replace(airrag, prompts="dataset")).method) == repr(
        prepare_experiment(airrag).method
    )
    with pytest.raises(InputError, match="unknown prompt set 'hotpotqa' of airrag"):
        prepare_experiment(replace(airrag, prompts="hotpotqa"))
