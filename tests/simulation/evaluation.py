"""A run of an evaluation that is killed and continued, and what must hold for it."""

import asyncio
import json
import shutil
import tempfile
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from askance import Budget, Engine
from askance.configuration.experiment import Experiment, prepare_experiment
from askance.core.errors import LASTING, AskanceError, RequestRefused, TooManyFailures
from askance.core.types import Passage
from askance.evaluation.run.recorded_run import SETTINGS, read_run
from askance.evaluation.run.runner import RunOptions, evaluate, run_grid
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.simulation.servers import (
    CALLER,
    LONGER,
    TREES,
    FaultyModel,
    FaultyRetriever,
    WatchedModel,
    text_of,
)

METHODS = ("single", "closed_book", "fixed_sentence", "flare", "selfrag(form=long)", *LONGER)
TOWNS = ("Bonn", "Cairo", "Paris", "Rome", "Vienna", "Worms")
RIVER = "Rhine"
PASSAGES = [Passage("1", "Rivers", f"The river {RIVER} flows at Bonn.")]
WHOLE_ANSWERS = {}
FAILURES = (
    *("ModelFailure", "ModelUnavailable", "RetrieverFailure", "LimitReached"),
    *("RequestRefused", "PromptTooLong", "MachineFailure"),
)


class Evaluation:
    """The processes of one run or grid, one after the other, in copies of its folder where one was killed."""

    def __init__(self, timeline, folder):
        self.timeline, self.folder = timeline, folder
        random = timeline.random
        rows = [
            {"id": town, "question": f"Which river flows at {town}?", "answers": [RIVER]} for town in TOWNS
        ]
        dataset = folder / "towns.jsonl"
        dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.budget = random.choice((None, None, 20.0, 100.0))
        self.search = FaultyRetriever(PASSAGES)
        self.is_cached = timeline.chance(0.2)
        self.methods = random.sample(METHODS, random.choice((1, 1, 1, 2)))
        common = {
            "dataset": f"jsonl:{dataset}",
            "retriever": self.search,
            "models": {"answer": "scripted"},
            "in_flight": random.choice((1, 2, 3, 100)),
            "budget": Budget(seconds=self.budget),
            "limit": random.randint(1, len(TOWNS)),
            "cache": folder / "cache" if self.is_cached else None,
        }
        self.cells = {
            f"cell {number}": prepare_experiment(
                Experiment(method=method, parameters=TREES.get(method, {}), **common)
            )
            for number, method in enumerate(self.methods)
        }
        self.run_folder = folder / "run 0"
        self.search.timeline = timeline
        timeline.log(f"{self.methods}, budget {self.budget}, {common['limit']} questions")

    def records(self, cell):
        folder = self.run_folder / cell
        return {each.id: each for each in read_run(folder).records} if (folder / SETTINGS).exists() else {}

    async def process(self, number, faults, *, is_killed, retry_failures, max_failures=None):
        """Run one process on the folder, and compare what it leaves with what it found."""
        timeline, known = self.timeline, {}
        before = {cell: self.records(cell) for cell in self.cells}
        model = WatchedModel(FaultyModel(timeline, faults))
        self.search.faults = faults / 2

        def listener(cell):
            CALLER.set(f"process {number}, {cell}")

            def progress(status):
                known[cell] = status.num_finished
                num_stored = len(self.records(cell))
                timeline.check(num_stored == known[cell], f"{num_stored} stored, {known[cell]} told")

            return nullcontext(progress)

        async def work():
            given = lambda specs: {"answer": model}, RunOptions(max_failures, retry_failures=retry_failures)
            if len(self.cells) > 1:
                return await run_grid(self.cells, self.run_folder, *given, listener)
            ((cell, ready),) = self.cells.items()
            with listener(cell) as progress:
                return {cell: await evaluate(ready, self.run_folder / cell, *given, progress)}

        num_kept = sum(map(len, before.values()))
        timeline.log(f"process {number} begins, {num_kept} questions are finished")
        working = asyncio.create_task(work())
        if is_killed:
            await timeline.later(200)
            self.kill(working, number)
        (result,) = await asyncio.gather(working, return_exceptions=True)
        results = result if isinstance(result, dict) else dict.fromkeys(self.cells, result)
        timeline.check_tasks()
        for cell, ended in results.items():
            told = ended if isinstance(ended, AskanceError) else type(ended).__name__
            timeline.log(f"process {number} ends {cell}: {told}")
            records = self.records(cell)
            if isinstance(ended, RequestRefused):
                answered = [id for id, each in records.items() if not each.error]
                timeline.check(not answered, f"a refusal ended the run, though {answered} are answered")
            is_expected = (
                (is_killed, asyncio.CancelledError),
                (max_failures is not None, TooManyFailures),
                (faults, (*LASTING, RequestRefused)),
            )
            is_error = isinstance(ended, BaseException)
            timeline.check(is_error or ended.is_complete, f"{cell} has ended, but is not complete")
            if is_error and not any(may_be and isinstance(ended, kind) for may_be, kind in is_expected):
                raise ended
            kept = {id: e for id, e in before[cell].items() if not (retry_failures and e.error)}
            await self.check_records(cell, kept, model.faulty, faults)
            told = known.get(cell, 0)
            timeline.check(len(records) >= told, f"{told} questions were told, {len(records)} are kept")
        self.check_deadlines(model.faulty)
        return results

    def kill(self, working, number):
        """End a process, with its last words or at once: then the next one finds the folder as it is now."""
        if self.timeline.chance(0.5) and not working.done() and self.run_folder.exists():
            crashed = self.folder / f"run {number + 1}"
            shutil.copytree(self.run_folder, crashed)
            self.run_folder = crashed
        self.timeline.log(f"process {number} is killed, then {self.run_folder.name}")
        working.cancel()

    async def check_records(self, cell, kept, model, faults):
        """No finished question is lost, changed or asked again, and each is an answer or a failure."""
        check, now, ready = self.timeline.check, self.records(cell), self.cells[cell]
        asked = {key[1] for who, key in model.attempts if who.endswith(cell)}
        check(not asked & kept.keys(), f"asked again: {asked & kept.keys()}")
        for id, record in kept.items():
            same = id in now and (now[id].text, now[id].error) == (record.text, record.error)
            check(same, f"{id} was lost or changed")
        for id, record in now.items():
            if record.error:
                is_known = record.error.startswith(FAILURES) and "Assertion" not in record.error
                check(is_known and (faults or self.budget or id in kept), f"{id}: {record.error}")
            else:
                question = next(e.question for e in ready.questions.values() if e.question.id == id)
                texts = await whole_answers(str(ready.method), ready.method, question)
                check(record.text in texts, f"{id}: {record.text!r} is none of {texts}")

    async def check_cache(self):
        """Once all is answered, the same run in another folder needs neither the model nor a search."""
        before = {cell: self.records(cell) for cell in self.cells}
        num_queries, self.run_folder = len(self.search.queries), self.folder / "from the cache"
        await self.process(10, 0, is_killed=False, retry_failures=False)
        for cell, records in before.items():
            texts = [each.text for each in self.records(cell).values()]
            self.timeline.check(texts == [each.text for each in records.values()], f"{texts} are cached")
        self.timeline.check(len(self.search.queries) == num_queries, "what was cached was searched again")

    def check_deadlines(self, model):
        began = {}
        for (who, key), attempts in model.attempts.items():
            for each in attempts:
                first = began.setdefault((who, key[1]), each["began"])
                late = each["ended"] - first - (self.budget or 1e9)
                self.timeline.check(late < 1e-6, f"{key[1]} ran for {late} s after its time")


async def whole_answers(name, method, question):
    """The answers of a method without any fault, one question at a time."""
    key = name, question.id
    if key not in WHOLE_ANSWERS:
        search = ScriptedRetriever(PASSAGES)
        models = [ScriptedModel(partial(text_of, variant=variant)) for variant in (0, 1)]
        engines = [Engine(method, {"answer": model}, search) for model in models]
        WHOLE_ANSWERS[key] = [(await engine.answer(question)).answer.text for engine in engines]
    return WHOLE_ANSWERS[key]


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
        runs = await asked.process(9, 0, is_killed=False, retry_failures=True)
        failed = [record.id for run in runs.values() for record in run.records if record.error]
        timeline.check(all(run.is_complete for run in runs.values()), "questions are not finished")
        timeline.check(asked.budget or not failed, f"without a fault, {failed} failed")
        if asked.is_cached and not failed:
            await asked.check_cache()
