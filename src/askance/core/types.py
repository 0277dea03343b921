"""Records that cross the ports: prompts, tokens with their signals, passages and questions.

Every record is frozen and slotted. Units: counts are tokens unless the name says otherwise, probabilities run
from 0 to 1, `logprob` and `entropy` are in nats, offsets are characters and times are seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from askance.core.filters import FieldValue

TokenIds = tuple[int, ...]
"""Token ids of one model's vocabulary."""
Key = tuple[str | int, ...]
"""The name of one call inside a question, such as ``("draft", 2)``. Randomness and caching depend on the
key, never on the order of the calls."""

Role = Literal["answer", "plan", "attend", "critic", "reward", "judge"]
"""The job a model does: it writes the answer, plans sub-questions (AirRAG), provides attention, grades
passages and segments (Self-RAG), scores reasoning paths (AirRAG) or judges finished answers."""
Signal = Literal["logprob", "top_logprobs", "entropy", "token_probs", "attention"]
"""A value that a model can return with every generated token (see `Want`)."""
Capability = Literal["raw", "chat", "continuation", "score", "attend"]
"""A kind of call that a model supports: `Raw` prompts, `Chat` prompts, a `continuation` in a chat,
`Model.score` or `Model.attend`."""
Task = Literal["open", "yes_no", "choice"]
"""The form of a short answer: free text, yes or no, or one of the question's options."""
TextKind = Literal["text", "query", "passage"]
"""The use of a vector: to compare a text with other texts, or to represent a query or a passage in a
search."""
OnText = Callable[[str], None]
"""A callback that receives generated text as soon as no stop string can remove it any more."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of prompt text, which is either trusted or untrusted.

    Untrusted text (passages, questions, documents, generated text) never yields control tokens or chat
    markup, no matter what it contains.
    """

    text: str
    trusted: bool = True


def untrusted(text: str) -> Span:
    """Return a span of text that did not come from askance itself."""
    return Span(text, trusted=False)


def as_spans(text: str | Sequence[Span]) -> Sequence[Span]:
    """Return spans unchanged, and a string as one untrusted span."""
    return (untrusted(text),) if isinstance(text, str) else text


Part = Span | TokenIds
"""A piece of a prompt: text, or token ids that the model generated earlier."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A prompt without a chat format, which the model continues.

    Attributes:
        parts: The pieces of the prompt, in order.
        continuation: The text generated so far. It follows `parts` without a gap.
        keeps_thoughts: Whether the thoughts of a reasoning model stay in generated texts, with their tags.
            Stop strings and conditions then apply to them.
    """

    parts: tuple[Part, ...]
    continuation: tuple[Part, ...] = ()
    keeps_thoughts: bool = field(default=False, kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Chat:
    """A prompt in the model's own chat format.

    Attributes:
        turns: The turns so far, oldest first.
        continuation: The beginning of the assistant's next turn, which the model continues.
        keeps_thoughts: As in `Raw`. The continuation then begins inside the thought that the chat format
            opens, if it opens one.
    """

    turns: tuple[Turn, ...]
    continuation: tuple[Part, ...] = ()
    keeps_thoughts: bool = field(default=False, kw_only=True, repr=False)


Prompt = Raw | Chat


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampling parameters of a generation.

    There is no seed: randomness is a function of the call's `Key`, to which the session adds the run's seed
    and the question's id.

    Attributes:
        max_tokens: The maximum number of new tokens.
        temperature: The softmax temperature; 0 is greedy decoding.
        top_p: The probability mass that nucleus sampling keeps.
        top_k: The number of most probable tokens to sample from; 0 keeps the whole vocabulary.
        stop: The strings that end the generation. They are not part of its text. One of white space ends no
            answer before its first character.
    """

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Want:
    """The signals to return with each token, all computed from raw logits, before temperature and masks.

    Attributes:
        logprob: The log-probability of the token itself.
        top_logprobs: The number of most probable tokens to return at each position.
        entropy: The entropy of the whole distribution.
        token_probs: Strings of one token each, whose exact probability is returned at each position.
        attention: The last layer's attention, as the mean or maximum over heads or separately for each head.
    """

    logprob: bool = False
    top_logprobs: int = 0
    entropy: bool = False
    token_probs: tuple[str, ...] = ()
    attention: Literal["mean", "max", "heads"] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Token:
    """One generated token with its signals.

    A token that completes no character, such as the first byte of an emoji, has an empty `text`.

    Attributes:
        id: The token's id in the model's vocabulary.
        text: The characters that the token adds.
        start, end: The offsets of the token in the generated text.
        logprob: The log-probability in nats, if `Want.logprob` is set.
        entropy: The entropy of the distribution in nats, if `Want.entropy` is set.
        top: The most probable (token text, logprob) pairs, best first, if `Want.top_logprobs` is set.
        probs: The probabilities of `Want.token_probs`, in that order.
        attention: The token's attention row over all positions up to itself, prompt included. Its shape is
            [prompt_tokens + i + 1] or, per head, [heads, prompt_tokens + i + 1]. The row exists only once the
            token has been fed back, so the last token never has one.
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
    """The decision of a `StopCondition` to end a generation.

    Attributes:
        keep_tokens: The number of tokens to keep, counted from the first.
        reason: The reason, which becomes `Generation.finish`.
    """

    keep_tokens: int
    reason: str


class StopCondition(Protocol):
    """A pure predicate over the tokens generated so far, which is evaluated after each token.

    A condition must be a frozen dataclass, because its repr is part of the cache key. Adapters that can't
    stop a running generation apply the condition afterwards, token by token, with the same result.
    """

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        """Return where to cut the generation, or None to continue."""


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """A request for one or more generations from the same prompt.

    Repeating a request with the same `key` always yields the same texts. Requests with different keys are
    independent of each other, and so are the texts of one request.

    Attributes:
        prompt: The prompt to continue.
        sampling: The sampling parameters.
        want: The signals to return with each token.
        until: A condition that ends the generation early.
        n: The number of generations.
        key: The name of the call inside its question.
        on_text: A callback that receives the first generation's text as it appears.
    """

    prompt: Prompt
    sampling: Sampling
    want: Want = Want()
    until: StopCondition | None = None
    n: int = field(default=1, kw_only=True)
    key: Key = field(kw_only=True)
    on_text: OnText | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """One generated text with its tokens.

    Attributes:
        text: The exact text that was kept.
        tokens: The tokens that were kept. If a stop string starts inside a token, that token's `text` and
            `end` are clipped, so the texts of `tokens` always join to `text`.
        dropped: The tokens that were computed but not kept, with their signals: tokens after a cut, the
            tokens of a stop string, and the end-of-sequence token.
        finish: "end" (the model ended its text), "length", "stop" or the reason of a `Cut`.
        prompt_ids: The token ids of the prompt; empty if the model does not report them.
        prompt_texts: The text of each token of the prompt, if attention is wanted; joined, they are the whole
            prompt. A control token is a blank. A token that ends inside a character leaves its text to the
            next one.
        prompt_tokens: The length of the prompt in tokens.
        reused_tokens: The number of prompt tokens that came from a cache.
        is_upper_bound: True if `prompt_tokens` is only an upper bound, because the exact number is unknown.
        thoughts: The thoughts of a reasoning model, which are no part of `text` and `tokens`.
        thought_tokens: The number of tokens of the thoughts.
    """

    text: str
    tokens: tuple[Token, ...]
    dropped: tuple[Token, ...] = ()
    finish: str = "length"
    prompt_ids: TokenIds = ()
    prompt_texts: tuple[str, ...] = ()
    prompt_tokens: int = 0
    reused_tokens: int = 0
    is_upper_bound: bool = False
    thoughts: str = ""
    thought_tokens: int = 0

    @property
    def generated_tokens(self) -> int:
        """The cost of the generation: the number of tokens computed, whether kept, dropped or thought."""
        return len(self.tokens) + len(self.dropped) + self.thought_tokens


@dataclass(frozen=True, slots=True)
class Scored:
    """The score of one option after a prompt.

    Attributes:
        logprob: The log-probability in nats, summed over the option's tokens.
        num_tokens: The length of the option in tokens.
    """

    logprob: float
    num_tokens: int


def relevance(logit: float) -> tuple[float, float]:
    """Return the log-probabilities (nats) that a text is relevant to a query, and that it is not.

    Args:
        logit: The score of a `PairScorer` for the pair.
    """
    return -float(np.logaddexp(0, -logit)), -float(np.logaddexp(0, logit))


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """The last layer's attention in one forward pass.

    Attributes:
        ids: The ids of the N tokens.
        texts: The texts of the N tokens. Joined, they end with the text that was attended to.
        weights: The attention weights, of shape [heads, N queries, N keys]. Each row sums to 1.
    """

    ids: TokenIds
    texts: tuple[str, ...]
    weights: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document, which a retriever can find.

    Attributes:
        id: The passage's id, unique in its index.
        title: The title of the document.
        text: The text of the passage.
        source: The file that the document comes from.
        start, end: The offsets of the passage in the document's text.
        page: The page or slide on which the passage begins, from 1; 0 if the document has no pages.
        section: The heading that the passage stands under, or the sheet and row; empty if there is none.
        fields: The further fields of the document, such as the other columns of its row.
    """

    id: str
    title: str
    text: str
    source: str = ""
    start: int = 0
    end: int = 0
    page: int = 0
    section: str = ""
    fields: Mapping[str, FieldValue] = field(default_factory=dict, hash=False)

    @property
    def titled_text(self) -> str:
        """The title and the text in one string, which represents the passage to encoders and rerankers."""
        return f"{self.title} {self.text}".strip()

    @property
    def location(self) -> str:
        """The file with the place in it, as in "goshawk.pdf, p. 3, Payload"."""
        return ", ".join(filter(None, (self.source, self.place)))

    @property
    def place(self) -> str:
        """The page and the section, as in "p. 3, Payload". A section that repeats the title is left out."""
        page = f"p. {self.page}" if self.page else ""
        return ", ".join(filter(None, (page, self.section if self.section != self.title else "")))


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found for a query. Rank 1 is the best."""

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
        id: The question's id. Together with the run's seed it determines all randomness.
        text: The question itself.
        task: "open", "yes_no" or "choice", which determines how the short answer is extracted from the text.
        options: The options of a multiple-choice question.
        demos: Few-shot examples that replace the method's own.
        history: Earlier questions of the same conversation with their answers, oldest first.
        genre: The kind of text that answers the question, if its dataset specifies one. An "ambiguous"
            question has several interpretations, and its answer covers all of them.
    """

    id: str
    text: str
    task: Task = "open"
    options: tuple[str, ...] = ()
    demos: tuple[Demo, ...] | None = None
    history: tuple[Demo, ...] = ()
    genre: Literal["", "ambiguous", "biography"] = ""
