"""Make the runs of the study in several processes at a time: one process hardly gains from a second core."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from askance.core.errors import AskanceError, InputError
from studies.known_unknown import runs

P = ParamSpec("P")
T = TypeVar("T")
OnDone = Callable[[str], None]
"""A function that is called with the name of each part that is finished."""
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def processes(count: int) -> ProcessPoolExecutor:
    """Return a pool of processes with one thread each, since more threads would only share the cores."""
    os.environ.update(_ONE_THREAD)  # for the processes that are started
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"))


def make_runs(
    pool: Executor,
    out: Path,
    second_unknown: Path,
    reflect: Callable[[], None] | None = None,
    on_done: OnDone = lambda name: None,
) -> None:
    """Choose all thresholds, train the model that reflects, and make all runs of the study.

    What is finished already is left alone.

    Args:
        pool: The processes. It is shut down if a part fails.
        second_unknown: The file with the ids of the questions for the runs of query modes.
        reflect: A function that trains the model that writes reflection tokens; None to leave its runs out.

    Raises:
        AskanceError: A part failed. Those that were running are finished first.
    """
    try:
        reflecting = pool.submit(_with_plain_errors, reflect) if reflect else None
        thresholds = {
            pool.submit(_with_plain_errors, runs.choose_threshold, out, name, is_shown=False): name
            for name in runs.tables()["calibrated"]
        }
        wanted = runs.uncalibrated_runs(reflects=reflect is not None)
        after_reflection = [each for each in wanted if runs.model_of(each[0]) != "reader"]
        parts = _submit_runs(pool, out, [each for each in wanted if each not in after_reflection])
        for done in as_completed(thresholds):
            name = thresholds[done]
            on_done(f"threshold of {name}")
            parts |= _submit_calibrated(pool, out, name, done.result(), second_unknown)
        if reflecting is not None:
            reflecting.result()
            on_done("the model that reflects")
            parts |= _submit_runs(pool, out, after_reflection)
        for part in as_completed(parts):
            part.result()
            on_done(parts[part])
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise


def _with_plain_errors(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Run `work`. Every error becomes an `InputError`, since some others can't be sent between processes."""
    try:
        return work(*args, **options)
    except AskanceError as error:
        raise InputError(str(error)) from None


def _submit_runs(
    pool: Executor, out: Path, wanted: Sequence[tuple[str, Mapping[str, Any], str]]
) -> dict[Future[None], str]:
    """Submit runs, each given as its name, settings and documents."""
    return {
        pool.submit(_with_plain_errors, runs.make_run, out, name, settings, documents): f"{documents}/{name}"
        for name, settings, documents in wanted
    }


def _submit_calibrated(
    pool: Executor,
    out: Path,
    name: str,
    settings: Mapping[str, Any],
    second_unknown: Path,
) -> dict[Future[None], str]:
    """Submit the runs of a method whose threshold is chosen, and those of the query modes that use it."""
    parts = _submit_runs(pool, out, [(name, settings, each) for each in runs.documents_of(name)])
    if name == runs.tables()["queries"]["method"]:
        for mode, table in runs.query_runs(settings).items():
            part = pool.submit(_with_plain_errors, runs.make_run, out, mode, table, "fresh", second_unknown)
            parts[part] = f"fresh/{mode}"
    return parts
