"""A model without weights, for tests and for trying out: plays given replies, or writes seeded nonsense.

It passes the same contract as real models: its signals are computed from an explicit next-word distribution.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import InputError, PromptTooLong
from askance.core.types import (
    Attention,
    Capability,
    Chat,
    GenerateRequest,
    Generation,
    Key,
    Part,
    Prompt,
    Raw,
    Scored,
    Signal,
    Span,
    Token,
    TokenIds,
    Want,
    as_spans,
)
from askance.models.local.decode import Writing
from askance.models.scripts import (
    END,
    Distribution,
    Reply,
    bare,
    choose,
    digest,
    entropy_of,
    made_up_row,
    nonsense,
    pieces_with,
    script_of,
)

__all__ = ["Reply", "ScriptedModel"]

_CONTROL = re.compile(r"<\|[a-z_]+\|>")

_NUM_IDS = 1 << 31

ALL_SIGNALS: frozenset[Signal] = frozenset({"logprob", "top_logprobs", "entropy", "token_probs", "attention"})
ALL_CAPABILITIES: frozenset[Capability] = frozenset({"raw", "chat", "continuation", "score", "attend"})


Looks = Callable[[Sequence[str]], Sequence[float]]
"""How the last of some pieces attends to all of them: weights, which need not sum to 1."""
Script = Callable[[str, Key], Reply | str]
Scores = Callable[[str, str], float]
"""The log-probability of an option after a prompt."""


class ScriptedModel:
    """A `Model` of words instead of weights.

    Args:
        replies: a sequence, used up in the order of calls; or a function of prompt text and key, which keeps
            concurrent questions apart; or None for seeded nonsense.
        scores: log-probabilities of options, for `score`, by option or from prompt text and option.
        looks: the attention of every position, the same for both heads; None for made-up attention.
        control: further strings that are control tokens.

    Control tokens are written like ``<|end|>``; chat turns are rendered with them.
    """

    fingerprint = precision = ""

    def __init__(
        self,
        replies: Sequence[Reply | str | Exception] | Script | None = None,
        *,
        scores: Mapping[str, float] | Scores | None = None,
        looks: Looks | None = None,
        control: Sequence[str] = (),
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
        self._control, self._piece = frozenset(control), pieces_with(control)
        self._ids: dict[str, int] = {}
        self._pieces: dict[int, str] = {}

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        sampling, key, watch = request.sampling, request.key, request.watch
        prompt_ids = self.prompt_ids(request.prompt)
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
        return tuple(
            self._write(
                prompt_ids, reply, replace(request, key=(*key, sample), watch=None if sample else watch)
            )
            for sample in range(request.n)
        )

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        return tuple(self._score(self.prompt_ids(prompt), option) for option in options)

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        ids = self.tokenize(text) if isinstance(text, str) else text
        ids = (self._id("<|begin|>"), *ids) if bos else ids
        rows = np.zeros((2, len(ids), len(ids)), dtype=np.float32)
        for query in range(len(ids)):
            rows[:, query, : query + 1] = self._attention_row(ids, query)
        return Attention(ids, tuple(self._pieces[i] for i in ids), rows)

    def tokenize(self, text: str | Sequence[Span], *, at_start: bool = False) -> TokenIds:
        return self._encode(as_spans(text))

    def decode(self, ids: TokenIds, *, at_start: bool = False) -> str:
        return "".join(self._pieces[i] for i in ids)

    def pieces(self, ids: TokenIds) -> tuple[str, ...]:
        return tuple(self._pieces[i] for i in ids)

    @property
    def counts_exactly(self) -> bool:
        return True

    def count(self, prompt: Prompt) -> int:
        return len(self.prompt_ids(prompt))

    def _write(self, prompt_ids: TokenIds, reply: Reply | None, request: GenerateRequest) -> Generation:
        sampling, want = request.sampling, request.want
        writing = Writing(sampling, request.until, request.watch)
        random = np.random.Generator(np.random.Philox(digest(request.key)))
        script = script_of(reply, self._piece) if reply else None
        ids, at = list(prompt_ids), 0
        while not writing.is_finished:
            step = len(ids) - len(prompt_ids)
            weights = script(step) if script else nonsense(tuple(ids[-3:]))
            piece = next(iter(weights)) if script else choose(weights, sampling, random.random())
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
            entropy=entropies.get(bare(text), entropy_of(weights)) if want.entropy else None,
            top=tuple((piece, math.log(p)) for piece, p in ranked if p > 0),
            probs=tuple(weights.get(name, 0.0) for name in want.token_probs),
        )

    def _add_attention(self, writing: Writing, ids: TokenIds, prompt_tokens: int, want: Want) -> None:
        fed = len(ids) - prompt_tokens - 1
        for step, token in enumerate(writing.tokens[:fed]):
            heads = self._attention_row(ids, prompt_tokens + step)
            row = {"mean": heads.mean(axis=0), "max": heads.max(axis=0), "heads": heads}[
                want.attention or "heads"
            ]
            writing.tokens[step] = replace(token, attention=row)

    def _attention_row(self, ids: Sequence[int], query: int) -> NDArray[np.float32]:
        if self._looks is None:
            return made_up_row(ids, query)
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
                    f"the script has {len(self._replies)} replies; the prompt of call {at + 1} ends in "
                    f"{shown[-200:]!r}: give it more replies."
                )
            reply = self._replies[at]
        if isinstance(reply, Exception):
            raise reply
        return Reply(reply) if isinstance(reply, str) else reply

    def _score(self, prompt_ids: TokenIds, option: str) -> Scored:
        if not option:
            raise InputError("score: an option is empty; give each option a text.")
        pieces = self._piece.findall(option)
        if callable(self._scores):
            return Scored(self._scores(self.decode(prompt_ids), option), len(pieces))
        if option in self._scores:
            return Scored(self._scores[option], len(pieces))
        ids, total = list(prompt_ids), 0.0
        for piece in pieces:
            total += math.log(nonsense(tuple(ids[-3:])).get(piece, 1e-6))
            ids.append(self._id(piece))
        return Scored(total, len(pieces))

    def prompt_ids(self, prompt: Prompt) -> TokenIds:
        """The prompt as it is written for."""
        if isinstance(prompt, Raw):
            return self._encode((*prompt.parts, *prompt.continuation))
        return self._encode((*_chat_parts(prompt), *prompt.continuation))

    def _encode(self, parts: Sequence[Part]) -> TokenIds:
        ids: list[int] = []
        for part in parts:
            if not isinstance(part, Span):
                ids += part
                continue
            for piece in self._piece.findall(part.text):
                plain = part.trusted or not (piece in self._control or _CONTROL.fullmatch(piece))
                ids += map(self._id, [piece] if plain else [piece[0], piece[1:]])
        return tuple(ids)

    def _id(self, piece: str) -> int:
        """The id comes from the piece's own text, so that no answer depends on which question came first."""
        if piece not in self._ids:
            id = digest(("piece", piece)) % _NUM_IDS
            while id in self._pieces:
                id += 1
            self._ids[piece], self._pieces[id] = id, piece
        return self._ids[piece]


def _chat_parts(prompt: Chat) -> list[Part]:
    parts: list[Part] = []
    for turn in prompt.turns:
        parts += [Span(f"<|{turn.role}|>"), *turn.parts, Span(END)]
    return [*parts, Span("<|assistant|>")]
