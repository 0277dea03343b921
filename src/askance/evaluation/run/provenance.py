"""The provenance of a run: the machine, the versions of libraries, and the code it depends on."""

import os
import platform
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from askance.core.version import VERSION

_PACKAGES = ("numpy", "torch", "transformers", "xllamacpp", "tantivy", "sentence-transformers", "httpx2")
_OWN = __name__.partition(".")[0]
_SOURCES = (".py", ".toml")
_GIB = 2**30


def versions_here() -> dict[str, str]:
    """Return the versions of Python, askance and the installed libraries that answers may depend on."""
    versions = {"python": platform.python_version(), _OWN: _revision()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


@cache
def _revision() -> str:
    """Return the git commit of askance, marked if its files are modified; without git, the version."""
    root = Path(__file__).parents[4]
    if (root / ".git").exists():
        with suppress(OSError, subprocess.SubprocessError):
            describe = "describe --always --exclude=* --abbrev=12 --dirty=+modified".split()
            command = ["git", "--no-optional-locks", "-C", str(root), *describe]
            return subprocess.check_output(command, timeout=10, stderr=subprocess.DEVNULL).decode().strip()
    return VERSION


def code_of(modules: Iterable[str]) -> dict[str, str]:
    """Return a hash of askance's source and of that of each plug-in, by the name of its package or module.

    Args:
        modules: The names of the imported modules that the plug-ins are in.
    """
    packages = {module.partition(".")[0] for module in modules if module} - sys.stdlib_module_names
    names = dict.fromkeys((_OWN, *sorted(packages)))
    return {name: source for name in names if (source := _source_hash(sys.modules.get(name)))}


@cache
def _source_hash(module: ModuleType | None) -> str:
    """Return a hash of the source of a module, or of all modules of a package; empty if there is no file."""
    file = Path(getattr(module, "__file__", None) or "")
    files = {file.name: file}
    for folder in getattr(module, "__path__", ()):
        paths = (path for path in Path(folder).rglob("*") if path.suffix in _SOURCES)
        files |= {path.relative_to(folder).as_posix(): path for path in paths}
    digest, contents = blake2b(digest_size=8), {n: p.read_bytes() for n, p in files.items() if p.is_file()}
    for name, content in sorted(contents.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest() if contents else ""


def machine_here() -> str:
    """Return a description of this machine: its processor, cores, memory and the GPUs that torch sees.

    The description never names the host, and torch is not imported for it.
    """
    parts = [_processor(), f"{os.cpu_count()} cores", platform.machine()]
    with suppress(AttributeError, OSError, ValueError):  # not on every system
        parts.append(f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / _GIB:.0f} GiB")
    return ", ".join(filter(None, (*parts, *_gpus())))


def _processor() -> str:
    with suppress(OSError):
        found = re.search(r"^model name\s*: *(.+)", Path("/proc/cpuinfo").read_text(errors="replace"), re.M)
        if found:
            return found[1].strip()
    name = platform.processor()
    return "" if name == platform.machine() else name


def _gpus() -> list[str]:
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    found = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    counts = Counter(f"{each.name} ({each.total_memory / _GIB:.0f} GiB)" for each in found)
    return [f"{number} × {gpu}" for gpu, number in counts.items()]
