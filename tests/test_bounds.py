"""Bounds on the versions of libraries whose internals are used, and packages that no extra may bring."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TOUCHED = {
    "transformers": "models/hf: the attention that is registered, and the eager one beside each model "
    "(attention.py), the input of a batched forward pass (backend.py), the mappings of model classes "
    "(load.py, entailment.py), the bar of its GGUF reader (noise.py)",
    "sentence-transformers": "models/hf/encoder.py: the modules of a SentenceTransformer, and the "
    "tokenizer and the modalities of the first one",
    "tantivy": "retrieval/index/lexical.py: meta.json, .managed.json, the names of lock files and of files "
    "that strike out passages",
    "xllamacpp": "models/llama_cpp: the structures of llama.cpp, field by field (declarations.py), and where "
    "its library lies (library.py)",
}
"""What is touched below the documented surface, to be read again before a bound is raised."""
VULNERABLE = {"diskcache": "CVE-2025-69872: it unpickles what it finds"}
"""Packages that nothing of this project may bring."""


def requirements():
    parts = (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    return [Requirement(each) for part in parts for each in part]


def declared(name):
    """The requirement of a package in pyproject.toml."""
    (found,) = {str(each.specifier): each for each in requirements() if each.name == name}.values()
    return found


def problem_of(name, installed):
    """What to do about an installed version that nobody has tried; empty for one within the bounds."""
    if declared(name).specifier.contains(installed, prereleases=True):
        return ""
    return (
        f"{name} {installed} is installed, and pyproject.toml has {declared(name)}: this version has not "
        f"been tried. Read its changes against {TOUCHED[name]}; run all tests with it, and "
        "raise the bound then."
    )


@pytest.mark.parametrize("name", TOUCHED)
def test_the_installed_version_was_tried_and_the_next_major_version_is_out_of_bounds(name):
    (bound,) = (each.version for each in declared(name).specifier if each.operator in ("<", "=="))
    following = bound if "<" in str(declared(name).specifier) else f"{Version(bound).major + 1}.0"
    assert f"{name} {following} is installed" in problem_of(name, following)
    assert "raise the bound" in problem_of(name, following)
    folders = re.findall(r"(models/\w+|retrieval/index)[:/]", TOUCHED[name])
    for file in re.findall(r"\w+\.py", TOUCHED[name]):
        assert any((ROOT / "src" / "askance" / folder / file).is_file() for folder in folders), file
    try:
        installed = version(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    assert not problem_of(name, installed), problem_of(name, installed)


def test_the_measured_versions_are_within_the_bounds():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {each.name: each.specifier for each in map(Requirement, (x for x in lines if x and x[0] != "#"))}
    for each in requirements():
        for pin in pinned.get(each.name, ()):
            assert each.specifier.contains(pin.version), (each, pin)


def test_nothing_brings_a_package_with_a_known_vulnerability():
    reached, left = set(), [canonicalize_name(each.name) for each in requirements()]
    while left:
        name = left.pop()
        if name in reached or name == "askance":
            continue
        reached.add(name)
        try:
            needed = map(Requirement, requires(name) or ())
        except PackageNotFoundError:
            continue
        environment = {"extra": ""}
        left += [
            canonicalize_name(each.name)
            for each in needed
            if each.marker is None or each.marker.evaluate(environment)
        ]
    assert {"numpy", "jinja2", "markupsafe"} <= reached
    assert not reached & VULNERABLE.keys(), VULNERABLE
    assert "llama-cpp-python" not in reached, "it brings diskcache"
