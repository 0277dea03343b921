"""What a run records of the code and the machine that it depends on."""

import importlib
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from askance.core.version import VERSION
from askance.evaluation.run import provenance
from askance.evaluation.run.provenance import code_of, machine_here, versions_here


@pytest.fixture
def source_of(tmp_path, monkeypatch):
    """Write files into a folder, import `plugin` from it, and return the hash of its source."""

    def source_of(folder, files):
        for name, text in files.items():
            file = tmp_path / folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        sys.modules.pop("plugin", None)
        monkeypatch.setattr(sys, "path", [str(tmp_path / folder), *sys.path])
        importlib.invalidate_caches()
        importlib.import_module("plugin")
        return code_of(["plugin.helper", "json", ""])["plugin"]

    yield source_of
    sys.modules.pop("plugin", None)


def test_code_is_told_apart_by_its_source_and_not_by_its_folder(source_of):
    first = source_of("a", {"plugin.py": "x = 1"})
    assert source_of("b", {"plugin.py": "x = 1"}) == first
    assert source_of("c", {"plugin.py": "x = 2"}) != first
    package = source_of("d", {"plugin/__init__.py": "", "plugin/deep/helper.py": "x = 1"})
    assert source_of("d", {"plugin/notes.md": "x = 2"}) == package
    assert source_of("d", {"plugin/deep/helper.py": "x = 2"}) != package
    assert list(code_of(["json", "askance.ask", "builtins"])) == ["askance"]


GIT = ["abc123def456\n", "abc123def456+modified\n"]


def test_the_revision_is_a_commit_or_else_the_version(monkeypatch, tmp_path):
    revision, printed = provenance._revision.__wrapped__, iter(GIT)
    monkeypatch.setattr(provenance, "_revision", revision)
    monkeypatch.setattr(
        provenance, "__file__", str(tmp_path / "src" / "askance" / "evaluation" / "run" / "p.py")
    )
    assert versions_here()["askance"] == VERSION
    (tmp_path / ".git").write_text("")
    monkeypatch.setattr(subprocess, "check_output", lambda *_, **how: next(printed).encode())
    assert [versions_here()["askance"] for _ in range(2)] == ["abc123def456", "abc123def456+modified"]
    for error in (FileNotFoundError("git"), subprocess.TimeoutExpired("git", 1)):
        monkeypatch.setattr(
            subprocess, "check_output", lambda *_, error=error, **how: (_ for _ in ()).throw(error)
        )
        assert versions_here()["askance"] == VERSION


def test_a_machine_is_its_processor_memory_and_gpus(monkeypatch):
    gpus = [SimpleNamespace(name=name, total_memory=80 * 2**30) for name in ("H100", "H100", "A100")]
    cuda = SimpleNamespace(
        is_available=lambda: True, device_count=lambda: len(gpus), get_device_properties=gpus.__getitem__
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(Path, "read_text", lambda *_, **how: "processor\t: 0\nmodel name\t: Fast 9000\n")
    told = machine_here()
    assert told.startswith("Fast 9000, ")
    assert told.endswith(" GiB, 2 × H100 (80 GiB), 1 × A100 (80 GiB)")
    assert platform.node() not in told
    monkeypatch.delitem(sys.modules, "torch")
    assert (machine_here().endswith(" GiB"), "torch" in sys.modules) == (True, False)
