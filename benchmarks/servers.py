"""Servers in separate processes: `askance serve`, and llama.cpp's own server from `xllamacpp`."""

import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from askance.models.llama_cpp import LlamaModel
from askance.models.llama_cpp.context import num_threads
from benchmarks.calls import Call

_SLOT_TOKENS = 2048
_SERVE = """
import json, sys, xllamacpp
options = json.loads(sys.argv[1])
params = xllamacpp.CommonParams()
params.model.path = options["model"]
params.n_parallel, params.n_ctx = options["slots"], options["slots"] * options["tokens"]
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options["threads"]
params.hostname, params.port, params.warmup = "127.0.0.1", 0, True
params.verbosity = 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply: its number of tokens, and when its first text and its end arrived."""

    num_tokens: int
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class LlamaServer:
    """llama.cpp's server, which receives prompts as token ids and decodes greedily."""

    url: str

    def write(self, calls: Sequence[Call]) -> list[Reply]:
        """Send all calls concurrently, each on its own connection."""
        with ThreadPoolExecutor(len(calls)) as threads:
            return list(threads.map(self._written, calls))

    def _written(self, call: Call) -> Reply:
        assert call.sampling is not None
        body = {
            "prompt": list(call.prompts[0]),
            "n_predict": call.sampling.max_tokens,
            "stop": list(call.sampling.stop),
            "temperature": 0,
            "stream": True,
        }
        first, reply = 0.0, dict[str, Any]()
        for reply in _events(self.url, "/completion", body):
            if not first and reply.get("content"):
                first = time.perf_counter()
        ended = time.perf_counter()
        return Reply(reply["tokens_predicted"], first or ended, ended)


@dataclass(frozen=True, slots=True)
class ServedEngine:
    """A running `askance serve`. Every question has a connection of its own."""

    url: str
    process_id: int

    def ask(
        self, text: str, method: str, parameters: Mapping[str, Any] = {}, *, stream: bool = False
    ) -> Reply:
        """Ask a question.

        Args:
            stream: Whether the answer is a stream, whose first text is then noted.
        """
        body = {
            "model": method,
            "messages": [{"role": "user", "content": text}],
            "askance": parameters,
            "stream": stream,
            **({"stream_options": {"include_usage": True}} if stream else {}),
        }
        first, reply = 0.0, dict[str, Any]()
        for reply in _events(self.url, "/v1/chat/completions", body):
            if stream and not first and any(each["delta"].get("content") for each in reply["choices"]):
                first = time.perf_counter()
        ended = time.perf_counter()
        return Reply(reply["usage"]["completion_tokens"], first or ended, ended)

    def ask_all(self, texts: Sequence[str], method: str, parameters: Mapping[str, Any] = {}) -> list[Reply]:
        """Ask questions concurrently, each by a user of its own."""
        with ThreadPoolExecutor(len(texts)) as users:
            return list(users.map(partial(self.ask, method=method, parameters=parameters), texts))

    @property
    def resident_mb(self) -> float:
        """The resident memory of the server's process."""
        return resident_mb(self.process_id)


def resident_mb(process: int | str = "self") -> float:
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000


def _events(url: str, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Send a request, and yield the events of the response, or its content if it is not a stream."""
    connection = http.client.HTTPConnection(url.partition("//")[2].rstrip("/"))
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if not body["stream"]:
        yield json.loads(response.read())
        return
    for line in response:
        if line.startswith(b"data: {"):
            yield json.loads(line.removeprefix(b"data: "))


@contextmanager
def serve(*options: str) -> Iterator[ServedEngine]:
    """Start `askance serve` on a free port, yield it once it can answer, and stop it at the end."""
    with _started("-m", "askance", "serve", "--port", "0", *options) as (url, process_id):
        yield ServedEngine(url, process_id)


@contextmanager
def serve_llama(model: LlamaModel, slots: int) -> Iterator[LlamaServer]:
    """Start llama.cpp's server with the weights of a model, yield it, and stop it at the end."""
    options = {"slots": slots, "tokens": _SLOT_TOKENS, "threads": num_threads()}
    words = json.dumps({"model": str(model._weights.path), **options})
    with _started("-c", _SERVE, words) as (url, _):
        yield LlamaServer(url)


@contextmanager
def _started(*words: str) -> Iterator[tuple[str, int]]:
    """Start a Python process that prints its address, and yield this address and the process's id."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, *words], text=True, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        try:
            found = (re.search(r"http://\S+", line) for line in process.stdout)
            address = next(filter(None, found), None)
            assert address, "the server did not start"
            yield address[0], process.pid
        finally:
            process.terminate()
