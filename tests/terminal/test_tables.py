"""Tables of runs on terminals of any width."""

import io

from rich.console import Console

from askance.evaluation.report.tables import ResultTable
from askance.terminal.tables import print_tables

RUN = "dragin_paper(t=1.35)"
TABLE = ResultTable("Some", ("run", "one", "two words", "three"), ((RUN, "0.250", "0.500", "12"),))


def shown(width, table=TABLE):
    out = io.StringIO()
    print_tables(Console(file=out, width=width), [table])
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_table_that_fits_is_one_table():
    assert shown(43) == [
        "",
        "Some",
        "                               two",
        "run                     one  words  three",
        f"{RUN}  0.250  0.500     12",
    ]


def test_numbers_that_do_not_fit_stand_below_beside_the_same_words():
    assert shown(37) == [
        "",
        "Some",
        "                               two",
        "run                     one  words",
        f"{RUN}  0.250  0.500",
        "",
        "run                   three",
        f"{RUN}     12",
    ]


def test_only_words_are_folded():
    text = shown(24, ResultTable("Some", ("run", "one"), (("x" * 30, "0.250"),)))
    assert sum(line.count("x") for line in text) == 30
    assert any(line.endswith("0.250") for line in text)
    assert max(map(len, text)) <= 24
