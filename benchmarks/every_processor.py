"""Run the tests as if on other processors, with other thread counts, and in other environments.

    python -m benchmarks.every_processor --out FILE.json [--settings NAME …] [-- ARGUMENTS OF PYTEST …]

A processor can compute like an older one: ATEN_CPU_CAPABILITY selects the instruction set of torch's own
kernels, and ONEDNN_MAX_CPU_ISA selects that of oneDNN's kernels. A processor can't compute like a newer one:
torch would abort, so such a setting is not run, and oneDNN uses the best instruction set that the processor
has. The table gives the result of each setting. Each setting changes one factor, except "oldest" and
"newest". The exit code is 1 if a test failed under any setting.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from recipes.command_line import parser_of

from askance.cli.main import exit_codes
from askance.core.errors import UnknownName
from askance.storage.durable_files import write_atomically
from benchmarks.report import machine_here

ROOT = Path(__file__).parent.parent
EMPTY_HOME = "an empty folder"
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "as it is": {},
    "torch: default": {"ATEN_CPU_CAPABILITY": "default"},
    "torch: avx2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "torch: avx512": {"ATEN_CPU_CAPABILITY": "avx512"},
    "oneDNN: SSE41": {"ONEDNN_MAX_CPU_ISA": "SSE41"},
    "oneDNN: AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "oneDNN: AVX512_CORE": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
    "oneDNN: AVX512_CORE_BF16": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"},
    "1 thread": {"OMP_NUM_THREADS": "1"},
    "2 threads": {"OMP_NUM_THREADS": "2"},
    "4 threads": {"OMP_NUM_THREADS": "4", "MKL_DYNAMIC": "FALSE"},
    "oldest": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "OMP_NUM_THREADS": "1"},
    "newest": {
        "ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "OMP_NUM_THREADS": "4",
        "MKL_DYNAMIC": "FALSE",
    },
    "no language, no home": {"LC_ALL": "C", "LANG": "", "HOME": EMPTY_HOME},
}  # fmt: skip
"""The environment variables of each setting. Variables of the other settings are removed. By default, MKL
uses at most as many threads as there are cores. MKL_DYNAMIC=FALSE lifts this limit."""
_LOOPS = ("default", "avx2", "avx512")
"""The instruction sets of torch's kernels. A processor that supports one of them supports all before it."""
_PROBE = """
import torch
if torch.backends.mkldnn.is_available():
    torch.ones(64, 64).to_mkldnn().to_dense()
print("torch", torch.backends.cpu.get_cpu_capability())
print("threads", torch.get_num_threads())
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of the tests under one setting.

    Attributes:
        taken: The instruction sets of torch and oneDNN and the number of threads that were really used.
        exit_code: The exit code of pytest; 0 if all tests passed.
        failures: The names of the tests that failed or could not be set up.
    """

    setting: str
    environment: Mapping[str, str]
    taken: Mapping[str, str]
    exit_code: int
    num_passed: int
    num_skipped: int
    failures: tuple[str, ...]
    seconds: float


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.json")
    parser.add_argument(
        "--settings", nargs="+", default=[*SETTINGS], metavar="NAME", help=", ".join(SETTINGS)
    )
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, behind --; all tests without")
    options = parser.parse_args(arguments)
    with exit_codes():
        outcomes = run_settings(options.settings, options.pytest, options.out)
        if any(outcome.exit_code for outcome in outcomes):
            raise SystemExit(1)


def run_settings(names: Sequence[str], arguments: Sequence[str], out: Path) -> list[Outcome]:
    """Run the tests under each setting, and write the results so far to `out` after each setting.

    Raises:
        UnknownName: A setting does not exist.
    """
    for name in names:
        if name not in SETTINGS:
            raise UnknownName("setting", name, SETTINGS)
    outcomes: list[Outcome] = []
    print(_row("setting", "torch", "oneDNN", "threads", "passed", "skipped", "failed", "s"))
    own = _taken(_environment({}, ROOT)).get("torch", "").lower()
    for name in names:
        asked = SETTINGS[name].get("ATEN_CPU_CAPABILITY", "default")
        if own in _LOOPS and _LOOPS.index(asked) > _LOOPS.index(own):
            print(_row(name, f"not run: this processor has {own}, not {asked}"))
            continue
        outcome = run_setting(name, arguments)
        outcomes.append(outcome)
        output = {
            "machine": machine_here(),
            "arguments": list(arguments),
            "outcomes": [asdict(each) for each in outcomes],
        }
        write_atomically(out, json.dumps(output, indent=1) + "\n")
        _print(outcome)
    return outcomes


def run_setting(name: str, arguments: Sequence[str]) -> Outcome:
    """Run the tests in a separate process, with the environment variables of a setting."""
    with tempfile.TemporaryDirectory() as folder:
        home, report = Path(folder) / "home", Path(folder) / "report.xml"
        home.mkdir()
        environment = _environment(SETTINGS[name], home)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            *arguments,
        ]
        began = time.perf_counter()
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        seconds = time.perf_counter() - began
        passed, skipped, failures = _counted(report)
        if ended.returncode and not failures:
            print(ended.stdout[-2000:], ended.stderr[-2000:], sep="\n", file=sys.stderr)
        taken = _taken(environment)
    return Outcome(
        name, SETTINGS[name], taken, ended.returncode, passed, skipped, failures, round(seconds, 1)
    )


def _environment(changed: Mapping[str, str], home: Path) -> dict[str, str]:
    ours = {key for setting in SETTINGS.values() for key in setting} - {"HOME", "LANG", "LC_ALL"}
    kept = {key: value for key, value in os.environ.items() if key not in ours}
    given = {key: str(home) if value == EMPTY_HOME else value for key, value in changed.items()}
    without_cache = {"XDG_CACHE_HOME", "ASKANCE_CACHE"} if "HOME" in changed else set()
    return {key: value for key, value in (kept | given).items() if key not in without_cache}


def _taken(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the instruction sets and the number of threads that torch and oneDNN report for a setting."""
    output = subprocess.run(
        [sys.executable, "-c", _PROBE],
        env={**environment, "ONEDNN_VERBOSE": "1"}, capture_output=True, text=True,
    ).stdout  # fmt: skip
    library = re.search(r"cpu,isa:(.*)", output)
    words = dict(
        line.split(" ", 1) for line in output.splitlines() if line.startswith(("torch ", "threads "))
    )
    return {"oneDNN": library[1] if library else "none", **words}


def _counted(report: Path) -> tuple[int, int, tuple[str, ...]]:
    """Return the counts of passed and of skipped tests, and the names of all other tests."""
    if not report.exists():
        return 0, 0, ()
    passed, skipped, failures = 0, 0, list[str]()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {part.tag for part in case}
        if kinds & {"failure", "error"}:
            failures.append(f"{case.get('classname')}::{case.get('name')}")
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    return passed, skipped, tuple(dict.fromkeys(failures))


def _print(outcome: Outcome) -> None:
    taken = (outcome.taken.get(name, "?") for name in ("torch", "oneDNN", "threads"))
    failed = len(outcome.failures) or ("broken off" if outcome.exit_code else 0)
    counts = (outcome.num_passed, outcome.num_skipped, failed, f"{outcome.seconds:.0f}")
    print(_row(outcome.setting, *taken, *counts), flush=True)
    for failure in outcome.failures:
        print(f"    {failure}")


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


if __name__ == "__main__":
    main()
