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
from askance.methods.flare_masks import Masked, mask, single_text, summed_up

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class FlareEntity(AuthorsFlare):
    """The entity variant of FLARE in the DRAGIN authors' code (Su et al. 2024).

    As `flare_token`, but what is judged and masked is a sentence's named entities. An entity's number is
    1 − exp(score), its score being the `over_entity` of the log-probabilities of its tokens; a sentence is in
    doubt when the `over_sentence` of these numbers is above `threshold`. Every entity above it is masked.

    Where an entity stands is searched for as in the authors' code, defects included:
    - tokens decoded alone are looked for one behind the other; a space before one belongs to it, and one that
      is not found, such as half a character, counts from one character back;
    - a sentence is taken to stand where its text stands first, so that one that comes again is judged by the
      tokens of the first;
    - entities are looked for in their order, each from where the last one ended, also inside other words.

    A sentence without entities is not in doubt. Ours: neither is one that a splitter changed so that it is
    not found in the draft; unless set, `over_entity` is avg and `threshold` that of the token variant, for
    want of known values; entities are found by their spelling, unless `linguistics` names a spaCy pipeline,
    as the authors used.

    As in the token variant, the query of a sentence that is all entity is empty, and the prompt ends in a
    space after "Answer:", and in two after a search.
    """

    over_entity: Literal["avg", "max", "min", "first"] = knob(
        "avg", "how the log-probabilities of an entity's tokens are summed up"
    )

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FLARE in its entity variant"
    searches: ClassVar[str] = "when entities are improbable"

    def first_doubt(self, draft: Written, model: Model) -> Masked | None:
        writers = _writers(draft.text, [single_text(id, model) for id in draft.ids])
        sentences = self.linguistics.sentences(draft.text)
        for at, sentence in enumerate(sentences):
            start = draft.text.find(sentence)
            if start < 0:
                continue
            entities = [sentence[first:last] for first, last in self.linguistics.entities(sentence)]
            spans = _find_in_turn(entities, draft.text, start)
            values = [self._improbable(draft.tokens, writers, span) for span in spans]
            if values and summed_up(values, self.over_sentence) > self.threshold:
                masked = mask(sentence, entities, values, self.threshold)
                return Masked(" ".join(sentences[:at]), masked, tuple(entities), tuple(values))
        return None

    def _improbable(self, tokens: Sequence[Token], writers: Sequence[int], span: Span) -> float:
        first, last = writers[span[0]], writers[span[1] - 1]
        logprobs = [token.logprob or 0.0 for token in tokens[first : last + 1]]
        return 1 - math.exp(summed_up(logprobs, self.over_entity)) if logprobs else 0.0


def _writers(text: str, tokens: Sequence[str]) -> list[int]:
    """The token that the code takes for the writer of each character of `text`; −1 where none is.

    Tokens are looked for one behind the other; what stands before one, as a rule a space, belongs to it. One
    that is not found, such as half a character, counts from one character back.
    """
    writers: list[int] = []
    for at, token in enumerate(tokens):
        end = text[len(writers) :].find(token) + len(writers) + len(token)
        writers += [at] * (end - len(writers))
    return [*writers, *[-1] * len(text)][: len(text)]


def _find_in_turn(entities: Sequence[str], text: str, start: int) -> list[Span]:
    """Where in `text` entities stand, looked for one behind the other from `start` on."""
    spans = []
    for entity in entities:
        begin = text.find(entity, start)
        start = begin + len(entity)
        spans.append((begin, start))
    return spans
