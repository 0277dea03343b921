"""The events of a trace: a typed union, each with the numbers behind what happened.

`askance.core.trace` collects them; `docs/trace.md` lists them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

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
        method: with all its knobs.
        title: the method with its profile and the knobs that are not at their defaults.
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
EVENT_TYPES: tuple[type[AnyEvent], ...] = (
    Asked, Generated, ScoredOptions, Attended, Searched, Decided, Expanded, Noted,
    Committed, Drafted, Uncited, Answered, Failed,
)  # fmt: skip
Listener = Callable[[AnyEvent], None]
