"""The scripts that check and count the code."""

import subprocess

import pytest
from scripts import check, count_lines, tree

SOURCE = '''"""A docstring
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
BUDGETS = """[code]
recipes = 1
"src/askance" = 1  # the main path
"src/askance/cli" = 7
[data]
"." = 18
tests = 3
[tests]
tests = 2
[web]
src = 2
[words]
docs = 4
"docs/log" = 1
[total]
"code of src" = 8
lines = 34
words = 5
"""
FILES = {
    "budgets.toml": BUDGETS,
    "src/askance/cli/main.py": SOURCE,
    "src/askance/cli/__init__.py": '"""Return `told` and "tell"."""\n',
    "src/askance/ask.py": "x = 1\n",
    "src/askance/cli/page.css": "a {\n\n}\n",
    "recipes/deep/one.py": "é = 1\n",
    "tests/test_one.py": "\n# A comment.\n",
    "tests/long.json": "1" * 111 + "\n\n2\n",
    "docs/page.md": "# Three more words\n",
    "docs/log/2026.md": "one\n",
    "docs/picture.png": "\0 is in no text",
}


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository that uses up its budgets, with a function that changes its files."""

    def write(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8") if text else (tmp_path / name).unlink()

    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "cycle_faults", lambda: ())
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    write(FILES)
    return write


def test_every_text_file_counts_in_one_row_and_rows_are_only_lowered(repository, tmp_path, capsys):
    assert check.main() == 0
    printed = capsys.readouterr().out
    assert "code  src/askance/cli                     7 of         7\n" in printed
    assert "total lines                              34 of        34\n" in printed
    repository({"src/askance/cli/main.py": "x = 1\n", "recipes/two.py": "x = 1\n", "docs/log/2026.md": None})
    assert check.main("--lower") == 0
    lowered = BUDGETS.replace("words = 5", "words = 4").replace('"docs/log" = 1\n', "")
    for before, after in (('cli" = 7', 'cli" = 1'), ('src" = 8', 'src" = 2'), ("lines = 34", "lines = 29")):
        lowered = lowered.replace(before, after)
    assert (tmp_path / "budgets.toml").read_text() == lowered


FAULTS = [
    ("src/askance/cli/a.py", "x = 1\ny = 2\n", "'src/askance/cli' uses 9 of 7: remove 2 there, or"),
    ("src/askance/serve/a.py", "# A\n", "'src/askance/serve' uses 0 and has no row in budgets.toml: add"),
    ("docs/log/2026.md", None, "'docs/log' of budgets.toml names nothing that is there: remove"),
    ("src/askance/a.py", "class A:\n  class A: ...\n", "class A is defined in src/askance/a.py"),
    ("recipes/told.py", '"""Of old."""\n', "recipes/told.py:1: 'Of' in 'Of old.'"),
    ("recipes/told.py", '"""This is told."""\n', "recipes/told.py:1: 'told' in 'This is told.'"),
    ("budgets.toml", "[code", "budgets.toml can't be read (Expected ']'"),
    ("budgets.toml", '[code]\ncli = "7"', "budgets.toml has '7' at [code] cli: write a whole number"),
    ("budgets.toml", "[code]\ncli = -1", "budgets.toml has -1 at [code] cli"),
    ("budgets.toml", "code = 7", "budgets.toml has 7 at [code]:"),
]


@pytest.mark.parametrize(("file", "content", "fault"), FAULTS)
def test_a_fault_names_place_value_and_remedy(repository, capsys, file, content, fault):
    repository({file: content})
    assert check.main() == (2 if file == "budgets.toml" else 1)
    assert fault in "".join(capsys.readouterr())


def test_a_cycle_is_printed_also_if_it_is_for_typing_or_within_functions(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "ring").mkdir()
    typing = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ring import a"
    texts = {"a": "import ring.b", "b": "def x():\n    from ring import c", "c": typing, "d": "import ring.a"}
    for name, text in {"__init__": "", **texts}.items():
        (tmp_path / "ring" / f"{name}.py").write_text(text)
    assert sorted(check.cycle_faults("ring")) == [
        "import cycle: ring.a, line 1: import ring.b",
        "import cycle: ring.b, line 2: from ring import c",
        "import cycle: ring.c, line 3: from ring import a",
    ]
    (tmp_path / "ring" / "c.py").write_text("")
    assert not list(check.cycle_faults("ring"))


def test_lines_and_modules_are_listed(repository, tmp_path, capsys):
    count_lines.main(str(tmp_path / "src"))
    assert capsys.readouterr().out.splitlines() == [
        "      7 lines in   2 files: askance/cli",
        "      1 lines in   1 files: askance/",
        "      8 lines of code in   3 files",
    ]
    listed = [line.split(maxsplit=1) for line in tree.tree(tmp_path / "src" / "askance")]
    assert listed == [["cli/", 'Return `told` and "tell".'], ["main.py", "A docstring"], ["ask.py"]]
