"""What is tried again, how often, and what a watcher sees of it."""

import asyncio

import pytest

from askance.core.errors import InputError, ModelFailure, ModelUnavailable
from askance.core.notes import noted
from askance.core.types import GenerateRequest, Raw, Sampling, Span
from askance.middleware.retry import RetryingModel, RetryPolicy
from askance.models.openai.options import read_options
from askance.models.scripted import ScriptedModel

PROMPT = Raw((Span("one"),))
BUSY = ModelUnavailable("Busy.")


class Faulty(ScriptedModel):
    """A model that raises some errors first, after it has written some of its text."""

    def __init__(self, *errors):
        super().__init__(["The answer is here."])
        self.errors = list(errors)

    async def generate(self, request):
        if self.errors:
            request.on_text("The ans")
            raise self.errors.pop(0)
        return await super().generate(request)


def generate(model):
    """Return the text, and what a watcher is given of it."""
    pieces = []
    request = GenerateRequest(PROMPT, Sampling(20), key=("k",), on_text=pieces.append)
    retrying = RetryingModel(model, RetryPolicy(attempts=3, first_seconds=0.0))
    return asyncio.run(retrying.generate(request))[0].text, "".join(pieces)


def test_a_busy_server_is_asked_again_and_a_watcher_is_told_each_piece_once():
    notes = []
    with noted(lambda name, text: notes.append(text)):
        assert generate(Faulty(BUSY, BUSY)) == ("The answer is here.",) * 2
    assert notes == [f"Busy. Waiting 0 s, then trying again ({number} of 3)." for number in (2, 3)]


def test_no_attempt_is_made_for_ever_nor_after_what_does_not_change():
    with pytest.raises(ModelUnavailable, match=r"^Busy\. \(tried 3 times\)$"):
        generate(Faulty(BUSY, BUSY, BUSY))
    model = Faulty(ModelFailure("broken"), ModelFailure("broken"))
    with pytest.raises(ModelFailure, match=r"^broken$"):
        generate(model)
    assert len(model.errors) == 1
    with pytest.raises(InputError, match=r"attempts=0 .*expected 1 or more"):
        read_options({"attempts": "0"})


def test_scores_and_counts_are_tried_again_too():
    class Busy(ScriptedModel):
        def prompt_ids(self, prompt):
            self.is_busy = not getattr(self, "is_busy", False)
            if self.is_busy:
                raise BUSY
            return super().prompt_ids(prompt)

    model = RetryingModel(Busy(), RetryPolicy(attempts=2, first_seconds=0.0))
    assert asyncio.run(model.score(PROMPT, ["yes"]))
    assert asyncio.run(model.count(PROMPT)) == 1


def test_waits_double_or_are_as_long_as_the_server_asks_for_and_have_an_end():
    asked_for, waited = [None, None, 12, None, 99, None], []
    errors = [ModelUnavailable("busy", after_seconds=seconds) for seconds in asked_for]

    async def sleep(seconds):
        waited.append(seconds)

    async def call():
        if errors:
            raise errors.pop(0)
        return "done"

    assert asyncio.run(RetryPolicy(attempts=7).keep_trying(call, sleep)) == "done"
    assert waited == [1, 2, 12, 8, 30, 30]
