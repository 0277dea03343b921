"""The page for contributors: its tasks name files that exist and define what the page says."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Where to look\n")[2].partition("\n## ")[0]
TASKS = re.findall(r"^\| (.+) \| `([\w/]+\.py)` \| `(\w+)` \|$", SECTION, re.MULTILINE)


def defined_in(file):
    """Return the names of the classes, functions and constants that a module of the package defines."""
    tree = ast.parse((ROOT / "src" / "askance" / file).read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def test_there_are_twenty_tasks_in_twenty_files():
    assert len(TASKS) == len({file for _, file, _ in TASKS}) == 20
    assert SECTION.count("\n| ") == 21, "a heading and a row for each task"


@pytest.mark.parametrize(("task", "file", "definition"), TASKS)
def test_the_file_of_a_task_defines_what_the_page_says(task, file, definition):
    assert definition in defined_in(file)
