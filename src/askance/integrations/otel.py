"""OpenTelemetry spans from traces, by the OpenInference conventions for applications of language models.

    engine.on_end = SpanRecorder()          # spans go to the tracer provider of the application
    with otlp_spans() as record:            # spans go to a collector, as the OTEL_ variables say
        engine.on_end = record

A question becomes a CHAIN span with a span for each call: LLM for a call of a model, RETRIEVER for a search
with its documents, and CHAIN for a step of a tree search. Decisions are events of the question's span, and a
search carries the decision that caused it. Attributes without a convention begin with ``askance.``.

Importing this module imports OpenTelemetry. If it is missing, the error names the pip line to install it.
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from askance.core import trace as events
from askance.core.errors import InputError, MissingExtra
from askance.core.notes import note
from askance.core.safe_text import json_line
from askance.core.version import VERSION

try:
    from openinference.semconv.trace import DocumentAttributes, SpanAttributes
    from openinference.semconv.trace import OpenInferenceSpanKindValues as Kind
    from opentelemetry import trace as api
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
except ImportError as error:
    raise MissingExtra("opentelemetry-sdk", "otel", "the export of spans") from error

NUM_DOCUMENTS = 20
"""The number of documents of a search in its span, since OpenTelemetry keeps 128 attributes of a span."""
Attributes = dict[str, Any]


class SpanRecorder:
    """A function for `Engine.on_end` that records the spans of a question once it has ended.

    The spans have the times at which things happened. The question's span is a child of the span that is
    current where the question was asked.

    Args:
        provider: The tracer provider; by default the one of the application.
    """

    def __init__(self, provider: api.TracerProvider | None = None) -> None:
        self._tracer = api.get_tracer("askance", VERSION, tracer_provider=provider)

    def __call__(self, trace: events.Trace) -> None:
        asked = next((event for event in trace.events if isinstance(event, events.Asked)), None)
        if asked is None:
            return
        began = time.time_ns() - _nanoseconds(trace.elapsed_seconds)
        root = self._tracer.start_span("askance", start_time=began, attributes=_question(asked))
        within = api.set_span_in_context(root)
        for event in trace.events:
            ended = began + _nanoseconds(event.at_seconds)
            described = _call(event, asked, trace.events)
            if described is not None:
                name, attributes = described
                started = ended - _nanoseconds(event.seconds)
                span = self._tracer.start_span(name, within, start_time=started, attributes=attributes)
                span.end(ended)
            elif (remark := _remark(event)) is not None:
                root.add_event(remark[0], remark[1], timestamp=ended)
        _finish(root, trace.events)
        root.end(began + _nanoseconds(trace.events[-1].at_seconds))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)


def _question(asked: events.Asked) -> Attributes:
    setting = {"method": asked.title, "retriever": asked.retriever, "seed": asked.seed, **asked.models}
    return {
        SpanAttributes.OPENINFERENCE_SPAN_KIND: Kind.CHAIN.value,
        SpanAttributes.INPUT_VALUE: asked.text,
        SpanAttributes.METADATA: json_line({"question_id": asked.question_id, **setting}),
    }


def _finish(root: api.Span, recorded: Sequence[events.AnyEvent]) -> None:
    """Set the answer, or the error of a question that failed."""
    last = recorded[-1]
    if isinstance(last, events.Answered):
        cited = [each.passage.id for each in last.answer.citations]
        root.set_attribute(SpanAttributes.OUTPUT_VALUE, last.answer.text)
        root.set_attributes(_own(short_answer=last.answer.short, cited=cited, searches=last.usage.searches))
        root.set_status(api.StatusCode.OK)
        return
    failures = [event for event in recorded if isinstance(event, events.Failed)]
    message = f"{failures[-1].error}: {failures[-1].message}" if failures else "the question has not ended"
    root.set_status(api.StatusCode.ERROR, message)


def _call(
    event: events.AnyEvent, asked: events.Asked, recorded: Sequence[events.AnyEvent]
) -> tuple[str, Attributes] | None:
    """Return the name and attributes of the span of an event, or None if the event has no span."""
    if isinstance(event, events.Generated):
        return _generated(event, asked)
    if isinstance(event, events.ScoredOptions):
        scores = dict(zip(event.options, event.logprobs, strict=True))
        values = {SpanAttributes.INPUT_VALUE: event.prompt, SpanAttributes.OUTPUT_VALUE: json_line(scores)}
        return f"{event.role} score", {**_model(event.role, asked, event.prompt_tokens), **values}
    if isinstance(event, events.Attended):
        return f"{event.role} attend", _model(event.role, asked, event.prompt_tokens)
    if isinstance(event, events.Searched):
        cause = None if event.parent is None else recorded[event.parent]
        return "search", _documents(event) | (_decision(cause) if isinstance(cause, events.Decided) else {})
    if isinstance(event, events.Expanded):
        return f"expand {event.node}", _expanded(event)
    return None


def _model(role: str, asked: events.Asked, prompt_tokens: int, generated_tokens: int = 0) -> Attributes:
    return {
        SpanAttributes.OPENINFERENCE_SPAN_KIND: Kind.LLM.value,
        SpanAttributes.LLM_MODEL_NAME: dict[str, str](**asked.models).get(role, ""),
        SpanAttributes.LLM_TOKEN_COUNT_PROMPT: prompt_tokens,
        SpanAttributes.LLM_TOKEN_COUNT_COMPLETION: generated_tokens,
        SpanAttributes.LLM_TOKEN_COUNT_TOTAL: prompt_tokens + generated_tokens,
    }


def _generated(event: events.Generated, asked: events.Asked) -> tuple[str, Attributes]:
    """Return the span of a generation, with the entropies of its tokens in nats if they were requested."""
    entropies = [token.entropy for token in event.tokens if token.entropy is not None]
    return " ".join([event.role, *map(str, event.key)]), {
        **_model(event.role, asked, event.prompt_tokens, event.generated_tokens),
        SpanAttributes.LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_READ: event.reused_tokens,
        SpanAttributes.LLM_FINISH_REASON: event.finish,
        SpanAttributes.INPUT_VALUE: event.prompt,
        SpanAttributes.OUTPUT_VALUE: event.text,
        **_own(entropy=entropies or None),
    }


def _documents(event: events.Searched) -> Attributes:
    attributes: Attributes = {
        SpanAttributes.OPENINFERENCE_SPAN_KIND: Kind.RETRIEVER.value,
        SpanAttributes.INPUT_VALUE: event.query,
        **_own(k=event.k, hits=len(event.hits)),
    }
    for number, hit in enumerate(event.hits[:NUM_DOCUMENTS]):
        head, passage = f"{SpanAttributes.RETRIEVAL_DOCUMENTS}.{number}.", hit.passage
        attributes[head + DocumentAttributes.DOCUMENT_ID] = passage.id
        attributes[head + DocumentAttributes.DOCUMENT_CONTENT] = passage.text
        attributes[head + DocumentAttributes.DOCUMENT_SCORE] = hit.score
        metadata = {"title": passage.title, "source": passage.location}
        attributes[head + DocumentAttributes.DOCUMENT_METADATA] = json_line(metadata)
    return attributes


def _decision(event: events.Decided) -> Attributes:
    return _numbers(event.numbers) | _own(
        decision=event.name,
        outcome=event.outcome,
        why=event.why,
        query=event.query,
        signal=event.signal,
        threshold=event.threshold,
        words=[word.text for word in event.words],
        values=[word.value for word in event.words],
        verdicts=[word.is_hit for word in event.words],
    )


def _expanded(event: events.Expanded) -> Attributes:
    groups, passage = event.distributions.items(), event.passage and event.passage.passage.id
    verdicts = {f"verdicts.{group}.{name}": each for group, named in groups for name, each in named.items()}
    own = _own(node=event.node, action=event.action, rejected=event.rejected, passage=passage, **verdicts)
    return {
        SpanAttributes.OPENINFERENCE_SPAN_KIND: Kind.CHAIN.value,
        SpanAttributes.OUTPUT_VALUE: event.text,
        **own,
        **_numbers(event.numbers),
    }


def _numbers(numbers: Mapping[str, float]) -> Attributes:
    return _own(**{f"numbers.{name.replace(' ', '_')}": value for name, value in numbers.items()})


def _own(**values: Any) -> Attributes:
    """Return the attributes without a convention, except those that are None."""
    return {f"askance.{name}": value for name, value in values.items() if value is not None}


def _remark(event: events.AnyEvent) -> tuple[str, Attributes] | None:
    """Return the name and attributes of an event of the question's span, or None if there is none."""
    if isinstance(event, events.Decided):
        return "decide", _decision(event)
    if isinstance(event, events.Noted):
        return "note", _own(note=event.name, text=event.text, place=event.place)
    if isinstance(event, events.Uncited):
        return "uncited", _own(text=event.text, why=event.why)
    if isinstance(event, events.Failed):
        return "exception", {"exception.type": event.error, "exception.message": event.message}
    return None


@contextmanager
def otlp_spans() -> Iterator[SpanRecorder]:
    """Yield a recorder whose spans are sent to a collector by OTLP over HTTP, at the latest at the end.

    The standard variables say where and how, among them OTEL_EXPORTER_OTLP_ENDPOINT (by default
    http://localhost:4318), OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME and OTEL_SDK_DISABLED. If spans
    can't be sent, a note says so, and nothing else fails.

    Raises:
        InputError: OTEL_EXPORTER_OTLP_PROTOCOL or OTEL_EXPORTER_OTLP_TRACES_PROTOCOL names another protocol.
    """
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if os.environ.get(variable, "http/protobuf") not in ("", "http/protobuf"):
            raise InputError(
                f"{variable}={os.environ[variable]!r}: spans are only sent by http/protobuf. Unset the "
                "variable, and name the HTTP port of the collector (4318 by default)."
            )
    # The attributes of the environment win.
    resource = Resource({"service.name": "askance", "service.version": VERSION})
    provider = TracerProvider(resource=resource.merge(OTELResourceDetector().detect()))
    exporter = _CountingExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    # The note below replaces the library's messages, which have a line for every attempt.
    logger = logging.getLogger("opentelemetry")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield SpanRecorder(provider)
    finally:
        provider.shutdown()
        logger.setLevel(level)
        if exporter.num_lost:
            note(
                "otel",
                f"{exporter.num_lost} spans could not be sent to the collector: check that it listens, and "
                "OTEL_EXPORTER_OTLP_ENDPOINT.",
            )


class _CountingExporter(OTLPSpanExporter):
    """An exporter that counts the spans that it could not send."""

    num_lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        if result is not SpanExportResult.SUCCESS:
            self.num_lost += len(spans)
        return result
