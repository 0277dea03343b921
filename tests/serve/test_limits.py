"""Many users share one engine: who waits, who is sent away, and what a client that leaves frees."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from askance import Budget
from askance.core.answers import Answer
from askance.core.errors import RetrieverFailure
from askance.core.ports import Needs
from askance.core.trace import Trace
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.serve.errors import ApiError
from askance.serve.limits import Admission, Limits
from askance.serve.traces import Traces
from tests.serve.served import QUESTION, HeldModel, error_of, events_of, post_head, serving

WAIT = 60


def asking(server, *, stream):
    """A raw connection over which a question has been asked."""
    body = json.dumps({"messages": [{"role": "user", "content": QUESTION}], "stream": stream}).encode()
    return server.connection(post_head("/v1/chat/completions", len(body)) + body)


def gauge(server, name):
    """The number of questions that are "running" or "waiting"."""
    start = f"askance_questions_{name} "
    lines = server.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(start))


def wait_until(condition):
    while not condition():
        pass


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_its_work_at_once(sample_index, stream):
    """Its call is cancelled, and its slot, of which there is one, goes to the next question."""
    with serving(sample_index, HeldModel(), limits=Limits(in_flight=1, waiting=0)) as server:
        with asking(server, stream=stream):
            assert server.model.started.acquire(timeout=WAIT)
        assert server.model.cancelled.acquire(timeout=WAIT)
        server.model.release()
        wait_until(lambda: server.ask().status_code == 200)
        metrics = server.get("/metrics").text
    assert 'askance_questions_total{method="single",outcome="cancelled"} 1.0' in metrics


def test_a_client_that_leaves_the_queue_is_never_answered(sample_index):
    with serving(sample_index, HeldModel(), limits=Limits(in_flight=1, waiting=1)) as server:
        with asking(server, stream=False):
            assert server.model.started.acquire(timeout=WAIT)
            with asking(server, stream=True):
                wait_until(lambda: gauge(server, "waiting") == 1)
            wait_until(lambda: gauge(server, "waiting") == 0)
            server.model.release()
        wait_until(lambda: gauge(server, "running") == 0)
        assert len(server.model.prompts) <= 2  # the answer and the short answer of the first question


def test_more_questions_than_may_wait_get_429_with_retry_after(sample_index):
    with (
        serving(sample_index, HeldModel(), limits=Limits(in_flight=1, waiting=1)) as server,
        ThreadPoolExecutor() as pool,
    ):
        answers = [pool.submit(server.ask) for _ in range(2)]
        wait_until(lambda: (gauge(server, "running"), gauge(server, "waiting")) == (1, 1))
        for stream in (False, True):
            refused = server.ask(stream=stream)
            assert (refused.status_code, refused.json()["error"]["type"]) == (429, "rate_limit_error")
            assert int(refused.headers["retry-after"]) >= 1
        server.model.release()
        assert [answer.result().status_code for answer in answers] == [200, 200]
        assert server.ask().status_code == 200


def test_questions_are_admitted_in_order_and_a_refused_one_takes_no_slot():
    async def ask():
        admission, admitted = Admission(Limits(in_flight=1, waiting=4)), []

        async def hold(number):
            async with admission.slot():
                admitted.append(number)
                await asyncio.sleep(0)

        *held, refused = await asyncio.gather(*map(hold, range(6)), return_exceptions=True)
        assert (held, type(refused)) == ([None] * 5, ApiError)
        assert (admission.running, admission.waiting) == (0, 0)
        return admitted

    assert asyncio.run(ask()) == [0, 1, 2, 3, 4]


LIMIT = (422, "limit_reached")
FAILURES = {
    "no time": ({"budget": Budget(seconds=0.05), "model": HeldModel()}, LIMIT),
    "no tokens": ({"budget": Budget(tokens=10)}, LIMIT),
    "a retriever": (
        {"retriever": ScriptedRetriever(RetrieverFailure("no file /srv/secret"))},
        (502, "retriever_failed"),
    ),
    "a model": (
        {"model": ScriptedModel([RuntimeError("no route to http://10.0.0.1/secret")] * 2)},
        (502, "model_failed"),
    ),
}


@pytest.mark.parametrize(("settings", "expected"), FAILURES.values(), ids=FAILURES)
def test_a_failure_ends_an_answer_and_a_stream_with_an_error_that_hides_its_details(
    sample_index, settings, expected
):
    index = None if "retriever" in settings else sample_index
    with serving(index, limits=Limits(in_flight=1), **settings) as server:
        response, streamed = server.ask(), server.ask(stream=True, askance={"events": True})
        assert server.get("/readyz").status_code == 200
    events = events_of(streamed.text)
    assert error_of(response) == expected
    assert events[-1][1]["error"]["code"] == expected[1]
    assert "[DONE]" not in [data for _, data in events]
    told = response.text + json.dumps([data for name, data in events if name != "trace"])
    assert "secret" not in told
    assert "Traceback" not in told + streamed.text


@dataclass(frozen=True)
class Talkative:
    """A method that commits more text at once than any buffer between server and client holds."""

    needs = Needs()

    async def answer(self, question, run):
        run.trace.commit("x" * 32_000_000)
        return Answer("x")


def test_a_client_that_reads_nothing_loses_its_slot():
    limits = Limits(in_flight=1, send_seconds=0.05)
    with serving(method=Talkative(), limits=limits) as server, asking(server, stream=True):
        wait_until(lambda: "askance_questions_total" in server.get("/metrics").text)
        wait_until(lambda: gauge(server, "running") == 0)
        assert server.ask(model="").status_code == 200


def test_only_the_latest_traces_are_kept_for_their_owner():
    traces = Traces(Limits(traces=2, trace_events=100))

    def keep(id, num_events):
        trace = Trace()
        for _ in range(num_events):
            trace.decide("end", "stop", "enough")
        traces.keep(id, "owner", trace)
        return [each for each in ("0", "1", "2", "3", "large") if traces.find(each, "owner")]

    assert [keep(id, 1) for id in "0123"] == [["0"], ["0", "1"], ["1", "2"], ["2", "3"]]
    assert keep("large", 1000) == ["large"]
    assert traces.find("large", "") is None
