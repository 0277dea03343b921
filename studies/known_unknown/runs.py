"""The runs of the study: thresholds by accuracy, every method over both sets of documents, and drafts alone.

OUT/thresholds/       a file for each method whose threshold is chosen by accuracy on other questions
OUT/runs/             a run folder of the evaluation for each set of documents and method
"""

import asyncio
import json
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from askance.configuration.evaluation import open_metrics, read_dataset
from askance.configuration.grid import Grid
from askance.configuration.settings import EngineConfig
from askance.core.errors import InputError
from askance.evaluation.choose.calibrate import calibrate
from askance.evaluation.choose.goals import ScoreGoal
from askance.evaluation.run.recorded_run import RecordedRun
from askance.storage.durable_files import write_atomically
from studies.known_unknown.study import DOCUMENTS, SEED, SETTINGS
from studies.shared import make_runs

METRIC = "exact_match"
MIN_CLOSED_BOOK = 0.5
"""The least accuracy from memory on the facts that were taught most often, for the study to say anything."""
MAX_SEARCHES = 0.55
"""The most searches per question with which a threshold is chosen, so that methods compare at equal cost. One
search for each question is 1; the gate allows 0.6 of that on other questions."""
_IN_FLIGHT, _TRIALS = 32, 7


@cache
def tables() -> Mapping[str, Mapping[str, Any]]:
    """Return the methods of the study, as in ``runs.toml``."""
    return tomllib.loads(Path(__file__).with_name("runs.toml").read_text(encoding="utf-8"))


def run_from_memory(out: Path) -> RecordedRun:
    """Answer all questions without searching.

    Raises:
        InputError: The facts that were taught most often are not known.
    """
    (run,) = _run(out, {"closed_book": {}}, ["stale"]).values()
    accuracy = accuracy_from_memory(run)
    most = max(accuracy)
    if accuracy[most] < MIN_CLOSED_BOOK:
        raise InputError(
            f"the base model has not learned the world: its accuracy from memory is {accuracy[most]:.2f} on "
            f"facts that it was taught {most} times, and at least {MIN_CLOSED_BOOK} is needed. Teach longer "
            "or take another base."
        )
    return run


def accuracy_from_memory(closed_book: RecordedRun) -> dict[int, float]:
    """Return the accuracy from memory on single facts by their exposures, 0 for those never taught."""
    scores = defaultdict[int, list[float]](list)
    for record in closed_book.records:
        if " > " not in record.kind:
            scores[int(record.kind.split(" ")[0])].append(record.scores[METRIC] or 0.0)
    return {exposures: fmean(scores[exposures]) for exposures in sorted(scores)}


def model_spec(out: Path) -> str:
    """Return the taught model, as a user names it, in the precision that it was taught in."""
    return f"hf:{out / 'reader'}?dtype={SETTINGS.precision}"


def run_methods(out: Path, calibrated: Mapping[str, Mapping[str, Any]]) -> dict[str, RecordedRun]:
    """Return the runs of all methods and drafts by "documents/method"."""
    runs = dict[str, RecordedRun]()
    for name, table in {**tables()["methods"], **tables()["drafts"], **calibrated}.items():
        settings = {key: value for key, value in table.items() if key != "documents"}
        runs |= _run(out, {name: settings}, documents_of(name))
    return runs


def run_queries(out: Path, calibrated: Mapping[str, Mapping[str, Any]], ids: Path) -> dict[str, RecordedRun]:
    """Return a run for each query mode, over some of the questions and the fresh documents."""
    method, modes = calibrated[tables()["queries"]["method"]], tables()["queries"]["modes"]
    asked = {f"query-{mode}": {**method, "set": {**method["set"], "query": mode}} for mode in modes}
    runs = _run(out, asked, ["fresh"], ids)
    return {name.partition("/query-")[2]: run for name, run in runs.items()}


def documents_of(name: str) -> Sequence[str]:
    """Return the sets of documents that a method or draft is run over."""
    if name in tables()["drafts"]:
        return ("stale",)
    table = {**tables()["methods"], **tables()["calibrated"]}[name]
    return tuple(table.get("documents", DOCUMENTS))


def choose_threshold(out: Path, name: str) -> Mapping[str, Any]:
    """Return the settings of a method with the threshold that is most accurate over the stale documents.

    Only thresholds with at most `MAX_SEARCHES` searches per question compete. The questions are others than
    those of the runs. A threshold that was found with the same settings before is read again.

    Raises:
        AskanceError: The method can't be calibrated.
    """
    examples = read_dataset(f"jsonl:{out / 'calibration.jsonl'}")
    table = tables()["calibrated"][name]
    path = out / "thresholds" / f"{name}.json"
    method, settings = table.get("method", name), table.get("set", {})
    asked = {"method": method, "set": settings, "max_searches": MAX_SEARCHES}
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if before.get("asked") != asked:
        engine = EngineConfig(
            index=out / "index-stale",
            method=method,
            models={"answer": model_spec(out)},
            parameters=settings,
            seed=SEED,
        ).open()
        goal = ScoreGoal(open_metrics([METRIC]), MAX_SEARCHES)
        found = asyncio.run(calibrate(engine, examples, goal, max_trials=_TRIALS, in_flight=_IN_FLIGHT))
        before = {"asked": asked, **asdict(found)}
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, json.dumps(before, indent=1))
    return {"method": method, "set": {**settings, before["parameter"]: before["value"]}}


def _run(
    out: Path, methods: Mapping[str, Any], documents: Sequence[str], ids: Path | None = None
) -> dict[str, RecordedRun]:
    """Return runs by "documents/method".

    Args:
        ids: A file with the ids of the questions to ask; by default all are asked.

    Raises:
        GridError: A setting of a method does not exist, or has a wrong value.
    """
    chosen = {"questions": f"jsonl:{out / 'questions.jsonl'}"}
    chosen |= {} if ids is None else {"ids": str(ids)}
    grid = Grid(
        datasets={name: {**chosen, "index": str(out / f"index-{name}")} for name in documents},
        methods=methods,
        models={"taught": {"answer": model_spec(out)}},
        common={
            "retriever": "bm25",
            "metrics": [METRIC, "f1", "supporting_recall"],
            "seed": SEED,
            "in_flight": _IN_FLIGHT,
        },
    )
    return make_runs(grid, out / "runs")
