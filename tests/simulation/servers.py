"""What askance calls: a model on a server, a reranker and a retriever, with the faults of a timeline."""

import asyncio
import re
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from itertools import pairwise

from askance.core.errors import (
    MissingAbility,
    ModelFailure,
    ModelSpecError,
    ModelUnavailable,
    PromptTooLong,
    RequestRefused,
)
from askance.core.ports import WrappedModel
from askance.middleware.retry import RetryingModel, RetryPolicy
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.tolerances import near

CALLER = ContextVar("CALLER", default="nobody")
"""Who asks: a client of the server, or a process of an evaluation."""
RIVER = re.compile(r"river (\w+) flows")
POLICY = RetryPolicy()
TREES = {"airrag": {"rollouts": 3, "wave": 2, "answer_samples": 2}, "airrag_lite": {"samples": 2}}
"""Methods that search a tree, with parameters that let it grow in several places at once."""
LONGER = ("dragin", "iterdrag", "selfrag", "airrag", "airrag_lite")
PLAN = "Which river flows at Bonn?\nWhich river flows at Worms?"
"""The sub-queries of a plan."""

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


def text_of(prompt, key, variant):
    """What the model writes. Only a whole answer has two variants."""
    return PLAN if {"say", "qt"} & set(key) else reply_to(prompt, variant if "answer" in key else 0)


class FaultyModel(ScriptedModel):
    """A server's model, each call of which may take long, fail, or break off.

    `faults` is their probability, and if it `refuses`, many of them are refusals. A whole answer is written
    in one of the ways in `variants`, since a server may well write another text when it is asked again.
    """

    fingerprint = "faulty"

    def __init__(self, timeline, faults, variants=(0, 1)):
        super().__init__(self._text)
        self.timeline, self.faults, self.variants = timeline, faults, variants
        self.refuses = timeline.chance(0.25)
        self.running, self.most_running, self.attempts, self.variant = Counter(), 0, {}, 0

    def _text(self, prompt, key):
        return text_of(prompt, key, self.variant)

    async def generate(self, request):
        attempt = {"error": None}
        self.attempts.setdefault((CALLER.get(), request.key), []).append(attempt)
        with self._call(attempt, request.key[1]):
            await self._wait_or_fail(request)
            return await self._answer(request)

    async def score(self, prompt, options):
        with self._call({}, "a score"):
            await self._wait_or_fail()
            return await super().score(prompt, options)

    @contextmanager
    def _call(self, attempt, question):
        """Count who is answered, and keep the times and the error of an attempt."""
        timeline, who, loop = self.timeline, CALLER.get(), asyncio.get_running_loop()
        attempt["began"] = loop.time()
        self.running[who] += 1
        self.most_running = max(self.most_running, len(+self.running))
        try:
            yield
        except BaseException as error:
            timeline.log(f"{who}: the model fails for {question} with {type(error).__name__} {error}")
            timeline.errors[who].append(error)
            attempt["error"] = error
            raise
        finally:
            attempt["ended"] = loop.time()
            self.running[who] -= 1

    async def _wait_or_fail(self, request=None):
        await self.timeline.later(self.timeline.random.choice((0.5, 5, 60)))
        if self.timeline.chance(self.faults):
            await self._fail(request)

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
        if self.refuses and self.timeline.chance(0.8):
            raise RequestRefused("no such option")
        kind = random.randrange(10)
        if kind < 4:
            raise ModelUnavailable("The server is busy.", asked_for, 503)
        if kind < 8:
            if request is not None:
                await self._answer(request, until=random.randrange(1, 8))
            raise ModelUnavailable("The server broke off its answer.")
        errors = ModelFailure("broken"), RuntimeError("broken"), TimeoutError(), asyncio.CancelledError()
        refusals = RequestRefused("no such option"), PromptTooLong("scripted", "9,999 tokens"), MemoryError()
        lasting = ModelSpecError("no such model"), MissingAbility("no log-probabilities")
        raise random.choice(random.choice((errors, errors, refusals, refusals, lasting)))


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

    fingerprint = "faulty"

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
        place.timeline.errors[CALLER.get()].append(error)
        raise error


class FaultyReranker:
    """A reranker that keeps the order, and is as slow and faulty as the timeline says."""

    name, fingerprint = "faulty", ""

    def __init__(self, timeline, faults):
        self.timeline, self.faults = timeline, faults

    async def score(self, query, passages):
        await fail_or_wait(self)
        return [-float(number) for number, _ in enumerate(passages)]
