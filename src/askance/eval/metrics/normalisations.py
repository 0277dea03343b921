"""What is done to answers before they are compared, by name.

DRAGIN and AirRAG take the same steps: lower case, without ASCII punctuation, articles and superfluous white
space, in this order (`text.answers.normalise_answer`). They differ where nothing is left of an accepted
answer, such as "A" or "The The": for DRAGIN, as for SQuAD and HotpotQA, any answer of which nothing is left
equals it; for AirRAG, as read here, it is ignored, since everything contains it. Self-RAG's closed sets need
the letter that the others take for an article.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from askance.text.answers import normalise_answer

WordForm = Literal["dragin", "airrag"]
"""Normalisations that leave words to compare."""
AnswerForm = Literal["dragin", "airrag", "selfrag"]

_LABEL = re.compile(r"\(?(\w)(?:[).:](?=\s|$)|$)")
_VERDICT = re.compile(r"(true|supports|false|refutes)\b")
_VERDICTS = {"true": "true", "supports": "true", "false": "false", "refutes": "false"}


@dataclass(frozen=True, slots=True)
class Normalisation:
    """One row of the table.

    Attributes:
        normal_form: of a prediction or an accepted answer.
        skips_empty_golds: accepted answers of which nothing is left are ignored, rather than equal to every
            prediction of which nothing is left.
    """

    normal_form: Callable[[str], str]
    skips_empty_golds: bool = False

    def accepted(self, golds: Sequence[str]) -> list[str]:
        """The normal forms of the golds that count; none where all are ignored."""
        return [form for form in map(self.normal_form, golds) if form or not self.skips_empty_golds]


def closed_set_form(text: str) -> str:
    """The option that `text` begins with, or all of it in lower case.

    Self-RAG's closed sets (Asai et al. 2023, arXiv 2310.11511): PubHealth's claims are true or false, or
    SUPPORTS and REFUTES; ARC's options have a letter or digit, bare or as in "(A)", "A." and "A:".

    Deviation: their code looks for the gold anywhere in the output, so that "A" is in any text with a capital
    A (metric `match`). An option's own text stands for no letter here: `short_answer` reads options.

    >>> closed_set_form("(B) Iron"), closed_set_form("Supports, since …"), closed_set_form("A dog")
    ('b', 'true', 'a dog')
    """
    lowered = " ".join(text.lower().split())
    verdict = _VERDICT.match(lowered)
    if verdict:
        return _VERDICTS[verdict.group(1)]
    label = _LABEL.match(lowered)
    return label.group(1) if label else lowered


NORMALISATIONS: Mapping[AnswerForm, Normalisation] = {
    "dragin": Normalisation(normalise_answer),
    "airrag": Normalisation(normalise_answer, skips_empty_golds=True),
    "selfrag": Normalisation(closed_set_form),
}
