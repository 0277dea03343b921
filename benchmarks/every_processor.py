"""Run the tests as if on other processors, with other thread counts, and in other environments.

    python -m benchmarks.every_processor [--settings NAME …] [-- ARGUMENTS OF PYTEST …]

A processor can compute like an older one: ATEN_CPU_CAPABILITY selects the instruction set of torch's own
kernels, and ONEDNN_MAX_CPU_ISA selects that of oneDNN's kernels. With an instruction set that the processor
lacks, torch aborts, and oneDNN uses the best one that there is. Each setting changes one factor, except
"oldest" and "newest". The exit code is 1 if a test failed under any setting.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping

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
    "no language, no home": {"LC_ALL": "C", "LANG": "", "XDG_CACHE_HOME": "", "ASKANCE_CACHE": ""},
}  # fmt: skip
"""The environment variables of each setting; HOME is an empty folder where LC_ALL is set. By default, MKL
uses at most as many threads as there are cores. MKL_DYNAMIC=FALSE lifts this limit."""
_OF_PROCESSORS = {"ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "OMP_NUM_THREADS", "MKL_DYNAMIC"}


def main(arguments: list[str] | None = None) -> int:
    """Run the tests under each setting, and print the last line of pytest and the failures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--settings", nargs="+", default=[*SETTINGS], choices=SETTINGS, metavar="NAME")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, behind --; all tests without")
    options, has_failed = parser.parse_args(arguments), False
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options.pytest]
    for name in options.settings:
        kept = {key: value for key, value in os.environ.items() if key not in _OF_PROCESSORS}
        with tempfile.TemporaryDirectory() as home:
            apart = {"HOME": home} if "LC_ALL" in SETTINGS[name] else {}
            environment = {**kept, **SETTINGS[name], **apart}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
        lines = done.stdout.splitlines()
        told = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        print(f"{name}: {lines[-1] if lines else 'aborted'}", *told, sep="\n    ", flush=True)
        has_failed |= bool(done.returncode)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
