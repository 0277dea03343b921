"""DRAGIN as its authors' code runs it: draft the whole answer, rewrite the first sentence that triggers."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import MissingAbility
from askance.core.parameters import SearchParameter, checked_dataclass, parameter
from askance.core.ports import Model, Needs, RoleModel, ShowsPieces
from askance.core.trace import WordSignal
from askance.core.types import Capability, Generation, Role, Signal, TokenIds, Want
from askance.methods.common.search import QueryMode, TriggerMode, query_from_words
from askance.methods.dragin.attention_map import heaviest_words, query_of
from askance_lab.reproductions.dragin_base import AuthorsDrafts, AuthorsState, Trigger, joined

_LLAMA2_NEWLINE_ID = 13
_LLAMA2_END = "</s>"
UncertaintyMeasure = Literal["entropy", "surprise"]
"""The measure of uncertainty about a token: the entropy of its distribution, or its −log p, both in nats."""


@checked_dataclass()
class DraginAuthors(AuthorsDrafts):
    """DRAGIN (Su et al. 2024) as its authors' code runs it, deviations from the paper (D1 to D25) included.

    The method drafts the whole answer without passages. A separate forward pass over the draft computes
    attention. RIND's score of a word is its entropy times its relative attention: the maximum attention that
    it receives, averaged over heads and divided by the mean over the words of the sentence. The draft is cut
    before the first sentence with a word above `threshold`, and QFS takes the query from another forward pass
    over question and text. The model then writes one sentence with the passages found, and drafts the rest
    without them. Decoding is greedy. In prompts, text that spells a control token is encoded as that token
    only if the model has generated the token for this question.
    """

    trigger: TriggerMode = parameter("rind", "when to search")
    query: QueryMode = parameter("real_words", "what to search for; real_words is QFS")
    threshold: float | None = parameter(
        None,
        "search if the trigger's score is above this; its scale depends on model and trigger; none: 1 for "
        "rind, 0.08 for token_probability",
        at_least=0,
    )
    query_top: int = parameter(
        25, "maximum number of words (real_words) or tokens (last_n_tokens) of a query", at_least=1
    )
    every_tokens: int = parameter(
        25, "number of tokens between searches of the trigger every_tokens", at_least=1
    )
    real_words_only: bool = parameter(True, "only content words count as hits")
    doubt: UncertaintyMeasure = parameter(
        "entropy", "measure of uncertainty: the entropy, or the surprise of the written token"
    )
    query_share: float | None = parameter(
        None,
        "share of the content words that a query keeps, instead of query_top",
        at_least=0,
        at_most=1,
    )
    space_marker: str = parameter(
        "auto", "first character of a piece that starts a word; auto is that of a space"
    )

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN)"
    searches: ClassVar[str] = "when the model doubts a word"
    calibrated: ClassVar[SearchParameter] = SearchParameter(
        "threshold", belongs_to=("trigger", "doubt"), in_force="theta"
    )

    @property
    def theta(self) -> float:
        """The threshold in use: `threshold` or, if that is None, the default of the trigger.

        The default for token_probability comes from the authors' configurations, where it applies to the mean
        of a sentence. For triggers without scores, the default is infinite.
        """
        default = {"rind": 1.0, "token_probability": 0.08}.get(self.trigger, math.inf)
        return default if self.threshold is None else self.threshold

    @property
    def want(self) -> Want:
        """The signals that the trigger needs for each token of a draft."""
        is_rind = self.trigger == "rind"
        reads_logprob = self.trigger == "token_probability" or (is_rind and self.doubt == "surprise")
        return Want(logprob=reads_logprob, entropy=is_rind and not reads_logprob)

    @property
    def needs(self) -> Needs:
        signals: set[Signal] = {"logprob"} if self.want.logprob else set()
        signals |= {"entropy"} if self.want.entropy else set()
        attends = self.trigger == "rind" or self.query == "real_words"
        capabilities: set[Capability] = {"raw", "attend"} if attends else {"raw"}
        return Needs(frozenset(signals), frozenset(capabilities), retriever=True)

    def check_models(self, models: Mapping[Role, RoleModel]) -> None:
        """Raise MissingAbility if the model does not expose the strings of its vocabulary."""
        if not isinstance(models["answer"], ShowsPieces):
            raise MissingAbility(
                f"model {models['answer'].name!r} does not show the strings of its vocabulary (a function "
                "pieces), which the authors' code of DRAGIN compares: use another model or method."
            )

    async def find_trigger(self, draft: Generation, state: AuthorsState) -> Trigger | None:
        trigger = await self.trigger_without_query(draft, state.run.model)
        if trigger is None or not trigger.is_due:
            return trigger
        return replace(trigger, query=await self.query_for(trigger, state))

    async def trigger_without_query(self, draft: Generation, model: Model) -> Trigger | None:
        """Return the part of `draft` to rewrite, without its query (see `find_trigger`)."""
        ids, sentences = tuple(token.id for token in draft.tokens), self.linguistics.sentences(draft.text)
        pieces = pieces_of(model, ids)
        words = read_words(ids, pieces, space_marker(self.space_marker, model), after_end=True)
        texts = [word.text for word in words]
        if self.trigger == "every_tokens":
            return _scheduled([word.text for word in words if word.first < self.every_tokens])
        if self.trigger == "every_sentence":
            return _scheduled(texts[slice(*align_sentences(sentences, texts)[0])] if sentences else [])
        if self.trigger == "token_probability":
            improbable = [1 - math.exp(token.logprob or 0.0) for token in draft.tokens]
            means = [float(np.mean(improbable[word.first : word.last])) for word in words]
            trigger = find_trigger(
                sentences, texts, lambda first, last: means[first:last], np.mean, self.theta
            )
            return trigger and replace(trigger, signal="1 − probability", threshold=self.theta)
        if not ids:
            return None
        attention = influence((await model.attend(ids, bos=False)).weights, pieces[0])
        uses_surprise = self.doubt == "surprise"
        uncertainty = [-(t.logprob or 0.0) if uses_surprise else t.entropy or 0.0 for t in draft.tokens]
        score = partial(rind_scores, *aggregate_over_words(words, attention.tolist(), uncertainty))
        real_words = self.linguistics.real_words if self.real_words_only else None
        signal = f"relative attention × {self.doubt} (nats)"
        trigger = find_trigger(sentences, texts, score, max, self.theta, real_words)
        if trigger is None:
            scores = chain.from_iterable(score(*each) for each in align_sentences(sentences, texts))
            pairs = zip(texts, scores, strict=False)  # a draft without a sentence has no scores
            signals = tuple(WordSignal(word, value, False) for word, value in pairs)
            trigger = Trigger(draft.text, signals, is_due=False)
        return replace(trigger, signal=signal, threshold=self.theta)

    async def query_for(self, trigger: Trigger, state: AuthorsState) -> str:
        """Return the query for a trigger.

        Only the mode `real_words` (QFS) needs a forward pass.
        """
        question, before, model = state.question.text, state.text, state.run.model
        if self.query == "real_words":
            full = f"{question} {before} {trigger.kept} {' '.join(word.text for word in trigger.words)}"
            attention = await model.attend(state.ids(full), bos=True)
            pieces = pieces_of(model, attention.ids)
            words = read_words(attention.ids, pieces, space_marker(self.space_marker, model))
            first = len(words) - len(trigger.words)
            hits = {index for index, word in enumerate(trigger.words, first) if word.is_hit and index >= 0}
            weights = attention_to_words(attention.weights.astype(np.float64).mean(axis=0), words, hits)
            real = self.linguistics.real_words(full)
            candidates = [
                (word.text, weights[index])
                for index, word in enumerate(words)
                if index not in hits and _has_content(word.text, real)
            ]
            share = self.query_share
            most = self.query_top if share is None else int(len(candidates) * share)
            return query_of(heaviest_words(candidates, most))
        if self.query == "current":  # empty words, such as a space at the start of a draft, stay here
            return " ".join(word.text for word in trigger.words)
        context = joined(question, before, trigger.kept)
        if self.query != "last_n_tokens":
            return query_from_words(self.query, question, context, trigger.words, self.linguistics)
        last = pieces_of(model, state.ids(context))
        return context if len(last) <= self.query_top else " ".join(last[-self.query_top :])

    async def rewrite(self, text: str, state: AuthorsState, passages: Sequence[str], step: int) -> str:
        """Return the first sentence that the model writes after `text`, with the passages in the prompt.

        With the trigger every_tokens, return the first `every_tokens` tokens instead.
        """
        is_piece = self.trigger == "every_tokens"
        num_tokens = self.every_tokens if is_piece else self.max_tokens
        written = (await state.write(text, num_tokens, ("again", step), passages)).text
        return written if is_piece else next(iter(self.linguistics.sentences(written)), "")


def _scheduled(words: Sequence[str]) -> Trigger | None:
    return Trigger("", tuple(WordSignal(word, 0.0, False) for word in words)) if words else None


@dataclass(frozen=True, slots=True)
class PieceWord:
    """The vocabulary pieces `pieces[first:last]`, which the DRAGIN authors' code treats as one word."""

    text: str
    first: int
    last: int


def pieces_of(model: Model, ids: TokenIds) -> tuple[str, ...]:
    """Return the strings of `ids` in the model's vocabulary."""
    assert isinstance(model, ShowsPieces), "checked before the run"
    return model.pieces(ids)


def space_marker(name: str, model: Model) -> str:
    """Return the character that marks a piece as the start of a word.

    It is `name` itself, except that "auto" means the first character of the vocabulary piece for a space.
    """
    if name != "auto":
        return name
    pieces = pieces_of(model, model.tokenize(" "))
    return pieces[0][:1] if pieces else " "


def read_words(
    ids: TokenIds, pieces: Sequence[str], space_marker: str, *, after_end: bool = False
) -> tuple[PieceWord, ...]:
    """Return `ids` grouped into words as in the authors' code, with its two constants of Llama 2.

    A word's text consists of its raw pieces without the space marker, so other byte-level characters stay
    encoded. If the tokenizer does not use the marker, all pieces form one word.

    Args:
        after_end: Whether a word also starts after the end token. This is so in drafts but not in queries.
    """
    starts = [
        index
        for index, (id, piece) in enumerate(zip(ids, pieces, strict=True))
        if index == 0
        or piece.startswith(space_marker)
        or id == _LLAMA2_NEWLINE_ID
        or (after_end and pieces[index - 1] == _LLAMA2_END)
    ]
    return tuple(
        PieceWord("".join(pieces[first:last]).replace(space_marker, ""), first, last)
        for first, last in zip(starts, [*starts[1:], len(pieces)], strict=False)
    )


def influence(weights: NDArray[np.float32], first_piece: str = "") -> NDArray[np.float64]:
    """Return the maximum attention that each token receives, including from itself, averaged over heads.

    Args:
        weights: Attention of shape [heads, queries, keys].
        first_piece: The piece of the first token. If it is Llama 2's end token, the result is divided by the
            sum of the values of all other tokens.
    """
    received: NDArray[np.float64] = weights.astype(np.float64).max(axis=1).mean(axis=0)
    is_normalised = len(received) > 1 and first_piece == _LLAMA2_END
    return received / received[1:].sum() if is_normalised else received


def aggregate_over_words(
    words: Sequence[PieceWord], attention: Sequence[float], entropies: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Return two lists: the summed attention, and the mean entropy, of the tokens of each word."""
    return (
        [float(np.sum(attention[word.first : word.last])) for word in words],
        [float(np.mean(entropies[word.first : word.last])) for word in words],
    )


def align_sentences(sentences: Sequence[str], words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the range of words that belong to each sentence.

    A sentence gets the shortest sequence of words that, joined by single spaces, contains the sentence. If a
    sentence is not found, it gets no words, and the next sentence starts at the same word. The last sentence
    gets all remaining words.
    """
    ranges, start = [], 0
    for sentence in sentences[:-1]:
        ends = (end for end in range(start + 1, len(words)) if sentence in " ".join(words[start:end]))
        end = next(ends, start)
        ranges.append((start, end))
        start = end
    return [*ranges, (start, len(words))] if sentences else []


def rind_scores(
    attention: Sequence[float], entropy: Sequence[float], first: int, last: int
) -> tuple[float, ...]:
    """Return entropy times relative attention for each of the words `first:last`.

    Relative attention is the attention to a word, divided by the mean over these words.
    """
    own = np.array(attention[first:last])
    if not own.sum():
        return (0.0,) * (last - first)
    relative = own / own.sum() * np.array(entropy[first:last]) * (last - first)
    return tuple(relative.tolist())


def find_trigger(
    sentences: Sequence[str],
    words: Sequence[str],
    score: Callable[[int, int], Sequence[float]],
    aggregate: Callable[[Sequence[float]], Any],
    threshold: float,
    real_words: Callable[[str], frozenset[str]] | None = None,
) -> Trigger | None:
    """Return the first sentence of a draft with an aggregated score above `threshold`, or None.

    Args:
        score: A function that returns the scores of a range of words.
        aggregate: A function that aggregates the scores of a sentence.
        real_words: A function that returns the content words of a sentence. Only words that contain a content
            word remain hits. This filter applies after the sentence is chosen, so it may leave no hits.
    """
    for index, (first, last) in enumerate(align_sentences(sentences, words)):
        scores = score(first, last)
        if len(scores) and aggregate(scores) > threshold:
            real = None if real_words is None else real_words(sentences[index])
            signals = (
                WordSignal(word, value, value > threshold and (real is None or _has_content(word, real)))
                for word, value in zip(words[first:last], scores, strict=True)
            )
            return Trigger(" ".join(sentences[:index]), tuple(signals))
    return None


def _has_content(word: str, real_words: frozenset[str]) -> bool:
    """Return whether `word` contains a content word (case-sensitive)."""
    return any(real in word for real in real_words)


def attention_to_words(
    attention: NDArray[np.float64], words: Sequence[PieceWord], hits: Collection[int]
) -> list[float]:
    """Return the attention that each word gets from the hits after it, averaged over hits.

    The attention of a hit is the mean over the hit's tokens. The attention of a token is the row of the
    previous token, which predicted it. This row is cut off at the start of the hit and normalised to sum to
    1. Without hits, all values are 0.

    Args:
        attention: The mean attention over heads, of shape [queries, keys].
    """
    total = np.zeros(len(attention))
    for hit in hits:
        begin, end = words[hit].first, words[hit].last
        for row in attention[max(begin - 1, 0) : end - 1, :begin]:
            total[:begin] += row / row.sum() / (end - begin) / len(hits) if row.sum() else 0.0
    return [float(total[word.first : word.last].sum()) for word in words]
