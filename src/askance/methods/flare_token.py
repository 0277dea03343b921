"""FLARE as the DRAGIN authors built it for their comparison, defects included."""

import math
from dataclasses import dataclass
from typing import ClassVar

from askance.core.ports import Model
from askance.methods.authors import Written
from askance.methods.flare_authors import AuthorsFlare
from askance.methods.flare_masks import Masked, last_token, mask, single_text, summed_up


@dataclass(frozen=True, slots=True)
class FlareToken(AuthorsFlare):
    """The token variant of FLARE in the DRAGIN authors' code (Su et al. 2024): a baseline of their tables.

    A draft is generated without passages. In the first sentence whose tokens are improbable on average
    (1 − p above `threshold`, D19), every such token is masked, and what remains is the query (D20). All that
    follows the sentences before it is generated again with the passages found, and all of it is kept.

    Defects that are reproduced:
    - tokens are looked up one after the other in the sentence, but the position forgets where the last search
      began, so that the same text is found again and the sentence seems to hold more or fewer tokens;
    - one token too many is judged with each sentence, and is then lost to the next;
    - a token that is not found masks text before it, and parts of masks leak into the query;
    - with tokens that begin with a space the first one of a sentence is never found, and one token stands for
      the sentence;
    - the prompt ends in a space after "Answer:", and in two after a search.
    """

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FLARE in its token variant"
    searches: ClassVar[str] = "when tokens are improbable"

    def first_doubt(self, draft: Written, model: Model) -> Masked | None:
        texts = [single_text(id, model) for id in draft.ids]
        improbable = [1 - math.exp(token.logprob or 0.0) for token in draft.tokens]
        sentences = self.linguistics.sentences(draft.text)
        first = 0
        for at, sentence in enumerate(sentences):
            last = last_token(sentence, texts, first)
            values = improbable[first : last + 1]
            if values and summed_up(values, self.over_sentence) > self.threshold:
                masked = mask(sentence, texts[first : last + 1], values, self.threshold)
                return Masked(" ".join(sentences[:at]), masked, tuple(texts[first : last + 1]), tuple(values))
            first = last + 1
        return None
