"""Output in a pipe is whole lines without trailing spaces; tables of runs fit terminals of any width."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from askance.evaluation.report.tables import ResultTable
from askance.terminal.console import PlainConsole
from askance.terminal.tables import print_tables

LONG = "a passage that is longer than any terminal is wide " * 20
RUN = "dragin_paper(t=1.35)"
TABLE = ResultTable("Some", ("run", "one", "two words", "three"), ((RUN, "0.250", "0.500", "12"),))
WHOLE = [
    "                               two",
    "run                     one  words  three",
    f"{RUN}  0.250  0.500     12",
]
FIRST = ["                               two", "run                     one  words", f"{RUN}  0.250  0.500"]
REST = ["run                   three", f"{RUN}     12"]


@pytest.mark.parametrize("stderr", [False, True])
def test_a_line_in_a_pipe_stays_whole_unless_a_width_is_set(monkeypatch, capsys, stderr):
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    console = PlainConsole(stderr=stderr)
    console.print(LONG)
    table = Table(box=None, show_header=False)
    table.add_row("one", LONG.strip())
    table.add_row("two", "short")
    console.print(table)
    line, first, second = capsys.readouterr()[stderr].splitlines()
    assert (line, first.endswith(LONG.strip()), second == second.rstrip()) == (LONG.rstrip(), True, True)
    monkeypatch.setenv("COLUMNS", "40")
    console.print(LONG)
    assert max(map(len, capsys.readouterr()[stderr].splitlines())) <= 40


@pytest.mark.parametrize(
    ("width", "table", "expected"),
    [
        (43, TABLE, WHOLE),
        (37, TABLE, [*FIRST, "", *REST]),
        (24, ResultTable("Some", ("run", "one"), (("x" * 30, "0.250"),)), None),
    ],
)
def test_numbers_that_do_not_fit_are_in_a_second_table_and_only_words_are_folded(width, table, expected):
    out = io.StringIO()
    print_tables(Console(file=out, width=width), [table])
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert max(map(len, lines)) <= width
    assert expected is None or lines == ["", "Some", *expected]
    assert expected or (sum(line.count("x") for line in lines), lines[3].endswith("0.250")) == (30, True)
