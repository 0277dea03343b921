"""Show on a made world what search, iteration and a tree are worth for questions of one to four hops.

python -m studies.depth.run --out FOLDER --dry-run  # what would be taught, with the number of tokens
python -m studies.depth.run --out FOLDER            # several hours on two cores, one of them to teach
python -m studies.depth.run --out FOLDER --quick    # a few questions, to see that everything works

The command makes the world, teaches a model about another one, runs every method, trains a reward model, and
writes a page. The same command resumes after an interruption. It exits with 1 if the full study misses a
condition of the gate.
"""

import argparse
from pathlib import Path

from askance.cli.main import exit_codes
from askance.terminal.console import out as screen
from studies.depth import world
from studies.depth.page import write_page
from studies.depth.results import gate
from studies.depth.runs import Runner
from studies.depth.teaching import teach


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder of the study")
    parser.add_argument("--quick", action="store_true", help="few questions and examples")
    parser.add_argument("--seed", type=int, default=world.SEED, help="the seed of the world")
    parser.add_argument("--model", default="bundled", help="the model to teach: bundled, or hf:NAME")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--dry-run", action="store_true", help="show what would be taught, and stop")
    only.add_argument("--teach-only", action="store_true", help="stop after teaching")
    with exit_codes():
        options = parser.parse_args(arguments)
        size = world.QUICK if options.quick else world.FULL
        apart = world.write_world(options.out, size, options.seed, options.model)
        teach(options.out, size, apart, options.model, is_dry_run=options.dry_run)
        if options.dry_run or options.teach_only:
            return
        made = Runner.of(options.out).make_all()
        rows = gate(made)
        page = write_page(options.out, size, made, rows)
        for row in rows:
            screen.print(
                f"{'met' if row.is_met else 'missed'}: {row.condition}: {row.measured}", markup=False
            )
        screen.print(f"the page is {page}", markup=False)
        if not options.quick and not all(row.is_met for row in rows):
            raise SystemExit(1)


if __name__ == "__main__":
    main()
