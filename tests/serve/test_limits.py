"""Many users share one engine: who waits, who is sent away, and what a client that leaves frees."""

import asyncio
import json
import socket
import threading
from dataclasses import dataclass

import httpx2
import pytest

from askance.core.answers import Answer
from askance.core.errors import RetrieverFailure
from askance.core.ports import Needs
from askance.core.trace import Trace
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.serve.errors import ApiError
from askance.serve.limits import Admission, Limits
from askance.serve.traces import Traces
from tests.serve.served import QUESTION, HeldModel, bearer, chunks_of, events_of, serving

WAIT = 60


def connection_to(server, *, stream):
    """A raw connection over which a question has been asked."""
    host, port = server.url.removeprefix("http://").split(":")
    body = json.dumps({"messages": [{"role": "user", "content": QUESTION}], "stream": stream}).encode()
    connection = socket.create_connection((host, int(port)), timeout=WAIT)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return connection


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_its_work_at_once(sample_index, stream):
    """Its call is cancelled, and its slot, of which there is one, goes to the next question."""
    with serving(sample_index, HeldModel(), limits=Limits(in_flight=1, waiting=0)) as server:
        with connection_to(server, stream=stream):
            assert server.model.started.acquire(timeout=WAIT)
        assert server.model.cancelled.acquire(timeout=WAIT)
        server.model.release()
        assert _until_admitted(server)["object"] == "chat.completion"
        metrics = server.get("/metrics").text
    assert 'askance_questions_total{method="single",outcome="cancelled"} 1.0' in metrics


def _until_admitted(server):
    """The answer to a question that is asked again as long as the slot is taken."""
    while (response := server.ask()).status_code == 429:
        pass
    return response.json()


def test_a_client_that_leaves_the_queue_is_never_answered(sample_index):
    with serving(sample_index, HeldModel(), limits=Limits(in_flight=1, waiting=1)) as server:
        with connection_to(server, stream=False):
            assert server.model.started.acquire(timeout=WAIT)
            with connection_to(server, stream=True):
                _until(lambda: _gauge(server, "waiting") == 1)
            _until(lambda: _gauge(server, "waiting") == 0)
            server.model.release()
        _until(lambda: _gauge(server, "running") == 0)
        assert len(server.model.prompts) <= 2  # the answer and the short answer of the first question


def _gauge(server, name):
    (line,) = [
        line for line in server.get("/metrics").text.splitlines()
        if line.startswith(f"askance_questions_{name} ")
    ]  # fmt: skip
    return float(line.split()[1])


def _until(condition):
    while not condition():
        pass


def test_more_questions_than_may_wait_get_429_with_retry_after(sample_index):
    with serving(sample_index, HeldModel(), limits=Limits(in_flight=1, waiting=1)) as server:
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(_own_ask(server))) for _ in range(2)]
        for thread in threads:
            thread.start()
        _until(lambda: (_gauge(server, "running"), _gauge(server, "waiting")) == (1, 1))
        for stream in (False, True):
            refused = server.ask(stream=stream)
            assert (refused.status_code, refused.json()["error"]["type"]) == (429, "rate_limit_error")
            assert int(refused.headers["retry-after"]) >= 1
        server.model.release()
        for thread in threads:
            thread.join()
        assert [answer.status_code for answer in answers] == [200, 200]
        assert server.ask().status_code == 200


def _own_ask(server):
    with httpx2.Client(base_url=server.url, timeout=WAIT, trust_env=False) as client:
        body = {"messages": [{"role": "user", "content": QUESTION}]}
        return client.post("/v1/chat/completions", json=body, headers=bearer(None))


def test_questions_are_admitted_in_the_order_of_their_arrival():
    async def order():
        admission, admitted = Admission(Limits(in_flight=1)), []

        async def ask(number):
            async with admission.slot():
                admitted.append(number)
                await asyncio.sleep(0)

        await asyncio.gather(*map(ask, range(5)))
        assert (admission.running, admission.waiting) == (0, 0)
        return admitted

    assert asyncio.run(order()) == [0, 1, 2, 3, 4]


def test_a_refused_question_takes_no_slot():
    async def ask():
        admission = Admission(Limits(in_flight=1, waiting=0))
        async with admission.slot():
            with pytest.raises(ApiError):
                async with admission.slot():
                    pass
            assert (admission.running, admission.waiting) == (1, 0)

    asyncio.run(ask())


def test_a_time_limit_ends_a_question(sample_index):
    from askance import Budget

    with serving(sample_index, HeldModel(), budget=Budget(seconds=0.05)) as server:
        response = server.ask()
        streamed = server.ask(stream=True)
    assert (response.status_code, response.json()["error"]["code"]) == (422, "limit_reached")
    assert events_of(streamed.text)[-1][1]["error"]["code"] == "limit_reached"


def test_a_retriever_that_fails_in_mid_stream_ends_the_stream_with_an_error():
    retriever = ScriptedRetriever(RetrieverFailure("/srv/index is gone"))
    with serving(model=ScriptedModel(), retriever=retriever) as server:
        events = events_of(server.ask(stream=True).text)
        whole = server.ask()
    assert events[-1][1]["error"]["code"] == "retriever_failed"
    assert "[DONE]" not in [data for _, data in events]
    assert (whole.status_code, whole.json()["error"]["code"]) == (502, "retriever_failed")
    assert "/srv" not in whole.text + str(events)


@dataclass(frozen=True)
class Talkative:
    """A method that commits more text at once than any buffer between server and client holds."""

    needs = Needs()

    async def answer(self, question, run):
        run.trace.commit("x" * 32_000_000)
        return Answer("x")


def test_a_client_that_reads_nothing_loses_its_slot():
    limits = Limits(in_flight=1, send_seconds=0.05)
    with serving(method=Talkative(), limits=limits) as server, connection_to(server, stream=True):
        _until(lambda: "askance_questions_total" in server.get("/metrics").text)
        _until(lambda: _gauge(server, "running") == 0)
        assert server.ask(model="").status_code == 200


def test_a_failure_leaves_the_server_able_to_answer(sample_index):
    replies = iter([RuntimeError("out of luck")])

    def reply(prompt, key):
        for error in replies:
            raise error
        return " It is Uppsala."

    with serving(sample_index, ScriptedModel(reply), limits=Limits(in_flight=1)) as server:
        assert server.ask(stream=True).status_code == 200
        assert chunks_of(server.ask(stream=True).text)


def test_only_the_latest_traces_are_kept():
    traces = Traces(Limits(traces=2, trace_events=100))
    for number in range(4):
        traces.keep(str(number), "owner", _trace(1))
    assert [traces.find(str(number), "owner") is not None for number in range(4)] == [
        False,
        False,
        True,
        True,
    ]
    traces.keep("large", "owner", _trace(1000))
    assert [traces.find(id, "owner") is not None for id in ("2", "3", "large")] == [False, False, True]
    assert traces.find("large", "") is None


def _trace(num_events):
    trace = Trace()
    for _ in range(num_events):
        trace.decide("end", "stop", "enough")
    return trace
