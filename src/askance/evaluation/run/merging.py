"""Shards: runs with the same settings over different questions of a dataset, which can be merged into one."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

from askance.core.errors import RunFolderError
from askance.evaluation.metrics.scoring import Scoring
from askance.evaluation.run.record import Settings, continued, differences
from askance.evaluation.run.recorded_run import RecordedRun, open_run, read_run


def merge_runs(folder: Path, shards: Sequence[Path]) -> RecordedRun:
    """Copy the questions of all shards with their traces into a new run, and return it.

    Raises:
        RunFolderError: A shard can't be read, was made with other settings than the first one, or shares a
            question with another one. Or `folder` holds files already.
    """
    if folder.exists() and any(folder.iterdir()):
        raise RunFolderError(f"won't merge into {folder}: it holds files already; name a new folder.")
    runs = [read_run(shard) for shard in shards]
    seen: dict[str | int, RecordedRun] = {}
    for run in runs:
        changes = differences(runs[0].settings, run.settings)
        for name in ("reading", "metrics"):
            before, now = (str(getattr(each.settings, name)) for each in (runs[0], run))
            changes |= {name: f"{before}, now {now}"} if before != now else {}
        if changes:
            listing = "; ".join(f"{name}: {values}" for name, values in changes.items())
            raise RunFolderError(
                f"{run.folder} is no shard of the run of {runs[0].folder} ({listing}): leave it out."
            )
        for record in run.records:
            for key in (record.id, record.number):
                if (other := seen.setdefault(key, run)) is not run:
                    raise RunFolderError(
                        f"{run.folder} and {other.folder} both hold question {record.number}, {record.id!r}: "
                        "leave out one of them."
                    )
    settings = reduce(_together, (run.settings for run in sorted(runs, key=_started_at)))
    with open_run(folder, lambda before: settings, (), Scoring({})) as (writer, _):
        for run in runs:
            writer.copy(run)
    return read_run(folder)


def _started_at(run: RecordedRun) -> str:
    return run.settings.started_at


def _together(before: Settings, now: Settings) -> Settings:
    """Return the settings of two shards, with the machines, versions and code of both."""
    num_questions = before.num_questions + now.num_questions
    return replace(
        continued(before, now, before.num_questions, is_finished=False), num_questions=num_questions
    )
