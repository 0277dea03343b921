"""Kill an evaluation run repeatedly, and compare its results with those of an undisturbed run.

    python -m benchmarks.kill_test --out FOLDER -- --dataset FILE --index DIR --method dragin --model scripted

`askance eval`, with the options after --, first runs undisturbed and writes into FOLDER/undisturbed. Then it
runs again and writes into FOLDER/killed. This second run is repeatedly ended by SIGKILL and started again,
and finishes after the last kill. Each kill waits until a random number of further questions is finished, and
then for a random fraction of the time that a question takes.

No finished question may be lost, changed or recorded again, and in the end both runs must have the same
questions, each once, with the same answers, scores, decisions, searches, tokens and traces. Times may differ,
and so may the numbers of cached tokens, which depend on what the process was asked before: if the cache
contains a different part of a prompt, the model adds numbers in a different order, so the last digits differ.
"""

import argparse
import math
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from askance.core.errors import InputError
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RECORDS, RecordedRun, read_records, read_run
from askance.evaluation.statistics.summaries import costs_of
from benchmarks.table import markdown

TOLERANCE = 1e-3
"""The tolerance of the numbers in traces: log-probabilities, entropies, attention."""
MAY_DIFFER = {"seconds", "at_seconds", "started_at", "reused_tokens", "run_seconds"}
OF_A_RECORD: dict[str, Callable[[Record], object]] = {
    "questions": lambda record: (record.number, record.question, record.golds),
    "answers": lambda record: (record.text, record.short, record.cited_titles, record.error),
    "scores": lambda record: record.scores,
    "decisions": lambda record: record.decisions,
    "searches": lambda record: record.usage.searches,
    "prompt tokens": lambda record: record.usage.prompt_tokens,
    "generated tokens": lambda record: record.usage.generated_tokens,
}
_POLL_SECONDS = 0.002


def main(arguments: list[str] | None = None) -> None:
    """Run both, and print the numbers of questions that were lost or differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of the moments to kill at")
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("eval", nargs="*", help="options of `askance eval`, behind --")
    options = parser.parse_args(arguments)
    command = [sys.executable, "-m", "askance", "eval", *options.eval, "--out"]
    subprocess.run([*command, str(options.out / "undisturbed")], stdout=subprocess.DEVNULL, check=True)
    undisturbed = read_run(options.out / "undisturbed")
    rows = kill_often([*command, str(options.out / "killed")], undisturbed, options.kills, options.seed)
    print(markdown(("stop", "finished before", "finished", "lost"), rows))
    found = differences(undisturbed, read_run(options.out / "killed"))
    print(markdown(("differs", "questions"), [(what, f"{number}") for what, number in found.items()]))
    if any(found.values()) or any(row[-1] != "0" for row in rows):
        raise SystemExit(1)


def kill_often(
    command: Sequence[str], undisturbed: RecordedRun, kills: int, seed: int
) -> list[tuple[str, ...]]:
    """Start the command and kill it repeatedly, let it finish, and return a row for each stop.

    Raises:
        InputError: The command finished before it could be killed.
    """
    moments, folder, before = random.Random(seed), Path(command[-1]), list[Record]()
    question_seconds = costs_of(undisturbed.records).median_seconds
    rows = list[tuple[str, ...]]()
    for kills_left in range(kills, -1, -1):
        if kills_left:
            left = len(undisturbed.records) - len(before)
            wanted = len(before) + moments.randint(1, max(1, left // (kills_left + 1)))
            _kill(command, folder / RECORDS, wanted, moments.random() * question_seconds)
        else:
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        after, _ = read_records(folder)
        numbers = (len(before), len(after), num_lost(before, after))
        rows.append((f"kill {kills - kills_left + 1}" if kills_left else "the end", *map(str, numbers)))
        before = after
    return rows


def _kill(command: Sequence[str], records: Path, wanted: int, delay_seconds: float) -> None:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None and _num_lines(records) < wanted:
                time.sleep(_POLL_SECONDS)
            time.sleep(delay_seconds)
        finally:
            process.kill()
    if process.returncode != -signal.SIGKILL:
        raise InputError("the run ended before a kill: ask more questions, or fewer at a time (--in-flight).")


def _num_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def num_lost(before: Sequence[Record], after: Sequence[Record]) -> int:
    """Return the number of earlier records that have moved, changed or vanished."""
    return sum(list(after[at : at + 1]) != [record] for at, record in enumerate(before))


def differences(first: RecordedRun, second: RecordedRun) -> dict[str, int]:
    """Return the numbers of questions that differ between two runs, by what differs."""
    of_first, of_second = ({record.id: record for record in run.records} for run in (first, second))
    both = {id: (record, of_second[id]) for id, record in of_first.items() if id in of_second}
    times = Counter(record.id for run in (first, second) for record in run.records)
    gaps = [gap(_events(first, one), _events(second, other)) for one, other in both.values()]
    return {
        "not once in both": sum(each != 2 for each in times.values()),
        **{
            what: sum(part(one) != part(other) for one, other in both.values())
            for what, part in OF_A_RECORD.items()
        },
        "traces": sum(each > TOLERANCE for each in gaps),
    }


def gap(first: Any, second: Any) -> float:
    """Return the largest difference between corresponding numbers in two JSON values.

    Fields in `MAY_DIFFER` are ignored. The result is infinite if the values differ in more than numbers.
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        same = first.keys() == second.keys()
        return _largest((first[key], second[key]) for key in first.keys() - MAY_DIFFER) if same else math.inf
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return _largest(zip(first, second, strict=True)) if len(first) == len(second) else math.inf
    if isinstance(first, float) and isinstance(second, float) and math.isfinite(first - second):
        return abs(first - second)
    return 0.0 if first == second else math.inf


def _largest(pairs: Iterable[tuple[Any, Any]]) -> float:
    return max((gap(*pair) for pair in pairs), default=0.0)


def _events(run: RecordedRun, record: Record) -> Sequence[Mapping[str, Any]]:
    return [{"type": event.type, **asdict(event)} for event in run.trace(record)]


if __name__ == "__main__":
    main()
