"""Every measuring script can be called, and the index of the folder lists it."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SCRIPTS = sorted(
    path.stem
    for path in (ROOT / "benchmarks").glob("*.py")
    if "__main__" in path.read_text(encoding="utf-8") and path.stem != "__main__"
)
WITHOUT_OUT = {
    "engines", "clients", "documents", "efficiency", "every_processor", "filters", "gpu", "languages",
    "pandoc_differences",
    "replay_reference", "replay_selfrag", "serving", "stalls",
}  # fmt: skip
"""Scripts that print their table and write no folder of their own."""
OF_THE_LABORATORY = {"ranking", "replay_reference", "replay_selfrag"}
"""Scripts that measure weights or methods of the laboratory."""


def test_the_index_lists_all_scripts():
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `benchmarks\.(\w+)`", page, flags=re.MULTILINE)) == SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_tells_its_options(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(ROOT / "benchmarks" / f"{script}.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert stop.value.code == 0
    assert "--help" in shown
    assert script in WITHOUT_OUT or "--out" in shown
