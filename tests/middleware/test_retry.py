"""What is tried again, how often, and what a watcher sees of it."""

import asyncio

import pytest

from askance.core.errors import InputError, ModelFailure, ModelUnavailable
from askance.core.types import GenerateRequest, Raw, Sampling, Span
from askance.middleware.retry import RetryingModel, RetryPolicy
from askance.models.openai.options import read_options
from askance.models.scripted import ScriptedModel

QUICK = RetryPolicy(attempts=3, first_seconds=0.0)
PROMPT = Raw((Span("one"),))


class Faulty(ScriptedModel):
    """Raises some errors first, after having written some of its text."""

    def __init__(self, *errors):
        super().__init__(["The answer is here."])
        self.errors = list(errors)

    async def generate(self, request):
        if self.errors:
            if request.on_text is not None:
                request.on_text("The ans")
            raise self.errors.pop(0)
        return await super().generate(request)


def generate(model, patience=QUICK, **options):
    request = GenerateRequest(PROMPT, Sampling(20), key=("k",), **options)
    work = RetryingModel(model, patience).generate(request)
    return asyncio.run(work)[0].text


def test_a_busy_server_is_asked_again():
    assert generate(Faulty(ModelUnavailable("busy"), ModelUnavailable("busy"))) == "The answer is here."


def test_not_for_ever():
    with pytest.raises(ModelUnavailable, match=r"^busy \(tried 3 times\)$"):
        generate(Faulty(*[ModelUnavailable("busy")] * 3))


def test_what_does_not_change_is_not_tried_again():
    model = Faulty(ModelFailure("broken"), ModelFailure("broken"))
    with pytest.raises(ModelFailure, match=r"^broken$"):
        generate(model)
    assert len(model.errors) == 1


def test_a_watcher_is_told_each_piece_once():
    pieces = []
    generate(Faulty(ModelUnavailable("busy"), ModelUnavailable("busy")), on_text=pieces.append)
    assert "".join(pieces) == "The answer is here."


@pytest.mark.parametrize(
    ("attempt", "asked_for", "expected"),
    [(1, None, 1), (2, None, 2), (4, None, 8), (9, None, 30), (1, 12, 12), (1, 99, 30)],
)
def test_waits_grow_and_have_an_end(attempt, asked_for, expected):
    assert RetryPolicy().wait_seconds(attempt, asked_for) == expected


def test_waits_are_waited():
    waited = []

    async def sleep(seconds):
        waited.append(seconds)

    errors = [ModelUnavailable("busy", after_seconds=7), ModelUnavailable("busy")]

    async def call():
        if errors:
            raise errors.pop(0)
        return "done"

    assert asyncio.run(RetryPolicy().keep_trying(call, sleep)) == "done"
    assert waited == [7, 2]


def test_no_attempt_at_all():
    with pytest.raises(InputError, match=r"attempts=0 .*expected 1 or more"):
        read_options({"attempts": "0"})
