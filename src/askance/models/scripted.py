"""A model without weights, for tests and for trying out: plays given replies, or writes seeded nonsense.

It passes the same contract as real models: its signals are computed from an explicit next-word distribution.
"""

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import InputError, ModelSpecError, PromptTooLong
from askance.core.types import (
    Attention,
    Capability,
    Chat,
    Generation,
    Key,
    Part,
    Prompt,
    Raw,
    Sampling,
    Scored,
    Signal,
    Span,
    Token,
    TokenIds,
    Until,
    Want,
    Watch,
)
from askance.runtime.writing import Writing

_PIECE = re.compile(r"<\|[a-z_]+\|>|\s*[^\s<]+|\s*<|\s+")
_CONTROL = re.compile(r"<\|[a-z_]+\|>")
END = "<|end|>"
VOCABULARY = (" red", " green", " blue", " one", " two", " three", " cat", " dog", " river", ".", "\n", END)

ALL_SIGNALS: frozenset[Signal] = frozenset({"logprob", "top_logprobs", "entropy", "token_probs", "attention"})
ALL_CAPABILITIES: frozenset[Capability] = frozenset({"raw", "chat", "continuation", "score", "attend"})


@dataclass(frozen=True, slots=True)
class Reply:
    """What to write. A word named in `doubts` gets that probability, every other `sureness`.

    `entropies` (nats) replaces the entropy of the words it names; it is no longer that of a distribution.

    The last piece is followed by the model's end unless `ends` is False.
    """

    text: str
    doubts: Mapping[str, float] = field(default_factory=dict)
    sureness: float = 0.99
    ends: bool = True
    entropies: Mapping[str, float] = field(default_factory=dict)


Looks = Callable[[Sequence[str]], Sequence[float]]
"""How the last of some pieces attends to all of them: weights, which need not sum to 1."""
Script = Callable[[str, Key], Reply | str]
Distribution = dict[str, float]


class ScriptedModel:
    """A `Model` of words instead of weights.

    Args:
        replies: a sequence, used up in the order of calls; or a function of prompt text and key, which keeps
            concurrent questions apart; or None for seeded nonsense.
        scores: log-probabilities of options, for `score`.
        looks: the attention of every position, the same for both heads; None for made-up attention.

    Control tokens are written like ``<|end|>``; chat turns are rendered with them.
    """

    def __init__(
        self,
        replies: Sequence[Reply | str | Exception] | Script | None = None,
        *,
        scores: Mapping[str, float] | None = None,
        looks: Looks | None = None,
        name: str = "scripted",
        context_tokens: int = 4096,
        signals: frozenset[Signal] = ALL_SIGNALS,
        capabilities: frozenset[Capability] = ALL_CAPABILITIES,
    ) -> None:
        self.name, self.context_tokens = name, context_tokens
        self.signals, self.capabilities = signals, capabilities
        self.prompts: list[str] = []
        self._replies = replies
        self._scores, self._looks = scores or {}, looks
        self._ids: dict[str, int] = {}
        self._pieces: list[str] = []
        for piece in VOCABULARY:
            self._id(piece)

    async def generate(
        self,
        prompt: Prompt,
        sampling: Sampling,
        want: Want = Want(),
        until: Until | None = None,
        *,
        n: int = 1,
        key: Key,
        watch: Watch | None = None,
    ) -> tuple[Generation, ...]:
        prompt_ids = self._prompt_ids(prompt)
        if sampling.max_tokens < 1:
            raise InputError(f"max_tokens={sampling.max_tokens}: ask for at least 1 token.")
        if len(prompt_ids) + sampling.max_tokens > self.context_tokens:
            raise PromptTooLong(
                self.name,
                prompt_tokens=len(prompt_ids),
                max_tokens=sampling.max_tokens,
                context_tokens=self.context_tokens,
            )
        shown = self.decode(prompt_ids)
        self.prompts.append(shown)
        reply = self._reply(shown, key)
        watches = [watch, *[None] * (n - 1)]
        return tuple(
            self._write(prompt_ids, reply, sampling, want, until, (*key, sample), watches[sample])
            for sample in range(n)
        )

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        return tuple(self._score(self._prompt_ids(prompt), option) for option in options)

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        ids = self.tokenize(text) if isinstance(text, str) else text
        ids = (self._id("<|begin|>"), *ids) if bos else ids
        rows = np.zeros((2, len(ids), len(ids)), dtype=np.float32)
        for query in range(len(ids)):
            rows[:, query, : query + 1] = self._attention_row(ids, query)
        return Attention(ids, tuple(self._pieces[i] for i in ids), rows)

    def tokenize(self, text: str) -> TokenIds:
        return self._encode((Span(text, trusted=False),))

    def decode(self, ids: TokenIds) -> str:
        return "".join(self._pieces[i] for i in ids)

    def pieces(self, ids: TokenIds) -> tuple[str, ...]:
        return tuple(self._pieces[i] for i in ids)

    def count(self, prompt: Prompt) -> int:
        return len(self._prompt_ids(prompt))

    def _write(
        self,
        prompt_ids: TokenIds,
        reply: Reply | None,
        sampling: Sampling,
        want: Want,
        until: Until | None,
        key: Key,
        watch: Watch | None,
    ) -> Generation:
        writing = Writing(sampling, until, watch)
        random = np.random.Generator(np.random.Philox(_digest(key)))
        script = _script(reply) if reply else None
        ids, at = list(prompt_ids), 0
        while not writing.is_finished:
            step = len(ids) - len(prompt_ids)
            weights = script(step) if script else _nonsense(tuple(ids[-3:]))
            piece = next(iter(weights)) if script else _choose(weights, sampling, random.random())
            ids.append(self._id(piece))
            text = "" if piece == END else piece
            token = self._token(ids, text, at, weights, want, reply.entropies if reply else {})
            at += len(text)
            writing.end(token) if piece == END else writing.add(token)
        if want.attention:
            self._add_attention(writing, tuple(ids), len(prompt_ids), want)
        return writing.generation(prompt_ids, len(prompt_ids))

    def _token(
        self,
        ids: Sequence[int],
        text: str,
        at: int,
        weights: Distribution,
        want: Want,
        entropies: Mapping[str, float],
    ) -> Token:
        ranked = sorted(weights.items(), key=lambda entry: -entry[1])[: want.top_logprobs]
        probability = weights[self._pieces[ids[-1]]]
        return Token(
            id=ids[-1],
            text=text,
            start=at,
            end=at + len(text),
            logprob=math.log(probability) if want.logprob else None,
            entropy=entropies.get(_bare(text), _entropy(weights)) if want.entropy else None,
            top=tuple((piece, math.log(p)) for piece, p in ranked),
            probs=tuple(weights.get(name, 0.0) for name in want.token_probs),
        )

    def _add_attention(self, writing: Writing, ids: TokenIds, prompt_tokens: int, want: Want) -> None:
        fed = len(ids) - prompt_tokens - 1
        for step, token in enumerate(writing.tokens[:fed]):
            heads = self._attention_row(ids, prompt_tokens + step)
            row = {"mean": heads.mean(axis=0), "max": heads.max(axis=0), "heads": heads}[
                want.attention or "heads"
            ]
            writing.tokens[step] = dataclasses.replace(token, attention=row)

    def _attention_row(self, ids: Sequence[int], query: int) -> NDArray[np.float32]:
        if self._looks is None:
            return _made_up_row(ids, query)
        weights = np.array(self._looks([self._pieces[i] for i in ids[: query + 1]]), dtype=np.float32)
        row: NDArray[np.float32] = np.stack([weights, weights]) / weights.sum()
        return row

    def _reply(self, shown: str, key: Key) -> Reply | None:
        if self._replies is None:
            return None
        if callable(self._replies):
            reply: Reply | str | Exception = self._replies(shown, key)
        else:
            at = len(self.prompts) - 1
            if at >= len(self._replies):
                raise RuntimeError(
                    f"the script has {len(self._replies)} replies; call {at + 1} was {shown!r}"
                )
            reply = self._replies[at]
        if isinstance(reply, Exception):
            raise reply
        return Reply(reply) if isinstance(reply, str) else reply

    def _score(self, prompt_ids: TokenIds, option: str) -> Scored:
        if not option:
            raise InputError("score: an option is empty; give each option a text.")
        pieces = _PIECE.findall(option)
        if option in self._scores:
            return Scored(self._scores[option], len(pieces))
        ids, total = list(prompt_ids), 0.0
        for piece in pieces:
            total += math.log(_nonsense(tuple(ids[-3:])).get(piece, 1e-6))
            ids.append(self._id(piece))
        return Scored(total, len(pieces))

    def _prompt_ids(self, prompt: Prompt) -> TokenIds:
        if isinstance(prompt, Raw):
            return self._encode((*prompt.parts, *prompt.continuation))
        return self._encode((*_chat_parts(prompt), *prompt.continuation))

    def _encode(self, parts: Sequence[Part]) -> TokenIds:
        ids: list[int] = []
        for part in parts:
            if not isinstance(part, Span):
                ids += part
                continue
            for piece in _PIECE.findall(part.text):
                disarmed = [piece] if part.trusted or not _CONTROL.fullmatch(piece) else [piece[0], piece[1:]]
                ids += map(self._id, disarmed)
        return tuple(ids)

    def _id(self, piece: str) -> int:
        if piece not in self._ids:
            self._ids[piece] = len(self._pieces)
            self._pieces.append(piece)
        return self._ids[piece]


def read_replies(path: Path) -> tuple[Reply, ...]:
    """Replies from JSON Lines such as ``{"text": "It is Bonn.", "doubts": {"Bonn": 0.3}}``.

    Raises:
        ModelSpecError: the file can't be read, or a row is no reply; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ModelSpecError(f"can't read the script {path}: {error.strerror}.") from error
    replies = []
    for number, line in enumerate(lines, start=1):
        try:
            replies.append(Reply(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise ModelSpecError(f'{path}, line {number}: {error}. A reply is {{"text": "…"}}.') from error
    return tuple(replies)


def _script(reply: Reply) -> Callable[[int], Distribution]:
    pieces = [*_PIECE.findall(reply.text), *([END] if reply.ends else [])]

    def at(step: int) -> Distribution:
        piece = pieces[step] if step < len(pieces) else " …"
        sure = reply.doubts.get(_bare(piece), reply.sureness)
        return {piece: sure, " (other)": 1.0 - sure}

    return at


def _bare(piece: str) -> str:
    return piece.strip().strip(".,;:!?")


def _entropy(weights: Distribution) -> float:
    return -sum(p * math.log(p) for p in weights.values() if p > 0)


def _nonsense(tail: TokenIds) -> Distribution:
    scores = np.random.Generator(np.random.Philox(_digest(tail))).gumbel(size=len(VOCABULARY))
    weights = np.exp(scores) / np.exp(scores).sum()
    return dict(zip(VOCABULARY, weights.tolist(), strict=True))


def _choose(weights: Distribution, sampling: Sampling, uniform: float) -> str:
    ranked = sorted(weights.items(), key=lambda entry: -entry[1])
    if sampling.temperature == 0:
        return ranked[0][0]
    ranked = ranked[: sampling.top_k or None]
    tempered = np.array([p for _, p in ranked]) ** (1 / sampling.temperature)
    tempered /= tempered.sum()
    kept = tempered[: int(np.searchsorted(tempered.cumsum(), sampling.top_p)) + 1]
    return ranked[int(np.searchsorted(kept.cumsum() / kept.sum(), uniform))][0]


def _made_up_row(ids: Sequence[int], query: int) -> NDArray[np.float32]:
    """Two heads' made-up attention of one position over itself and all before: shape [2, query + 1]."""
    keys = np.arange(query + 1)
    weights = np.stack([1.0 + (np.array(ids[: query + 1]) + query) % 7, 1.0 + keys % 3]).astype(np.float32)
    row: NDArray[np.float32] = weights / weights.sum(axis=1, keepdims=True)
    return row


def _chat_parts(prompt: Chat) -> list[Part]:
    parts: list[Part] = []
    for turn in prompt.turns:
        parts += [Span(f"<|{turn.role}|>"), *turn.parts, Span(END)]
    return [*parts, Span("<|assistant|>")]


def _digest(value: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest(), "little")
