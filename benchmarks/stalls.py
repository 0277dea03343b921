"""Measure how long one hostile document, request or reply of a model's server delays all other users.

    python -m benchmarks.stalls [NAME ...] [--methods single,flare]

A real `askance serve` with a model behind a lying server gets one hostile thing after the other. Meanwhile,
/healthz is asked every 20 ms, and another user asks one streamed question after the other. The table has the
longest delay of each, the same without the hostile thing, and the processor time of the server during the
longest delay of /healthz. On a busy machine, this time is what the hostile thing itself costs the others.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from askance.retrieval.index.build import build_index
from askance.sample import CORPUS
from benchmarks.servers import ServedEngine, serve
from benchmarks.table import markdown

TEXTS = {
    "open quotes": "“A" * 50_000,
    "white space": " " * 300_000 + "x",
    "blank lines": "\n" * 300_000 + "x",
    "a giant word": "abcdefgh" * 40_000,
    "combining marks": "e" + "\u0301" * 50_000,
    "markers by line": "[1]\n" * 100_000,
    "a chain of markers": "[1]" * 25_000,
    "short lines": "ab\n" * 100_000,
    "openings of images": "![" * 50_000,
    "runs of backticks": " ".join("`" * size for size in range(1, 500)),
    "answers": "The answer is . " * 10_000,
    "names": "Anna " * 40_000,
    "numbers": "1." * 80_000,
    "Ingmar Bergman": "Ingmar Bergman was born in Uppsala in 1918. " * 5_000,
}
_FIRST, _ASKED = "The quokka lives. ", "Where did Graham Greene die?"
_METHODS, _SECONDS = "single,flare,dragin", 60
_OPTIONS = "continuation=1&logprobs=1&context=1000000&timeout=60"


class LyingServer(BaseHTTPRequestHandler):
    """A model's server that replies with the text that a question names, in one event or in many."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        asked = json.loads(body)
        name = next((each for each in TEXTS if f"reply {each}" in body), "")
        text = _FIRST + TEXTS.get(name, "The answer is Perth.")
        # With log-probabilities, so much text is an event of nearly 2 MB and 4,096 tokens.
        size = 40 if "in pieces" in body or not name else 74_000 if asked.get("logprobs") else len(text)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with suppress(OSError):
            for start in range(0, len(text), size):
                self._send(text[start : start + size], bool(asked.get("logprobs")))
            self.wfile.write(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n')
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _send(self, text: str, has_logprobs: bool) -> None:
        choice: dict[str, Any] = {"index": 0, "delta": {"content": text}}
        if has_logprobs:
            tokens = [text[at : at + 20] for at in range(0, len(text), 20)]
            entries = [{"token": token, "logprob": -0.7} for token in tokens]
            choice["logprobs"] = {"content": [{**each, "top_logprobs": [each] * 4} for each in entries]}
        self.wfile.write(f"data: {json.dumps({'choices': [choice]})}\n\n".encode())


def things(methods: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the hostile things: the name of each, the path of its request, and the body."""
    for name, text in TEXTS.items():
        yield f"document: {name}", "/v1/documents", {"id": name, "text": f"hoard {text}"}
        yield f"title, id, field: {name}", "/v1/documents", {
            "id": f"x{name}{text[:300].strip()}", "title": text[:1000], "text": "x", "fields": {"a": text[:9]}
        }  # fmt: skip
        yield f"question: {name}", "/v1/chat/completions", _chat(f"hoard {text[:19_000]}", "single")
        yield f"search: {name}", "/v1/search", {"query": f"hoard {text[:19_000]}"}
        yield f"long question: {name}", "/v1/chat/completions", _chat(text * 2, "single")
        yield f"unknown field: {name}", "/v1/chat/completions", {**_chat("Why?", "single"), text[:900_000]: 1}
        for method in methods.split(","):
            for way in ("", " in pieces"):
                yield f"{method}: {name}{way}", "/v1/chat/completions", _chat(f"reply {name}{way}", method)
    yield "question that finds them", "/v1/chat/completions", _chat("hoard", "single")
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * 5_000
    yield "10,000 turns", "/v1/chat/completions", _chat("Why?", "single", turns)
    yield "200,000 stop strings", "/v1/chat/completions", {**_chat("Why?", "single"), "stop": ["a"] * 200_000}
    for name, where in {
        "a deep filter": "(" * 20_000 + "a = 1" + ")" * 20_000,
        "a wide filter": " or ".join(["a = 1"] * 90_000),
        "a long list in a filter": f"a in ({', '.join(map(str, range(100_000)))})",
    }.items():
        yield name, "/v1/search", {"query": "quokka", "where": where}
    documents = [{"id": str(at), "text": "hoard " + "word " * 3_000} for at in range(1_000)]
    yield "1,000 documents of 15 kB", "/v1/documents", {"documents": documents}
    yield "1,000 documents again", "/v1/documents", {"documents": documents[:-1]}
    yield "a document of 16 MB", "/v1/documents", {"id": "big", "text": "A word or two. " * 1_060_000}


def _chat(text: str, method: str, turns: Any = ()) -> dict[str, Any]:
    return {"model": method, "messages": [*turns, {"role": "user", "content": text}]}


def delays(served: ServedEngine, seconds: float, work: multiprocessing.Process | None = None) -> list[float]:
    """Return the longest delays of /healthz and of a first word, and the processor time of the former."""
    began, worst, first = time.perf_counter(), (0.0, 0.0), 0.0
    if work:
        work.start()
    with ThreadPoolExecutor(1) as user:
        asked, answer = began, user.submit(served.ask, _ASKED, "single", stream=True)
        while (now := time.perf_counter()) - began < seconds and (not work or work.is_alive()):
            used = _cpu_seconds(served.process_id)
            connection = http.client.HTTPConnection(served.url.partition("//")[2].rstrip("/"))
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            worst = max(worst, (time.perf_counter() - now, _cpu_seconds(served.process_id) - used))
            if answer.done():
                first = max(first, answer.result().first - asked)
                asked, answer = time.perf_counter(), user.submit(served.ask, _ASKED, "single", stream=True)
            time.sleep(0.02)
        first = max(first, answer.result().first - asked)
    if work:
        work.kill()
    return [worst[0], first, worst[1]]


def _cpu_seconds(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _post(url: str, path: str, body: object, reply: Any) -> None:
    connection = http.client.HTTPConnection(url.partition("//")[2].rstrip("/"))
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    reply.send((response.status, len(response.read())))


def main() -> None:
    """Print a row of the table for each hostile thing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of the names of hostile things; by default all")
    parser.add_argument("--methods", default=_METHODS)
    given = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    lying = ThreadingHTTPServer(("127.0.0.1", 0), LyingServer)
    process = multiprocessing.Process(target=lying.serve_forever, daemon=True)
    process.start()
    with TemporaryDirectory() as folder:
        index = str(Path(folder, "index"))
        build_index([CORPUS], Path(index))
        model = f"openai:liar@http://127.0.0.1:{lying.server_port}/v1?{_OPTIONS}"
        words = ("--index", index, "--model", model, "--model", "attend=bundled", "--in-flight", "4")
        with serve(*words, "--abstain-below", "auto") as served:
            delays(served, 2)
            rows.append(("nothing", *(f"{each:.2f}" for each in delays(served, 5)), "", ""))
            for name, path, body in things(given.methods):
                if given.names and not any(each in name for each in given.names):
                    continue
                receiver, reply = multiprocessing.Pipe(False)
                work = multiprocessing.Process(target=_post, args=(served.url, path, body, reply))
                began = time.perf_counter()
                found = delays(served, _SECONDS, work)
                status = receiver.recv() if receiver.poll() else ("none", 0)
                times = (f"{each:.2f}" for each in (*found, time.perf_counter() - began))
                row = [name, *times, f"{status[0]}"]
                print(" · ".join(row), flush=True)
                rows.append(tuple(row))
            print(f"{served.resident_mb:.0f} MB")
    print(markdown(("hostile thing", "/healthz, s", "first word, s", "CPU, s", "took, s", "status"), rows))


if __name__ == "__main__":
    main()
