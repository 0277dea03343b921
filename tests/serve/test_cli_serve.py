"""The command `askance serve`: it starts, says where, refuses what is unsafe, and ends on a signal."""

import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx2
import pytest

from tests.serve.served import KEY, QUESTION, bearer


@contextmanager
def command(*words, prepare=None, **environment):
    """The running command, and its address once it listens. `prepare` runs in its process before it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "askance", "serve", *map(str, words), "--port", "0"],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=prepare,
    )  # fmt: skip
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if found := re.search(r"serves (http://\S+)", line):
                break
        else:
            raise AssertionError("".join(lines))
        with httpx2.Client(base_url=found[1], timeout=60, trust_env=False) as client:
            yield process, client
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


BODY = {"messages": [{"role": "user", "content": QUESTION}]}


def test_the_command_serves_until_a_signal_and_forgets_nothing_on_a_kill(sample_index, tmp_path):
    """It is killed while it answers; started again, by a file of settings, it has the document added."""
    subprocess.run(["cp", "-r", sample_index, tmp_path / "index"], check=True)
    words = ("--index", tmp_path / "index", "--model", "scripted", "--method", "single")
    with command(*words) as (process, client):
        assert client.get("/readyz").json()["status"] == "ready"
        added = client.post("/v1/documents", json={"id": "zork", "text": "A zorkmid is money."})
        assert added.json()["data"][0]["outcome"] == "added"
        with ThreadPoolExecutor() as pool:
            for _ in range(4):
                pool.submit(_ask_until_it_ends, client.base_url)
            process.kill()
    file = tmp_path / "askance.toml"
    file.write_text(f'index = "{tmp_path / "index"}"\nmethod = "flare"\nmodel = "scripted"\n')
    with command("--config", file) as (process, client):
        models = client.get("/v1/models").json()["data"]
        assert [model["id"] for model in models if model["askance"]["default"]] == ["askance/flare"]
        hits = client.post("/v1/search", json={"query": "zorkmid"}).json()["data"]
        assert [hit["passage"]["id"] for hit in hits] == ["zork"]
        assert client.post("/v1/chat/completions", json=BODY).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)
        assert "Traceback" not in process.stdout.read()


def _ask_until_it_ends(url):
    with httpx2.Client(base_url=url, timeout=60, trust_env=False) as client:
        try:
            while True:
                client.post("/v1/chat/completions", json=BODY)
        except httpx2.HTTPError:
            pass


def test_a_key_comes_from_the_environment_and_is_printed_nowhere(sample_index):
    words = ("--index", sample_index, "--model", "scripted", "--api-key-env", "MY_KEY", "--method", "single")
    with command(*words, MY_KEY=KEY) as (process, client):
        assert client.get("/v1/models").status_code == 401
        assert client.get("/v1/models", headers=bearer(KEY)).status_code == 200
        assert client.post("/v1/chat/completions", content=KEY, headers=bearer(KEY)).status_code == 415
        assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 421
        process.send_signal(signal.SIGINT)
        process.wait(60)
        assert KEY not in process.stdout.read()


KEYED = ("--api-key-env", "MY_KEY")
REFUSED = [
    (KEY, ("--host", "0.0.0.0"), "no API key protects the server"),
    *((value, KEYED, "API key") for value in (None, "", " , ", "short")),
    (KEY, ("--index", "missing"), "does not exist"),
    (KEY, ("--method", "single"), "no index is given"),
    (KEY, ("--method", "dragon"), "did you mean 'dragin'"),
    (KEY, ("--host", "no.such.host.invalid", *KEYED), "can't listen on no.such.host.invalid"),
    (KEY, ("--port", "70000"), "--port"),
]
"""The value of the variable MY_KEY, the words of the command, and a part of the message."""


@pytest.mark.parametrize(("key", "words", "part"), REFUSED)
def test_bad_input_exits_with_2_and_says_what_to_do(run, monkeypatch, key, words, part):
    if key is not None:
        monkeypatch.setenv("MY_KEY", key)
    code, out, err = run("serve", "--model", "scripted", *words, columns=300)
    assert (code, out) == (2, "")
    assert part in " ".join(err.split())


def test_a_port_in_use_is_named(run, sample_index):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run("serve", "--index", sample_index, "--model", "scripted", "--port", port)
    assert (code, "--port" in err) == (2, True)
    assert f"127.0.0.1, port {port}" in " ".join(err.split())


def test_without_the_extra_the_command_names_it(sample_index):
    code = (
        "import sys; sys.modules['fastapi'] = None; from askance.cli.main import main; "
        f"sys.argv = ['askance', 'serve', '--index', {str(sample_index)!r}, '--model', 'scripted']; main()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 2
    assert "askance serve needs the package 'fastapi'" in " ".join(ended.stderr.split())
