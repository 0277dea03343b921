"""Evaluations whose questions worker processes answer: the same run as without, also where one is killed."""

import asyncio
import dataclasses
import json
import multiprocessing
import os
import re
import shutil
import signal
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace

import pytest

from askance.configuration.build import load_models
from askance.configuration.experiment import Experiment, prepare_experiment
from askance.configuration.workers import RemoteWorker, Worker, Workers, on_device, processes, read_devices
from askance.core import errors
from askance.core.concurrency import run_blocking
from askance.core.errors import AskanceError, InputError, MissingAbility, ModelSpecError, WorkersLost
from askance.core.notes import noted
from askance.core.token_ledger import Budget
from askance.evaluation.run.recorded_run import read_run
from askance.evaluation.run.runner import RunOptions, evaluate
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.index.build import build_index
from tests.models.scripted_server import Fault, ScriptedServer

TOWNS = [f"Town {number}" for number in range(24)]
OF_THE_PLACE = {"trace_at", "trace_bytes", "trace_checksum", "run_seconds"}
OF_THE_TIME = {"seconds", "at_seconds", "started_at"}


@pytest.fixture
def experiment(tmp_path, sample_index):
    """Its models and texts need no machine: a model that writes seeded random words, and the sample index."""
    rows = [
        {
            "id": town,
            "question": f"Which river flows through {town}?",
            "answers": ["Rhine"],
            "ctxs": [{"title": town, "text": f"The Rhine flows through {town}."}],
        }
        for town in TOWNS
    ]
    path = tmp_path / "towns.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Experiment(
        dataset=f"jsonl:{path}",
        method="single",
        index=sample_index,
        models={"answer": "scripted"},
        parameters={"max_tokens": 12},
        in_flight=2,
    )


@pytest.fixture
def server():
    """A server with a model that knows one river, and needs a moment for it."""
    model = ScriptedModel(lambda prompt, key: Reply(" So the answer is the Rhine."))
    with ScriptedServer(model, latency_seconds=0.2) as server:
        yield server


def served(experiment, server):
    model = f"openai:tiny@{server.url}?continuation=1"
    return replace(experiment, models={"answer": model}, method="closed_book", index=None)


def run(experiment, folder, start=None, *, progress=lambda status: None, **options):
    """Run an experiment in this process, or in the workers that `start` makes."""
    ready = prepare_experiment(experiment)
    with Workers(start or (lambda: [])) as workers:
        options = RunOptions(open_executor=workers.open if start else None, **options)
        return asyncio.run(evaluate(ready, folder, load_models, options, progress))


def two():
    return processes(["", ""])


@pytest.fixture(scope="module")
def kept():
    """Two workers that the tests use which kill none, since starting them takes a while."""
    started = two()
    yield lambda: [replace(worker, close=lambda: None) for worker in started]
    for worker in started:
        worker.close()


@pytest.fixture
def new_children():
    """The processes that a test has started, those that live."""
    before = {each.pid for each in multiprocessing.active_children()}
    return lambda: sorted({each.pid for each in multiprocessing.active_children()} - before)


def without(names, value):
    if dataclasses.is_dataclass(value):
        value = {
            "is": type(value).__name__,
            **{each.name: getattr(value, each.name) for each in dataclasses.fields(value)},
        }
    if isinstance(value, dict):
        return {name: without(names, inner) for name, inner in value.items() if name not in names}
    return [without(names, inner) for inner in value] if isinstance(value, list | tuple) else value


def content(found):
    """All that a run keeps, except times and places."""
    return [without(OF_THE_PLACE | OF_THE_TIME, [record, found.trace(record)]) for record in found.records]


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "dragin"},
        {"index": "@supplied"},
        {"budget": Budget(tokens=300), "method": "flare"},
        {"method": "closed_book", "index": None, "seed": 5, "prompts": "hotpotqa"},
    ],
    ids=["search", "supplied", "failures", "alone"],
)
def test_workers_give_the_run_of_one_process(experiment, kept, tmp_path, changes):
    experiment = replace(experiment, **changes)
    alone, ended, notes = run(experiment, tmp_path / "alone"), [], []
    with noted(lambda name, text: notes.append(name)):
        together = run(experiment, tmp_path / "together", kept, on_end=ended.append)
    assert content(together) == content(alone)
    if "budget" in changes:
        assert any(record.is_failure for record in alone.records)
    assert sorted(trace.events[0].question_id for trace in ended) == sorted(TOWNS)
    settings = without({"started_at", "machine", "in_flight"}, [alone.settings, together.settings])
    assert settings[0] == settings[1]
    assert together.settings.machine == f"2 workers on {alone.settings.machine}"
    assert (alone.settings.in_flight, together.settings.in_flight) == ("2", "4")


def test_a_worker_for_each_device_has_its_models_there(experiment, llama_folder, tmp_path):
    experiment = replace(experiment, models={"answer": f"hf:{llama_folder}?dtype=float32"}, limit=4)
    alone = run(experiment, tmp_path / "alone")
    together = run(experiment, tmp_path / "together", lambda: processes(read_devices("cpu")))
    of_the_cache = {"reused_tokens"}  # questions of one process share the cache of prefixes
    assert without(of_the_cache, content(together)) == without(of_the_cache, content(alone))
    settings = {"models": {"answer": "hf:a?dtype=float32", "attend": "hf:b?device=cpu"}, "encoder": "hf:c"}
    assert on_device(settings, "cuda:1") == {
        "models": {"answer": "hf:a?dtype=float32&device=cuda:1", "attend": "hf:b?device=cpu"},
        "encoder": "hf:c?device=cuda:1",
    }


def test_what_a_killed_worker_was_asked_is_asked_again(experiment, server, tmp_path, new_children):
    seen, notes = [], []

    def kill_one(status):
        seen.append(status.num_finished)
        if status.num_finished >= 8 and len(new_children()) == 2:
            os.kill(new_children()[0], signal.SIGKILL)

    with noted(lambda name, text: notes.append((name, text))):
        found = run(served(experiment, server), tmp_path / "run", two, progress=kill_one)
    assert [(record.id, record.error) for record in found.records] == [(town, "") for town in TOWNS]
    asked = Counter(re.findall(r"Town \d+", json.dumps(request.body))[-1] for request in server.requests)
    assert set(asked) == set(TOWNS)
    assert asked.total() - len(TOWNS) <= 2, "a worker has two in flight"
    assert seen == sorted(seen)
    assert not new_children()
    ((name, text),) = dict.fromkeys(notes)
    assert name == "worker"
    assert re.fullmatch(r"worker [12] has ended: the others go on, and answer its questions\.", text)


def test_nothing_is_lost_if_all_workers_end(experiment, server, tmp_path, new_children):
    experiment = served(experiment, server)

    def kill_all(status):
        for pid in new_children() if status.num_finished >= 8 else ():
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(
        WorkersLost, match=r"all workers have ended.*--in-flight N.*the same command continues"
    ):
        run(experiment, tmp_path / "run", two, progress=kill_all)
    before = read_run(tmp_path / "run").records
    assert 8 <= len(before) < len(TOWNS)
    assert not any(record.error for record in before)
    num_asked = len(server.requests)
    found = run(experiment, tmp_path / "run", two)
    assert (found.is_complete, len(server.requests) - num_asked) == (True, len(TOWNS) - len(before))


def test_a_worker_that_ends_before_its_engine_is_open_is_done_without(experiment, tmp_path):
    def start():
        first, second = two()
        first.close()
        return [first, second]

    assert run(experiment, tmp_path / "run", start).is_complete

    def start_none():
        for worker in (started := two()):
            worker.close()
        return started

    with pytest.raises(WorkersLost):
        run(experiment, tmp_path / "other", start_none)
    assert not (tmp_path / "other" / "records.jsonl").exists()


def test_repeated_calls_are_counted_and_reported(experiment, kept, server, tmp_path):
    busy = Fault(503, headers={"Retry-After": "0"}, body={"error": {"message": "loading"}})
    server.faults.extend([busy, busy])
    notes, retries = [], []
    with noted(lambda *given: notes.append(given)):
        run(
            replace(served(experiment, server), limit=4), tmp_path / "run", kept,
            progress=lambda status: retries.append(status.num_retries),
        )  # fmt: skip
    assert retries[-1] == 2
    assert [name for name, _ in notes] == ["retry", "retry"]
    assert "loading" in notes[0][1]


def test_what_all_questions_would_meet_ends_the_run(experiment, kept, server, tmp_path):
    server.answers = lambda request: Fault(401, body={"error": {"message": "wrong key"}})
    with pytest.raises(ModelSpecError, match="wrong key"):
        run(served(experiment, server), tmp_path / "run", kept)
    server.answers = lambda request: Fault(400, body={"error": {"message": "no logprobs"}})
    with pytest.raises(errors.RequestRefused, match="no logprobs"):
        run(served(experiment, server), tmp_path / "run", kept)
    assert read_run(tmp_path / "run").records == ()


def test_workers_without_the_same_engine_are_refused(experiment, kept, sample_index, tmp_path):
    index = tmp_path / "index"
    shutil.copytree(sample_index, index)
    experiment = replace(experiment, index=index)
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"id": "1", "title": "Rhine", "text": "A river."}) + "\n")

    def after(change):
        def start():
            shutil.rmtree(index)
            change()
            return kept()

        return start

    with pytest.raises(
        AskanceError, match=r"worker 1 differs from the driver .* in its index content .*same index"
    ):
        run(experiment, tmp_path / "run", after(lambda: build_index([corpus], index)))
    with pytest.raises(AskanceError, match=rf"worker 1: the index {re.escape(str(index))} does not exist"):
        run(experiment, tmp_path / "run", after(lambda: None))
    experiment = replace(experiment, index=sample_index)
    with pytest.raises(ModelSpecError, match=r"worker 1: .*nowhere"):
        run(replace(experiment, models={"answer": "gguf:nowhere.gguf"}), tmp_path / "run", kept)
    with pytest.raises(InputError, match=r"worker 1: the models \(scripted\) take no device cuda:0"):
        run(experiment, tmp_path / "run", lambda: processes(["cuda:0"]))
    assert not list((tmp_path / "run").glob("*.json*"))


def in_this_process(number, **engine):
    """A worker without a process, whose engine is described otherwise."""
    worker = Worker()

    def work(task):
        future = Future()
        reply = run_blocking(worker.work(task))
        reply.engine |= engine
        future.set_result(reply)
        return future

    return RemoteWorker(f"worker {number}", work, lambda: None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("fingerprints", {"answer": "1a"}), ("code of askance", "1a"), ("precisions", {"answer": "float16"})],
)
def test_one_that_differs_from_the_others_is_named(experiment, tmp_path, name, value):
    def start():
        return [in_this_process(1), in_this_process(2, **{name: value})]

    with pytest.raises(InputError, match=f"worker 2 differs from .* in its {name} .*(1a|float16)"):
        run(experiment, tmp_path / "run", start)


def test_an_object_can_not_be_sent(experiment, kept, tmp_path):
    with pytest.raises(InputError, match=r"worker 1: models=.*expected the name of a model"):
        run(replace(experiment, models={"answer": ScriptedModel()}), tmp_path / "run", kept)


@pytest.mark.parametrize("text", ["0", "-1", "", "two words", "cuda:0,", "10000", "cuda:x"])
def test_devices_that_can_not_be_read(text):
    with pytest.raises(InputError, match=f"--workers {re.escape(text)}: give a number from 1, or devices"):
        read_devices(text)


def test_errors_reach_another_process_as_they_are():
    made = [
        errors.UnknownName("method", "singel", ["single"]),
        errors.MissingExtra("ray", "ray", "--ray"),
        errors.PromptTooLong("tiny", "9 tokens"),
        errors.ModelLacks("it needs logprobs", "choose another"),
        errors.ModelUnavailable("busy", 3.0, 503),
        MissingAbility("no model"),
    ]
    made[-1].setting = "models.answer"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for error, other in zip(made, pool.map(same, made), strict=True):
            assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))


def same(error):
    return error


@pytest.fixture
def command(request, sample_index, tmp_path):
    cli = request.getfixturevalue("run")  # the function of this name here runs an experiment
    given = ("eval", "--dataset", "sample", "--limit", 2, "--index", sample_index, "--model", "scripted")
    return lambda *words: cli(*given, "--out", tmp_path / "run", *words)


def test_the_command_starts_and_ends_workers(command, tmp_path, new_children):
    code, out, err = command("--workers", 1, "--method", "single")
    assert (code, "2 questions of sample" in out) == (0, True)
    assert "opening the engine in the workers" in err
    assert read_run(tmp_path / "run").settings.machine.startswith("1 worker on ")
    assert not new_children()
    code, _, err = command("--workers", 0)
    assert (code, "error: --workers 0: give a number from 1, or devices such as" in err) == (2, True)
