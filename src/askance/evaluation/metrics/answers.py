"""Metrics that compare an answer with the gold answers; each is a function with a worked example.

A metric takes the short answer or the whole text, and the gold answers, or the example if it needs more. It
returns a number from 0 to 1, the best over the gold answers, or None if it does not apply to the question.

Answers are normalised before they are compared. DRAGIN and AirRAG take the same steps in this order: lower
case, no ASCII punctuation, no articles, no superfluous white space (`text.answers.normalise_answer`). They
differ if nothing is left of a gold answer, as of "A" or "The The". In DRAGIN, SQuAD and HotpotQA, an answer
of which nothing is left then equals it. In AirRAG, as read here, the gold answer is ignored, because every
text contains it. Self-RAG's closed sets need the letter that the other normalisations take for an article.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from askance.evaluation.datasets import Example
from askance.text.answers import normalise_answer, sentences
from askance.text.options import named_option
from askance.text.support import unmarked

WordForm = Literal["dragin", "airrag"]
"""The normalisations that leave words to compare."""
AnswerForm = Literal["dragin", "airrag", "selfrag"]
_ALL_OR_NOTHING = {"yes", "no", "noanswer"}
_LABEL = re.compile(r"\(?(\w)(?:[).:](?=\s|$)|$)")
_VERDICT = re.compile(r"(true|supports|false|refutes)\b")
_VERDICTS = {"true": "true", "supports": "true", "false": "false", "refutes": "false"}


def closed_set_form(text: str) -> str:
    """Return the option that `text` begins with, or the whole text in lower case.

    Self-RAG's closed sets (Asai et al. 2023, arXiv 2310.11511): PubHealth's claims are true or false, or
    SUPPORTS and REFUTES; ARC's options have a letter or digit, bare or as in "(A)", "A." and "A:".

    Deviation: their code looks for the gold answer anywhere in the output, so every text with a capital A
    contains "A" (metric `match`). The text of an option is not mapped to its letter: `short_answer` does it.

    >>> closed_set_form("(B) Iron"), closed_set_form("Supports, since …"), closed_set_form("A dog")
    ('b', 'true', 'a dog')
    """
    lowered = " ".join(text.lower().split())
    verdict = _VERDICT.match(lowered)
    if verdict:
        return _VERDICTS[verdict.group(1)]
    label = _LABEL.match(lowered)
    return label.group(1) if label else lowered


NORMALISATIONS: Mapping[AnswerForm, Callable[[str], str]] = {
    "dragin": normalise_answer,
    "airrag": normalise_answer,
    "selfrag": closed_set_form,
}
"""The functions that normalise a prediction or a gold answer, by name."""


def accepted_forms(golds: Sequence[str], normalisation: AnswerForm) -> list[str]:
    """Return the normal forms of the gold answers, without those that the normalisation ignores."""
    forms = map(NORMALISATIONS[normalisation], golds)
    return [form for form in forms if form or normalisation != "airrag"]


def exact_match(prediction: str, golds: Sequence[str], normalisation: AnswerForm = "dragin") -> float | None:
    """Return 1 if the answer equals a gold answer, otherwise 0.

    It is None if the normalisation ignores every gold answer. The source is SQuAD (Rajpurkar et al. 2016,
    arXiv 1606.05250), HotpotQA and DRAGIN; the normalisations "airrag" (Feng et al. 2025, arXiv 2501.10053)
    and "selfrag" (the closed sets of Asai et al. 2023, arXiv 2310.11511) follow those papers. As in SQuAD
    and DRAGIN, an empty answer matches a gold answer of articles and punctuation, such as "A".

    >>> exact_match("The Rhine.", ["Rhein", "rhine"])
    1.0
    """
    accepted = accepted_forms(golds, normalisation)
    return float(NORMALISATIONS[normalisation](prediction) in accepted) if accepted else None


def f1(prediction: str, golds: Sequence[str], normalisation: WordForm = "dragin") -> float | None:
    """Return the harmonic mean of precision and recall over multisets of words.

    It is the best over the gold answers. The source is SQuAD (Rajpurkar et al. 2016, arXiv 1606.05250); yes
    and no count as in HotpotQA (Yang et al. 2018, arXiv 1809.09600), DRAGIN and AirRAG (Feng et al. 2025,
    arXiv 2501.10053). It is None if the normalisation ignores every gold answer, and 0 if neither side has a
    word left, although they match exactly; SQuAD's second version gives 1 there. "river Rhine" against
    "Rhine": precision 1/2, recall 1.

    >>> round(f1("the river Rhine", ["the Rhine"]), 3)
    0.667
    """
    return _best(prediction, golds, normalisation, lambda shared, num, of_gold: 2 * shared / (num + of_gold))


def precision(prediction: str, golds: Sequence[str], normalisation: WordForm = "dragin") -> float | None:
    """Return the share of the answer's words that are in a gold answer, from 0 to 1.

    It is the best over the gold answers; recall or F1 may be best for another one. It is None if the
    normalisation ignores every gold answer. "river Rhine" against "Rhine": one of two words.

    >>> precision("the river Rhine", ["the Rhine"])
    0.5
    """
    return _best(prediction, golds, normalisation, lambda shared, num, of_gold: shared / num)


def recall(prediction: str, golds: Sequence[str], normalisation: WordForm = "dragin") -> float | None:
    """Return the share of a gold answer's words that are in the answer, from 0 to 1.

    It is the best over the gold answers; precision or F1 may be best for another one. It is None if the
    normalisation ignores every gold answer. "Ada" against "Ada Lovelace": one of two words.

    >>> recall("Ada", ["Ada Lovelace"])
    0.5
    """
    return _best(prediction, golds, normalisation, lambda shared, num, of_gold: shared / of_gold)


def _best(
    prediction: str, golds: Sequence[str], normalisation: WordForm, share: Callable[[int, int, int], float]
) -> float | None:
    """Return the best `share(shared, predicted, gold)` over the gold answers; it takes numbers of words.

    A gold answer without a shared word counts 0. So does one if either side is yes, no or noanswer and the
    other is not the same: "no" shares nothing with "no one". The result is None if the normalisation ignores
    every gold answer.
    """
    predicted, accepted = NORMALISATIONS[normalisation](prediction), accepted_forms(golds, normalisation)
    if not accepted:
        return None
    best = 0.0
    for gold in accepted:
        words, gold_words = predicted.split(), gold.split()
        num_shared = (Counter(words) & Counter(gold_words)).total()
        if num_shared and (predicted == gold or not {predicted, gold} & _ALL_OR_NOTHING):
            best = max(best, share(num_shared, len(words), len(gold_words)))
    return best


def accuracy(prediction: str, golds: Sequence[str]) -> float | None:
    """Return 1 if the normalised short answer contains a normalised gold answer, otherwise 0.

    The source is AirRAG (Feng et al. 2025, arXiv 2501.10053), where an answering node writes a sentence.
    FlashRAG (Jin et al. 2024, arXiv 2405.13576) computes it in the same way but does not ignore empty gold
    answers. Here a gold answer of which normalisation leaves nothing is ignored; if all are, it is None.

    It reads the short answer, because the paper's answering nodes write only that. The whole text may compare
    candidates before it decides, and to mention a gold answer there is not to answer. A part need not be a
    whole word: "son" is part of "Johnson".

    >>> accuracy("It is the river Rhine.", ["Rhein", "the Rhine"])
    1.0
    """
    accepted, normal = accepted_forms(golds, "airrag"), normalise_answer(prediction)
    return float(any(gold in normal for gold in accepted)) if accepted else None


def yes_no_accuracy(prediction: str, golds: Sequence[str]) -> float | None:
    """Return 1 if the answer is the yes or no of the gold answer, 0 if it is anything else.

    It is None if the gold answer is neither. The source is StrategyQA (Geva et al. 2021, arXiv 2101.02235)
    and DRAGIN.

    >>> yes_no_accuracy("Yes.", ["yes"]), yes_no_accuracy("", ["no"]), yes_no_accuracy("yes", ["Bonn"])
    (1.0, 0.0, None)
    """
    known = {normalise_answer(gold) for gold in golds}
    return float(normalise_answer(prediction) in known) if known in ({"yes"}, {"no"}) else None


def choice_accuracy(prediction: str, example: Example) -> float | None:
    """Return 1 if the option named first is the right one, otherwise 0; an answer without an option is wrong.

    The source is Self-RAG (Asai et al. 2023, arXiv 2310.11511) for PubHealth and ARC-Challenge. It is None if
    the question has no options.

    In the choice between "A: iron" and "B: gold", the answers "B", "(B)", "B.", "B: gold" and "Gold" name
    gold. SUPPORTS and REFUTES name true and false, as these words do (`text.options.named_option`).

    Deviation: the authors' code looks for the gold answer anywhere in the output, case included, so a capital
    A anywhere is the answer A (metric `match`).

    >>> from askance.core.types import Question
    >>> question = Question("q", "Which one rusts?", "choice", ("A: iron", "B: gold"))
    >>> choice_accuracy("(A)", Example(question, ("A: iron", "iron")))
    1.0
    """
    options = example.question.options
    right = set(options).intersection(example.golds)
    return float(named_option(prediction, options) in right) if right else None


def match(
    text: str, golds: Sequence[str], normalisation: Literal["raw", "normalised"] = "raw"
) -> float | None:
    """Return 1 if a gold answer occurs literally in the text, otherwise 0; empty gold answers are ignored.

    The source is Self-RAG (Asai et al. 2023, arXiv 2310.11511) and its code, for PopQA and TriviaQA, where
    the text is the answer. A chain of thought that merely mentions a gold answer also matches: use `accuracy`
    for methods that reason.

    Args:
        normalisation: "raw" compares as the authors' code does, with case; "normalised" compares in lower
            case without ASCII punctuation, articles and superfluous white space, as `accuracy` does.

    >>> match("The Rhine does.", ["Rhine"]), match("The Rhine does.", ["the rhine"])
    (1.0, 0.0)
    """
    if normalisation == "normalised":
        return accuracy(text, golds)
    accepted = [gold for gold in golds if gold]
    return float(any(gold in text for gold in accepted)) if accepted else None


def str_em(text: str, example: Example) -> float | None:
    """Return the share of answer groups with a short answer that occurs in the text, from 0 to 1.

    The source is ASQA (Stelmakh et al. 2022, arXiv 2204.06092) and ALCE (Gao et al. 2023, arXiv 2305.14627).
    It measures how many parts of a complete answer a long answer contains. Both sides are normalised, and
    citation markers such as [1] are removed. It is None if there are no groups, or normalisation leaves
    nothing of them.

    Deviations from ALCE's code: it reads only the first line; here a text may have several. A short answer of
    which normalisation leaves nothing occurs in every text there; here it is ignored.

    >>> from askance.core.types import Question
    >>> groups = ("1898",), ("12 November 1949", "1949")
    >>> example = Example(Question("q", "When was the bridge opened?"), ("1898",), answer_groups=groups)
    >>> str_em("The old bridge was opened in 1898 [1].", example)
    0.5
    """
    normal = normalise_answer(unmarked(text))
    groups = [[form for form in map(normalise_answer, group) if form] for group in example.answer_groups]
    is_found = [any(form in normal for form in group) for group in groups if group]
    return sum(is_found) / len(is_found) if is_found else None


def rouge_l(text: str, golds: Sequence[str]) -> float:
    """Return ROUGE-L, from 0 to 1: the F1 of the longest common subsequence of words, without stemming.

    It is the best over the gold answers. The source is Lin 2004, "ROUGE: A Package for Automatic Evaluation
    of Summaries"; the package rouge-score computes it. Its words are runs of digits and of the letters a to z
    in lower case: other scripts have no words, and "Köln" has two.

    The two texts below share "Rhine flows north": 3 words of 4, and of 5.

    >>> round(rouge_l("The Rhine flows north.", ["Rhine: it flows north, mostly"]), 3)
    0.667
    """
    return max(_rouge("rougeL", gold, text) for gold in golds)


def rouge_lsum(text: str, golds: Sequence[str]) -> float:
    """Return summary-level ROUGE-L, from 0 to 1: the F1 sentence by sentence, without citation markers.

    It is the best over the gold answers, with stemming, as in ASQA (Stelmakh et al. 2022, arXiv 2204.06092)
    and ALCE (Gao et al. 2023, arXiv 2305.14627). Unlike in `rouge_l`, the order of sentences does not matter:
    each sentence of the gold answer is compared with all sentences of the text.

    Deviation: sentences are split by askance's rules instead of NLTK's.

    >>> rouge_lsum("It opened in 1949. It fell in 1945.", ["It fell in 1945. It opened in 1949."])
    1.0
    """
    lines = _lines(unmarked(text))
    return max(_rouge("rougeLsum", _lines(gold), lines) for gold in golds)


def _lines(text: str) -> str:
    return "\n".join(sentences(text))


def _rouge(kind: str, gold: str, text: str) -> float:
    return float(_rouge_scorer(kind).score(gold, text)[kind].fmeasure)


@cache
def _rouge_scorer(kind: str) -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer([kind], use_stemmer=kind == "rougeLsum")
