"""Many connections: those above the limit are refused, idle ones are closed, and the server answers."""

import json
import math
import threading
from contextlib import AsyncExitStack, ExitStack, contextmanager
from socket import SO_LINGER, SOL_SOCKET, create_connection
from types import SimpleNamespace

import pytest
from sse_starlette import ServerSentEvent
from sse_starlette.sse import AppStatus
from starlette.responses import Response

from askance.serve import chat
from askance.serve.chat import StreamResponse
from askance.serve.limits import LimitedConnection, Limits, network_of, with_open_files
from askance.serve.server import make_server, open_socket
from tests.serve.served import QUESTION, HeldModel, serving
from tests.serve.test_cli_serve import command

resource = pytest.importorskip("resource", reason="this system has no limit of open files")

BODY = {"messages": [{"role": "user", "content": QUESTION}]}
ASK = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HALF = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le"


@pytest.mark.parametrize("sent", [b"", ASK, HALF])
def test_a_connection_above_the_limit_is_refused_until_another_closes(sent):
    with serving(limits=Limits(connections=2), method="closed_book") as server, ExitStack() as held:
        for _ in range(2):
            used = held.enter_context(server.connection(ASK))
            assert used.recv(100).startswith(b"HTTP/1.1 200")
        refused = held.enter_context(server.connection(sent))
        received = b"".join(iter(lambda: refused.recv(65536), b"")).decode()  # Then the server closes it.
        head, _, body = received.partition("\r\n\r\n")
        assert head.startswith("HTTP/1.1 503")
        assert {"retry-after: 1", "connection: close"} <= set(head.lower().split("\r\n"))
        assert json.loads(body)["error"]["code"] == "too_many_connections"
        used.close()
        while server.client.get("/healthz").status_code == 503:
            pass
        assert server.ask(model="").status_code == 200


def test_one_address_leaves_connections_to_others():
    limits = Limits(connections=3, connections_per_address=2)
    with serving(limits=limits, method="closed_book") as server, ExitStack() as held:
        idle = [held.enter_context(server.connection()) for _ in range(3)]
        assert idle[-1].recv(100).startswith(b"HTTP/1.1 503")
        port = int(server.url.rpartition(":")[2])
        other = held.enter_context(create_connection(("127.0.0.1", port), 60, ("127.0.0.2", 0)))
        other.sendall(ASK)
        assert other.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("client", "network"),
    [(("10.0.0.1", 5), "10.0.0.1"), (("::ffff:10.0.0.1", 5), "::ffff:10.0.0.1"), (None, ""),
     (("pipe", 5), "pipe"), (("2001:db8:1:2:3::4", 5), "2001:db8:1:2::/64"), (("::1", 5), "::/64")],
)  # fmt: skip
def test_connections_count_by_their_address_or_network(client, network):
    assert network_of(client) == network


@pytest.mark.parametrize("sent", [b"", HALF, ASK + HALF])
def test_a_connection_without_a_whole_request_is_closed(sent):
    """Otherwise, idle ones would keep everybody else out for as long as they like."""
    with (
        serving(limits=Limits(head_seconds=0.01), method="closed_book") as server,
        server.connection(sent) as idle,
    ):
        while idle.recv(1000):
            pass


@contextmanager
def responding(response, **limits):
    """A server that answers every request with the response; yield it with a connection that has asked."""
    server, listening = make_server(response, Limits(**limits)), open_socket("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        with create_connection(listening.getsockname(), timeout=60) as connection:
            connection.sendall(ASK)
            yield server, connection
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def test_a_client_that_reads_nothing_is_closed():
    """Otherwise the connection would stay open until the client closes it."""
    with responding(Response(b"x" * 30_000_000), send_seconds=0.05) as (server, connection):
        assert connection.recv(12) == b"HTTP/1.1 200"
        while server.server_state.connections:
            pass


def test_a_client_that_reads_slowly_is_not_closed():
    connection, calls, unsent = LimitedConnection.__new__(LimitedConnection), [], iter([300, 200, 200])
    flow = SimpleNamespace(pause_writing=list, resume_writing=list)
    connection._limits, connection.flow = Limits(send_seconds=7), flow

    def call_later(*given):
        calls.append(given)
        return SimpleNamespace(cancel=lambda: calls.append("waits no more"))

    connection.loop = SimpleNamespace(call_later=call_later)
    connection.transport = SimpleNamespace(
        get_write_buffer_size=lambda: next(unsent), abort=lambda: calls.append("closed")
    )
    for size in (math.inf, 300, 200):
        connection.pause_writing(size)
    connection.resume_writing()
    again = connection.pause_writing
    assert calls == [(7, again, 300), (7, again, 200), "closed", "waits no more"]


def test_a_client_that_left_is_noticed_before_the_next_event(caplog):
    """The loop logs each message that is sent to a client whose connection is known to be lost."""
    left = threading.Event()

    async def events():
        yield ServerSentEvent("first")
        left.wait()
        for _ in range(50):
            yield ServerSentEvent("next")

    with responding(StreamResponse(events(), AsyncExitStack(), 60)) as (server, connection):
        assert connection.recv(12) == b"HTTP/1.1 200"
        connection.setsockopt(SOL_SOCKET, SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
        left.set()
        while server.server_state.connections:
            pass
    assert caplog.messages == []


def test_a_server_that_ends_says_so_at_the_end_of_a_stream(monkeypatch):
    monkeypatch.setattr(chat, "_GRACE_SECONDS", 0.01)
    with serving(model=HeldModel(), method="closed_book") as server:
        with server.client.stream("POST", "/v1/chat/completions", json={**BODY, "stream": True}) as response:
            assert server.model.started.acquire(timeout=60)
            monkeypatch.setattr(AppStatus, "should_exit", True)
            *_, end = filter(None, response.read().decode().splitlines())
        monkeypatch.undo()
    assert json.loads(end.removeprefix("data: "))["error"]["code"] == "server_ends"


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
        all = [held.enter_context(create_connection(address, timeout=60)) for _ in range(number)]
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


FEW = Limits(connections=250, connections_per_address=62)


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "limits"),
    [(256, 4096, (3048, 4096), Limits()), (3048, 4096, None, Limits()), (256, 2298, (2298, 2298), FEW),
     (256, 256, (256, 256), Limits(connections=1, connections_per_address=1))],
)  # fmt: skip
def test_the_limit_of_open_files_is_raised_as_far_as_needed(monkeypatch, soft, hard, raised, limits):
    """By default: 1,000 connections, 512 that arrive at once, 1,024 that are refused, and 512 other files."""
    changes = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, given: changes.append(given))
    assert with_open_files(Limits()) == limits
    assert changes == ([raised] if raised else [])
