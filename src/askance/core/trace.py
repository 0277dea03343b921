"""The trace of one question: typed events in the order they happened, and nothing else.

Wrappers in `runtime.record` add the calls; a method itself only says what it decided (`decide`), what it will
not take back (`commit`) and what it still may (`draft`). Viewers, costs and metrics read the trace alone.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from askance.core.events import (
    EVENT_TYPES,
    SCHEMA_VERSION,
    Answered,
    AnyEvent,
    Asked,
    Attended,
    Committed,
    Decided,
    Drafted,
    Event,
    Expanded,
    Failed,
    Generated,
    Listener,
    Noted,
    ScoredOptions,
    Searched,
    TracedToken,
    Uncited,
    WordSignal,
)
from askance.core.types import Usage

__all__ = [
    "EVENT_TYPES",
    "SCHEMA_VERSION",
    "Answered",
    "AnyEvent",
    "Asked",
    "Attended",
    "Committed",
    "Decided",
    "Drafted",
    "Event",
    "Expanded",
    "Failed",
    "Generated",
    "Listener",
    "Noted",
    "ScoredOptions",
    "Searched",
    "Trace",
    "TracedToken",
    "Uncited",
    "WordSignal",
]

_cause: ContextVar["tuple[list[AnyEvent], int] | None"] = ContextVar("askance_trace_cause", default=None)


class Trace:
    """Collects the events of one question and passes each to a listener as it happens.

    Used from one event loop; the cause set by `because` follows tasks, so parallel branches keep their own.
    """

    def __init__(self, listener: Listener | None = None) -> None:
        self.events: list[AnyEvent] = []
        self._listener = listener
        self._started = time.perf_counter()

    def add(self, kind: type[Any], *, seconds: float = 0.0, **fields: Any) -> Any:
        """Append one event of type `kind`, filling in id, parent and time."""
        event = self._make(kind, seconds=seconds, **fields)
        self.events.append(event)
        self._tell(event)
        return event

    def decide(self, name: str, outcome: str, why: str, **numbers: Any) -> Decided:
        """Record a decision; `numbers` are the further fields of `Decided`."""
        event: Decided = self.add(Decided, name=name, outcome=outcome, why=why, **numbers)
        return event

    def expand(self, node: str, action: str, text: str, **found: Any) -> Expanded:
        """Record a step of a search; `found` are the further fields of `Expanded`."""
        event: Expanded = self.add(Expanded, node=node, action=action, text=text, **found)
        return event

    @contextmanager
    def because(self, decision: Event) -> Iterator[None]:
        """Name `decision` as the parent of the events inside."""
        token = _cause.set((self.events, decision.id))
        try:
            yield
        finally:
            _cause.reset(token)

    def commit(self, text: str) -> None:
        """Mark text of the answer as final. Pieces that follow each other are kept as one event."""
        if not text:
            return
        piece: Committed = self._make(Committed, text=text)
        last = self.events[-1] if self.events else None
        if isinstance(last, Committed):
            piece = replace(piece, id=last.id, parent=last.parent)
            self.events[-1] = replace(piece, text=last.text + text)
        else:
            self.events.append(piece)
        self._tell(piece)

    def draft(self, text: str) -> None:
        """Show text that may still be taken back."""
        self._tell(self._make(Drafted, text=text))

    @property
    def decisions(self) -> tuple[Decided, ...]:
        """What the method decided, in order."""
        return tuple(event for event in self.events if isinstance(event, Decided))

    @property
    def committed(self) -> str:
        """All text committed so far."""
        return "".join(event.text for event in self.events if isinstance(event, Committed))

    def aside(self) -> "Trace":
        """This trace for a method that works for another: its events are kept, its text is no answer.

        `committed` is what that method has committed.
        """
        return _Aside(self)

    def usage(self) -> Usage:
        """What all recorded calls cost, and the seconds since the question was asked."""
        calls = [e for e in self.events if isinstance(e, Generated | ScoredOptions | Attended)]
        generated = [e for e in calls if isinstance(e, Generated)]
        counted = [e for e in calls if isinstance(e, Generated | ScoredOptions)]
        return Usage(
            prompt_tokens=sum(e.prompt_tokens for e in calls),
            generated_tokens=sum(e.generated_tokens for e in generated),
            reused_tokens=sum(e.reused_tokens for e in generated),
            searches=sum(isinstance(e, Searched) for e in self.events),
            seconds=time.perf_counter() - self._started,
            is_upper_bound=any(e.is_upper_bound for e in counted),
        )

    def _make(self, kind: type[Any], **fields: Any) -> Any:
        at_seconds = time.perf_counter() - self._started
        events, cause = _cause.get() or (self.events, None)
        parent = (
            cause if events is self.events else None
        )  # one question may be asked while another is answered
        return kind(id=len(self.events), parent=parent, at_seconds=at_seconds, **fields)

    def _tell(self, event: AnyEvent) -> None:
        if self._listener is not None:
            self._listener(event)


class _Aside(Trace):
    """A trace without drafts, and whose commits are its own."""

    def __init__(self, of: Trace) -> None:
        self.events, self._listener, self._started = of.events, of._listener, of._started
        self._text = ""

    @property
    def committed(self) -> str:
        return self._text

    def commit(self, text: str) -> None:
        self._text += text

    def draft(self, text: str) -> None:
        pass
