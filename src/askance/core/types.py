"""Records that cross the ports: prompts, tokens with their signals, passages, questions, answers.

All are frozen and slotted. Units: counts are tokens unless the name says otherwise; probabilities are
plain (0 to 1), `logprob` and `entropy` are in nats; offsets are characters; times are seconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

TokenIds = tuple[int, ...]
Key = tuple[str | int, ...]
"""Names one call inside a question, such as ``("draft", 2)``. Randomness and caching depend on it, never on
the order in which calls happen to run."""

Role = Literal["answer", "attend", "critic", "reward", "judge"]
Signal = Literal["logprob", "top_logprobs", "entropy", "token_probs", "attention"]
Capability = Literal["raw", "chat", "continuation", "score", "attend"]
Task = Literal["open", "yes_no", "choice"]
TextKind = Literal["text", "query", "passage"]
OnText = Callable[[str], None]
"""Receives generated text as it appears, only as far as no stop string can take it back."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of prompt text. Untrusted text (passages, questions, documents, what a model wrote) can never
    yield control tokens or chat markup, whatever it contains.
    """

    text: str
    trusted: bool = True


def untrusted(text: str) -> Span:
    """Text that did not come from askance itself."""
    return Span(text, trusted=False)


def as_spans(text: str | Sequence[Span]) -> Sequence[Span]:
    """Spans as they are; a string is untrusted text."""
    return (untrusted(text),) if isinstance(text, str) else text


Part = Span | TokenIds


@dataclass(frozen=True, slots=True)
class Raw:
    """A prompt the model simply goes on from. `continuation` follows `parts` without a gap."""

    parts: tuple[Part, ...]
    continuation: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Chat:
    """A prompt in the model's own chat format. `continuation` begins the assistant's next turn."""

    turns: tuple[Turn, ...]
    continuation: tuple[Part, ...] = ()


Prompt = Raw | Chat


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to choose tokens. Temperature 0 is greedy; `top_k` 0 keeps the whole vocabulary.

    There is no seed here: randomness is a function of the call's `Key` alone, into which the runtime puts the
    run's seed and the question's id.
    """

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Want:
    """The signals to return with each token. All come from raw logits, before temperature and masks.

    `token_probs` names single tokens whose exact probability is wanted at every position. `attention` is the
    last layer's, as the mean or maximum over heads, or per head.
    """

    logprob: bool = False
    top_logprobs: int = 0
    entropy: bool = False
    token_probs: tuple[str, ...] = ()
    attention: Literal["mean", "max", "heads"] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Token:
    """One generated token; `start` and `end` are offsets into the generated text.

    A token that completes no character (the first byte of an emoji) has an empty text.

    Attributes:
        top: the most probable (token text, logprob) pairs, best first, when `top_logprobs` was wanted.
        probs: the probabilities of `Want.token_probs`, in that order.
        attention: the row of this token over all positions up to itself, prompt included: shape
            [prompt_tokens + i + 1] or, per head, [heads, prompt_tokens + i + 1]. It exists only once the
            token has been fed back, so never for the last one.
    """

    id: int
    text: str
    start: int
    end: int
    logprob: float | None = None
    entropy: float | None = None
    top: tuple[tuple[str, float], ...] = ()
    probs: tuple[float, ...] = ()
    attention: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """The verdict of an `StopCondition`: keep this many tokens, for this reason, and generate no more."""

    keep_tokens: int
    reason: str


class StopCondition(Protocol):
    """A pure predicate over the tokens so far, evaluated after each one. A frozen dataclass: its repr is its
    cache key. Adapters that can't stop in flight apply it afterwards, token by token, with the same meaning.
    """

    def __call__(self, tokens: Sequence[Token]) -> Cut | None: ...


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """What a model is asked to write: `n` texts, the first of which `watch` sees as it appears.

    The same `key` gives the same texts; other keys, and the texts of one request, are independent.
    """

    prompt: Prompt
    sampling: Sampling
    want: Want = Want()
    until: StopCondition | None = None
    n: int = field(default=1, kw_only=True)
    key: Key = field(kw_only=True)
    watch: OnText | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """What a model wrote.

    Attributes:
        text: the text kept, exactly.
        tokens: the tokens kept. When a stop string begins inside a token, that token's `text` and `end` are
            clipped, so that the texts of `tokens` always join to `text`.
        dropped: tokens computed but not kept: those after a cut, those of a stop string, the end token. Their
            signals are there too.
        finish: "end" (the model ended), "length", "stop", or the reason of a `Cut`.
        prompt_ids: the prompt as the model saw it; empty where the model does not tell.
        prompt_tokens, reused_tokens: length of the prompt, and how much of it came from a cache.
        is_upper_bound: `prompt_tokens` is an upper bound, since nothing told the exact number.
    """

    text: str
    tokens: tuple[Token, ...]
    dropped: tuple[Token, ...] = ()
    finish: str = "length"
    prompt_ids: TokenIds = ()
    prompt_tokens: int = 0
    reused_tokens: int = 0
    is_upper_bound: bool = False

    @property
    def generated_tokens(self) -> int:
        """All tokens computed, kept or not: what the generation cost."""
        return len(self.tokens) + len(self.dropped)


@dataclass(frozen=True, slots=True)
class Scored:
    """The log-probability (nats) of one option after a prompt, summed over its tokens."""

    logprob: float
    num_tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """The last layer's attention of one forward pass: `weights[head, query, key]`, rows summing to 1."""

    ids: TokenIds
    texts: tuple[str, ...]
    weights: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document: `start` and `end` are character offsets in the document's text."""

    id: str
    title: str
    text: str
    source: str = ""
    start: int = 0
    end: int = 0

    @property
    def titled_text(self) -> str:
        """What encoders and rerankers read of it: its title and its text."""
        return f"{self.title} {self.text}".strip()


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found for a query; rank 1 is the best."""

    passage: Passage
    score: float
    rank: int


@dataclass(frozen=True, slots=True)
class Demo:
    """A few-shot example: a question and its worked answer."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question to answer.

    Attributes:
        task: "open", "yes_no" or "choice"; decides how the short answer is read out of the text.
        options: the choices, when there are any.
        demos: few-shot examples to use in place of the method's own.
        history: earlier questions of the same conversation with their answers, oldest first.
        genre: what kind of text answers it, where its data set tells: "ambiguous" is a question that can be
            meant in several ways, whose answer covers all of them.
    """

    id: str
    text: str
    task: Task = "open"
    options: tuple[str, ...] = ()
    demos: tuple[Demo, ...] | None = None
    history: tuple[Demo, ...] = ()
    genre: Literal["", "ambiguous", "biography"] = ""


@dataclass(frozen=True, slots=True)
class Citation:
    """Passage `number` (as printed) supports `answer text[start:end]`."""

    number: int
    passage: Passage
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Answer:
    """`text` is everything the method committed to; `short` is the bare answer read out of it, or empty."""

    text: str
    short: str = ""
    citations: tuple[Citation, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Usage:
    """What answering cost.

    Attributes:
        generated_tokens: of all generations, dropped tokens included.
        is_upper_bound: `prompt_tokens` is an upper bound: the exact number of some prompt is not known.
    """

    prompt_tokens: int = 0
    generated_tokens: int = 0
    reused_tokens: int = 0
    searches: int = 0
    seconds: float = 0.0
    is_upper_bound: bool = False

    @property
    def computed_tokens(self) -> int:
        """Tokens that went through a model: those of prompts that no cache had, and those generated."""
        return self.prompt_tokens - self.reused_tokens + self.generated_tokens
