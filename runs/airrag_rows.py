r"""AirRAG beside one search and IterDRAG, on the same questions, with the same passages and model.

    python -m runs.airrag_rows --dataset 2wikimultihopqa:FILE musique:FILE --index DIR --sample 50 \
        --out FOLDER --set passages=3 l_max=8192

The rows are those of the paper's table 1 (Feng et al. 2025, arXiv 2501.10053), and AirRAG with eight rollouts
as it recommends them: three samples of SAY and QT, drawn further apart. Vanilla is `single`, with its own
prompts. That row's luck is in its samples, so it is run with three seeds (`--seeds`): a question's score is
the mean over them, and intervals are over questions.

F1 and accuracy are the paper's; recall is of the supporting titles among all passages found. L_max is what
was read, the prompt of several samples once, L_total that and what was written: means over questions, like
the calls. Seconds are a median, with other questions asked at the same time; with `--cache` they are those of
what was left to compute. A question that failed counts as wrong. Runs are kept in FOLDER/seed-N/runs; started
again, it goes on. The table is printed as Markdown, and FOLDER/rows.json has the same numbers.
"""

from askance.cli import exit_codes
from runs.airrag_table import measure, row_options

BASE, MANY = "vanilla", "airrag R=8"
ROWS = {
    BASE: "single",
    "iterdrag": "iterdrag",
    "airrag_lite": "airrag_lite",
    "airrag": "airrag",
    MANY: "airrag,rollouts=8,samples=3,q_div=1",
    "blender": "blender",
}
"""Cells, as `runs.side_by_side` reads them."""


def main(arguments: list[str] | None = None) -> None:
    parser = row_options(__doc__ or "", ROWS, seeds=3)
    with exit_codes():
        measure(parser.parse_args(arguments), ROWS, {MANY}, BASE)


if __name__ == "__main__":
    main()
