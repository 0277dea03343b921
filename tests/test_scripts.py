"""The scripts that `make check` runs, and the one that lists the tests."""

import subprocess
import sys
from pathlib import Path

import pytest
from scripts import check_cycles, count_lines, list_tests


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
    assert printed.count("a cycle of") == 2
    assert "a cycle of 3 modules:\n  ring.a, line 1: from ring.b import x\n" in printed
    assert "ring.c, line 3: from ring.a import z" in printed
    assert "ring.d" not in printed
    assert printed.endswith("ring: 2 import cycles among 8 modules\n")


def test_without_a_circle_the_check_passes(package, capsys):
    package(a="from ring import b, c", b="from ring.c import x", c="")
    assert check_cycles.main("ring") == 0
    assert capsys.readouterr().out == "ring: 0 import cycles among 4 modules\n"


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


def has_two(things):
    """A helper with assertions, one of which is a call."""
    assert len(things) == 2
    with pytest.raises(IndexError):
        things[2]


def has_three():
    has_two("ab")
    has_two("cd")
    assert not list_tests.assertions_of(len)


def test_assertions_are_those_of_a_test_and_of_its_helpers():
    assert list_tests.assertions_of(has_two) == 2
    assert list_tests.assertions_of(has_three) == list_tests.assertions_of(has_three, has_two) == 3


def test_each_test_is_listed_with_its_assertions():
    """In a process of its own, where pytest runs but once."""
    root = Path(__file__).parents[1]
    named = "tests/core/test_trace.py"
    command = [sys.executable, "scripts/list_tests.py", "-p", "no:cacheprovider"]
    listed = subprocess.run([*command, named], cwd=root, capture_output=True, text=True, check=True).stdout
    rows = [line.split(" ", 1) for line in listed.splitlines()]
    assert rows
    assert all(int(number) > 0 and id.startswith(f"{named}::") for number, id in rows)
    ended = subprocess.run([*command, "tests/none.py"], cwd=root, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (4, "")
    assert "not collected" in ended.stderr
