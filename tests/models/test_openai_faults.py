"""Test servers that are busy or broken, or that send wrong values."""

import pytest
from benchmarks.scripted_server import Fault, ScriptedServer
from tests.models.served import ALL, event, logprobs_of, model_of, write

from askance.core.errors import (
    ModelFailure,
    ModelSpecError,
    ModelUnavailable,
    PromptTooLong,
    RequestRefused,
)
from askance.core.types import Want
from askance.middleware.retry import RetryingModel, RetryPolicy
from askance.models.scripted import ScriptedModel


@pytest.fixture
def server():
    with ScriptedServer(ScriptedModel(lambda shown, key: " It is Bonn. So")) as server:
        yield server


BUSY = [
    Fault(429, headers={"Retry-After": "0"}, body={"error": {"message": "Slow down.", "code": "rate_limit"}}),
    Fault(500, body="<html>oops</html>"),
    Fault(503, body={"error": "loading"}),
    Fault(events=[event(" It")], ends="cut"),
    Fault(events=[event(" It")], ends="silent"),
    Fault(events=[event(" It"), {"error": {"message": "Overloaded", "code": 503}}]),
    Fault(seconds=1.5, events=[event(" late", finish="stop")]),
]


def options_for(fault):
    return f"{ALL}&timeout=1" if fault.seconds else ALL


@pytest.mark.parametrize("fault", BUSY, ids=["429", "500", "503", "cut", "no end", "error within", "slow"])
def test_what_may_pass_is_tried_again(server, fault):
    pieces = []
    server.faults.append(fault)
    model = RetryingModel(model_of(server, options_for(fault)), RetryPolicy(2, first_seconds=0.0))
    (written,) = write(model, on_text=pieces.append)
    assert written.text == "".join(pieces) == " It is Bonn. So"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (BUSY[0], "tiny.*the server at http://127.0.0.1:.*answered 429: Slow down. Ask fewer questions at a"),
        (BUSY[1], "answered 500: <html>oops</html>. See the log of the server"),
        (
            BUSY[3],
            r"or cut the connection \(.+\): check that it runs .* see its log. Some .* a prompt does not fit",
        ),
        (BUSY[4], "broke off its answer in the middle. If it handles one request at a time, send it one"),
        (BUSY[5], "broke off its answer: Overloaded"),
        (BUSY[6], r"did not answer in time: give it more time \(\?timeout=SECONDS"),
    ],
)
def test_what_is_said_when_it_does_not_pass(server, fault, expected):
    server.faults.append(fault)
    with pytest.raises(ModelUnavailable, match=expected + r".*\(tried once\)$"):
        write(model_of(server, options_for(fault)))


def test_nobody_there():
    with ScriptedServer() as server:
        model = model_of(server)
    with pytest.raises(ModelUnavailable, match="can't be reached"):
        write(model)


FINAL = [
    (
        Fault(400, body={"error": {"message": "logprobs is not allowed"}}),
        RequestRefused,
        "400: logprobs is not",
    ),
    (Fault(401, body={"error": {"message": "no"}}), ModelSpecError, "401: no. Set OPENAI_API_KEY"),
    (
        Fault(404, body={"error": {"message": "no model"}}),
        ModelSpecError,
        "404: no model. Check the name",
    ),
    (
        Fault(429, body={"error": {"message": "pay", "code": "insufficient_quota"}}),
        ModelSpecError,
        "429: pay. Check that the account of the key has money left",
    ),
    (Fault(402, body={"error": {"message": "pay"}}), ModelSpecError, "402: pay. Check that the account"),
    (
        Fault(501, body={"error": {"message": "no echo"}}),
        RequestRefused,
        "501: no echo. Remove the options that",
    ),
    (Fault(events=["{oops"]), ModelFailure, "gave no JSON"),
    (Fault(events=[[1]]), ModelFailure, "gave an event that can't be read: all of it is"),
    (Fault(events=[{"choices": []}]), ModelFailure, "an answer without a choice"),
    (Fault(events=[]), ModelFailure, "an answer without a choice"),
    (Fault(events=[event("a", finish="content_filter")]), ModelFailure, "content filter"),
    (
        Fault(events=[{"error": {"message": "bad grammar"}}]),
        ModelFailure,
        "broke off its answer: bad grammar",
    ),
    (
        Fault(
            400, body={"error": {"message": "maximum context length is 8", "code": "context_length_exceeded"}}
        ),
        PromptTooLong,
        "do not fit into the context window of tiny.*: maximum context length is 8. Shorten",
    ),
    (Fault(events=[{"error": {"message": "context size exceeded"}}]), PromptTooLong, "context size exceeded"),
]


@pytest.mark.parametrize(("fault", "error", "expected"), FINAL)
def test_what_stays_wrong_is_not_tried_again(server, fault, error, expected):
    server.faults.append(fault)
    with pytest.raises(error, match=expected) as raised:
        write(model_of(server, attempts=4))
    assert type(raised.value) is error
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([event(" It"), event(finish="stop")], "gave no log-probabilities: see its log, and what it can do"),
        (
            [event(" It", logprobs_of(" It")), event(finish="stop")],
            "no alternatives to the token ' It'",
        ),
        (
            [event(" It", logprobs_of(" He", top=[{" He": -0.5}]))],
            "of the token ' He' where its text has ' It'",
        ),
        ([event(" It", logprobs_of(" It", logprob=3.0))], "token_logprobs.0 is 3.0"),
        (
            [event(" It", logprobs_of(" It", top=[{" It": -0.1, " He": -0.1}]))],
            "probabilities that sum to 1.81",
        ),
    ],
)
def test_a_server_that_lies(server, events, expected):
    server.faults.append(Fault(events=events))
    with pytest.raises(ModelFailure, match=expected):
        write(model_of(server, attempts=3), want=Want(logprob=True, entropy=True))
    assert len(server.requests) == 1


def test_the_window_of_a_server_and_the_one_declared(server):
    small = ScriptedModel(context_tokens=10)
    with ScriptedServer(small) as tight, pytest.raises(PromptTooLong, match="context window of 10"):
        write(model_of(tight), max_tokens=9)
    with pytest.raises(PromptTooLong, match="20 tokens are to be written, and the window has 20"):
        write(model_of(server, ALL + "&context=20"))
