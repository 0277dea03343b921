"""Show on a made world what deciding when to search is worth.

python -m studies.known_unknown.run --out FOLDER            # several hours on two cores, one of them to teach
python -m studies.known_unknown.run --out FOLDER --pocket   # a small world, to see that everything works

The command makes the world, teaches a model the known half of it, runs every method and writes a page. The
same command resumes after an interruption. It exits with 1 if the large world
misses a condition of the gate.
"""

import os
from functools import partial
from pathlib import Path

from askance.cli.main import exit_codes
from askance.configuration.evaluation import read_dataset
from askance.storage.durable_files import write_atomically
from askance.terminal.console import err
from askance.terminal.console import out as screen
from studies.command_line import check_gate, parser_of
from studies.known_unknown import runs, study
from studies.known_unknown.analysis import order_of
from studies.known_unknown.page import write_page
from studies.known_unknown.reflecting import teach_reflection
from studies.known_unknown.results import gate, results_of
from studies.known_unknown.side_by_side import make_runs, processes


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the folder of the study")
    parser.add_argument("--pocket", action="store_true", help="a small world with few questions")
    parser.add_argument("--seed", type=int, default=study.SEED, help="the seed of the world")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, help="the number of runs at a time"
    )
    parser.add_argument("--model", default=study.BASE, help="the model to teach: bundled, or hf:NAME")
    parser.add_argument(
        "--reflection", action="store_true", help="also train a model that writes reflection tokens"
    )
    with exit_codes():
        options = parser.parse_args(arguments)
        size = study.POCKET if options.pocket else study.FULL
        made = study.write_world(options.out, size, options.seed, options.model)
        study.teach(options.out, size, made, options.model)
        study.index(options.out)
        closed_book = runs.run_from_memory(options.out)
        for exposures, accuracy in runs.accuracy_from_memory(closed_book).items():
            screen.print(f"taught {exposures} times: {accuracy:.2f} right from memory", markup=False)
        examples = read_dataset(f"jsonl:{options.out / 'questions.jsonl'}")
        calibration = read_dataset(f"jsonl:{options.out / 'calibration.jsonl'}")
        asked = [*examples, *calibration]
        reflect = partial(teach_reflection, options.out, made, asked) if options.reflection else None
        second_unknown = options.out / "known-then-unknown.txt"
        ids = [one.question.id for one in examples if order_of(one) == "known > unknown"]
        write_atomically(second_unknown, "".join(f"{id}\n" for id in ids))
        if options.processes > 1:
            with processes(options.processes) as pool:
                make_runs(pool, options.out, second_unknown, reflect, lambda name: err.print(f"done: {name}"))
        if reflect is not None:
            reflect()
        calibrated = runs.choose_thresholds(options.out)
        made_runs = runs.run_methods(options.out, calibrated, reflects=options.reflection)
        queries = runs.run_queries(options.out, calibrated, second_unknown)
        results = results_of(made_runs, queries, examples)
        page = write_page(options.out, made, results, made_runs)
        screen.print(f"the page is {page}", markup=False)
        conditions = {f"{row.condition}: {row.measured}": row.is_met for row in gate(results)}
        check_gate(conditions, exits=not options.pocket)


if __name__ == "__main__":
    main()
