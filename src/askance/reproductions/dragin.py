"""DRAGIN as its authors' code has it: draft all, find the first doubtful sentence, write it again."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from askance.core.knobs import SearchKnob, knob
from askance.core.ports import Model, Needs, Run
from askance.core.trace import Decided, WordSignal
from askance.core.types import Answer, Capability, Question, Signal, Token, Want
from askance.methods.queries import QueryMode
from askance.methods.rind import TriggerMode
from askance.reproductions.answering import AuthorsRounds, Written, joined, space_marker
from askance.reproductions.rind_qfs import (
    Asking,
    Doubt,
    align,
    first_doubt,
    formulate,
    influence,
    read_words,
    weigh,
)
from askance.text.linguistics import OWN, Linguistics

DoubtMeasure = Literal["entropy", "surprise"]
"""Of a token: the entropy of what could have been written, or −log p of what was; both in nats."""


@dataclass(frozen=True, slots=True)
class DraginAuthors(AuthorsRounds):
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

    trigger: TriggerMode = knob("rind", "when to search")
    query: QueryMode = knob("real_words", "what to search for; real_words is QFS")
    threshold: float | None = knob(
        None,
        "search when the trigger's number is above this; it belongs to a model and a trigger; none: 1 for "
        "rind, 0.08 for token_probability",
        at_least=0,
    )
    query_top: int = knob(25, "most words (real_words) or tokens (last_n_tokens) of a query", at_least=1)
    every_tokens: int = knob(25, "tokens between searches of the trigger every_tokens", at_least=1)
    real_words_only: bool = knob(True, "only words with content count as hits")
    doubt: DoubtMeasure = knob("entropy", "what doubt is: the entropy, or the surprise at the token written")
    query_share: float | None = knob(
        None,
        "the share of the words with content that a query keeps, in place of query_top",
        at_least=0,
        at_most=1,
    )
    space_marker: str = knob("auto", "what begins a word in the vocabulary; auto is the piece of a space")
    linguistics: Linguistics = knob(OWN, "sentences and content words: own, or spacy:PIPELINE")

    known_as: ClassVar[str] = "dragin"
    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN)"
    searches: ClassVar[str] = "when the model doubts a word"
    calibrated: ClassVar[SearchKnob] = SearchKnob(
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

    async def answer(self, question: Question, run: Run) -> Answer:
        so_far = self.begin(question, run, self.passages, self.query_tokens)
        for step in so_far.rounds(self.max_rounds, self.max_tokens):
            before = so_far.text
            draft = await so_far.write(_joint(before), self.max_tokens, ("draft", step), want=self.want)
            doubt = await self.first_doubt(draft, run.model)
            if doubt is None:
                run.trace.decide("retrieve", "keep", "no sentence of the draft is in doubt")
                so_far.replace(f"{before.strip()} {draft.text.strip()}")
                continue
            marker = space_marker(self.space_marker, run.model)
            asking = Asking(
                question.text, before, doubt, self.linguistics, marker, self.query_top, self.query_share,
                so_far.control,
            )  # fmt: skip
            decision = self._decide(run, doubt, await formulate(self.query, asking, run.model))
            hits, kept = await so_far.search(decision), doubt.kept.strip()
            is_piece = self.trigger == "every_tokens"
            room = self.every_tokens if is_piece else self.max_tokens
            with run.trace.because(decision):
                again = await so_far.write(_joint(before, kept), room, ("again", step), hits)
            # What replaces the doubtful sentence is the first sentence, or the first tokens.
            new = again.text if is_piece else next(iter(self.linguistics.sentences(again.text)), "")
            so_far.replace(joined(before.strip(), kept, new.strip()))
        return await so_far.finish()

    async def first_doubt(self, draft: Written, model: Model) -> Doubt | None:
        """Where `draft` is to be written again, or None to keep all of it."""
        pieces = model.pieces(draft.ids)
        words = read_words(draft.ids, pieces, space_marker(self.space_marker, model), after_end=True)
        texts = tuple(word.text for word in words)
        if self.trigger == "every_tokens":
            return _unconditional(tuple(word.text for word in words if word.first < self.every_tokens))
        if self.trigger == "every_sentence":
            ranges = align(self.linguistics.sentences(draft.text), texts)
            return _unconditional(texts[: ranges[0][1]]) if ranges else None
        if self.trigger == "token_probability":
            improbable = [1 - math.exp(token.logprob or 0.0) for token in draft.tokens]
            each = tuple(float(np.mean(improbable[word.first : word.last])) for word in words)
            return _improbable(self.linguistics.sentences(draft.text), texts, each, self.theta)
        if not draft.ids:
            return None
        attention = influence((await model.attend(draft.ids, bos=False)).weights, pieces[0])
        doubts = [_doubt_of(token, self.doubt) for token in draft.tokens]
        weighed = weigh(words, attention.tolist(), doubts)
        only_real = self.real_words_only
        return first_doubt(draft.text, weighed, self.theta, self.linguistics, real_words_only=only_real)

    def _decide(self, run: Run, doubt: Doubt, query: str) -> Decided:
        theta = self.theta
        signal, why = {
            "rind": (
                f"relative attention × {self.doubt} (nats)",
                f"a word scores {max(doubt.scores, default=0.0):.2f}, above {theta:g}",
            ),
            "token_probability": ("1 − probability", f"the sentence is improbable by more than {theta:g}"),
            "every_sentence": ("", "every sentence is searched for"),
            "every_tokens": ("", f"a search is due every {self.every_tokens} tokens"),
        }[self.trigger]
        return run.trace.decide(
            "retrieve",
            "search",
            why,
            signal=signal,
            threshold=theta if signal else None,
            words=tuple(map(WordSignal, doubt.words, doubt.scores, doubt.hits)),
            query=query,
            numbers={"kept characters": float(len(doubt.kept))},
        )


def _joint(*parts: str) -> str:
    text = joined(*parts)
    return f" {text}" if text else ""


def _doubt_of(token: Token, measure: DoubtMeasure) -> float:
    return (-(token.logprob or 0.0) if measure == "surprise" else token.entropy) or 0.0


def _unconditional(words: tuple[str, ...]) -> Doubt | None:
    return Doubt("", words, (0.0,) * len(words), (False,) * len(words)) if words else None


def _improbable(
    sentences: Sequence[str], words: tuple[str, ...], improbable: tuple[float, ...], threshold: float
) -> Doubt | None:
    """The first sentence whose words are improbable on average; hits are the words that are so alone."""
    for at, (first, last) in enumerate(align(sentences, words)):
        values = improbable[first:last]
        if values and float(np.mean(values)) > threshold:
            hits = tuple(value > threshold for value in values)
            return Doubt(" ".join(sentences[:at]), words[first:last], values, hits)
    return None
