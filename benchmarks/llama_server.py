"""llama.cpp's own server, from `xllamacpp`, in a separate process."""

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.work import Call

_SERVE = """
import json, sys, xllamacpp
options = json.loads(sys.argv[1])
params = xllamacpp.CommonParams()
params.model.path = options["model"]
params.n_parallel, params.n_ctx = options["slots"], options["slots"] * options["tokens"]
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options["threads"]
params.hostname, params.port, params.warmup = "127.0.0.1", 0, True
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class Written:
    """The number of tokens that the server generated for a call, and when it sent the first and last one."""

    num_tokens: int
    first: float
    last: float


class LlamaServer:
    """A running server, which receives prompts as token ids and decodes greedily."""

    def __init__(self, address: str) -> None:
        self._address = address.partition("//")[2].rstrip("/")

    def write(self, calls: Sequence[Call], *, cached: bool = True) -> list[Written]:
        """Send all calls concurrently, each on its own connection.

        Args:
            cached: Whether the server may use its prompt cache.
        """
        with ThreadPoolExecutor(len(calls)) as threads:
            return list(threads.map(partial(self._written, cached=cached), calls))

    def _written(self, call: Call, *, cached: bool) -> Written:
        assert call.sampling is not None
        body = {
            "prompt": list(call.prompts[0]),
            "n_predict": call.sampling.max_tokens,
            "stop": list(call.sampling.stop),
            "temperature": 0,
            "stream": True,
            "cache_prompt": cached,
        }
        connection = http.client.HTTPConnection(self._address)
        connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        first, reply = 0.0, dict[str, Any]()
        for line in connection.getresponse():
            if line.startswith(b"data: "):
                reply = json.loads(line.removeprefix(b"data: "))
                if not first and reply.get("content"):
                    first = time.perf_counter()
        return Written(reply["tokens_predicted"], first or time.perf_counter(), time.perf_counter())


@contextmanager
def serving(model: Path, *, slots: int, tokens: int, threads: int) -> Iterator[LlamaServer]:
    """Start a server, yield it, and stop it at the end."""
    reply = {"model": str(model), "slots": slots, "tokens": tokens, "threads": threads}
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, json.dumps(reply)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = next((line for line in process.stdout if line.startswith("http")), "")
        try:
            assert address, "the server of llama.cpp did not start"
            yield LlamaServer(address.strip())
        finally:
            process.stdin.close()
            process.terminate()
