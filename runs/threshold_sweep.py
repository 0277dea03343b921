r"""DRAGIN against its threshold θ: what more or fewer searches cost, and what they are worth.

    python -m runs.threshold_sweep --dataset 2wikimultihopqa:FILE --index DIR --sample 50 --out FOLDER \
        --profile paper --thresholds 0.3 0.6 1.0

Each threshold is a run in FOLDER/runs; differences are to the first one named. FOLDER/report.html has all of
it on one page. Started again, it goes on where it was stopped; other thresholds of the same profile and a
greater sample may be asked for. Below the tables stands the sweep that the paper printed.
"""

from askance.cli import exit_codes
from askance.eval.grid import MethodTable
from runs.grids import grid_options, make_grid, run_and_show

THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
PAPER = """Su et al. 2024 (DRAGIN), table 5, Llama2-13B-Chat. Its caption says HotpotQA; its row 0.6 is what
table 2 of the paper has for 2WikiMultihopQA."""
PAPER_ROWS = (
    (0.3, 0.295, 0.3856),
    (0.4, 0.297, 0.387),
    (0.5, 0.299, 0.3897),
    (0.6, 0.304, 0.3931),
    (0.7, 0.304, 0.3927),
    (0.8, 0.301, 0.392),
    (0.9, 0.301, 0.3944),
    (1.0, 0.293, 0.3869),
)


def main(arguments: list[str] | None = None) -> None:
    parser = grid_options(__doc__ or "")
    parser.add_argument("--dataset", required=True, metavar="NAME:FILE")
    parser.add_argument("--profile", default="default", help="of dragin")
    parser.add_argument("--thresholds", nargs="+", type=float, default=list(THRESHOLDS))
    with exit_codes():
        options = parser.parse_args(arguments)
        methods = {
            f"threshold={threshold}": MethodTable(
                method="dragin", set={"profile": options.profile, "threshold": threshold}
            )
            for threshold in options.thresholds
        }
        run_and_show(make_grid(options, [options.dataset], methods), options.out)
        print(f"\n{PAPER}\n\n{paper_table()}")


def paper_table() -> str:
    """Markdown."""
    rows = [("θ", "EM", "F1"), ("---",) * 3, *PAPER_ROWS]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


if __name__ == "__main__":
    main()
