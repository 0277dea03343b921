"""Every measuring script can be called, and is in the table of the page on evaluation."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SCRIPTS = sorted(
    path.stem for path in (ROOT / "runs").glob("*.py") if "__main__" in path.read_text(encoding="utf-8")
)


def test_the_table_names_all_scripts():
    page = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `runs\.(\w+)`", page, flags=re.MULTILINE)) == SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_tells_its_options(script):
    called = subprocess.run(
        [sys.executable, "-m", f"runs.{script}", "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert called.returncode == 0, called.stderr
    assert "--out" in called.stdout
