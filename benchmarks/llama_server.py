"""llama.cpp's own server, the one inside `xllamacpp`, in a process of its own."""

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
told = json.loads(sys.argv[1])
params = xllamacpp.CommonParams()
params.model.path = told["model"]
params.n_parallel, params.n_ctx = told["slots"], told["slots"] * told["tokens"]
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = told["threads"]
params.hostname, params.port, params.warmup = "127.0.0.1", 0, True
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class Written:
    """What the server has written for a call: how many tokens, and when the first and the last were there."""

    num_tokens: int
    first: float
    last: float


class LlamaServer:
    """A server that runs; requests go to it as tokens, and are greedy."""

    def __init__(self, address: str) -> None:
        self._address = address.partition("//")[2].rstrip("/")

    def write(self, calls: Sequence[Call], *, cached: bool = True) -> list[Written]:
        """All at once, each by a connection of its own. `cached`: with what is known of earlier prompts."""
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
        first, told = 0.0, dict[str, Any]()
        for line in connection.getresponse():
            if line.startswith(b"data: "):
                told = json.loads(line.removeprefix(b"data: "))
                if not first and told.get("content"):
                    first = time.perf_counter()
        return Written(told["tokens_predicted"], first or time.perf_counter(), time.perf_counter())


@contextmanager
def serving(model: Path, *, slots: int, tokens: int, threads: int) -> Iterator[LlamaServer]:
    """A server for as long as it is needed."""
    told = {"model": str(model), "slots": slots, "tokens": tokens, "threads": threads}
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, json.dumps(told)],
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
