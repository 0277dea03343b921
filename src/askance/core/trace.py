"""The trace of one question: its typed events, in the order in which they happened.

The wrappers in `middleware.session` record the calls. A method itself only records its decisions (`decide`),
its final text (`commit`) and its provisional text (`draft`). Viewers, costs and metrics are based on the
trace alone. `docs/trace.md` lists the events and their fields.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from traceback import format_exception
from typing import Any, ClassVar, TypeVar, get_args

from askance.core.answers import Answer, Citation, Usage
from askance.core.errors import AskanceError
from askance.core.notes import bound
from askance.core.types import Demo, Hit, Key, Role

SCHEMA_VERSION = 1
_MOST_FRAMES, _MOST_CHARACTERS = 20, 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The base class of all events.

    Attributes:
        id: The event's position in the trace, from 0.
        parent: The id of the event that caused this one, such as the decision to search.
        at_seconds: The time from the question to the end of the event.
    """

    type: ClassVar[str]
    id: int
    parent: int | None
    at_seconds: float
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Event):
    """The question, with the settings needed to reproduce the answer.

    Attributes:
        method: The specification of the method with all its parameters.
        title: The specification with the parameters that differ from their defaults.
        started_at: The start time in ISO 8601, in UTC.
        precisions: The floating-point format of each model by role, where it is known.
        history: The earlier questions of the conversation with their answers, oldest first.
        config: The engine's configuration, as `EngineConfig.stored` returns it; empty if unknown.
    """

    type: ClassVar[str] = "question"
    question_id: str
    text: str
    method: str
    title: str
    models: dict[str, str]
    retriever: str
    seed: int
    started_at: str
    precisions: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    history: tuple[Demo, ...] = ()
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TracedToken:
    """A generated token with the signals that were requested, except attention rows, which are too large."""

    text: str
    logprob: float | None = None
    entropy: float | None = None
    probs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated(Event):
    """One generation of a model.

    Attributes:
        prompt: The prompt as readable text.
        text: The text that was kept.
        generated_tokens: The number of tokens computed, kept or not, thoughts included.
        reused_tokens: The number of prompt tokens that came from a cache.
        is_upper_bound: True if `prompt_tokens` is only an upper bound, because the exact number is unknown.
        thoughts: The thoughts of a reasoning model, which are no part of the text.
    """

    type: ClassVar[str] = "generate"
    role: Role
    key: Key
    prompt: str
    text: str
    finish: str
    tokens: tuple[TracedToken, ...]
    prompt_tokens: int
    generated_tokens: int
    reused_tokens: int
    is_upper_bound: bool = False
    thoughts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredOptions(Event):
    """The log-probabilities of options after a prompt, in nats."""

    type: ClassVar[str] = "score"
    role: Role
    prompt: str
    options: tuple[str, ...]
    logprobs: tuple[float, ...]
    prompt_tokens: int
    is_upper_bound: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attended(Event):
    """One forward pass that was run to obtain its attention weights."""

    type: ClassVar[str] = "attend"
    role: Role
    prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched(Event):
    """One search for at most `k` passages, and its hits."""

    type: ClassVar[str] = "search"
    query: str
    k: int
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class WordSignal:
    """A word of a draft with the value of its signal.

    `is_hit` is true if the method found the word too uncertain.
    """

    text: str
    value: float
    is_hit: bool


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of a query, with the attention for which the method chose it."""

    text: str
    attention: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(Event):
    """A decision with the numbers that led to it.

    Attributes:
        name: The kind of decision, such as "retrieve".
        outcome: The choice that was made, such as "search" or "keep".
        signal: The quantity in `words`, with its unit, such as "token probability".
        query: The query, if the outcome is a search, or the question that a follow-up is rewritten into.
    """

    type: ClassVar[str] = "decide"
    name: str
    outcome: str
    why: str
    signal: str = ""
    threshold: float | None = None
    words: tuple[WordSignal, ...] = ()
    query: str = ""
    query_words: tuple[QueryWord, ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expanded(Event):
    """A node that a tree search over answers expanded.

    Attributes:
        node: The path to the node, such as "0.2.1". The root is "0", and the children of a node are numbered
            from 1.
        action: The kind of step, such as "retrieve".
        text: The text that the step adds to the answer, or its intermediate result.
        rejected: The reason why the search did not continue from the node; empty if it did.
    """

    type: ClassVar[str] = "expand"
    node: str
    action: str
    text: str
    passage: Hit | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    distributions: dict[str, dict[str, float]] = field(default_factory=dict)
    rejected: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted(Event):
    """A problem that a call ran into and recovered from.

    Attributes:
        name: The kind of problem, such as "retry" if a server was called again. `docs/trace.md` lists them.
    """

    type: ClassVar[str] = "note"
    name: str
    text: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(Event):
    """Text of the answer that can no longer change."""

    type: ClassVar[str] = "commit"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted(Event):
    """Text that may still change.

    Only listeners receive this event. The trace stores the complete `Generated` event instead.
    """

    type: ClassVar[str] = "draft"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncited(Event):
    """A sentence of the answer that cites no passage, or not the one that the model named, and the reason."""

    type: ClassVar[str] = "uncited"
    text: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Event):
    """The answer and its cost."""

    type: ClassVar[str] = "answer"
    answer: Answer
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Event):
    """An error that ended a call or the whole question.

    Attributes:
        traceback: The traceback of an error that another program raised, such as a plug-in; cut if long.
    """

    type: ClassVar[str] = "error"
    error: str
    message: str
    place: str
    traceback: str = ""


AnyEvent = (
    Asked
    | Generated
    | ScoredOptions
    | Attended
    | Searched
    | Decided
    | Expanded
    | Noted
    | Committed
    | Drafted
    | Uncited
    | Answered
    | Failed
)
EVENT_TYPES: tuple[type[AnyEvent], ...] = get_args(AnyEvent)
E = TypeVar("E", bound=AnyEvent)
Listener = Callable[[AnyEvent], None]

_cause: ContextVar["tuple[list[AnyEvent], int] | None"] = ContextVar("askance_trace_cause", default=None)


class Trace:
    """A record of one question's events, which also sends each event to a listener as it happens.

    A trace belongs to one event loop. Each task has its own current parent (see `because`), so concurrent
    branches do not affect each other.

    Attributes:
        has_tracebacks: Whether failures have tracebacks. They name files, which clients must not see.
        settled: A function for streams, which returns an offset in the committed text and the citations of
            sentences that have ended there. They are final, and no other sentence ends before this offset.
    """

    has_tracebacks = True
    settled: Callable[[], tuple[int, tuple[Citation, ...]]] = staticmethod(lambda: (0, ()))

    def __init__(self, listener: Listener | None = None) -> None:
        self.events: list[AnyEvent] = []
        self.listener = listener
        self._started = time.perf_counter()

    def add(self, kind: type[E], *, seconds: float = 0.0, **fields: Any) -> E:
        """Append an event of type `kind` with its id, parent and time, and return the event."""
        event = self._make(kind, seconds=seconds, **fields)
        self.events.append(event)
        self._notify(event)
        return event

    def decide(self, name: str, outcome: str, why: str, **fields: Any) -> Decided:
        """Record a decision and return its event. `fields` are the other fields of `Decided`."""
        return self.add(Decided, name=name, outcome=outcome, why=why, **fields)

    def expand(self, node: str, action: str, text: str, **fields: Any) -> Expanded:
        """Record a node of a tree search and return its event. `fields` are further fields of `Expanded`."""
        return self.add(Expanded, node=node, action=action, text=text, **fields)

    def because(self, decision: Event) -> AbstractContextManager[None]:
        """Set `decision` as the parent of all events recorded inside the `with` block."""
        return bound(_cause, (self.events, decision.id))

    def fail(self, error: BaseException, place: str, message: str = "") -> None:
        """Record an error, with its traceback unless it is an `AskanceError` or `message` explains it."""
        is_unknown = self.has_tracebacks and not message and not isinstance(error, AskanceError)
        lines = format_exception(error, limit=-_MOST_FRAMES) if is_unknown else ()
        shown = "".join(lines).strip()[-_MOST_CHARACTERS:]
        name = type(error).__name__
        self.add(Failed, error=name, message=message or str(error), place=place, traceback=shown)

    def commit(self, text: str) -> None:
        """Record text of the answer as final. Consecutive pieces are stored as one event."""
        if not text:
            return
        piece = self._make(Committed, text=text)
        last = self.events[-1] if self.events else None
        if isinstance(last, Committed):
            piece = replace(piece, id=last.id, parent=last.parent)
            self.events[-1] = replace(piece, text=last.text + text)
        else:
            self.events.append(piece)
        self._notify(piece)

    def commit_plain(self, text: str) -> None:
        """Record final text of the answer that has no citation markers, even if it looks so."""
        self.commit(text)

    def draft(self, text: str) -> None:
        """Send text that may still change to the listener."""
        self._notify(self._make(Drafted, text=text))

    @property
    def decisions(self) -> tuple[Decided, ...]:
        """The method's decisions, in order."""
        return tuple(event for event in self.events if isinstance(event, Decided))

    @property
    def committed(self) -> str:
        """The text committed so far."""
        return "".join(event.text for event in self.events if isinstance(event, Committed))

    @property
    def elapsed_seconds(self) -> float:
        """The time since the question was asked."""
        return time.perf_counter() - self._started

    def aside(self) -> "Trace":
        """Return a view of this trace for a method that another method runs.

        The view records events in this trace, but keeps the inner method's text out of the answer. The view's
        `committed` contains only the text that the inner method has committed.
        """
        return _Aside(self)

    def usage(self) -> Usage:
        """Return the cost of all calls recorded so far, with the seconds since the question was asked."""
        calls = [e for e in self.events if isinstance(e, Generated | ScoredOptions | Attended)]
        generated = [e for e in calls if isinstance(e, Generated)]
        counted = [e for e in calls if isinstance(e, Generated | ScoredOptions)]
        return Usage(
            prompt_tokens=sum(e.prompt_tokens for e in calls),
            generated_tokens=sum(e.generated_tokens for e in generated),
            reused_tokens=sum(e.reused_tokens for e in generated),
            searches=sum(isinstance(e, Searched) for e in self.events),
            calls=len(calls),
            seconds=self.elapsed_seconds,
            is_upper_bound=any(e.is_upper_bound for e in counted),
        )

    def _make(self, kind: type[E], **fields: Any) -> E:
        at_seconds = self.elapsed_seconds
        events, cause = _cause.get() or (self.events, None)
        # A method may answer one question while it answers another, so a cause applies to one trace only.
        parent = cause if events is self.events else None
        return kind(id=len(self.events), parent=parent, at_seconds=at_seconds, **fields)

    def _notify(self, event: AnyEvent) -> None:
        if self.listener is not None:
            self.listener(event)


class _Aside(Trace):
    """A view of a trace that ignores drafts and keeps its own committed text."""

    def __init__(self, trace: Trace) -> None:
        self.events, self.listener, self._started = trace.events, trace.listener, trace._started
        self._text = ""

    @property
    def committed(self) -> str:
        return self._text

    def commit(self, text: str) -> None:
        self._text += text

    def draft(self, text: str) -> None:
        pass
