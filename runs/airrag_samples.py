r"""How many samples AirRAG should draw, and how far apart: the rows of the paper's table 2.

    python -m runs.airrag_samples --dataset 2wikimultihopqa:FILE --index DIR --sample 30 --out FOLDER

One sample of every action; three of every action; three of SAY and QT alone; the same, drawn at temperature
and top_p 1. The paper (Feng et al. 2025, arXiv 2501.10053; 14 billion parameters, 32 rollouts, three
passages, mean of three datasets) has F1 62.9, 63.4, 63.2 and 65.1, accuracy 58.8, 62.1, 62.0 and 63.9. Each
row is held against the first. Columns and files are those of `runs.airrag_rows`; all rows have as many seeds
as `--seeds` says.
"""

from askance.cli import exit_codes
from runs.airrag_table import measure, row_options

BASE = "n=1"
SAMPLES = {
    BASE: "samples=1,answer_samples=1",
    "n=3": "samples=3,answer_samples=3",
    "n=3 of SAY and QT": "samples=3,answer_samples=1",
    "n=3 of SAY and QT, q_div=1": "samples=3,answer_samples=1,q_div=1",
}


def main(arguments: list[str] | None = None) -> None:
    parser = row_options(__doc__ or "", SAMPLES, seeds=1)
    parser.add_argument("--rollouts", type=int, default=32, help="of all rows (32)")
    with exit_codes():
        options = parser.parse_args(arguments)
        rows = {row: f"airrag,rollouts={options.rollouts},{knobs}" for row, knobs in SAMPLES.items()}
        measure(options, rows, rows, BASE)


if __name__ == "__main__":
    main()
