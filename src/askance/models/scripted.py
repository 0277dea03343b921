"""Public fakes without weights, for tests and first steps: a model, an encoder and two judges of pairs.

The model plays given replies or writes seeded random words. It passes the same contract tests as real models:
its signals are computed from an explicit next-word distribution.
"""

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from askance.core.errors import InputError, ModelSpecError, PromptTooLong, first_flaw
from askance.core.extensions import implements
from askance.core.ports import Encoder, Entailment, Model, Reranker
from askance.core.types import (
    Attention,
    Capability,
    Chat,
    GenerateRequest,
    Generation,
    Key,
    Part,
    Prompt,
    Sampling,
    Scored,
    Signal,
    Span,
    TextKind,
    TokenIds,
    as_spans,
)
from askance.inference.decoding import check_sampling, pooled
from askance.inference.stopping import StopTracker
from askance.models.pair_scorer import CrossEncoder
from askance.text.linguistics import content_words

KEPT_PROMPTS = 2_000
"""The number of prompts that a scripted model keeps. Every distinct piece of all its texts is kept, too."""
_NUM_IDS = 1 << 31
_END = "<|end|>"
VOCABULARY = (" red", " green", " blue", " one", " two", " three", " cat", " dog", " river", ".", "\n", _END)

Distribution = dict[str, float]
Probability = Annotated[float, Gt(0), Le(1)]
_SHAPE = 'A reply is {"text": "It is Bonn.", "doubts": {"Bonn": 0.3}}; probabilities are above 0, up to 1.'

ALL_SIGNALS: frozenset[Signal] = frozenset({"logprob", "top_logprobs", "entropy", "token_probs", "attention"})
ALL_CAPABILITIES: frozenset[Capability] = frozenset({"raw", "chat", "continuation", "score", "attend"})


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of a scripted model.

    Attributes:
        doubts: The probabilities of some words of the text, by word.
        sureness: The probability of every other word.
        ends: Whether the end token follows the text.
        entropies: The entropies (nats) to report for some words, instead of the entropies of their
            distributions.
        beside: For some words, the alternative pieces with their probabilities.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    text: str
    doubts: Mapping[str, Probability] = field(default_factory=dict)
    sureness: Probability = 0.99
    ends: bool = True
    entropies: Mapping[str, float] = field(default_factory=dict)
    beside: Mapping[str, dict[str, Annotated[float, Ge(0), Le(1)]]] = field(default_factory=dict)

    def distribution(self, piece: str) -> Distribution:
        """Return the distribution in which a piece of the text is chosen. Its first entry is that piece."""
        word = _bare_word(piece)
        probability, others = self.doubts.get(word, self.sureness), self.beside.get(word, {})
        rest = 1.0 - probability - sum(others.values())
        if rest < -1e-9:
            raise InputError(
                f"the probabilities of {word!r} and of the pieces beside it sum to {1.0 - rest:g} in a "
                "reply: make doubts, sureness and beside sum to at most 1."
            )
        return {piece: probability, **others, " (other)": max(rest, 0.0)}


AttentionFunction = Callable[[Sequence[str]], Sequence[float]]
"""A function that takes the pieces of a text, and returns the attention weights of the last piece over all of
them. The weights need not sum to 1."""
ReplyFunction = Callable[[str, Key], Reply | str]
Scores = Callable[[str, str], float]
"""A function that takes a prompt and an option, and returns the log-probability of the option."""


@implements(Model)
class ScriptedModel:
    """A `Model` that plays scripted replies.

    Control tokens have the form ``<|end|>``, and chat turns are rendered with such tokens.

    Args:
        replies: The replies, as a sequence or as a function. A sequence is consumed in the order of calls. A
            function takes the text of the prompt and the key of the call, which distinguishes concurrent
            questions. None means seeded random words.
        scores: The log-probabilities that `score` returns, as a mapping from options, or as a function that
            takes a prompt and an option.
        attention: The function that returns the attention of a position, for both heads; None for made-up
            attention.
        control: Further strings that are single control tokens.

    Attributes:
        prompts: The texts of the last prompts, at most `KEPT_PROMPTS`.
    """

    fingerprint = precision = ""
    counts_exactly = True

    def __init__(
        self,
        replies: Sequence[Reply | str | Exception] | ReplyFunction | None = None,
        *,
        scores: Mapping[str, float] | Scores | None = None,
        attention: AttentionFunction | None = None,
        control: Sequence[str] = (),
        name: str = "scripted",
        context_tokens: int = 4096,
        signals: frozenset[Signal] = ALL_SIGNALS,
        capabilities: frozenset[Capability] = ALL_CAPABILITIES,
    ) -> None:
        self.name, self.context_tokens = name, context_tokens
        self.signals, self.capabilities = signals, capabilities
        self.prompts: list[str] = []
        self._num_calls = 0
        self._replies = replies
        self._scores, self._attention = scores or {}, attention
        self._control = frozenset(control)
        # Each control token is one piece.
        strings = "|".join([*map(re.escape, sorted(control, key=len, reverse=True)), r"<\|[a-z_]+\|>"])
        self._piece = re.compile(rf"{strings}|\s*(?:(?!{strings})[^\s<])+|\s*<|\s+")
        self._ids: dict[str, int] = {}
        self._pieces: dict[int, str] = {}

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        sampling, key, on_text = request.sampling, request.key, request.on_text
        prompt_ids = self.prompt_ids(request.prompt)
        check_sampling(sampling, request.n)
        if len(prompt_ids) + sampling.max_tokens > self.context_tokens:
            requested = f"{len(prompt_ids)} tokens and {sampling.max_tokens} more"
            raise PromptTooLong(self.name, f"{requested}, in a window of {self.context_tokens}")
        text = self.decode(prompt_ids)
        self.prompts.append(text)
        del self.prompts[:-KEPT_PROMPTS]
        reply = self._reply(text, key)
        samples = (
            replace(request, key=(*key, sample), on_text=None if sample else on_text)
            for sample in range(request.n)
        )
        return tuple(self._generate(prompt_ids, reply, sample) for sample in samples)

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        return tuple(self._score(self.prompt_ids(prompt), option) for option in options)

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        ids = self.tokenize(text) if isinstance(text, str) else text
        ids = (self._id("<|begin|>"), *ids) if bos else ids
        rows = np.zeros((2, len(ids), len(ids)), dtype=np.float32)
        for query in range(len(ids)):
            rows[:, query, : query + 1] = self._attention_row(ids, query)
        return Attention(ids, self.pieces(ids), rows)

    def tokenize(self, text: str | Sequence[Span], *, at_start: bool = False) -> TokenIds:
        return self._encode(as_spans(text))

    def decode(self, ids: TokenIds, *, at_start: bool = False) -> str:
        return "".join(self.pieces(ids))

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._pieces[i] for i in ids)

    async def count(self, prompt: Prompt) -> int:
        return len(self.prompt_ids(prompt))

    def _generate(self, prompt_ids: TokenIds, reply: Reply | None, request: GenerateRequest) -> Generation:
        tracker, want = StopTracker(request), request.want
        random = np.random.Generator(np.random.Philox(_stable_hash(request.key)))
        pieces = iter([*self._piece.findall(reply.text), *[_END] * reply.ends] if reply else ())
        ids = list(prompt_ids)
        while not tracker.is_finished:
            if want.attention and tracker.tokens:  # The last token's attention is known only now.
                weights_of_heads = self._attention_row(ids, len(ids) - 1)
                tracker.set_attention(pooled(weights_of_heads, want.attention), len(prompt_ids))
            if reply:
                weights = reply.distribution(next(pieces, " …"))
                piece = next(iter(weights))
                entropy = reply.entropies.get(_bare_word(piece), _entropy(weights))
            else:
                weights = nonsense_distribution(tuple(ids[-3:]))
                piece, entropy = _sample_piece(weights, request.sampling, random.random()), _entropy(weights)
            ids.append(self._id(piece))
            token = tracker.token(
                ids[-1],
                "" if piece == _END else piece,
                logprob=math.log(weights[piece]) if want.logprob else None,
                entropy=entropy if want.entropy else None,
                top=tuple(
                    (other, math.log(p)) for other, p in _ranked(weights)[: want.top_logprobs] if p > 0
                ),
                probs=tuple(weights.get(name, 0.0) for name in want.token_probs),
            )
            tracker.end(token) if piece == _END else tracker.add(token)
        generation = tracker.generation(prompt_ids, len(prompt_ids))
        if want.attention is None:
            return generation
        texts = tuple(" " if self._is_control(piece) else piece for piece in self.pieces(prompt_ids))
        return replace(generation, prompt_texts=texts)

    def _attention_row(self, ids: Sequence[int], query: int) -> NDArray[np.float32]:
        """Return the attention of two heads at position `query`, as an array of shape [2, query + 1]."""
        if self._attention is None:
            keys = np.arange(query + 1)
            heads = np.array([1.0 + (np.array(ids[: query + 1]) + query) % 7, 1.0 + keys % 3], np.float32)
        else:
            heads = np.array([self._attention(self.pieces(ids[: query + 1]))] * 2, np.float32)
        row: NDArray[np.float32] = heads / heads.sum(axis=1, keepdims=True)
        return row

    def _reply(self, prompt: str, key: Key) -> Reply | None:
        replies, index = self._replies, self._num_calls
        self._num_calls += 1
        if replies is None:
            return None
        if not callable(replies) and index >= len(replies):
            raise RuntimeError(
                f"the script has {len(replies)} replies; the prompt of call {index + 1} ends in "
                f"{prompt[-200:]!r}: give it more replies."
            )
        reply = replies(prompt, key) if callable(replies) else replies[index]
        if isinstance(reply, Exception):
            raise reply
        return Reply(reply) if isinstance(reply, str) else reply

    def _score(self, prompt_ids: TokenIds, option: str) -> Scored:
        if not option:
            raise InputError("score: an option is empty; give each option a text.")
        pieces = self._piece.findall(option)
        scores = self._scores
        named = scores(self.decode(prompt_ids), option) if callable(scores) else scores.get(option)
        if named is not None:
            return Scored(named, len(pieces))
        ids, total = list(prompt_ids), 0.0
        for piece in pieces:
            total += math.log(nonsense_distribution(tuple(ids[-3:])).get(piece, 1e-6))
            ids.append(self._id(piece))
        return Scored(total, len(pieces))

    def prompt_ids(self, prompt: Prompt) -> TokenIds:
        """Return the ids of a prompt with its chat turns and its continuation."""
        parts: list[Part] = []
        for turn in prompt.turns if isinstance(prompt, Chat) else ():
            parts += [Span(f"<|{turn.role}|>"), *turn.parts, Span(_END)]
        parts += [Span("<|assistant|>")] if isinstance(prompt, Chat) else prompt.parts
        return self._encode((*parts, *prompt.continuation))

    def _encode(self, parts: Sequence[Part]) -> TokenIds:
        ids: list[int] = []
        for part in parts:
            if not isinstance(part, Span):
                ids += part
                continue
            for piece in self._piece.findall(part.text):
                plain = part.trusted or not self._is_control(piece)
                ids += map(self._id, [piece] if plain else [piece[0], piece[1:]])
        return tuple(ids)

    def _is_control(self, piece: str) -> bool:
        return piece in self._control or piece.startswith("<|")

    def _id(self, piece: str) -> int:
        """Return the id of a piece: a hash of its text, which does not depend on the order of calls."""
        if piece not in self._ids:
            id = _stable_hash(("piece", piece)) % _NUM_IDS
            while id in self._pieces:
                id += 1
            self._ids[piece], self._pieces[id] = id, piece
        return self._ids[piece]


def _ranked(weights: Distribution) -> list[tuple[str, float]]:
    return sorted(weights.items(), key=lambda entry: -entry[1])


def _bare_word(piece: str) -> str:
    """Return a piece without surrounding white space and punctuation, which is how a `Reply` names words."""
    return piece.strip().strip(".,;:!?")


def _entropy(weights: Distribution) -> float:
    """Return the entropy of a distribution in nats."""
    return -sum(p * math.log(p) for p in weights.values() if p > 0)


def nonsense_distribution(tail: TokenIds) -> Distribution:
    """Return a made-up distribution of the next word that depends only on the last few ids."""
    scores = np.random.Generator(np.random.Philox(_stable_hash(tail))).gumbel(size=len(VOCABULARY))
    weights = np.exp(scores) / np.exp(scores).sum()
    return dict(zip(VOCABULARY, weights.tolist(), strict=True))


def _sample_piece(weights: Distribution, sampling: Sampling, uniform: float) -> str:
    """Return the piece that a uniform random number from 0 to 1 selects."""
    ranked = _ranked(weights)
    if sampling.temperature == 0:
        return ranked[0][0]
    ranked = ranked[: sampling.top_k or None]
    tempered = np.array([p for _, p in ranked]) ** (1 / sampling.temperature)
    tempered /= tempered.sum()
    kept = tempered[: int(np.searchsorted(tempered.cumsum(), sampling.top_p)) + 1]
    return ranked[int(np.searchsorted(kept.cumsum() / kept.sum(), uniform))][0]


def _stable_hash(value: object) -> int:
    """Return a hash that depends only on the value's repr."""
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest(), "little")


def read_replies(path: Path) -> tuple[Reply, ...]:
    """Read replies from JSON Lines such as ``{"text": "It is Bonn.", "doubts": {"Bonn": 0.3}}``.

    Raises:
        ModelSpecError: The file is unreadable or empty, or a line is not a reply; the message names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelSpecError(f"can't read the script {path}: {reason}. {_SHAPE}") from error
    reader, replies = TypeAdapter(Reply), []
    for number, line in enumerate(lines, start=1):
        try:
            replies.append(reader.validate_json(line))
        except ValidationError as error:
            raise ModelSpecError(f"{path}, line {number}{first_flaw(error)}. {_SHAPE}") from error
    return tuple(replies)


def load_scripted(file: str = "") -> ScriptedModel:
    """Load a model that plays the replies in a JSON Lines file. Without a file, it writes random words."""
    return ScriptedModel(read_replies(Path(file)) if file else None)


@implements(Encoder)
class ScriptedEncoder:
    """An `Encoder` that sums a fixed pseudo-random vector for each word.

    Texts with the same words have the same vector, regardless of order and case. Texts that share words have
    similar vectors.
    """

    name = "scripted"

    def __init__(self, dimensions: int = 16) -> None:
        self.fingerprint = f"scripted, {dimensions} dimensions"
        self.dimensions = dimensions

    async def embed(self, texts: Sequence[str], kind: TextKind = "text") -> NDArray[np.float32]:
        """Return unit vectors as an array of shape [len(texts), dimensions]."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            # The words are sorted, since sums of floats depend on their order.
            total = np.sum([self._vector(word) for word in sorted(text.lower().split()) or [""]], axis=0)
            vectors[row] = total / np.linalg.norm(total)
        return vectors

    def _vector(self, word: str) -> NDArray[np.float64]:
        seed = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        random = np.random.Generator(np.random.Philox(int.from_bytes(seed, "little")))
        return random.normal(size=self.dimensions)


@implements(Entailment)
class ScriptedEntailment:
    """An `Entailment` after a crude rule: a text entails a claim if it has all content words of the claim.

    Attributes:
        calls: The premise and the claim of each call so far, all of which are kept.
    """

    def __init__(self, *, name: str = "scripted") -> None:
        self.name = name
        self.calls: list[tuple[str, str]] = []

    async def entails(self, premise: str, claim: str) -> bool:
        self.calls.append((premise, claim))
        return content_words(claim) <= content_words(premise)


def shared_words(query: str, text: str) -> float:
    """Return the number of content words that both texts have."""
    return float(len(content_words(query) & content_words(text)))


@implements(Reranker)
class ScriptedPairScorer(CrossEncoder):
    """A `PairScorer` and `Reranker` that applies a simple rule.

    Args:
        logit: A function that takes a query and a text, and returns the logit of the pair.

    Attributes:
        pairs: All pairs scored so far.
    """

    def __init__(self, logit: Callable[[str, str], float] = shared_words) -> None:
        super().__init__("scripted", "scripted", 512)
        self.pairs: list[tuple[str, str]] = []
        self._logit = logit

    def _logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        self.pairs += pairs
        return [self._logit(query, text) for query, text in pairs]

    def _num_tokens(self, query: str, text: str) -> int:
        return min(len(f"{query} {text}".split()), self.max_tokens)
