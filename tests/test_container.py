"""The container: what the Dockerfile and the compose file name exists, and their commands run."""

import json
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="PyYAML is not installed")
pytest.importorskip("fastapi", reason="the extra serve is not installed")

import yaml

from tests.serve.served import KEY, bearer
from tests.serve.test_cli_serve import command

ROOT = Path(__file__).parents[1]


def instructions():
    """Return the instructions of the Dockerfile: the name of each and its text, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.strip().split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def texts(name):
    return [text for found, text in instructions() if found == name]


def is_in_context(path):
    """Whether .dockerignore lets a path of the repository into the build."""
    is_kept = True
    for line in (ROOT / ".dockerignore").read_text().split():
        pattern = line.removeprefix("!")
        if fnmatch(path, pattern) or path.startswith(f"{pattern}/"):
            is_kept = line.startswith("!")
    return is_kept


def services():
    return yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]


def test_the_build_copies_what_the_package_needs_and_does_not_run_as_root():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stages = {text.split()[-1] for text in texts("FROM") if " AS " in text}
    for text in texts("COPY"):
        *sources, _ = text.split()
        if sources[0].startswith("--from="):
            assert sources[0].removeprefix("--from=") in stages
            continue
        for source in sources:
            assert ((ROOT / source).exists(), is_in_context(source)) == (True, True), source
    assert not is_in_context("askance.env")
    assert not is_in_context(".git")
    needed = {"src", "pyproject.toml", "constraints.txt", "lock.txt", "scripts/lock.py"}
    assert {project["readme"], *project["license-files"], *needed} <= {*" ".join(texts("COPY")).split()}
    (extras,) = (text.removeprefix("EXTRAS=") for text in texts("ARG"))
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    (user,) = texts("USER")
    names = [name for name, _ in instructions()]
    assert (int(user) > 0, names.index("USER") < names.index("CMD")) == (True, True)


def test_the_command_serves_and_the_health_check_finds_it(sample_index):
    """The commands are those of the image; only the folder, the model and the port are others."""
    assert json.loads(texts("ENTRYPOINT")[0]) == ["askance"]
    name, *words = json.loads(texts("CMD")[0])
    assert name == "serve"
    words = [str(sample_index) if word == "/data/index" else word for word in words]
    _, check = texts("HEALTHCHECK")[0].split(" CMD ")
    python, option, code = json.loads(check)
    assert (python, option) == ("python", "-c")

    def check_health(port):
        found = code.replace(":8080", f":{port}")
        return subprocess.run([sys.executable, "-c", found], capture_output=True).returncode

    with command(*words, "--model", "scripted", "--method", "single", API_KEY=KEY) as (_, client):
        assert client.get("/v1/models", headers=bearer(KEY)).status_code == 200
        port = client.base_url.port
        assert check_health(port) == 0
    assert check_health(port) == 1


def test_the_index_of_the_compose_file_is_that_of_the_server(run, tmp_path):
    file = tmp_path / "documents" / "bonn.txt"
    file.parent.mkdir()
    file.write_text("Bonn lies on the river Rhine.")
    words = [word.replace("/documents", str(file.parent)) for word in services()["index"]["command"]]
    served = json.loads(texts("CMD")[0])
    assert words[words.index("--out") + 1] == served[served.index("--index") + 1]
    assert run(*(word.replace("/data", str(tmp_path)) for word in words))[0] == 0
    assert (tmp_path / "index").is_dir()


def test_the_services_have_no_rights_and_only_the_volume_is_writable():
    volumes = yaml.safe_load((ROOT / "compose.yaml").read_text())["volumes"]
    for service in services().values():
        mounts = [mount.split(":") for mount in service["volumes"]]
        assert all(source in volumes or mode == ["ro"] for source, _, *mode in mounts)
        assert ("data", texts("VOLUME")[0]) in [tuple(mount[:2]) for mount in mounts]
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    server = services()["askance"]
    assert server["ports"] == [f"127.0.0.1:8080:{texts('EXPOSE')[0]}"]
    assert (server["env_file"], "environment" in server) == ("askance.env", False)
