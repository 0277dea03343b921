"""A client of the server, called as ASGI: it may be slow, leave, or be cut off at any moment."""

import asyncio
import json
import re
from contextlib import suppress
from dataclasses import dataclass, field

from askance.serve.limits import Limits
from tests.serve.served import events_of, message_of

NEVER = 10_000.0
"""Seconds after which a client that reads nothing at last leaves."""


@dataclass
class Exchange:
    """A request, and what has become of it. `reads` is the probability that a message is read at once,
    and `delay` the time that each half of the body takes.
    """

    who: str
    method: str
    path: str
    key: str | None = None
    body: dict | None = None
    reads: float = 1.0
    delay: float = 0.0
    status: int = 0
    num_others: int = 0
    headers: dict = field(default_factory=dict)
    content: bytes = b""
    has_ended: bool = False
    is_cut: bool = False
    began: int = 0

    @property
    def json(self):
        return json.loads(self.content)

    @property
    def is_stream(self):
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def events(self):
        return events_of(self.content.decode())

    @property
    def error(self):
        """The error at the end of a response, if there is one."""
        if not self.is_stream:
            return self.json.get("error") if self.status >= 400 else None
        last = self.events[-1][1] if self.events else None
        return last.get("error") if isinstance(last, dict) else None

    @property
    def told(self):
        """What the timeline says about the response."""
        if self.is_cut or not self.has_ended:
            return "cut off"
        return self.error["message"] if self.error else f"{self.answer[0]!r}" if self.is_answer else "whole"

    @property
    def is_answer(self):
        return self.path.endswith("completions") and self.is_complete

    @property
    def is_complete(self):
        if not self.has_ended or self.status != 200:
            return False
        return not self.is_stream or self.events[-1][1] == "[DONE]"

    @property
    def answer(self):
        """The text and the annotations of a complete answer."""
        if self.is_stream:
            return message_of([data for name, data in self.events[:-1] if not name])
        message = self.json["choices"][0]["message"]
        return message["content"], message["annotations"]

    @property
    def trace_id(self):
        records = [data for _, data in self.events] if self.is_stream else [self.json]
        named = (each.get("askance", {}).get("trace_id") for each in records if isinstance(each, dict))
        return next(filter(None, named), "")


async def exchange(app, timeline, request, *, leaves=False, is_killed=False):
    """Send a request, and return once the server has ended its work for it."""
    timeline.log(f"{request.who}: {request.method} {hidden(request.path)} {request.key} {request.body or ''}")
    left, limits, loop = asyncio.Event(), Limits(), asyncio.get_running_loop()
    request.began = next(timeline.ticks)
    reads_at = [0.0, 0.0]  # when the client reads again, and since when it does not
    content = b"" if request.body is None else json.dumps(request.body).encode()
    parts = [content[:10], content[10:]]

    async def receive():
        if parts:
            with suppress(TimeoutError):
                async with asyncio.timeout(request.delay):
                    await left.wait()
            if not left.is_set():
                return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        if message["type"] == "http.response.start":
            request.status = message["status"]
            # The server may have decided before others that ended at the same moment.
            request.num_others = timeline.num_asking - 1 + timeline.num_ended[loop.time()]
            request.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            timeline.statuses[message["status"]] += 1
        if loop.time() >= reads_at[0] and not timeline.chance(request.reads):
            seconds = timeline.random.choice((0.5, 20.0, NEVER))
            reads_at[:] = loop.time() + seconds, loop.time()
            timeline.log(f"{request.who}: reads nothing for {seconds} s")
        if loop.time() < reads_at[0]:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(reads_at[0]):
                    await left.wait()
            stalled = loop.time() - reads_at[1]
            is_freed = not request.is_stream or left.is_set() or stalled < NEVER
            timeline.check(is_freed, f"a client that reads nothing held its place for {stalled} s")
        if not left.is_set():
            request.content += message.get("body", b"")
            request.has_ended = message["type"] == "http.response.body" and not message.get(
                "more_body", False
            )
            if request.has_ended:
                left.set()

    async def leave():
        await timeline.later(100)
        request.is_cut = request.is_cut or not request.has_ended
        timeline.log(f"{request.who}: {'is killed' if is_killed else 'leaves'}")
        serving.cancel() if is_killed else left.set()

    serving = asyncio.create_task(app(scope_of(request, content), receive, send))
    leaving = asyncio.create_task(leave()) if leaves or is_killed else None
    (error,) = await asyncio.gather(serving, return_exceptions=True)
    if leaving is not None:
        leaving.cancel()
    timeline.log(f"{request.who}: {request.status} {error or ''} {hidden(request.told)}")
    # A task may also be cancelled in the moment between its last message and its end.
    is_expected = is_killed and isinstance(error, asyncio.CancelledError)
    timeline.check(error is None or is_expected, f"the server raised {error!r}")
    if request.is_stream and loop.time() < reads_at[0] and not request.has_ended:
        request.is_cut, held = True, loop.time() - reads_at[1]
        timeline.check(
            held <= limits.send_seconds + 1, f"a client that reads nothing held its place for {held} s"
        )
    timeline.check(request.is_cut or request.has_ended, f"{request.who} was never answered")
    return request


def hidden(text):
    """A text without the ids of traces, which differ each time."""
    return re.sub(r"[0-9a-f]{32}", "ID", text)


def scope_of(request, content):
    headers = {"host": "127.0.0.1", "content-type": "application/json", "content-length": str(len(content))}
    if request.key is not None:
        headers["authorization"] = f"Bearer {request.key}"
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.path,
        "raw_path": request.path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
