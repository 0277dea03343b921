"""Simulate seeds: `python -m tests.simulation SEED` prints a timeline, and `FIRST COUNT` runs many."""

import sys
import time

from tests.simulation.evaluation import evaluation
from tests.simulation.model_client import model_client
from tests.simulation.server import server
from tests.simulation.server_index import index_folder
from tests.simulation.timeline import Broken, simulate

PARTS = {"evaluation": evaluation, "server": server, "model client": model_client}


def run_seed(seed):
    """Run all parts of a seed, and return what has happened."""
    index_folder()
    return {part: simulate(part, seed, scenario) for part, scenario in PARTS.items()}


def main(first, count=None):
    """Print the timelines of one seed, or the failures of many."""
    if count is None:
        for part, lines in run_seed(first).items():
            print(part, *lines, sep="\n")
        return 0
    began, num_failed = time.perf_counter(), 0
    for seed in range(first, first + count):
        try:
            run_seed(seed)
        except Broken as error:
            num_failed += 1
            print(error, flush=True)
    print(f"seeds {first} to {first + count - 1}: {num_failed} failed, {time.perf_counter() - began:.0f} s")
    return min(num_failed, 1)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
