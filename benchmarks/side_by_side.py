r"""Compare all methods on the same questions, with the same prompts, passages and model.

    python -m benchmarks.side_by_side --dataset hotpotqa:FILE 2wikimultihopqa:FILE \
        --index DIR --sample 50 --out FOLDER

A cell is a METHOD, and may have parameters: dragin_authors,max_rounds=5. Each cell is a
separate run in FOLDER/runs, as by `askance eval`. The tables of each dataset are printed as Markdown, as by
`askance compare`, with differences from the cell `single`. FOLDER/report.html has all tables on one page. The
same command continues a stopped comparison, even with more cells or a larger sample.
"""

from collections.abc import Sequence
from dataclasses import fields

from recipes.grids import folder_name

from askance.cli.main import exit_codes
from askance.cli.options import parameters_by_name
from askance.configuration.grid import Table
from askance.configuration.methods import method_class
from askance.core.errors import InputError, UnknownName
from benchmarks.grids import grid_options, make_grid, run_and_show

BASE = "single"
CELLS = (
    "closed_book", "single", "fixed_length", "fixed_sentence", "flare",
    "dragin", "dragin_paper", "dragin_authors",
)  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = grid_options(__doc__ or "")
    parser.add_argument("--dataset", nargs="+", required=True, metavar="NAME:FILE")
    parser.add_argument("--cells", nargs="+", default=list(CELLS), metavar="METHOD[,PARAMETER=VALUE]")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="PARAMETER=VALUE", help="for all that have it"
    )
    with exit_codes():
        options = parser.parse_args(arguments)
        methods = methods_of(options.cells, options.set)
        run_and_show(make_grid(options, options.dataset, methods), options.out, BASE)


def methods_of(cells: Sequence[str], common: Sequence[str] = ()) -> dict[str, Table]:
    """Return the methods of a grid, by the names of their folders.

    Args:
        common: ``PARAMETER=VALUE`` for every cell whose method has the parameter. A cell's own value takes
            precedence.

    Raises:
        UnknownName: A method does not exist, or no cell has a common parameter.
        InputError: A cell can't be read, or two cells would share a folder.
    """
    shared, known, methods = parameters_by_name(common), set[str](), dict[str, Table]()
    for cell in dict.fromkeys(cells):
        method, own = _read(cell)
        parameters = {field.name for field in fields(method_class(method))}
        name = folder_name(cell)
        if name in methods:
            raise InputError(
                f"--cells {cell}: another cell has the folder {name}, too: give each its own --out."
            )
        common_here = {parameter: value for parameter, value in shared.items() if parameter in parameters}
        methods[name] = {"method": method, "set": {**common_here, **own}}
        known |= parameters
    for parameter in shared:
        if parameter not in known:
            raise UnknownName("parameter", parameter, known, place="in --set (of the cells asked for)")
    return methods


def _read(cell: str) -> tuple[str, dict[str, str]]:
    method, *settings = cell.split(",")
    try:
        return method, parameters_by_name(settings)
    except InputError as error:
        raise InputError(f"--cells {cell}: {error}") from error


if __name__ == "__main__":
    main()
