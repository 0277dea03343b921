"""Commands that write results, with a fault at each operation: nothing is lost, twice or half there.

    python -m tests.evaluation.test_run_faults FOLDER KIND

After a fault, all that was finished is there, and the same command leaves what an undisturbed one leaves.
"""

import io
import json
import re
import shutil
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from itertools import count, takewhile
from pathlib import Path

import pytest

from askance.cli.main import main as askance
from askance.core.errors import ModelFailure
from askance.evaluation.choose.outcomes import OUTCOMES, RECORDED
from askance.evaluation.run.recorded_run import SETTINGS, RunWriter, read_run
from askance.models.scripted import Reply, ScriptedModel
from askance.storage.durable_files import unsealed_lines
from tests.faults import STOPS, Faults, in_child, results_of
from tests.test_cli_runs import write_long_answer

TOWNS = "Bonn", "Rome"
GRID = """[datasets.towns]
questions = "jsonl:{towns}"
[models.m]
answer = "scripted"
[methods.closed_book]
seeds = [0, 1]
"""
NAMES = "eval", "retry", "grid", "judge", "report", "signals"


@pytest.mark.parametrize("kind", ["stop", "error", "full"])
def test_a_fault_at_operations_of_commands_that_write_results(kind):
    """Without an argument, the module tries every operation. Here, errors and full disks take turns."""
    steps = {"stop": (0, 1), "error": (0, 4), "full": (2, 4)}
    found = results_of("tests.evaluation.test_run_faults", kind, *map(str, steps[kind]))
    assert found["trials"] >= {"stop": 60, "error": 15, "full": 15}[kind]
    if kind == "stop":
        assert found["finished"] == [0, 1, 2]


def call(err: Path, *arguments: object) -> int:
    """Return the exit code of a command, whose error messages go to a file."""
    sys.argv = ["askance", *map(str, arguments)]
    with err.open("w") as file, redirect_stderr(file), redirect_stdout(io.StringIO()):
        try:
            askance()
        except SystemExit as ended:
            return int(ended.code or 0)
    return 0


def content(folder: Path) -> dict[str, object]:
    """Return the results in a folder: the questions of runs by their ids, and whole files."""
    found: dict[str, object] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.name == SETTINGS:
            run = read_run(path.parent)
            found[name] = run.settings.metrics, run.settings.num_questions
            for record in run.records:
                events = [event.type for event in run.trace(record)]
                result = record.number, record.text, record.error, record.scores, record.usage.calls, events
                found[f"{name} {record.id}"] = result
        elif path.name == RECORDED or (path.suffix == ".jsonl" and path.parent.name == "judged"):
            for number, line in enumerate(unsealed_lines(path.read_bytes())[0]):
                found[f"{name} {number}"] = line
        elif path.suffix in (".html", ".json") or path.name == OUTCOMES:
            found[name] = re.sub(r"\d{4}-\d\d-\d\d", "DATE", path.read_text())
    return found


class Trial:
    """A command in copies of a folder, each time with another fault."""

    def __init__(self, folder: Path, kind: str, command: list[object]) -> None:
        self.now, self.before, self.command, self.kind = folder / "now", folder / "before", command, kind
        self.err, self.finished = folder / "err", folder / "finished"
        self.flaws, self.tried, self.numbers = list[str](), set[str](), set[int]()
        self.old = content(self.before)
        self.start()
        assert call(self.err, *command) == 0, self.err.read_text()  # here: children need not import it again
        self.new, self.files = content(self.now), self.files_now()

    def start(self, before: Path | None = None) -> None:
        shutil.rmtree(self.now, ignore_errors=True)
        shutil.copytree(before or self.before, self.now)
        self.finished.write_text("")

    def files_now(self) -> list[str]:
        """Return the files in the folder. A killed command leaves a hidden file beside its report."""
        names = (str(path.relative_to(self.now)) for path in self.now.rglob("*"))
        return sorted(name for name in names if not re.fullmatch(r"\.page\.html\.\d+\.tmp", name))

    def run(self, faults: Faults | None = None) -> int:
        def work() -> int:
            if faults:
                faults.install()
            return call(self.err, *self.command) + 10 * bool(faults and faults.has_passed())

        return in_child(work)

    def happens(self, number: int) -> bool:
        """Return whether the operation with a number happens; record what is wrong after its fault."""
        self.start()
        for stop in STOPS:
            shutil.rmtree(self.now.with_name(stop), ignore_errors=True)
        status, finished = self.run(Faults(self.now, number, self.kind)), {*self.finished.read_text().split()}
        lines = [line for line in self.err.read_text().splitlines() if line.startswith("error: can't ")]
        is_explained = len(lines) == 1 and str(self.now) in lines[0] and "make room" in lines[0]
        what = f"{self.command[0]}, {self.kind} at {number}"
        if status not in (0, 10, -signal.SIGKILL) and not (status in (11, 12) and is_explained):
            self.flaws.append(f"{what}: ended with {status}, {self.err.read_text()}")
        for stop in STOPS if status == -signal.SIGKILL else ("",):
            if stop:
                self.start(self.now.with_name(stop))
            try:
                self.check(finished)
            except Exception as error:
                self.flaws.append(f"{what} {stop}: {error!r}, {self.err.read_text()}")
        return status != 0

    def check(self, finished: set[str]) -> None:
        """Raise unless all that was finished is there, and the same command finishes the rest."""
        found = content(self.now)
        kept = {key for key, value in self.old.items() if value == self.new.get(key)}
        ids = {key.rpartition(" ")[2] for key in found}
        assert kept <= found.keys(), "lost what was there before"
        assert finished <= ids, f"lost {finished - ids}"
        for name, value in found.items():
            assert value in (self.old.get(name), self.new[name]), f"{name} is {value}"
        self.numbers.add(sum(" " in key for key in found))
        sizes = [(name, (self.now / name).stat().st_size // 64) for name in self.files_now()]
        if f"{found} {sizes}" in self.tried:
            return  # a command on the same files does the same
        assert self.run() == 0, "can't go on"
        assert content(self.now) == self.new, "other results"
        assert self.files_now() == self.files, f"left {self.files_now()}"
        self.tried.add(f"{found} {sizes}")


def commands(folder: Path) -> dict[str, list[object]]:
    """Return the commands by the folder of what they begin with."""
    towns, grid = folder / "towns.jsonl", folder / "grid.toml"
    rows = [{"id": town, "question": f"Which river is in {town}?", "answers": ["Rhine"]} for town in TOWNS]
    towns.write_text("".join(json.dumps(row) + "\n" for row in rows))
    grid.write_text(GRID.format(towns=towns))
    options = ["--dataset", f"jsonl:{towns}", "--model", "scripted", "--in-flight", 1]
    asked = ["eval", *options, "--method", "closed_book"]
    for name in NAMES:
        (folder / name / "before").mkdir(parents=True)
    retried = folder / "retry" / "before" / "run"
    in_child(lambda: failing() or call(folder / "err", *asked, "--limit", 2, "--out", retried))
    write_long_answer(folder / "judge" / "before" / "long")
    write_long_answer(folder / "report" / "before" / "long")
    now = {name: folder / name / "now" for name in NAMES}
    (folder / "rhine.txt").write_text("The Rhine flows through Bonn.")
    index = "index", folder / "rhine.txt", "--out", folder / "index"
    in_child(lambda: call(folder / "err", *index, "--encoder", "none"))
    recorded = ["signals", *options, "--samples", 0, "--index", folder / "index"]
    return {
        "eval": [*asked, "--out", now["eval"] / "new" / "run"],
        "retry": [*asked, "--retry-failures", "--metric", "f1", "--out", now["retry"] / "run"],
        "grid": ["grid", grid, "--in-flight", 1, "--out", now["grid"] / "runs"],
        "judge": ["judge", now["judge"] / "long", "--citations", "scripted"],
        "report": ["report", now["report"] / "long", "--out", now["report"] / "page.html"],
        "signals": [*recorded, "--out", now["signals"] / "new"],
    }


def failing() -> None:
    def reply(self, shown, key):
        if "Rome" in shown:
            raise ModelFailure("no river")
        return Reply("It is the Rhine.")

    ScriptedModel._reply = reply


def main(folder: Path, kind: str, first: int = 0, step: int = 0) -> None:
    strides, step = {"eval": 2, "grid": 8} if step else {}, step or 1
    ScriptedModel._reply = lambda self, shown, key: Reply("It is the Rhine.")
    add, flaws, num_trials, numbers = RunWriter.add, list[str](), 0, set[int]()
    for name, command in commands(folder).items():
        if name == "signals" and kind != "full":
            continue  # its parts are those of judge
        trial = Trial(folder / name, kind, command)

        def noted(writer, finished, note=trial.finished):
            add(writer, finished)
            with note.open("a") as file:
                file.write("".join(f"{record.id} " for record, _ in finished))

        RunWriter.add = noted
        tried = takewhile(trial.happens, count(first + 1, step * strides.get(name, 1)))
        num_trials += sum(1 for _ in tried)
        flaws += trial.flaws
        numbers |= trial.numbers if name == "eval" else set()
    print(json.dumps({"trials": num_trials, "finished": sorted(numbers), "flaws": flaws}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
