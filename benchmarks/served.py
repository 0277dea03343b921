"""`askance serve` in a separate process, and the questions of its users."""

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

_HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a question: its tokens, and when its first text and its end arrived."""

    num_tokens: int
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class ServedEngine:
    """A running server. Every question has a connection of its own."""

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
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"))
        connection.request("POST", "/v1/chat/completions", json.dumps(body), _HEADERS)
        response, first = connection.getresponse(), 0.0
        if not stream:
            reply = json.loads(response.read())
        else:
            for line in response:
                if line.startswith(b"data: {"):
                    reply = json.loads(line.removeprefix(b"data: "))
                    if not first and any(each["delta"].get("content") for each in reply["choices"]):
                        first = time.perf_counter()
        assert "usage" in reply, reply
        ended = time.perf_counter()
        return Reply(reply["usage"]["completion_tokens"], first or ended, ended)

    def ask_all(self, texts: Sequence[str], method: str, parameters: Mapping[str, Any] = {}) -> list[Reply]:
        """Ask questions concurrently, each by a user of its own."""
        with ThreadPoolExecutor(len(texts)) as users:
            return list(users.map(partial(self.ask, method=method, parameters=parameters), texts))

    @property
    def resident_mb(self) -> float:
        """The resident memory of the server's process."""
        lines = Path(f"/proc/{self.process_id}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000


@contextmanager
def serving(*options: str) -> Iterator[ServedEngine]:
    """Start the server on a free port, yield it once it can answer, and stop it at the end."""
    command = [sys.executable, "-m", "askance", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = (re.search(r"serves (http://\S+)", line) for line in process.stdout)
            address = next(filter(None, found), None)
            assert address, "the server did not start"
            yield ServedEngine(address[1], process.pid)
        finally:
            process.terminate()
