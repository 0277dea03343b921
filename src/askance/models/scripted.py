"""Public fakes without weights, for tests and for trying out: a model, an encoder, a judge of entailment.

The model plays given replies, or writes seeded nonsense. It passes the same contract as real models: its
signals are computed from an explicit next-word distribution.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

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
    TextKind,
    Token,
    TokenIds,
    Want,
    as_spans,
)
from askance.inference.decoding import StopTracker, check_sampling
from askance.models import scripted_replies
from askance.models.scripted_replies import Reply
from askance.text.linguistics import content_words

__all__ = ["Reply", "ScriptedEncoder", "ScriptedEntailment", "ScriptedModel"]

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
    counts_exactly = True

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
        self._control, self._piece = frozenset(control), scripted_replies.pieces_with(control)
        self._ids: dict[str, int] = {}
        self._pieces: dict[int, str] = {}

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        sampling, key, watch = request.sampling, request.key, request.watch
        prompt_ids = self.prompt_ids(request.prompt)
        check_sampling(sampling, request.n)
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
        samples = (
            replace(request, key=(*key, sample), watch=None if sample else watch)
            for sample in range(request.n)
        )
        return tuple(self._write(prompt_ids, reply, sample) for sample in samples)

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

    def count(self, prompt: Prompt) -> int:
        return len(self.prompt_ids(prompt))

    def _write(self, prompt_ids: TokenIds, reply: Reply | None, request: GenerateRequest) -> Generation:
        writing = StopTracker(request.sampling, request.until, request.watch)
        random = np.random.Generator(np.random.Philox(scripted_replies.digest(request.key)))
        script = scripted_replies.script_of(reply, self._piece) if reply else None
        entropies = reply.entropies if reply else {}
        ids = list(prompt_ids)
        while not writing.is_finished:
            if script:
                weights = script(len(ids) - len(prompt_ids))
                piece = next(iter(weights))
            else:
                weights = scripted_replies.nonsense(tuple(ids[-3:]))
                piece = scripted_replies.choose(weights, request.sampling, random.random())
            if request.want.attention and writing.tokens:  # that of the last token comes once it is read
                row = self._attention_over(ids, request.want.attention)
                writing.tokens[-1] = replace(writing.tokens[-1], attention=row)
            start = writing.tokens[-1].end if writing.tokens else 0
            ids.append(self._id(piece))
            token = _token(ids[-1], piece, start, weights, request.want, entropies)
            writing.end(token) if piece == scripted_replies.END else writing.add(token)
        return writing.generation(prompt_ids, len(prompt_ids))

    def _attention_over(self, ids: Sequence[int], how: str) -> NDArray[np.float32]:
        """How the last of `ids` attends to all of them: of each head, or over heads."""
        heads = self._attention_row(ids, len(ids) - 1)
        over: dict[str, NDArray[np.float32]] = {"mean": heads.mean(axis=0), "max": heads.max(axis=0)}
        return over.get(how, heads)

    def _attention_row(self, ids: Sequence[int], query: int) -> NDArray[np.float32]:
        if self._looks is None:
            return scripted_replies.made_up_row(ids, query)
        weights = np.array(self._looks([self._pieces[i] for i in ids[: query + 1]]), dtype=np.float32)
        row: NDArray[np.float32] = np.stack([weights, weights]) / weights.sum()
        return row

    def _reply(self, shown: str, key: Key) -> Reply | None:
        replies, at = self._replies, len(self.prompts) - 1
        if replies is None:
            return None
        if not callable(replies) and at >= len(replies):
            raise RuntimeError(
                f"the script has {len(replies)} replies; the prompt of call {at + 1} ends in "
                f"{shown[-200:]!r}: give it more replies."
            )
        reply = replies(shown, key) if callable(replies) else replies[at]
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
            total += math.log(scripted_replies.nonsense(tuple(ids[-3:])).get(piece, 1e-6))
            ids.append(self._id(piece))
        return Scored(total, len(pieces))

    def prompt_ids(self, prompt: Prompt) -> TokenIds:
        """The prompt as it is written for."""
        parts = prompt.parts if isinstance(prompt, Raw) else _chat_parts(prompt)
        return self._encode((*parts, *prompt.continuation))

    def _encode(self, parts: Sequence[Part]) -> TokenIds:
        ids: list[int] = []
        for part in parts:
            if not isinstance(part, Span):
                ids += part
                continue
            for piece in self._piece.findall(part.text):
                plain = part.trusted or not (piece in self._control or piece.startswith("<|"))
                ids += map(self._id, [piece] if plain else [piece[0], piece[1:]])
        return tuple(ids)

    def _id(self, piece: str) -> int:
        """The id comes from the piece's own text, so that no answer depends on which question came first."""
        if piece not in self._ids:
            id = scripted_replies.digest(("piece", piece)) % _NUM_IDS
            while id in self._pieces:
                id += 1
            self._ids[piece], self._pieces[id] = id, piece
        return self._ids[piece]


def _token(
    id: int,
    piece: str,
    start: int,
    weights: scripted_replies.Distribution,
    want: Want,
    entropies: Mapping[str, float],
) -> Token:
    text = "" if piece == scripted_replies.END else piece
    ranked = sorted(weights.items(), key=lambda entry: -entry[1])[: want.top_logprobs]
    return Token(
        id=id,
        text=text,
        start=start,
        end=start + len(text),
        logprob=math.log(weights[piece]) if want.logprob else None,
        entropy=entropies.get(scripted_replies.bare(text), scripted_replies.entropy_of(weights))
        if want.entropy
        else None,
        top=tuple((each, math.log(p)) for each, p in ranked if p > 0),
        probs=tuple(weights.get(name, 0.0) for name in want.token_probs),
    )


def _chat_parts(prompt: Chat) -> list[Part]:
    parts: list[Part] = []
    for turn in prompt.turns:
        parts += [Span(f"<|{turn.role}|>"), *turn.parts, Span(scripted_replies.END)]
    return [*parts, Span("<|assistant|>")]


def load_scripted(file: str = "") -> ScriptedModel:
    """The model that plays the replies in a JSON Lines file, or writes nonsense."""
    return ScriptedModel(scripted_replies.read_replies(Path(file)) if file else None)


class ScriptedEncoder:
    """An `Encoder` that adds up a fixed pseudo-random vector for each word.

    Texts with the same words, in whatever order and case, have the same vector; texts that share words have
    similar ones.
    """

    def __init__(self, dimensions: int = 16, *, name: str = "scripted") -> None:
        self.name = name
        self.fingerprint = f"scripted, {dimensions} dimensions"
        self.dimensions = dimensions

    async def embed(self, texts: Sequence[str], kind: TextKind = "text") -> NDArray[np.float32]:
        """Shape [len(texts), dimensions]; every row has length 1."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            # Sorted, since sums of floats depend on their order.
            total = np.sum([self._vector(word) for word in sorted(text.lower().split()) or [""]], axis=0)
            vectors[row] = total / np.linalg.norm(total)
        return vectors

    def _vector(self, word: str) -> NDArray[np.float64]:
        seed = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        random = np.random.Generator(np.random.Philox(int.from_bytes(seed, "little")))
        return random.normal(size=self.dimensions)


def shares_words(premise: str, claim: str) -> bool:
    """Whether every content word of `claim` is in `premise`."""
    return content_words(claim) <= content_words(premise)


class ScriptedEntailment:
    """An `Entailment` of a rule instead of weights.

    Args:
        judge: of premise and claim; shared words by default, which is far from entailment.
    """

    def __init__(self, judge: Callable[[str, str], bool] = shares_words, *, name: str = "scripted") -> None:
        self.name = name
        self.asked: list[tuple[str, str]] = []
        self._judge = judge

    async def entails(self, premise: str, claim: str) -> bool:
        self.asked.append((premise, claim))
        return self._judge(premise, claim)
