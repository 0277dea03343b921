"""Whole runs on the scripted model: what is kept, what fails, what is asked again, and running numbers."""

import asyncio
import json
import math
import re
import statistics
import sys
import time
from dataclasses import replace

import pytest
import sentencex
from hypothesis import given
from hypothesis import strategies as st

from askance.configuration.experiment import Experiment, prepare_experiment
from askance.core.answers import Usage
from askance.core.errors import InputError, MissingAbility, MissingExtra, TooManyFailures
from askance.core.installing import install_line
from askance.evaluation.run.recorded_run import read_run
from askance.evaluation.run.runner import RunningMean, RunOptions, RunStatus, evaluate
from askance.models.scripted import ScriptedModel
from tests.evaluation.hand_made import record
from tests.tolerances import near

GOLDS = {"Bonn": "Rhine", "Cairo": "Nile", "Paris": "Seine", "Rome": "Tiber", "Vienna": "Danube"}


class Rivers:
    """A loader of a model that always answers "the Rhine", and fails on questions about the towns given."""

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
def folder(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def experiment(tmp_path, sample_index):
    path = tmp_path / "rivers.jsonl"
    rows = [
        {
            "id": town,
            "question": f"Which river flows through {town}?",
            "answers": [gold],
            "supporting": [town],
        }
        for town, gold in GOLDS.items()
    ]
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
        replace(
            record,
            usage=replace(record.usage, seconds=0),
            trace_at=0,
            trace_bytes=0,
            trace_checksum="",
            run_seconds=0,
        )
        for record in read_run(folder).records
    ]


def test_every_question_is_kept_and_a_failed_one_is_wrong(experiment, folder):
    found = run(experiment, folder, Rivers("Cairo"), in_flight=100)
    assert (found.is_complete, found.settings.title, bool(found.settings.index_content)) == (
        True,
        "single",
        True,
    )
    first, failed, third, *_ = found.records
    text = "It is a river. So the answer is the Rhine."
    assert (first.id, first.text, first.short, first.usage.searches) == ("Bonn", text, "the Rhine", 1)
    assert (first.scores["exact_match"], third.scores["exact_match"]) == (1.0, 0.0)
    assert failed.error == "ModelFailure: answer model scripted, answer: ValueError: Cairo is flooded"
    assert (failed.text, failed.scores["f1"], failed.scores["yes_no_accuracy"]) == ("", 0.0, None)
    assert [record.is_failure for record in found.records] == [False, True, False, False, False]
    assert (found.trace(first)[0].question_id, found.trace(failed)[-1].type) == ("Bonn", "error")
    assert [bool(each.traceback) for each in found.records] == [False, True, False, False, False]
    assert failed.traceback == found.trace(failed)[-1].traceback
    assert failed.traceback.startswith("Traceback (most recent call last):")
    assert failed.traceback.endswith("\nValueError: Cairo is flooded")
    assert "test_harness.py" in failed.traceback
    for each in found.records:
        last = found.trace(each)[-1]
        assert each.usage.seconds == (last.at_seconds if each.is_failure else last.usage.seconds)


def test_how_many_are_in_flight_changes_no_answer(experiment, tmp_path):
    for in_flight in (1, 2, 100):
        nonsense = replace(experiment, method="dragin")
        run(nonsense, tmp_path / f"{in_flight}", lambda _: {"answer": ScriptedModel()}, in_flight=in_flight)
    assert content(tmp_path / "1") == content(tmp_path / "2") == content(tmp_path / "100")


def test_a_panic_ends_no_more_than_its_own_question(experiment, folder):
    """A Rust extension's panic is no `Exception`; this one comes out of the sentence splitter itself."""

    class Panics(Rivers):
        def reply(self, prompt, key):
            if key[1] == "Cairo":
                sentencex.get_sentence_boundaries("en", "W\u2028.")
            return super().reply(prompt, key)

    found = run(experiment, folder, Panics())
    assert [record.is_failure for record in found.records] == [False, True, False, False, False]
    assert "PanicException: end byte index 3 is not a char boundary" in found.records[1].error
    assert (found.trace(found.records[1])[-1].type, found.records[1].scores["f1"]) == ("error", 0.0)
    again = run(experiment, folder, Rivers(), retry_failures=True)
    assert not any(record.is_failure for record in again.records)


@pytest.mark.parametrize("method", ["single", "flare", "dragin", "selfrag", "airrag_lite"])
def test_an_answer_that_the_sentence_splitter_panics_at_is_an_answer(experiment, folder, method):
    odd = " W\u2028. W\xa0. It is odd.\u3000So the answer is W\u2028."
    found = run(
        replace(experiment, method=method), folder, lambda _: {"answer": ScriptedModel(lambda *_: odd)}
    )
    assert [record.error for record in found.records] == [""] * 5


def test_a_run_that_was_stopped_asks_only_what_is_left(experiment, tmp_path, folder):
    class Stopped(BaseException):
        pass

    def stop_after_two(status):
        if status.num_finished == 2:
            raise Stopped

    with pytest.raises(Stopped):
        run(experiment, folder, Rivers(), progress=stop_after_two, in_flight=1)
    assert [record.id for record in read_run(folder).records] == ["Bonn", "Cairo"]
    for left in (["Paris", "Rome", "Vienna"], []):
        model = Rivers()
        assert run(experiment, folder, model, in_flight=1).is_complete
        assert model.asked == left
    seconds = [record.run_seconds for record in read_run(folder).records]
    assert 0 < seconds[0] < seconds[1] < seconds[2] < seconds[3] < seconds[4]
    run(experiment, tmp_path / "undisturbed", Rivers())
    assert content(folder) == content(tmp_path / "undisturbed")


def test_too_many_failures_stop_the_run_and_lose_nothing(experiment, folder):
    model = Rivers("Bonn", "Cairo", "Paris")
    told = (
        "2 of 2 questions failed, more than --max-failures 1; the first, Bonn: ModelFailure: answer model "
        "scripted, answer: ValueError: Bonn is flooded. Finished questions are kept"
    )
    for _ in range(2):
        with pytest.raises(TooManyFailures, match=re.escape(told)):
            run(experiment, folder, model, in_flight=1, max_failures=1)
        assert len(read_run(folder).records) == len(model.asked) == 2
    found = run(experiment, folder, Rivers(), max_failures=1, retry_failures=True)
    assert [record.error for record in found.records] == [""] * 5


def test_the_progress_of_a_run(experiment, folder):
    seen = []

    def note(status):
        seen.append((status.num_finished, status.num_failures, round(status.metrics["f1"].mean, 2)))

    run(experiment, folder, Rivers("Rome"), in_flight=1, progress=note)
    assert seen == [(0, 0, 0.0), (1, 0, 1.0), (2, 0, 0.5), (3, 0, 0.33), (4, 1, 0.25), (5, 1, 0.2)]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_a_running_mean_is_that_of_all_numbers_at_once(scores):
    running = RunningMean()
    for score in scores:
        running.add(score)
    assert running.mean == near(statistics.fmean(scores))
    if len(scores) == 1:
        assert running.margin == math.inf
    else:
        expected = 1.96 * statistics.stdev(scores) / math.sqrt(len(scores))
        assert running.margin == near(expected, "standard deviation")


def test_questions_finished_before_count_but_not_for_the_speed(monkeypatch):
    before = [
        record(1, {"f1": 1.0, "yes_no_accuracy": None}),
        record(2, {"f1": 0.0, "yes_no_accuracy": None}, error="ModelFailure: gone"),
    ]
    status = RunStatus.of(10, ("f1", "yes_no_accuracy"), before)
    assert (status.num_finished, status.num_failures, status.metrics["f1"].mean) == (2, 1, 0.5)
    assert (status.metrics["f1"].count, status.metrics["yes_no_accuracy"].count) == (2, 0)
    assert (status.tokens_generated, status.seconds_left) == (0, None)
    monkeypatch.setattr(time, "perf_counter", lambda: status.began + 6)
    status.add(
        record(
            3,
            {"f1": 0.5, "yes_no_accuracy": None},
            usage=Usage(prompt_tokens=90, generated_tokens=12),
        )
    )
    assert (status.tokens_generated, status.seconds_left) == (12, near(7 * 6))
    assert status.tokens_per_second == near(2)
    assert status.first_failure == "q2: ModelFailure: gone"


def test_what_is_lacking_is_said_before_anything_is_asked(experiment, folder, monkeypatch):
    with pytest.raises(MissingAbility, match="but no index is given"):
        run(replace(experiment, index=None), folder, Rivers())
    assert not folder.exists()
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    with pytest.raises(MissingExtra, match=re.escape(install_line("eval"))):
        prepare_experiment(replace(experiment, metrics=("f1", "rouge_l")))


def test_prompts_of_the_dataset_are_for_methods_that_take_any(experiment):
    def method(**changes):
        return repr(prepare_experiment(replace(experiment, **changes)).method)

    assert method(prompts="dataset") == method()
    assert "hotpotqa" in method(prompts="hotpotqa")
    assert method(method="airrag", prompts="dataset") == method(method="airrag")
    with pytest.raises(InputError, match="unknown prompt set 'hotpotqa' of airrag"):
        method(method="airrag", prompts="hotpotqa")
