r"""Measure how much of a server's throughput askance reaches when it has many questions in flight.

    python -m benchmarks.api_throughput --out FOLDER

A scripted server in a separate process waits before each answer (for the network and the prompt) and before
each token, as a real server would. It serves any number of requests concurrently, and each question is one
request. The ideal throughput is the throughput that these waits alone would allow: rounds of `--in-flight`
questions, each round as long as the waits of one request. The loss against the ideal is the cost of askance,
of its HTTP client, and of the scripted server on the same machine. A bare client shows the throughput without
askance: it sends the same requests as "text alone" and only looks for the end of each answer. Requests are
sent with all signals (log-probabilities of tokens and of 5 alternatives, entropy) and without signals. Every
repeat measures all lines of the table in turn, and the table has the medians over `--repeats`.
FOLDER/throughput.json has the table.
"""

import argparse
import asyncio
import json
import math
import multiprocessing
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from recipes.command_line import markdown, parser_of

from askance.cli.main import exit_codes
from askance.configuration.build import load_model
from askance.core.concurrency import map_concurrent
from askance.core.errors import InputError
from askance.core.types import GenerateRequest, Question, Raw, Sampling, Span, Want
from askance.core.version import VERSION
from askance.models.openai.options import ServerOptions
from askance.models.openai.requests import endpoint_path, request_body
from askance.models.scripted import ScriptedModel
from askance.storage.durable_files import write_atomically
from benchmarks.report import machine_here
from benchmarks.scripted_server import ScriptedServer

WANTS = {"text alone": Want(), "all signals": Want(logprob=True, top_logprobs=5, entropy=True)}
BARE = "a bare client"
_END = b"0\r\n\r\n"
Ask = Callable[[Question], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Timed:
    """The wall-clock seconds for all questions, and the CPU seconds of both processes."""

    seconds: float
    client_seconds: float
    server_seconds: float


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--questions", type=int, default=640, metavar="N", help="asked in all (640)")
    parser.add_argument("--in-flight", type=int, default=64, metavar="N", help="at the same time (64)")
    parser.add_argument("--latency", type=float, default=0.05, help="seconds before an answer (0.05)")
    parser.add_argument("--token-seconds", type=float, default=0.02, help="seconds before each token (0.02)")
    parser.add_argument("--tokens", type=int, default=32, help="of an answer (32)")
    parser.add_argument("--repeats", type=int, default=3, help="(3)")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    with exit_codes():
        options = parser.parse_args(arguments)
        if min(options.questions, options.in_flight, options.tokens, options.repeats) < 1:
            raise InputError("--questions, --in-flight, --tokens and --repeats: give 1 or more.")
        _measure(options)


def _measure(options: argparse.Namespace) -> None:
    timed: dict[str, list[Timed]] = {name: [] for name in (*WANTS, BARE)}
    with _server(options) as server:
        url = server.recv()
        for _ in range(options.repeats):
            for name, found in timed.items():
                found.append(asyncio.run(_timed(name, url, server, options)))
    lines = [_line(name, found, options) for name, found in timed.items()]
    headings = ("signals", "questions a second", "ideal", "share of the ideal", "client, ms", "server, ms")
    print(
        markdown(
            headings,
            ((name, *(f"{each:.2f}" for each in numbers)) for name, *numbers in map(dict.values, lines)),
        )
    )
    asked = {name: value for name, value in vars(options).items() if name != "out"}
    record = {"askance": VERSION, "machine": machine_here(), **asked, "lines": lines}
    options.out.mkdir(parents=True, exist_ok=True)
    write_atomically(options.out / "throughput.json", json.dumps(record, indent=1) + "\n")


def _line(name: str, timed: Sequence[Timed], options: argparse.Namespace) -> dict[str, Any]:
    """Return the medians over the repeats for one kind of request, with CPU milliseconds per question."""
    # Each token is one event, and one more event marks the end.
    request_seconds = options.latency + (options.tokens + 1) * options.token_seconds
    rounds = math.ceil(options.questions / options.in_flight)
    ideal = options.questions / (rounds * request_seconds)
    reached = options.questions / statistics.median(each.seconds for each in timed)
    client, server = (
        1000 * statistics.median(getattr(each, side) for each in timed) / options.questions
        for side in ("client_seconds", "server_seconds")
    )
    return {
        "signals": name,
        "questions_a_second": reached,
        "ideal": ideal,
        "share": reached / ideal,
        "client_ms": client,
        "server_ms": server,
    }


async def _timed(name: str, url: str, server: Connection, options: argparse.Namespace) -> Timed:
    """Return the times for all questions, including the time to open connections."""
    ask = _bare(url, options) if name == BARE else _asking(WANTS[name], url, options)
    await ask(Question("warm", "Are you there?"))
    server_began, client_began, began = _seconds_of(server), time.process_time(), time.perf_counter()
    questions = (Question(str(number), f"What is {number}?") for number in range(options.questions))
    async for outcomes in map_concurrent(questions, ask, options.in_flight):
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
    seconds, client = time.perf_counter() - began, time.process_time() - client_began
    return Timed(seconds, client, _seconds_of(server) - server_began)


def _asking(want: Want, url: str, options: argparse.Namespace) -> Ask:
    spec = f"openai:scripted@{url}?completions=1&top_logprobs=5&in_flight={options.in_flight}"
    model = load_model(spec)

    async def ask(question: Question) -> None:
        prompt, sampling = Raw((Span(question.text),)), Sampling(options.tokens)
        (written,) = await model.generate(GenerateRequest(prompt, sampling, want, key=(question.id,)))
        assert len(written.tokens) == options.tokens

    return ask


def _bare(url: str, options: argparse.Namespace) -> Ask:
    address = urlsplit(url)

    async def ask(question: Question) -> None:
        prompt, sampling = Raw((Span(question.text),)), Sampling(options.tokens)
        request = GenerateRequest(prompt, sampling, key=(question.id,))
        body = json.dumps(request_body(request, 0, "scripted", ServerOptions()))
        head = f"POST {address.path}{endpoint_path(prompt)} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
        reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1 << 24)
        writer.write((head + body).encode())
        await reader.readuntil(_END)
        writer.close()

    return ask


@contextmanager
def _server(options: argparse.Namespace) -> Iterator[Connection]:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    waits = (options.latency, options.token_seconds, options.tokens)
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, *waits), daemon=True)
    process.start()
    try:
        yield ours
    finally:
        ours.send("stop")
        process.join()


def _serve(pipe: Connection, latency: float, token_seconds: float, tokens: int) -> None:
    model = ScriptedModel(lambda shown, key: " word" * tokens)
    with ScriptedServer(model, latency_seconds=latency, token_seconds=token_seconds) as server:
        pipe.send(server.url)
        while pipe.recv() == "seconds":
            pipe.send(time.process_time())


def _seconds_of(server: Connection) -> float:
    """Return the CPU seconds that the server has used so far."""
    server.send("seconds")
    seconds: float = server.recv()
    return seconds


if __name__ == "__main__":
    main()
