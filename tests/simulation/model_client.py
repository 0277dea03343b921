"""The client of a model on a server, called without sockets: cut, late, refused and hostile streams."""

import asyncio
import json
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from unittest import mock

import httpx2

from askance.core.errors import ModelFailure, ModelSpecError, PromptTooLong
from askance.core.types import Chat, Cut, GenerateRequest, Sampling, Span, Turn
from askance.middleware.cache import CachedModel, CacheStore
from askance.middleware.retry import RetryingModel, RetryPolicy
from askance.models.openai import connection
from askance.models.openai.model import OpenaiModel
from askance.models.openai.options import ServerOptions
from tests.simulation.servers import CALLER

POLICY = RetryPolicy()
BUSY, REFUSED = (408, 429, 500, 503, 529), (400, 401, 402, 404, 413, 422, 501, 505)
RETRY_AFTER = (None, None, "0", "7", "1e6", "-3", "nan", "soon", "Wed, 21 Oct 2015 07:28:00 GMT")
BODIES = (
    {"error": {"message": "try another", "param": "seed"}},
    {"error": {"message": "unknown argument stream_options"}},
    {"error": {"message": "maximum context length exceeded"}},
    {"error": "busy"},
    ["no", "object"],
    "<html>busy</html>",
)
BROKEN_EVENTS = (
    '{"error": {"message": "overloaded"}}',
    '{"error": {"message": "broken"}}',
    '{"choices": [{"delta": ',
    '{"choices": 7}',
    "null",
)
ERRORS = ModelFailure, ModelSpecError, PromptTooLong


def texts_of(question):
    """The two texts that the server may write."""
    return [f"{opening} {question} liegt an der Düna, 河. So ist es." for opening in ("", "Es heißt:")]


@dataclass(frozen=True)
class After:
    """The condition that ends a text after a number of tokens."""

    tokens: int

    def __call__(self, tokens):
        return Cut(len(tokens), "enough") if len(tokens) >= self.tokens else None


class Stream(httpx2.AsyncByteStream):
    """The body of a response, which the client has to close."""

    def __init__(self, server, who, parts):
        self.server, self.parts, self.who, self.began = server, parts, who, server.now

    async def __aiter__(self):
        async for part in self.parts:
            yield part

    async def aclose(self):
        await self.parts.aclose()
        self.server.close(self.who, self.began)


class Server(httpx2.AsyncBaseTransport):
    """A server, called without sockets. `faults` is the probability that a request fails.

    `samplers` are the callers with several requests at a time, and `due` says when others may come again.
    """

    def __init__(self, timeline, options, faults):
        self.timeline, self.options, self.faults = timeline, options, faults
        self.num_open, self.num_requests = 0, 0
        self.samplers, self.due = set(), defaultdict(float)

    @property
    def now(self):
        return asyncio.get_running_loop().time()

    def close(self, who, began):
        self.num_open -= 1
        seconds = self.now - began
        self.timeline.check(seconds <= self.options.timeout + 1, f"{who} read for {seconds} s")

    async def handle_async_request(self, request):
        timeline, who = self.timeline, CALLER.get()
        body = json.loads(await request.aread())
        self.num_open, self.num_requests, began = self.num_open + 1, self.num_requests + 1, self.now
        try:
            timeline.check(self.num_open <= self.options.in_flight, f"{self.num_open} requests are open")
            timeline.check(began >= self.due[who] - 1e-6, f"{who} came {self.due[who] - began} s early")
            if timeline.chance(0.5):
                await request.extensions["trace"]("connection.connect_tcp.started", {})
            await timeline.later(5 if self.faults else 1)
            response = await self.failure(who) if timeline.chance(self.faults) else None
        except BaseException:
            self.close(who, began)
            raise
        status, headers, parts = response or self.answer(request.url.path, body)
        timeline.log(f"{who}: {request.url.path} {status} {headers}")
        has_time = self.now - began + 6 < self.options.timeout
        if status in BUSY and who not in self.samplers and has_time:
            self.due[who] = self.now + waits(headers.get("retry-after"))
        if timeline.chance(self.faults / 20):
            headers["content-encoding"] = "gzip"
        return httpx2.Response(status, headers=headers, stream=Stream(self, who, parts))

    async def failure(self, who):
        """Raise an error of the connection, or return a response that is none."""
        random = self.timeline.random
        kind = random.randrange(8)
        if kind == 0:
            await asyncio.sleep(random.choice((20, 10_000)))
        if kind < 4:
            errors = httpx2.ConnectError, httpx2.ReadError, httpx2.RemoteProtocolError, OSError
            error = random.choice(errors)("cut")
            self.timeline.log(f"{who}: {error!r}")
            raise error
        status = random.choice((*BUSY, *BUSY, *REFUSED, 307))
        after = random.choice(RETRY_AFTER)
        headers = {"retry-after": after} if after is not None else {}
        headers |= {"location": "http://other/v1"} if status == 307 else {}
        breaks = [None] if self.timeline.chance(0.3) else []
        return status, headers, self.pieces([json.dumps(random.choice(BODIES)).encode(), *breaks])

    def answer(self, path, body):
        """A whole answer, streamed or not, unless its stream breaks."""
        random = self.timeline.random
        if path.endswith("tokenize"):
            return 200, {"content-type": "application/json"}, self.pieces([b'{"count": 7}'])
        text = random.choice(texts_of(body["messages"][-1]["content"]))
        usage = random.choice(({}, {"usage": {"prompt_tokens": 5, "completion_tokens": 9}}))
        if self.timeline.chance(0.1):
            message = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], **usage}
            return 200, {"content-type": "application/json"}, self.pieces([json.dumps(message).encode()])
        events, rest = [], text
        while rest:
            length = random.randint(1, 12)
            events.append(
                json.dumps({"choices": [{"delta": {"content": rest[:length]}}]}, ensure_ascii=False)
            )
            rest = rest[length:]
        events += [
            '{"choices": [{"delta": {}, "finish_reason": "stop"}]}',
            json.dumps({"choices": [], **usage}),
        ]
        if self.timeline.chance(self.faults):
            end = random.randrange(len(events))
            events[end:] = random.choice(([], [random.choice(BROKEN_EVENTS)], [None]))
        else:
            events += random.choice((["[DONE]"], [], ["[DONE]", "too late"]))
        lines = [None if event is None else f"data: {event}\r\n\r\n".encode() for event in events]
        return 200, {"content-type": "text/event-stream"}, self.pieces(lines)

    async def pieces(self, lines):
        """The bytes of a body in pieces that are cut anywhere. None is a stream that hangs or is reset."""
        for line in lines:
            if line is None:
                await asyncio.sleep(self.timeline.random.choice((0, 10_000)))
                raise httpx2.ReadError("reset")
            cut = self.timeline.random.randint(0, len(line))
            for piece in filter(None, (line[:cut], line[cut:])):
                if self.timeline.chance(0.2):
                    await self.timeline.later(2 if self.faults else 0.1)
                yield piece


def waits(retry_after):
    """The least seconds before a busy server is asked again."""
    try:
        seconds = float(retry_after)
    except (TypeError, ValueError):
        return POLICY.first_seconds
    return min(max(0.0, seconds), POLICY.most_seconds) if isfinite(seconds) else POLICY.first_seconds


class Client:
    """The callers of one model, and what became of their requests."""

    def __init__(self, timeline, folder):
        random = timeline.random
        self.timeline, self.answers = timeline, defaultdict(list)
        options = ServerOptions(
            thoughts="none",
            tokenize=random.choice(("none", "vllm")),
            in_flight=random.randint(1, 3),
            timeout=random.choice((5.0, 60.0)),
        )
        self.server = Server(timeline, options, random.choice((0.0, 0.2, 0.5)))
        called = connection.Connection("model", "http://simulated/v1", "key", options.in_flight)
        self.model = RetryingModel(OpenaiModel("model", options, called), POLICY)
        self.is_cached = timeline.chance(0.5)
        if self.is_cached:
            self.model = CachedModel(self.model, CacheStore(folder / "cache"))
        timeline.log(f"{options.in_flight} in flight, {options.timeout} s, faults {self.server.faults}")

    async def ask(self, who, question, n, until):
        """One call, and what must hold for its result, its stream and its error."""
        CALLER.set(who)
        check, whole, pieces = self.timeline.check, texts_of(question), []
        prompt = Chat((Turn("user", (Span(question),)),))
        sampling = Sampling(64, temperature=0.7 if n > 1 else 0.0)
        if n > 1:
            self.server.samplers.add(who)
        request = GenerateRequest(prompt, sampling, until=until, n=n, key=("k",), on_text=pieces.append)
        try:
            generations = await self.model.generate(request)
        except BaseException as error:
            self.timeline.log(f"{who}: {type(error).__name__} {error}")
            is_known = isinstance(error, (*ERRORS, asyncio.CancelledError))
            check(is_known and (self.server.faults or not isinstance(error, ERRORS)), f"{who}: {error!r}")
            sent = "".join(pieces)
            check(any(text.startswith(sent) for text in whole), f"{who} was sent {sent!r}")
            raise
        texts, sent = tuple(each.text for each in generations), "".join(pieces)
        self.timeline.log(f"{who}: {texts}, sent {sent!r}")
        check(len(texts) == n, f"{len(texts)} texts instead of {n}")
        for text in texts:
            is_whole = text in whole or (until and any(each.startswith(text) for each in whole))
            check(is_whole, f"{who}: {text!r} is not what the server wrote")
        check(any(text.startswith(sent) for text in whole), f"{who} was sent {sent!r}")
        is_same = texts[0].startswith(sent[:9])
        check(sent == texts[0] or not is_same or until, f"{who} was sent {sent!r}, not {texts[0]!r}")
        self.answers[question, n, until].append(texts)
        return texts

    async def caller(self, number):
        timeline, random = self.timeline, self.timeline.random
        await timeline.later(20)
        case = f"Riga {random.randrange(3)}", random.choice((1, 1, 3)), random.choice((None, None, After(3)))
        self.answers[case]  # that it was asked
        calling = asyncio.create_task(self.ask(f"caller {number}", *case))
        if timeline.chance(0.3):
            await timeline.later(40)
            calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)

    async def check_end(self):
        """All is closed and free again, and the cache has each whole answer and nothing else."""
        check, server = self.timeline.check, self.server
        check(not server.num_open, f"{server.num_open} responses are open")
        server.faults = 0.0
        for case, answers in list(self.answers.items()):
            before, answers = server.num_requests, list(answers)
            texts = await self.ask("afterwards", *case)
            is_asked = server.num_requests > before
            if self.is_cached:
                check(is_asked != bool(answers), f"{case} is in the cache: {not is_asked}, not {answers}")
                check(is_asked or texts in answers, f"the cache has {texts}, not one of {answers}")


async def model_client(timeline):
    """Up to ten callers of one model on a server, some of whom are cancelled."""
    timeline.check(not connection._CLIENTS, "a client of an earlier event loop is still open")
    with tempfile.TemporaryDirectory() as folder:
        client = Client(timeline, Path(folder))
        simulated = partial(httpx2.AsyncClient, transport=client.server)
        with mock.patch.object(httpx2, "AsyncClient", simulated):
            callers = [client.caller(number) for number in range(timeline.random.randint(1, 10))]
            await asyncio.gather(*map(asyncio.create_task, callers))
            timeline.check_tasks()
            await client.check_end()
