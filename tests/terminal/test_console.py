"""Output in a pipe: whole lines without trailing spaces."""

import pytest
from rich.table import Table

from askance.terminal.console import PlainConsole

LONG = "a passage that is longer than any terminal is wide " * 20


@pytest.fixture
def console(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    for forced in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(forced, raising=False)
    return PlainConsole()


def test_a_line_in_a_pipe_stays_whole(console, capsys):
    console.print(LONG)
    assert capsys.readouterr().out == f"{LONG.rstrip()}\n"


def test_the_cells_of_a_table_stay_whole_and_are_not_filled_up(console, capsys):
    table = Table(box=None, show_header=False)
    table.add_row("one", LONG.strip())
    table.add_row("two", "short")
    console.print(table)
    first, second = capsys.readouterr().out.splitlines()
    assert LONG.strip() in first
    assert second == second.rstrip()


def test_a_width_that_is_asked_for_is_kept_to(console, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    console.print(LONG)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40


def test_standard_error_is_treated_alike(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    PlainConsole(stderr=True).print(LONG)
    found = capsys.readouterr()
    assert (found.out, found.err) == ("", f"{LONG.rstrip()}\n")
