"""Many connections: those above the limit are refused, idle ones are closed, and the server answers."""

import json
import socket
from contextlib import ExitStack

import pytest

from askance.serve.limits import Limits, with_open_files
from tests.serve.served import QUESTION, serving
from tests.serve.test_cli_serve import command

resource = pytest.importorskip("resource", reason="this system has no limit of open files")

WAIT = 60
BODY = {"messages": [{"role": "user", "content": QUESTION}]}
ASK = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HALF = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le"


def connected(server, held):
    """A connection that stays open until the end of the stack `held`."""
    host, port = server.url.removeprefix("http://").split(":")
    return held.enter_context(socket.create_connection((host, int(port)), timeout=WAIT))


def response_on(connection):
    """The status, the headers and the body of a response after which the server closes the connection."""
    received = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    head, _, body = received.partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body


@pytest.mark.parametrize("sent", [b"", ASK, HALF])
def test_a_connection_above_the_limit_is_refused_until_another_closes(sent):
    with serving(limits=Limits(connections=2), method="closed_book") as server, ExitStack() as held:
        for _ in range(2):
            used = connected(server, held)
            used.sendall(ASK)
            assert used.recv(100).startswith(b"HTTP/1.1 200")
        refused = connected(server, held)
        refused.sendall(sent)
        status, headers, body = response_on(refused)
        assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
        assert json.loads(body)["error"]["code"] == "too_many_connections"
        used.close()
        while server.client.get("/healthz").status_code == 503:
            pass
        assert server.ask(model="").status_code == 200


@pytest.mark.parametrize("sent", [b"", HALF, ASK + HALF])
def test_a_connection_without_a_whole_request_is_closed(sent):
    """Otherwise, idle ones would keep everybody else out for as long as they like."""
    with serving(limits=Limits(head_seconds=0.01), method="closed_book") as server, ExitStack() as held:
        idle = connected(server, held)
        idle.sendall(sent)
        while idle.recv(1000):
            pass


def test_more_connections_than_files_leave_the_server_able_to_answer(sample_index):
    """The server may open few files. Half of the connections send half a request, the others a whole one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed, number = 2248, min(1200, soft - 300)  # 2,048 of them are not for connections that are served
    if hard < allowed or number < 300:
        pytest.skip(f"this process may open {soft} files only")

    def few_files():
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, allowed))

    words = ("--index", sample_index, "--model", "scripted", "--method", "closed_book")
    with command(*words, prepare=few_files) as (process, client), ExitStack() as held:
        address = (client.base_url.host, client.base_url.port)
        all = [held.enter_context(socket.create_connection(address, timeout=WAIT)) for _ in range(number)]
        for at, connection in enumerate(all):
            connection.sendall(HALF if at % 2 else ASK)
        firsts = [connection.recv(12) for connection in all[::2]]
        assert set(firsts) == {b"HTTP/1.1 200", b"HTTP/1.1 503"}
        assert firsts.count(b"HTTP/1.1 200") <= 200
        for connection in all:
            connection.close()
        while client.get("/healthz").status_code == 503:
            pass
        assert client.post("/v1/chat/completions", json=BODY).json()["choices"]
        process.terminate()
        assert "Traceback" not in process.stdout.read()


def test_the_limit_of_open_files_is_raised_as_far_as_needed(monkeypatch):
    """By default: 1,000 connections, 512 that arrive at once, 1,024 that are refused, and 512 other files."""
    limits, found = Limits(), [(256, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: found[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, given: found.append(given))
    assert with_open_files(limits) == limits
    assert found[-1] == (3048, 4096)
    assert with_open_files(limits) == limits
    assert len(found) == 2  # it is high enough already
    found.append((256, 2298))
    assert with_open_files(limits) == Limits(connections=250)
    assert found[-1] == (2298, 2298)
    found.append((256, 256))
    assert with_open_files(limits) == Limits(connections=1)
