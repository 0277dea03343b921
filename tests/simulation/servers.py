"""What askance calls: a model on a server, a reranker and a retriever, with the faults of a timeline."""

import asyncio
import re
from contextvars import ContextVar
from dataclasses import replace
from itertools import pairwise

from askance.core.errors import ModelFailure, ModelUnavailable
from askance.core.ports import WrappedModel
from askance.middleware.retry import RetryingModel, RetryPolicy
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.tolerances import near

CALLER = ContextVar("CALLER", default="nobody")
"""Who asks: a client of the server, or a process of an evaluation."""
RIVER = re.compile(r"river (\w+) flows")
POLICY = RetryPolicy()


OPENINGS = ("It is known.", "One may read that it is known.")


def whole_text(prompt, variant=0):
    """An answer that has all the rivers of the prompt. The server may write it in two ways."""
    rivers = list(dict.fromkeys(RIVER.findall(prompt)))
    sentences = "".join(f" The river {river} flows at Bonn." for river in rivers)
    return f"{OPENINGS[variant]}{sentences} So the answer is {rivers[0] if rivers else 'none'}."


def reply_to(prompt, variant=0):
    """The rest of the answer that the prompt ends with, or the whole answer."""
    whole, so_far = whole_text(prompt, variant), prompt.rstrip()
    for end in range(len(whole), len(OPENINGS[variant]) - 1, -1):
        if whole[end - 1] != " " and so_far.endswith(whole[:end]):
            return whole[end:]
    return f" {whole}"


class FaultyModel(ScriptedModel):
    """A server's model, each call of which may take long, fail, or break off.

    `faults` is their probability. A whole answer is written in one of the ways in `variants`, since a server
    may well write another text when it is asked again.
    """

    def __init__(self, timeline, faults, variants=(0, 1)):
        super().__init__(self._text)
        self.timeline, self.faults, self.variants = timeline, faults, variants
        self.running, self.most_running, self.attempts, self.variant = set(), 0, {}, 0

    def _text(self, prompt, key):
        return reply_to(prompt, self.variant)

    async def generate(self, request):
        timeline, who, question = self.timeline, CALLER.get(), request.key[1]
        loop = asyncio.get_running_loop()
        attempt = {"began": loop.time(), "error": None}
        self.attempts.setdefault((who, request.key), []).append(attempt)
        self.running.add((who, question))
        self.most_running = max(self.most_running, len(self.running))
        try:
            await timeline.later(timeline.random.choice((0.5, 5, 60)))
            if timeline.chance(self.faults):
                await self._fail(request)
            return await self._answer(request)
        except BaseException as error:
            timeline.log(f"{who}: the model fails for {question} with {type(error).__name__} {error}")
            attempt["error"] = error
            raise
        finally:
            attempt["ended"] = loop.time()
            self.running.discard((who, question))

    async def _answer(self, request, until=None):
        """Write the text piece by piece, or only its first pieces."""
        pieces = []
        self.variant = self.timeline.random.choice(self.variants) if "answer" in request.key else 0
        answer = await super().generate(replace(request, on_text=pieces.append))
        for piece in pieces[:until]:
            if self.timeline.chance(0.1):
                await self.timeline.later(2)
            if request.on_text is not None:
                request.on_text(piece)
        return answer

    async def _fail(self, request):
        random = self.timeline.random
        asked_for = random.choice((None, 0, 0.5, 7, 31, 1e6))
        kind = random.randrange(10)
        if kind < 4:
            raise ModelUnavailable("The server is busy.", asked_for, 503)
        if kind < 8:
            await self._answer(request, until=random.randrange(1, 8))
            raise ModelUnavailable("The server broke off its answer.")
        errors = ModelFailure("broken"), RuntimeError("broken"), TimeoutError(), asyncio.CancelledError()
        raise random.choice(errors)


class WatchedModel(WrappedModel):
    """A model that is asked again when it is busy, and what must hold for these attempts."""

    def __init__(self, model):
        super().__init__(RetryingModel(model, POLICY))
        self.faulty, self.num_retries = model, 0

    async def generate(self, request):
        attempts = self.faulty.attempts.setdefault((CALLER.get(), request.key), [])
        attempts.clear()
        try:
            return await super().generate(request)
        finally:
            check_attempts(self.faulty.timeline, attempts)
            self.num_retries += max(0, len(attempts) - 1)


def check_attempts(timeline, attempts):
    """Attempts are as many and as far apart as the policy says, and only for a busy server."""
    timeline.check(len(attempts) <= POLICY.attempts, f"{len(attempts)} attempts were made")
    for number, (before, after) in enumerate(pairwise(attempts)):
        error = before["error"]
        timeline.check(isinstance(error, ModelUnavailable), f"{error!r} was tried again")
        wait = 2.0**number if error.after_seconds is None else error.after_seconds
        due = before["ended"] + min(wait, POLICY.most_seconds)
        timeline.check(after["began"] == near(due), f"began at {after['began']} s, not at {due} s")


class FaultyRetriever(ScriptedRetriever):
    """A scripted retriever that is slow and fails."""

    def __init__(self, passages):
        super().__init__(passages)
        self.timeline, self.faults = None, 0.0

    async def search(self, query, k, *, exclude=frozenset()):
        await fail_or_wait(self)
        return await super().search(query, k, exclude=exclude)


async def fail_or_wait(place):
    """What any search may do."""
    await place.timeline.later(5)
    if place.timeline.chance(place.faults):
        error = place.timeline.random.choice((ModelFailure("no server"), OSError("no route"), TimeoutError()))
        place.timeline.log(f"{CALLER.get()}: the search fails with {error!r}")
        raise error


class FaultyReranker:
    """A reranker that keeps the order, and is as slow and faulty as the timeline says."""

    name, fingerprint = "faulty", ""

    def __init__(self, timeline, faults):
        self.timeline, self.faults = timeline, faults

    async def score(self, query, passages):
        await fail_or_wait(self)
        return [-float(number) for number, _ in enumerate(passages)]
