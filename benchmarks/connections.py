r"""Open many connections to a server at once, and count what they get and how soon it answers a question.

    python -m benchmarks.connections

The server runs the scripted model in a separate process, with its own limits. A third of the connections
send nothing, a third send half a request, and a third send a whole one. The table counts what they got, and
has the time until a question is answered while they stay open, and after they are closed. The script raises
the number of files that it may open; the operating system's hard limit has to allow as many.
"""

import asyncio
import resource
import time
from collections import Counter
from contextlib import AsyncExitStack

import httpx2
from recipes.command_line import markdown, parser_of

from askance.cli.main import exit_codes
from askance.core.errors import InputError
from benchmarks.served import serving

_SENT = {
    "nothing": b"",
    "half a request": b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le",
    "a whole request": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}
_OTHER_FILES = 100
_READ_SECONDS = 10.0


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--connections", type=int, default=10_000, metavar="N", help="(10000)")
    with exit_codes():
        options = parser.parse_args(arguments)
        _raise_open_files(options.connections + _OTHER_FILES)
        with serving("--model", "scripted", "--method", "closed_book") as served:
            print(markdown(("what", "number"), asyncio.run(_measured(served.url, options.connections))))


def _raise_open_files(needed: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise InputError(f"this process may open {hard:,} files at most, and needs {needed:,}: `ulimit -Hn`.")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))


async def _measured(url: str, number: int) -> list[tuple[str, str]]:
    address = httpx2.URL(url)
    async with AsyncExitStack() as held:

        async def outcome(request: bytes) -> str:
            """Send a request on a connection of its own that stays open, and return what it gets."""
            try:
                reader, writer = await asyncio.open_connection(address.host, address.port)
            except OSError as error:
                return type(error).__name__
            held.callback(writer.close)
            writer.write(request)
            return await _got(reader)

        names = [list(_SENT)[at % len(_SENT)] for at in range(number)]
        got = await asyncio.gather(*(outcome(_SENT[name]) for name in names))
        beside = await _seconds_to_answer(url)
    after = await _seconds_to_answer(url)
    counts = Counter(f"{name}: {outcome}" for name, outcome in zip(names, got, strict=True))
    return [
        *((what, f"{count:,}") for what, count in sorted(counts.items())),
        ("seconds until a question is answered beside them", f"{beside:.2f}"),
        ("seconds until a question is answered after them", f"{after:.2f}"),
    ]


async def _got(reader: asyncio.StreamReader) -> str:
    """Return what a connection receives: a status, the end of the connection, or nothing."""
    try:
        async with asyncio.timeout(_READ_SECONDS):
            head = await reader.read(500)
    except TimeoutError:
        return "still open"
    except OSError as error:
        return type(error).__name__
    wait = ", Retry-After" if b"\r\nretry-after: " in head.lower() else ""
    return f"{head[9:12].decode()}{wait}" if head else "closed without a response"


async def _seconds_to_answer(url: str) -> float:
    """Return how long it takes until a question that is asked again after each refusal is answered."""
    began = time.perf_counter()
    body = {"messages": [{"role": "user", "content": "Why?"}]}
    async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=120) as client:
        while True:
            try:
                response = await client.post("/v1/chat/completions", json=body)
            except httpx2.TransportError:
                continue
            if response.status_code == 200:
                return time.perf_counter() - began
            await asyncio.sleep(float(response.headers.get("Retry-After", "1")))


if __name__ == "__main__":
    main()
