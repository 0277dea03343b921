"""Show on a made world what deciding when to search is worth.

python -m studies.known_unknown.run --out FOLDER                # several hours on two cores
python -m studies.known_unknown.run --out FOLDER --size pocket  # a small world, to see that everything works

The command makes the world, teaches a model the known half of it, runs every method and writes a page. The
same command resumes after an interruption. It exits with 1 if the large world
misses a condition of the gate.
"""

from pathlib import Path

from askance.configuration.evaluation import read_dataset
from askance.storage.durable_files import write_atomically
from studies.known_unknown import runs, study
from studies.known_unknown.analysis import order_of
from studies.known_unknown.page import write_page
from studies.known_unknown.results import gate, results_of
from studies.shared import check_gate, parser_of


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the folder of the study")
    parser.add_argument("--size", choices=study.SIZES, default="full", help="the size of the world")
    parser.add_argument("--teach-only", action="store_true", help="end after teaching and indexing")
    options = parser.parse_args(arguments)
    size = study.SIZES[options.size]
    made = study.write_world(options.out, size)
    study.teach(options.out, size, made)
    study.index(options.out)
    if options.teach_only:
        return
    for exposures, accuracy in runs.accuracy_from_memory(runs.run_from_memory(options.out)).items():
        print(f"taught {exposures} times: {accuracy:.2f} right from memory")
    examples = read_dataset(f"jsonl:{options.out / 'questions.jsonl'}")
    second_unknown = options.out / "known-then-unknown.txt"
    ids = [one.question.id for one in examples if order_of(one) == "known > unknown"]
    write_atomically(second_unknown, "".join(f"{id}\n" for id in ids))
    calibrated = {name: runs.choose_threshold(options.out, name) for name in runs.tables()["calibrated"]}
    made_runs = runs.run_methods(options.out, calibrated)
    queries = runs.run_queries(options.out, calibrated, second_unknown)
    results = results_of(made_runs, queries, examples)
    print(f"the page is {write_page(options.out, made, results, made_runs)}")
    check_gate(gate(results), exits=options.size == "full")


if __name__ == "__main__":
    main()
