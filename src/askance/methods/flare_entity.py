"""FLARE with named entities, as the DRAGIN authors built it for comparison."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.knobs import knob
from askance.core.ports import Model
from askance.core.types import Token
from askance.methods.authors import Written
from askance.methods.flare_authors import AuthorsFlare
from askance.methods.flare_masks import MASK, Masked, summed_up

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class FlareEntity(AuthorsFlare):
    """The entity variant of FLARE in the DRAGIN authors' code (Su et al. 2024).

    As `flare_token`, but what is judged and masked is a sentence's named entities. An entity's number is
    1 − exp(score), its score being the `over_entity` of the log-probabilities of its tokens; a sentence is in
    doubt when the `over_sentence` of these numbers is above `threshold`. Every entity above it is masked.

    Ours, where we know of no definition:
    - an entity's tokens are those that write at least one of its characters, a token that begins in the space
      before it included; offsets are exact, so none of the token variant's defects in finding them is here;
    - a sentence without entities is not in doubt, nor one that a splitter changed so that it is not found in
      the draft;
    - the text of an end token is no part of an entity;
    - unless set, `over_entity` is avg and `threshold` that of the token variant, for want of known values;
    - entities are found by their spelling, unless `linguistics` names a spaCy pipeline, as the authors used.

    As in the token variant, the query of a sentence that is all entity is empty, and the prompt ends in a
    space after "Answer:", and in two after a search.
    """

    over_entity: Literal["avg", "max", "min", "first"] = knob(
        "avg", "how the log-probabilities of an entity's tokens are summed up"
    )

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FLARE in its entity variant"

    def first_doubt(self, draft: Written, model: Model) -> Masked | None:
        sentences = self.linguistics.sentences(draft.text)
        chars_written = len(draft.text) - len(draft.end)
        begin = 0
        for at, sentence in enumerate(sentences):
            start = draft.text.find(sentence, begin)
            if start < 0:
                continue
            begin = start + len(sentence)
            spans = self.linguistics.entities(sentence[: max(chars_written - start, 0)])
            values = [self._improbable(draft.tokens, start + first, start + last) for first, last in spans]
            if values and summed_up(values, self.over_sentence) > self.threshold:
                masked = _mask(sentence, spans, values, self.threshold)
                pieces = tuple(sentence[first:last] for first, last in spans)
                return Masked(" ".join(sentences[:at]), masked, pieces, tuple(values))
        return None

    def _improbable(self, tokens: Sequence[Token], start: int, end: int) -> float:
        # A token without text (the first byte of a character) counts where it stands.
        inside = [t for t in tokens if t.start < end and max(t.end, t.start + 1) > start]
        return 1 - math.exp(summed_up([token.logprob or 0.0 for token in inside], self.over_entity))


def _mask(sentence: str, spans: Sequence[Span], values: Sequence[float], threshold: float) -> str:
    for (start, end), value in reversed(list(zip(spans, values, strict=True))):
        if value > threshold:
            sentence = sentence[:start] + MASK + sentence[end:]
    return sentence
