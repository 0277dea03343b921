r"""Kill an evaluation run repeatedly, and compare its results with those of an undisturbed run.

    python -m benchmarks.kill_test --dataset sample --index DIR --method dragin --model scripted \
        --kills 5 --out FOLDER

`askance eval` first runs undisturbed and writes into FOLDER/undisturbed. Then it runs again and writes into
FOLDER/killed. This second run is repeatedly ended by SIGKILL and started again, and finishes after the last
kill. Each kill waits until a random number of further questions is finished, and then for a random fraction
of the time that a question takes.

No finished question may be lost, changed or recorded again, and in the end both runs must have the same
questions, each once, with the same answers, scores, decisions, searches, tokens and traces. Times may differ,
and so may the numbers of cached tokens, which depend on what the process was asked before. The results are in
FOLDER/kill_test.json; the exit code is 1 if a requirement is not met.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from recipes.command_line import parser_of
from rich.console import Console
from rich.table import Table

from askance.cli.main import exit_codes
from askance.core.errors import InputError
from askance.core.version import VERSION
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RECORDS, TRACES, RecordedRun, read_records, read_run
from askance.evaluation.statistics.summaries import costs_of
from askance.storage.durable_files import write_atomically
from benchmarks.report import machine_here
from benchmarks.run_differences import RunDifferences, repeated, run_differences

_POLL_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class Stop:
    """The state that one process left when it was killed or had finished.

    Attributes:
        wanted: The number of finished questions to wait for, `delay_seconds` before the kill. None if the
            process finished.
        num_before, num_finished: The numbers of finished questions when the process started and stopped.
        half_written_bytes: The bytes after the last finished question, which the next start has to cut off.
        lost: The ids of questions that were finished before, but are missing or changed afterwards.
        twice: The ids of questions that are recorded more than once.
    """

    wanted: int | None
    delay_seconds: float
    num_before: int
    num_finished: int
    half_written_bytes: int
    lost: tuple[str, ...]
    twice: tuple[str, ...]


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--dataset", required=True, metavar="NAME:FILE")
    parser.add_argument("--index", type=Path, help="folder made by `askance index`")
    parser.add_argument("--method", required=True)
    parser.add_argument("--model", default="scripted")
    parser.add_argument("--set", nargs="+", default=[], metavar="PARAMETER=VALUE")
    parser.add_argument("--sample", type=int, help="questions; all if not given")
    parser.add_argument(
        "--in-flight", type=int, help="questions at a time; what suits the model if not given"
    )
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of the moments to kill at")
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    with exit_codes():
        _test(parser.parse_args(arguments))


def _test(options: argparse.Namespace) -> None:
    left_alone, killed = options.out / "undisturbed", options.out / "killed"
    if options.out.exists():
        raise InputError(f"{options.out} is there already: name a new --out.")
    _finish(_command(options, left_alone))
    undisturbed = read_run(left_alone)
    stops = list(stop_often(_command(options, killed), killed, undisturbed, options.kills, options.seed))
    found = run_differences(undisturbed, read_run(killed))
    is_well = found.are_none and not any(stop.lost or stop.twice for stop in stops)
    _write(options, stops, found, is_well)
    _print(stops, found)
    if not is_well:
        raise SystemExit(1)


def _command(options: argparse.Namespace, folder: Path) -> list[str]:
    words = [sys.executable, "-m", "askance.cli.main", "eval", "--out", str(folder)]
    for name in ("dataset", "index", "method", "model", "sample", "in_flight"):
        value = getattr(options, name)
        words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    return [*words, *(word for setting in options.set for word in ("--set", setting))]


def stop_often(
    command: Sequence[str], folder: Path, undisturbed: RecordedRun, kills: int, seed: int
) -> Iterator[Stop]:
    """Start the command and kill it repeatedly, then let it finish.

    Raises:
        InputError: The command failed, or it finished before it could be killed.
    """
    moments, before = random.Random(seed), list[Record]()
    question_seconds = costs_of(undisturbed.records).median_seconds
    for kills_left in range(kills, 0, -1):
        left = len(undisturbed.records) - len(before)
        wanted = len(before) + moments.randint(1, max(1, left // (kills_left + 1)))
        delay = moments.random() * question_seconds
        _kill(command, folder, wanted, delay)
        stop, before = _look(folder, before, wanted, delay)
        yield stop
    _finish(command)
    yield _look(folder, before)[0]


def _finish(command: Sequence[str]) -> None:
    code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
    if code:
        raise InputError(f"`{' '.join(command)}` ended with exit code {code}: see its message above.")


def _kill(command: Sequence[str], folder: Path, wanted: int, delay_seconds: float) -> None:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None and _num_lines(folder / RECORDS) < wanted:
                time.sleep(_POLL_SECONDS)
            time.sleep(delay_seconds)
        finally:
            process.kill()
    if process.returncode != -signal.SIGKILL:
        raise InputError(
            f"`{' '.join(command)}` ended by itself, with exit code {process.returncode}, before a kill: "
            "correct what it complains of, or ask more questions (--sample) or fewer at a time (--in-flight)."
        )


def _num_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _look(
    folder: Path, before: Sequence[Record], wanted: int | None = None, delay_seconds: float = 0.0
) -> tuple[Stop, list[Record]]:
    records, whole_bytes = read_records(folder)
    end = max((record.trace_at + record.trace_bytes for record in records), default=0)
    behind = (folder / RECORDS).stat().st_size - whole_bytes + (folder / TRACES).stat().st_size - end
    twice = tuple(repeated(records))
    stop = Stop(wanted, delay_seconds, len(before), len(records), behind, lost(before, records), twice)
    return stop, records


def lost(before: Sequence[Record], after: Sequence[Record]) -> tuple[str, ...]:
    """Return the ids of the earlier records that have moved, changed or vanished."""
    return tuple(record.id for at, record in enumerate(before) if list(after[at : at + 1]) != [record])


def _write(options: argparse.Namespace, stops: Sequence[Stop], found: RunDifferences, is_well: bool) -> None:
    content = {
        "askance": VERSION,
        "machine": machine_here(),
        "options": {name: str(value) for name, value in vars(options).items() if value is not None},
        "is_well": is_well,
        "stops": [asdict(stop) for stop in stops],
        "differences": asdict(found),
    }
    text = json.dumps(content, indent=1, ensure_ascii=False)
    write_atomically(options.out / "kill_test.json", f"{text}\n")


def _print(stops: Sequence[Stop], found: RunDifferences) -> None:
    headings = ("stop", "finished before", "finished", "bytes half-written", "lost", "twice")
    kills = Table(*headings, box=None, header_style="bold")
    for number, stop in enumerate(stops, start=1):
        name = "the end" if stop.wanted is None else f"kill {number}"
        counts = (stop.num_before, stop.num_finished, stop.half_written_bytes)
        numbers = (*counts, len(stop.lost), len(stop.twice))
        kills.add_row(name, *(f"{value:,}" for value in numbers))
    same = Table("compared with the undisturbed run", "questions that differ", box=None, header_style="bold")
    same.add_row(f"in both runs once: {found.num_questions:,}", f"{len(found.ids)}")
    for what, ids in found.differing.items():
        same.add_row(what, f"{len(ids)}")
    console = Console(width=110)
    console.print(kills, "", same, f"largest gap between two numbers in traces: {found.largest_gap:.2g}")


if __name__ == "__main__":
    main()
