"""The trace of one question: typed events in the order they happened, and nothing else.

Wrappers in `middleware.session` add the calls; a method itself only says what it decided (`decide`), what it
will not take back (`commit`) and what it still may (`draft`). Viewers, costs and metrics read the trace
alone. Each event holds the numbers behind what happened; `docs/trace.md` lists them.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, get_args

from askance.core.types import Answer, Hit, Key, Role, Usage

SCHEMA_VERSION = 1
UPPER_BOUND = "upper bound"
"""Key in `Decided.numbers` of a budget whose counts of tokens are upper bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What every event has.

    Attributes:
        id: its place in the trace, from 0.
        parent: the event that caused it, such as the decision behind a search.
        at_seconds: when it was complete, since the question was asked.
        seconds: how long it took.
    """

    type: ClassVar[str]
    id: int
    parent: int | None
    at_seconds: float
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Event):
    """The question, and everything needed to ask it again.

    Attributes:
        method: with all its parameters.
        title: the method with its profile and the parameters that are not at their defaults.
        precisions: what the numbers of the models are computed in, by role, where that is known.
        options: the answers to choose from, if there are any.
        config: what the engine was made of, as `EngineConfig.stored` tells it; empty where nobody told.
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
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TracedToken:
    """A generated token with the signals that were asked for; attention rows are left out for size."""

    text: str
    logprob: float | None = None
    entropy: float | None = None
    probs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated(Event):
    """One generation of a model.

    Attributes:
        tokens: those kept.
        is_upper_bound: `prompt_tokens` is an upper bound, since nothing told the exact number.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredOptions(Event):
    """Log-probabilities of options after a prompt; for `is_upper_bound` see `Generated`."""

    type: ClassVar[str] = "score"
    role: Role
    prompt: str
    options: tuple[str, ...]
    logprobs: tuple[float, ...]
    prompt_tokens: int
    is_upper_bound: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attended(Event):
    """One extra forward pass for its attention."""

    type: ClassVar[str] = "attend"
    role: Role
    prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched(Event):
    """One search and what it found."""

    type: ClassVar[str] = "search"
    query: str
    k: int
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class WordSignal:
    """A word of a draft and the number a decision read from it; `is_hit` when that made it doubtful."""

    text: str
    value: float
    is_hit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(Event):
    """A decision and the numbers behind it.

    Attributes:
        name: what was decided, such as "retrieve".
        outcome: what was chosen, such as "search" or "keep".
        why: the reason in one sentence.
        signal: what `words` carry, with its unit, such as "token probability".
        threshold: what the numbers were held against.
        words: the text that was judged, word by word.
        query: the query that was built, if the outcome is a search.
        numbers: further named values.
    """

    type: ClassVar[str] = "decide"
    name: str
    outcome: str
    why: str
    signal: str = ""
    threshold: float | None = None
    words: tuple[WordSignal, ...] = ()
    query: str = ""
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expanded(Event):
    """A step that a search over answers tried from a place in its tree.

    Attributes:
        node: its place: the numbers of the steps that lead to it, from 1, joined by dots behind "0".
        action: what kind of step, such as "retrieve".
        text: what it adds to the answer, or what it found out.
        passage: it was taken with.
        numbers: scores and the like, by name.
        distributions: probabilities by group and name.
        rejected: why it was not gone on from; empty if nothing speaks against it.
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
    """What a call met and went on from.

    Attributes:
        name: "retry" where a server was asked again; "top_k" where it does not take what was to be asked for,
            "refused" where it refuses a parameter, "window" where a prompt may have been cut; "method" where
            another one answers than the default.
        place: which call.
    """

    type: ClassVar[str] = "note"
    name: str
    text: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(Event):
    """Text of the answer that will not be taken back."""

    type: ClassVar[str] = "commit"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted(Event):
    """Text that may still be taken back. Goes to listeners only: the trace keeps the whole `Generated`."""

    type: ClassVar[str] = "draft"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncited(Event):
    """A sentence of the answer that cites nothing, or not what the model named, and why."""

    type: ClassVar[str] = "uncited"
    text: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Event):
    """The answer and what it cost."""

    type: ClassVar[str] = "answer"
    answer: Answer
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Event):
    """An error; `place` says which call broke."""

    type: ClassVar[str] = "error"
    error: str
    message: str
    place: str


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
Listener = Callable[[AnyEvent], None]

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
