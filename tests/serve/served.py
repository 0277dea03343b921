"""Servers on loopback for the tests, each in its own thread, and models that wait until they may answer."""

import asyncio
import concurrent.futures
import json
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass

import httpx2

from askance.configuration.server import ServerConfig
from askance.models.scripted import ScriptedModel
from askance.serve.app import create_app
from askance.serve.limits import Limits
from askance.serve.security import Keys
from askance.serve.server import make_server, open_socket
from askance.storage.trace_file import parse_trace

ANSWER = " Ingmar Bergman was born in Uppsala in 1918. So the answer is Uppsala."
QUESTION = "Where was Ingmar Bergman born?"
KEY, OTHER_KEY = "key-of-the-first-user", "key-of-the-second-user"


@dataclass
class Served:
    """A running server, with a client that speaks to it."""

    url: str
    client: httpx2.Client
    model: object

    def ask(self, question=QUESTION, key=None, **fields):
        """The response to one question."""
        messages = [{"role": "user", "content": question}] if isinstance(question, str) else question
        body = {"model": "askance/single", "messages": messages, **fields}
        return self.client.post("/v1/chat/completions", json=body, headers=bearer(key))

    def answered(self, *given, **fields):
        response = self.ask(*given, **fields)
        assert response.status_code == 200, response.text
        return response.json()

    def get(self, path, key=None, **headers):
        return self.client.get(path, headers={**bearer(key), **headers})

    def post(self, path, body, key=None):
        """The response to a body of JSON, or to bytes that claim to be JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body)
        headers = {"Content-Type": "application/json", **bearer(key)}
        return self.client.post(path, content=content, headers=headers)

    def delete(self, path, key=None):
        return self.client.delete(path, headers=bearer(key))

    def found(self, query, key=None, **fields):
        """The ids of the passages that a search finds."""
        response = self.post("/v1/search", {"query": query, "k": 10, **fields}, key)
        assert response.status_code == 200, response.text
        return [hit["passage"]["id"] for hit in response.json()["data"]]

    def trace_of(self, answer, key=None):
        """The events of the trace of an answer."""
        text = self.get(f"/v1/traces/{answer['askance']['trace_id']}", key).text
        return parse_trace(text, "the response")

    def connection(self, sent=b""):
        """A raw connection over which `sent` has been sent."""
        host, port = self.url.removeprefix("http://").split(":")
        connection = socket.create_connection((host, int(port)), timeout=60)
        connection.sendall(sent)
        return connection


def bearer(key):
    return {} if key is None else {"Authorization": f"Bearer {key}"}


@contextmanager
def serving(
    index=None, model=None, *, keys=(), filters=None, hosts=None, limits=Limits(in_flight=4), **settings
):
    """A server on a free port of loopback, which is stopped at the end of the block."""
    model = model or ScriptedModel(lambda prompt, key: ANSWER)
    config = ServerConfig(**{"method": "single", "models": {"answer": model}, "index": index, **settings})
    with_filters = {key: (filters or {}).get(key) for key in keys}
    app = create_app(config, Keys(with_filters), hosts=hosts, limits=limits)
    listening = open_socket("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    server = make_server(app, limits)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        with httpx2.Client(base_url=url, timeout=60, trust_env=False) as client:
            yield Served(url, client, model)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


class HeldModel(ScriptedModel):
    """A model whose calls wait until they are released, and which says what happens to them."""

    def __init__(self, *given, **named):
        super().__init__(*given or (lambda prompt, key: ANSWER,), **named)
        self.released = concurrent.futures.Future()
        self.started, self.cancelled = threading.Semaphore(0), threading.Semaphore(0)

    def release(self):
        self.released.set_result(None)

    async def generate(self, request):
        self.started.release()
        try:
            await asyncio.shield(asyncio.wrap_future(self.released))
        except asyncio.CancelledError:
            self.cancelled.release()
            raise
        return await super().generate(request)


def events_of(text):
    """The events of a stream: the name of each, which is empty for chunks, and its data."""
    events = []
    for block in filter(None, text.replace("\r\n", "\n").split("\n\n")):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            data = fields["data"]
            events.append((fields.get("event", ""), data if data == "[DONE]" else json.loads(data)))
    return events


def chunks_of(text):
    """The chunks of a stream, which has to end properly."""
    events = [data for name, data in events_of(text) if not name]
    assert events[-1] == "[DONE]"
    return events[:-1]


def error_of(response):
    """The status and the code of an error."""
    return response.status_code, response.json()["error"]["code"]


def message_of(chunks):
    """The content and the annotations of a stream."""
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    content = "".join(delta.get("content") or "" for delta in deltas)
    return content, [annotation for delta in deltas for annotation in delta.get("annotations", ())]


def post_head(path, num_bytes):
    """The head of a request that announces a body."""
    lines = (f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json")
    return "\r\n".join((*lines, f"Content-Length: {num_bytes}", "\r\n")).encode()
