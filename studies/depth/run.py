"""Show on a made world what search, iteration and a tree are worth for questions of one to four hops.

python -m studies.depth.run --out FOLDER          # several hours on two cores, one of them to teach
python -m studies.depth.run --out FOLDER --quick  # a few questions, to see that everything works

The command makes the world, teaches a model about another one, runs every method, trains a reward model, and
writes a page. The same command resumes after an interruption. It exits with 1 if the full study misses a
condition of the gate.
"""

from pathlib import Path

from studies.depth import world
from studies.depth.page import write_page
from studies.depth.results import gate
from studies.depth.runs import Runner
from studies.depth.teaching import teach
from studies.shared import check_gate, parser_of


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the folder of the study")
    parser.add_argument("--quick", action="store_true", help="few questions and examples")
    options = parser.parse_args(arguments)
    size = world.QUICK if options.quick else world.FULL
    apart = world.write_world(options.out, size)
    teach(options.out, size, apart)
    made = Runner.of(options.out).make_all()
    rows = gate(made)
    print(f"the page is {write_page(options.out, size, made, rows)}")
    check_gate(rows, exits=not options.quick)


if __name__ == "__main__":
    main()
