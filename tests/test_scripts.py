"""The scripts that `make check` runs."""

import sys

import pytest
from scripts import check_cycles, count_lines


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes the modules of a package "ring", which can be imported then."""
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "ring"
    folder.mkdir()

    def write(**modules):
        for name, text in {"__init__": "", **modules}.items():
            (folder / f"{name}.py").write_text(text)
        return folder

    yield write
    sys.modules.pop("ring", None)


def test_circles_are_found_though_they_are_for_typing_or_within_functions(package, capsys):
    package(
        a="from ring.b import x",
        b="def x():\n    from ring.c import y",
        c="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ring.a import z",
        d="import ring.e",
        e="",
        f="from ring import g, a",
        g="from ring.f import a",
    )
    assert check_cycles.main("ring") == 1
    printed = capsys.readouterr().out
    assert printed.count("a circle of") == 2
    assert "a circle of 3 modules:\n  ring.a, line 1: from ring.b import x\n" in printed
    assert "ring.c, line 3: from ring.a import z" in printed
    assert "ring.d" not in printed
    assert printed.endswith("ring: 2 circles of imports among 8 modules\n")


def test_without_a_circle_the_check_passes(package, capsys):
    package(a="from ring import b, c", b="from ring.c import x", c="")
    assert check_cycles.main("ring") == 0
    assert capsys.readouterr().out == "ring: 0 circles of imports among 4 modules\n"


CODE = '''"""A docstring
of two lines."""

import os  # with a comment


def f():
    """Another."""
    # A comment.
    text = """A string
    that is used."""
    return (
        text
    )
'''


def test_lines_of_code_are_those_that_do_something(package, tmp_path, capsys):
    folder = package(a=CODE, b="'alone'\n", c="é = 1\n")
    (folder / "inner").mkdir()
    (folder / "inner" / "d.py").write_text("x = 1\n")
    assert count_lines.lines_of_code(folder / "a.py") == 7
    count_lines.main(str(folder))
    printed = capsys.readouterr().out
    assert printed == (
        "      8 lines in   4 files: ring/\n      1 lines in   1 files: ring/inner\n"
        "      9 lines of code in   5 files\n"
    )
