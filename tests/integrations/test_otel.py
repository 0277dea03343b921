"""Spans of questions, in memory and at a collector on the loopback interface."""

import asyncio
import gzip
import io
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx2
import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")
pytest.importorskip("openinference.semconv.trace", reason="needs the extra otel")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from askance.ask import Engine
from askance.configuration.methods import make_method
from askance.core.errors import ModelFailure
from askance.core.trace import Trace
from askance.core.types import Passage
from askance.integrations.otel import NUM_DOCUMENTS, SpanRecorder
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever

UPPSALA = Passage("p", "Ingmar Bergman", "Ingmar Bergman was born in Uppsala.", "film.jsonl")
QUESTION = "Where was Ingmar Bergman born?"
KIND = "openinference.span.kind"


@pytest.fixture
def memory():
    return InMemorySpanExporter()


@pytest.fixture
def provider(memory):
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(memory))
    return made


def engine_of(provider, method, replies, settings, passages=(UPPSALA,), **options):
    model, retriever = ScriptedModel(replies, **options), ScriptedRetriever(passages)
    made = Engine(make_method(method, settings), {"answer": model}, retriever)
    made.on_end = SpanRecorder(provider)
    return made


@pytest.fixture
def spans_of(memory, provider):
    """Asks a question, and gives the spans by name."""

    def spans_of(*given, **options):
        engine_of(provider, *given, **options).ask(QUESTION)
        return {span.name: span for span in memory.get_finished_spans()}

    return spans_of


SINGLE = {"ask_short_answer": False}


def test_a_question_is_a_chain_with_its_search_and_its_call(spans_of):
    spans = spans_of("single", [" Ingmar Bergman was born in Uppsala."], SINGLE)
    kinds = {name: span.attributes[KIND] for name, span in spans.items()}
    assert kinds == {"askance": "CHAIN", "search": "RETRIEVER", "answer answer": "LLM"}
    root, *others = spans["askance"], spans["search"], spans["answer answer"]
    assert (root.parent, root.status.status_code) == (None, StatusCode.OK)
    for span in others:
        assert span.parent.span_id == root.context.span_id
        assert root.start_time <= span.start_time <= span.end_time <= root.end_time
    assert root.attributes["input.value"] == QUESTION
    assert root.attributes["output.value"].strip() == "Ingmar Bergman was born in Uppsala."
    assert json.loads(root.attributes["metadata"])["method"] == "single(ask_short_answer=false)"
    assert root.attributes["askance.cited"] == ("p",)

    search, call = (span.attributes for span in others)
    assert search["input.value"] == search["askance.query"] == QUESTION
    assert search["askance.outcome"] == "search"
    hit = {name: search[f"retrieval.documents.0.document.{name}"] for name in ("id", "content", "score")}
    assert hit == {"id": "p", "content": UPPSALA.text, "score": 1.0}
    assert json.loads(search["retrieval.documents.0.document.metadata"])["title"] == "Ingmar Bergman"

    assert (call["llm.model_name"], call["llm.finish_reason"]) == ("scripted", "end")
    read, written = call["llm.token_count.prompt"], call["llm.token_count.completion"]
    assert (read > written > 0, call["llm.token_count.total"]) == (True, read + written)
    assert call["llm.token_count.prompt_details.cache_read"] == 0
    assert QUESTION in call["input.value"]


def test_decisions_are_events_with_threshold_words_and_verdicts(spans_of):
    doubted = Reply(" Bergman was born in Uppsala.", doubts={"Uppsala": 0.2})
    settings = {"search_first": False, "ask_short_answer": False}
    root = spans_of("flare", [doubted, " Bergman was born in Uppsala."], settings)["askance"]
    event = next(event for event in root.events if event.attributes["askance.outcome"] == "search")
    doubt = {name.removeprefix("askance."): value for name, value in event.attributes.items()}
    assert event.name == "decide"
    assert dict(zip(doubt["words"], doubt["verdicts"], strict=True))["Uppsala."]
    assert min(doubt["values"]) < doubt["threshold"]
    assert doubt["signal"] == "token probability"
    assert doubt["query"]


def test_entropies_of_tokens_are_attributes(spans_of):
    reply = Reply(" Bergman was born in Uppsala.", entropies={"Uppsala": 3.0})
    spans = spans_of("dragin", [reply] * 9, SINGLE)
    assert any(3.0 in span.attributes.get("askance.entropy", ()) for span in spans.values())


def test_steps_of_a_tree_search_are_spans_with_their_distributions(spans_of):
    spans = spans_of("selfrag", [" Uppsala."] * 20, {"mode": "always", "passages": 1})
    steps = [span.attributes for name, span in spans.items() if name.startswith("expand")]
    assert {step[KIND] for step in steps} == {"CHAIN"}
    assert any(key.startswith("askance.verdicts.") for step in steps for key in step)


def test_a_failed_question_is_an_error_with_its_exception(memory, provider):
    with pytest.raises(ModelFailure):
        engine_of(provider, "single", [RuntimeError("out of order")], SINGLE).ask(QUESTION)
    spans = {span.name: span for span in memory.get_finished_spans()}
    root = spans["askance"]
    assert root.status.status_code is StatusCode.ERROR
    assert root.status.description == "RuntimeError: out of order"
    (event,) = [event for event in root.events if event.name == "exception"]
    assert event.attributes["exception.message"] == "out of order"
    assert "search" in spans


def test_a_span_holds_as_many_documents_as_attributes_allow(spans_of):
    many = [Passage(str(number), "t", f"born {number}") for number in range(100)]
    settings = {"passages": 100, "ask_short_answer": False, "max_tokens": 16}
    search = spans_of("single", [" Uppsala."], settings, many, context_tokens=9999)["search"]
    assert search.dropped_attributes == 0
    assert search.attributes["askance.hits"] == 100
    assert sum(key.endswith("document.id") for key in search.attributes) == NUM_DOCUMENTS


def test_the_spans_belong_to_the_span_of_the_application(memory, provider):
    with provider.get_tracer("app").start_as_current_span("request") as request:
        engine_of(provider, "closed_book", [" Uppsala."], SINGLE).ask(QUESTION)
    root = next(span for span in memory.get_finished_spans() if span.name == "askance")
    assert root.parent.span_id == request.get_span_context().span_id


def test_a_trace_without_a_question_has_no_spans(memory, provider):
    SpanRecorder(provider)(Trace())
    assert memory.get_finished_spans() == ()


class Collector(HTTPServer):
    """A collector of OTLP over HTTP on the loopback interface, which keeps what it is sent."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Receiver)
        self.spans, self.requests = [], []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        sent = ExportTraceServiceRequest.FromString(body)
        self.server.requests.append((self.path, dict(self.headers)))
        for resource in sent.resource_spans:
            names = {each.key: each.value.string_value for each in resource.resource.attributes}
            self.server.spans += [
                (names["service.name"], span) for each in resource.scope_spans for span in each.spans
            ]
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def collector(monkeypatch):
    server = Collector()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


WORDS = ["--model", "scripted", "--method", "closed_book"]


def num_questions(collector):
    """The number of questions whose spans have arrived since the last call."""
    names = [span.name for _, span in collector.spans]
    collector.spans.clear()
    return names.count("askance")


def test_ask_sends_its_spans_where_the_variables_say_and_only_if_it_is_told_to(run, collector, monkeypatch):
    """Traces hold texts of users: a variable that is meant for other programs must not send them."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=search")
    assert run("ask", "Who?", *WORDS)[0] == 0
    assert collector.requests == []
    code, out, err = run("ask", "Who?", *WORDS, "--otel", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["answer"]
    (path, headers), *_ = collector.requests
    assert (path, headers["x-team"]) == ("/v1/traces", "search")
    assert {service for service, _ in collector.spans} == {"askance"}
    assert {span.name for _, span in collector.spans} >= {"askance", "answer answer"}


def test_chat_eval_and_grid_send_the_spans_of_every_question(run, collector, monkeypatch, tmp_path):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    monkeypatch.setattr(sys, "stdin", io.StringIO("Who?\n/method closed_book\nWhen?\n"))
    assert run("chat", *WORDS, "--otel")[0] == 0
    assert {service for service, _ in collector.spans} == {"mine"}
    assert num_questions(collector) == 2
    words = ["--dataset", "sample", "--limit", "3", "--out", tmp_path / "run"]
    assert run("eval", *words, *WORDS, "--otel")[0] == 0
    assert num_questions(collector) == 3
    file = tmp_path / "grid.toml"
    file.write_text(
        'limit = 2\n[datasets.sample]\nquestions = "sample"\n[methods.closed_book]\n'
        '[models.scripted]\nanswer = "scripted"\n'
    )
    assert run("grid", file, "--out", tmp_path / "runs", "--otel")[0] == 0
    assert num_questions(collector) == 2


def test_the_servers_send_spans_too(run, collector, monkeypatch):
    """Here each asks one question and ends; how they serve is tested elsewhere."""
    monkeypatch.setattr("askance.integrations.mcp.serve", lambda engine, port: engine.ask("Who?"))
    assert run("mcp", *WORDS, "--otel")[0] == 0
    assert num_questions(collector) == 1
    pytest.importorskip("fastapi", reason="needs the extra serve")

    async def ask(app):
        body = {"messages": [{"role": "user", "content": "Who?"}]}
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            assert (await client.post("/v1/chat/completions", json=body)).status_code == 200

    class Server:
        def __init__(self, app, limits):
            self.app = app

        def run(self, sockets):
            asyncio.run(ask(self.app))

    monkeypatch.setattr("askance.serve.server.make_server", Server)
    assert run("serve", *WORDS, "--port", "0", "--otel")[0] == 0
    assert num_questions(collector) == 1


def test_spans_that_cannot_be_sent_are_counted_and_nothing_else_fails(run, monkeypatch):
    server = Collector()
    server.server_close()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    code, out, err = run("ask", "Who?", *WORDS, "--otel", "--json")
    assert (code, "answer" in json.loads(out)) == (0, True)
    assert "spans could not be sent to the collector: check that it listens" in err
    assert len(err.splitlines()) == 1


def test_another_protocol_is_refused_before_anything_is_asked(run, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    code, out, err = run("ask", "Who?", *WORDS, "--otel")
    assert (code, out) == (2, "")
    assert "OTEL_EXPORTER_OTLP_PROTOCOL='grpc': spans are only sent by http/protobuf" in err
