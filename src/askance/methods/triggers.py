"""*When* to search, in the reading of the DRAGIN authors' code: where a draft is to be written again."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from askance.core.ports import Model
from askance.core.types import Want
from askance.methods.authors import Written
from askance.methods.rind import Doubt, align, first_doubt, influence, read_words, weigh
from askance.text.linguistics import Linguistics

TriggerMode = Literal["rind", "token_probability", "every_sentence", "every_tokens"]

DoubtMeasure = Literal["entropy", "surprise"]
"""Of a token: the entropy of what could have been written, or −log p of what was; both in nats."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """One way to find the first doubt in a draft."""

    mode: TriggerMode
    threshold: float
    every_tokens: int
    space_marker: str
    linguistics: Linguistics
    real_words_only: bool
    doubt: DoubtMeasure = "entropy"

    @property
    def want(self) -> Want:
        """The signals of a draft that are looked at."""
        is_rind = self.mode == "rind"
        surprise = self.mode == "token_probability" or (is_rind and self.doubt == "surprise")
        return Want(logprob=surprise, entropy=is_rind and not surprise)

    async def first_doubt(self, draft: Written, model: Model) -> Doubt | None:
        """Where `draft` is to be written again, or None to keep all of it."""
        pieces = model.pieces(draft.ids)
        words = read_words(draft.ids, pieces, self.space_marker, after_end=True)
        texts = tuple(word.text for word in words)
        if self.mode == "every_tokens":
            upcoming = tuple(word.text for word in words if word.first < self.every_tokens)
            return _unconditional(upcoming)
        if self.mode == "every_sentence":
            ranges = align(self.linguistics.sentences(draft.text), texts)
            return _unconditional(texts[: ranges[0][1]]) if ranges else None
        if self.mode == "token_probability":
            improbable = [1 - math.exp(token.logprob or 0.0) for token in draft.tokens]
            each = tuple(float(np.mean(improbable[word.first : word.last])) for word in words)
            return self._improbable_sentence(draft.text, texts, each)
        if not draft.ids:
            return None
        attention = influence((await model.attend(draft.ids, bos=False)).weights, pieces[0])
        by_surprise = self.doubt == "surprise"
        doubts = [(-(t.logprob or 0.0) if by_surprise else t.entropy) or 0.0 for t in draft.tokens]
        weighed = weigh(words, attention.tolist(), doubts)
        return first_doubt(
            draft.text, weighed, self.threshold, self.linguistics, real_words_only=self.real_words_only
        )

    def _improbable_sentence(
        self, text: str, words: tuple[str, ...], improbable: tuple[float, ...]
    ) -> Doubt | None:
        """The first sentence whose words are improbable on average; hits are the words that are so alone."""
        sentences = self.linguistics.sentences(text)
        for at, (first, last) in enumerate(align(sentences, words)):
            values = improbable[first:last]
            if values and float(np.mean(values)) > self.threshold:
                hits = tuple(value > self.threshold for value in values)
                return Doubt(" ".join(sentences[:at]), words[first:last], values, hits)
        return None


def _unconditional(words: tuple[str, ...]) -> Doubt | None:
    return Doubt("", words, (0.0,) * len(words), (False,) * len(words)) if words else None
