"""A run of an evaluation that is killed and continued, and what must hold for it."""

import asyncio
import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from askance import Budget
from askance.configuration.experiment import Experiment, prepare_experiment
from askance.core.errors import TooManyFailures
from askance.core.types import Passage
from askance.evaluation.run.recorded_run import SETTINGS, read_run
from askance.evaluation.run.runner import RunOptions, evaluate
from tests.simulation.servers import CALLER, FaultyModel, FaultyRetriever, WatchedModel, whole_text

METHODS = ("single", "closed_book", "fixed_sentence", "flare")
TOWNS = ("Bonn", "Cairo", "Paris", "Rome", "Vienna", "Worms")
RIVER = "Rhine"
FAILURES = "ModelFailure", "ModelUnavailable", "RetrieverFailure", "LimitReached"


class Evaluation:
    """The processes of one run, one after the other, in copies of its folder where a process was killed."""

    def __init__(self, timeline, folder):
        self.timeline, self.folder = timeline, folder
        random = timeline.random
        rows = [
            {"id": town, "question": f"Which river flows at {town}?", "answers": [RIVER]} for town in TOWNS
        ]
        dataset = folder / "towns.jsonl"
        dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.budget = random.choice((None, None, 20.0, 100.0))
        self.search = FaultyRetriever([Passage("1", "Rivers", f"The river {RIVER} flows at Bonn.")])
        experiment = Experiment(
            dataset=f"jsonl:{dataset}",
            method=random.choice(METHODS),
            retriever=self.search,
            models={"answer": "scripted"},
            in_flight=random.choice((1, 2, 3, 100)),
            budget=Budget(seconds=self.budget),
            limit=random.randint(1, len(TOWNS)),
        )
        self.ready, self.run_folder = prepare_experiment(experiment), folder / "run 0"
        self.search.timeline = timeline
        timeline.log(f"{experiment.method}, budget {self.budget}, {experiment.limit} questions")

    def records(self):
        has_begun = (self.run_folder / SETTINGS).exists()
        return {each.id: each for each in read_run(self.run_folder).records} if has_begun else {}

    async def process(self, number, faults, *, is_killed, retry_failures, max_failures=None):
        """Run one process on the folder, and compare what it leaves with what it found."""
        timeline, before, known = self.timeline, self.records(), {}
        model = WatchedModel(FaultyModel(timeline, faults))
        self.search.faults = faults / 2
        CALLER.set(f"process {number}")

        def progress(status):
            known["status"] = replace(status)
            num_stored = len(self.records())
            timeline.check(
                num_stored == status.num_finished, f"{num_stored} stored, {status.num_finished} told"
            )

        options = RunOptions(max_failures, retry_failures=retry_failures)
        timeline.log(f"process {number} begins, {len(before)} questions are finished")
        working = asyncio.create_task(
            evaluate(self.ready, self.run_folder, lambda specs: {"answer": model}, options, progress)
        )
        if is_killed:
            await timeline.later(200)
            self.kill(working, number)
        (result,) = await asyncio.gather(working, return_exceptions=True)
        told = result if isinstance(result, TooManyFailures) else type(result).__name__
        timeline.log(f"process {number} ends: {told}")
        is_expected = (is_killed, asyncio.CancelledError), (max_failures is not None, TooManyFailures)
        if isinstance(result, BaseException) and not any(c and isinstance(result, e) for c, e in is_expected):
            raise result
        timeline.check_tasks()
        kept = {id: each for id, each in before.items() if not (retry_failures and each.error)}
        self.check_records(kept, model.faulty, faults)
        if "status" in known:
            num_told, num_kept = known["status"].num_finished, len(self.records())
            timeline.check(num_kept >= num_told, f"{num_told} questions were told, {num_kept} are kept")
        return result

    def kill(self, working, number):
        """End a process, with its last words or at once: then the next one finds the folder as it is now."""
        if self.timeline.chance(0.5) and not working.done() and self.run_folder.exists():
            crashed = self.folder / f"run {number + 1}"
            shutil.copytree(self.run_folder, crashed)
            self.run_folder = crashed
        self.timeline.log(f"process {number} is killed, then {self.run_folder.name}")
        working.cancel()

    def check_records(self, kept, model, faults):
        """No finished question is lost, changed or asked again, and each is an answer or a failure."""
        check, now = self.timeline.check, self.records()
        asked = {key[1] for _, key in model.attempts}
        check(not asked & kept.keys(), f"asked again: {asked & kept.keys()}")
        for id, record in kept.items():
            same = id in now and (now[id].text, now[id].error) == (record.text, record.error)
            check(same, f"{id} was lost or changed")
        for id, record in now.items():
            if record.error:
                is_known = record.error.startswith(FAILURES) and "Assertion" not in record.error
                check(is_known and (faults or self.budget or id in kept), f"{id}: {record.error}")
            else:
                passages = (
                    "" if self.ready.settings({}, {}).method == "closed_book" else f"river {RIVER} flows"
                )
                texts = [whole_text(passages, variant) for variant in (0, 1)]
                check(record.text in texts, f"{id}: no server wrote {record.text!r}")
        self.check_deadlines(model)

    def check_deadlines(self, model):
        began = {}
        for (who, key), attempts in model.attempts.items():
            for each in attempts:
                first = began.setdefault((who, key[1]), each["began"])
                late = each["ended"] - first - (self.budget or 1e9)
                self.timeline.check(late < 1e-6, f"{key[1]} ran for {late} s after its time")


async def evaluation(timeline):
    """A run that is killed up to four times, and then completed without any fault."""
    with tempfile.TemporaryDirectory() as folder:
        asked = Evaluation(timeline, Path(folder))
        for number in range(timeline.random.randrange(5)):
            chance = timeline.chance
            faults = timeline.random.choice((0, 0.2, 0.6))
            most = timeline.random.choice((None, None, 1))
            await asked.process(
                number, faults, is_killed=chance(0.8), retry_failures=chance(0.3), max_failures=most
            )
        run = await asked.process(9, 0, is_killed=False, retry_failures=True)
        timeline.check(run.is_complete, f"only {len(run.records)} questions are finished")
        failed = [record.id for record in run.records if record.error]
        timeline.check(asked.budget or not failed, f"without a fault, {failed} failed")
