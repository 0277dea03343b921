"""DRAGIN as its authors' code has it: draft all, find the first doubtful sentence, write it again."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import MissingAbility
from askance.core.parameters import SearchParameter, parameter
from askance.core.ports import Model, Needs, ShowsPieces
from askance.core.trace import WordSignal
from askance.core.types import Capability, Generation, Role, Signal, TokenIds, Want
from askance.methods.common.search import QueryMode, TriggerMode, query_from_words
from askance.methods.dragin.attention_map import heaviest_words
from askance.reproductions.dragin_base import AuthorsDrafts, AuthorsState, Trigger, joined

_LLAMA2_NEWLINE_ID = 13
_LLAMA2_END = "</s>"
UncertaintyMeasure = Literal["entropy", "surprise"]
"""Of a token: the entropy of what could have been written, or −log p of what was; both in nats."""


@dataclass(frozen=True, slots=True)
class DraginAuthors(AuthorsDrafts):
    """DRAGIN (Su et al. 2024) as the code of its authors has it.

    It deviates from the paper: attention comes from a pass over the draft alone (D1) with each token's own
    included (D2), the maximum over queries averaged over heads (D3), relative to its sentence (D4), for words
    (D5); hits are words with content (D6), which is looked at after the trigger (D7); the draft is complete
    (D9) and cut at a sentence (D8), of what is written again one sentence is kept (D10), and passages are
    used once (D11); QFS has a pass of its own (D12), reads the row before each hit (D13), keeps words after
    it as candidates (D14), takes words (D15) and all hits (D16); examples stand in front of the passages
    (D17); the end test minds letter case (D25).

    Ours: greedy (D18), limited rounds, linguistics without downloads unless others are given; of a model's
    text only the control tokens that it wrote as such are ones again.
    """

    trigger: TriggerMode = parameter("rind", "when to search")
    query: QueryMode = parameter("real_words", "what to search for; real_words is QFS")
    threshold: float | None = parameter(
        None,
        "search when the trigger's number is above this; it belongs to a model and a trigger; none: 1 for "
        "rind, 0.08 for token_probability",
        at_least=0,
    )
    query_top: int = parameter(25, "most words (real_words) or tokens (last_n_tokens) of a query", at_least=1)
    every_tokens: int = parameter(25, "tokens between searches of the trigger every_tokens", at_least=1)
    real_words_only: bool = parameter(True, "only words with content count as hits")
    doubt: UncertaintyMeasure = parameter(
        "entropy", "what doubt is: the entropy, or the surprise at the token written"
    )
    query_share: float | None = parameter(
        None,
        "a query keeps this share of the words with content, not query_top of them",
        at_least=0,
        at_most=1,
    )
    space_marker: str = parameter(
        "auto", "what begins a word in the vocabulary; auto is the piece of a space"
    )

    known_as: ClassVar[str] = "dragin"
    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN)"
    searches: ClassVar[str] = "when the model doubts a word"
    calibrated: ClassVar[SearchParameter] = SearchParameter(
        "threshold", belongs_to=("trigger", "doubt"), scale=("trigger", "doubt"), in_force="theta"
    )

    @property
    def theta(self) -> float:
        """The threshold that counts: `threshold`, or the trigger's own; infinite where it has none.

        That of token_probability is the mean over a sentence that the authors' configurations have.
        """
        own = {"rind": 1.0, "token_probability": 0.08}.get(self.trigger, math.inf)
        return own if self.threshold is None else self.threshold

    @property
    def want(self) -> Want:
        """The signals of a draft that the trigger looks at."""
        is_rind = self.trigger == "rind"
        by_surprise = self.trigger == "token_probability" or (is_rind and self.doubt == "surprise")
        return Want(logprob=by_surprise, entropy=is_rind and not by_surprise)

    @property
    def needs(self) -> Needs:
        signals: set[Signal] = {"logprob"} if self.want.logprob else set()
        signals |= {"entropy"} if self.want.entropy else set()
        attends = self.trigger == "rind" or self.query == "real_words"
        capabilities: set[Capability] = {"raw", "attend"} if attends else {"raw"}
        return Needs(frozenset(signals), frozenset(capabilities), retriever=True)

    def check_models(self, models: Mapping[Role, Model]) -> None:
        """Raise MissingAbility for a model that does not show the strings of its vocabulary."""
        if not isinstance(models["answer"], ShowsPieces):
            raise MissingAbility(
                f"model {models['answer'].name!r} does not show the strings of its vocabulary (a function "
                "pieces), which the authors' code of DRAGIN compares: use another model or another profile."
            )

    async def first_doubt(self, draft: Generation, state: AuthorsState) -> Trigger | None:
        doubt = await self.doubt_of(draft, state.run.model)
        return doubt and replace(doubt, query=await self.query_for(doubt, state))

    async def doubt_of(self, draft: Generation, model: Model) -> Trigger | None:
        """What is to be written again, without the query for it."""
        ids, sentences = tuple(token.id for token in draft.tokens), self.linguistics.sentences(draft.text)
        pieces = pieces_of(model, ids)
        words = read_words(ids, pieces, space_marker(self.space_marker, model), after_end=True)
        texts = [word.text for word in words]
        if self.trigger == "every_tokens":
            return _unconditional([word.text for word in words if word.first < self.every_tokens])
        if self.trigger == "every_sentence":
            return _unconditional(texts[slice(*align(sentences, texts)[0])] if sentences else [])
        if self.trigger == "token_probability":
            improbable = [1 - math.exp(token.logprob or 0.0) for token in draft.tokens]
            each = [float(np.mean(improbable[word.first : word.last])) for word in words]
            mean = first_doubt(sentences, texts, lambda first, last: each[first:last], np.mean, self.theta)
            return mean and replace(mean, signal="1 − probability", threshold=self.theta)
        if not ids:
            return None
        attention = influence((await model.attend(ids, bos=False)).weights, pieces[0])
        by_surprise = self.doubt == "surprise"
        doubts = [-(t.logprob or 0.0) if by_surprise else t.entropy or 0.0 for t in draft.tokens]
        values_of = partial(scores, *weigh(words, attention.tolist(), doubts))
        real_words = self.linguistics.real_words if self.real_words_only else None
        signal = f"relative attention × {self.doubt} (nats)"
        doubt = first_doubt(sentences, texts, values_of, max, self.theta, real_words)
        return doubt and replace(doubt, signal=signal, threshold=self.theta)

    async def query_for(self, doubt: Trigger, state: AuthorsState) -> str:
        """What is searched for. Only `real_words` (QFS) computes anything: one forward pass."""
        asked, before, model = state.question.text, state.text, state.run.model
        if self.query == "real_words":
            full = f"{asked} {before} {doubt.kept} {' '.join(word.text for word in doubt.words)}"
            attention = await model.attend(state.ids(full), bos=True)
            pieces = pieces_of(model, attention.ids)
            words = read_words(attention.ids, pieces, space_marker(self.space_marker, model))
            first = len(words) - len(doubt.words)
            hits = {first + at for at, word in enumerate(doubt.words) if word.is_hit and first + at >= 0}
            weights = looked_back(attention.weights.astype(np.float64).mean(axis=0), words, hits)
            real = self.linguistics.real_words(full)
            found = [
                (word.text, weights[at])
                for at, word in enumerate(words)
                if at not in hits and _has_content(word.text, real)
            ]
            share = self.query_share
            return heaviest_words(found, self.query_top if share is None else int(len(found) * share))
        context = joined(asked, before, doubt.kept)
        if self.query != "last_n_tokens":
            return query_from_words(self.query, asked, context, doubt.words, self.linguistics)
        last = pieces_of(model, state.ids(context))
        return context if len(last) <= self.query_top else " ".join(last[-self.query_top :])

    async def again(self, text: str, state: AuthorsState, passages: Sequence[str], step: int) -> str:
        """The first sentence, or the first tokens."""
        is_piece = self.trigger == "every_tokens"
        num_tokens = self.every_tokens if is_piece else self.max_tokens
        written = (await state.write(text, num_tokens, ("again", step), passages)).text
        return written if is_piece else next(iter(self.linguistics.sentences(written)), "")


def _unconditional(words: Sequence[str]) -> Trigger | None:
    return Trigger("", tuple(WordSignal(word, 0.0, False) for word in words)) if words else None


@dataclass(frozen=True, slots=True)
class PieceWord:
    """Vocabulary pieces that the DRAGIN authors' code takes for one word: `pieces[first:last]`."""

    text: str
    first: int
    last: int


def pieces_of(model: Model, ids: TokenIds) -> tuple[str, ...]:
    """The strings of `ids` in the model's vocabulary."""
    assert isinstance(model, ShowsPieces), "checked before the run"
    return model.pieces(ids)


def space_marker(name: str, model: Model) -> str:
    """`name`, or, for "auto", what begins a word in the model's vocabulary: the piece of a space."""
    if name != "auto":
        return name
    pieces = pieces_of(model, model.tokenize(" "))
    return pieces[0][:1] if pieces else " "


def read_words(
    ids: TokenIds, pieces: Sequence[str], space_marker: str, *, after_end: bool = False
) -> tuple[PieceWord, ...]:
    """The words of `ids` as the authors' code finds them; two of its rules are constants of Llama 2.

    A word's text is its raw pieces without the space marker, so other byte-level characters stay encoded.
    With a marker that the tokenizer does not use, all pieces are one word.

    Args:
        after_end: a word begins after the end token, too. The code does so for drafts, not for queries.
    """
    starts = [
        at
        for at, (id, piece) in enumerate(zip(ids, pieces, strict=True))
        if at == 0
        or piece.startswith(space_marker)
        or id == _LLAMA2_NEWLINE_ID
        or (after_end and pieces[at - 1] == _LLAMA2_END)
    ]
    return tuple(
        PieceWord("".join(pieces[first:last]).replace(space_marker, ""), first, last)
        for first, last in zip(starts, [*starts[1:], len(pieces)], strict=False)
    )


def influence(weights: NDArray[np.float32], first_piece: str = "") -> NDArray[np.float64]:
    """How much each token is attended to, itself included: the greatest per head, then the mean over heads.

    Args:
        weights: shape [heads, queries, keys].
        first_piece: when it is Llama 2's end token, all is divided by the sum over the other tokens.
    """
    most: NDArray[np.float64] = weights.astype(np.float64).max(axis=1).mean(axis=0)
    return most / most[1:].sum() if len(most) > 1 and first_piece == _LLAMA2_END else most


def weigh(
    words: Sequence[PieceWord], attention: Sequence[float], entropies: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Attention summed and entropy averaged over the tokens of each word."""
    return (
        [float(np.sum(attention[word.first : word.last])) for word in words],
        [float(np.mean(entropies[word.first : word.last])) for word in words],
    )


def align(sentences: Sequence[str], words: Sequence[str]) -> list[tuple[int, int]]:
    """The words of each sentence, as ranges.

    A sentence takes the shortest run of words whose text, joined by single spaces, contains it. One that is
    not found gets none, and its words fall to the next; the last takes what is left.
    """
    ranges, at = [], 0
    for sentence in sentences[:-1]:
        ends = (end for end in range(at + 1, len(words)) if sentence in " ".join(words[at:end]))
        end = next(ends, at)
        ranges.append((at, end))
        at = end
    return [*ranges, (at, len(words))] if sentences else []


def scores(attention: Sequence[float], entropy: Sequence[float], first: int, last: int) -> tuple[float, ...]:
    """Entropy times attention of the words `first` to `last`, relative to the mean attention among them."""
    own = np.array(attention[first:last])
    if not own.sum():
        return (0.0,) * (last - first)
    relative = own / own.sum() * np.array(entropy[first:last]) * (last - first)
    return tuple(relative.tolist())


def first_doubt(
    sentences: Sequence[str],
    words: Sequence[str],
    values_of: Callable[[int, int], Sequence[float]],
    sum_up: Callable[[Sequence[float]], Any],
    threshold: float,
    real_words: Callable[[str], frozenset[str]] | None = None,
) -> Trigger | None:
    """The first sentence of a draft whose words' values, summed up, are above `threshold`.

    Args:
        values_of: the values of a range of words.
        real_words: the words with content of a sentence. Only words that contain one of these remain hits;
            that comes after the sentence has been chosen, so that none may remain.
    """
    for at, (first, last) in enumerate(align(sentences, words)):
        values = values_of(first, last)
        if len(values) and sum_up(values) > threshold:
            real = None if real_words is None else real_words(sentences[at])
            judged = zip(words[first:last], values, strict=True)
            hits = (
                WordSignal(word, value, value > threshold and (real is None or _has_content(word, real)))
                for word, value in judged
            )
            return Trigger(" ".join(sentences[:at]), tuple(hits))
    return None


def _has_content(word: str, real_words: frozenset[str]) -> bool:
    """Whether some content word is a part of `word`, in the same letter case."""
    return any(real in word for real in real_words)


def looked_back(
    attention: NDArray[np.float64], words: Sequence[PieceWord], hits: Collection[int]
) -> list[float]:
    """The attention that the hits pay to each word before them, averaged over the hits; 0 without any.

    What counts for a token is the row of the token before it, which predicted it, cut off where the word
    begins and made to sum to 1 again. Rows are averaged over the word's tokens.

    Args:
        attention: shape [queries, keys], the mean over heads.
    """
    total = np.zeros(len(attention))
    for hit in hits:
        begin, end = words[hit].first, words[hit].last
        for row in attention[max(begin - 1, 0) : end - 1, :begin]:
            total[:begin] += row / row.sum() / (end - begin) / len(hits) if row.sum() else 0.0
    return [float(total[word.first : word.last].sum()) for word in words]
