"""Teach the bundled model half of a made world, and measure what it knows by heart.

python -m recipes.known_unknown --out FOLDER            # about an hour on two cores
python -m recipes.known_unknown --out FOLDER --pocket   # a small world, to see that everything works

The same command resumes after an interruption.
"""

import argparse
from pathlib import Path

from askance.cli.main import exit_codes
from askance.terminal.console import out as screen
from recipes.known_unknown import study


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder of the study")
    parser.add_argument("--pocket", action="store_true", help="a small world with few questions")
    parser.add_argument("--seed", type=int, default=study.SEED, help="the seed of the world")
    with exit_codes():
        options = parser.parse_args(arguments)
        size = study.POCKET if options.pocket else study.FULL
        made, asked = study.write_world(options.out, size, options.seed)
        study.teach(options.out, size, made, asked)
        study.index(options.out)
        (closed_book,) = study.run(options.out, {"closed_book": {}}, ["stale"]).values()
        for exposures, accuracy in study.check_memory(closed_book).items():
            screen.print(f"taught {exposures} times: {accuracy:.2f} right from memory", markup=False)


if __name__ == "__main__":
    main()
