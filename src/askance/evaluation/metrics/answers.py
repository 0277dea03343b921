"""What an answer is worth beside the accepted ones: each metric is a function with a worked example.

A metric takes what it judges, the short answer or the whole text, and the accepted answers, or the example
where more than these counts. It gives a number from 0 to 1, the best over the accepted answers, or None where
it does not apply to the question.

Answers are normalised before they are compared. DRAGIN and AirRAG take the same steps: lower case, without
ASCII punctuation, articles and superfluous white space, in this order (`text.answers.normalise_answer`). They
differ where nothing is left of an accepted answer, such as "A" or "The The": for DRAGIN, as for SQuAD and
HotpotQA, any answer of which nothing is left equals it; for AirRAG, as read here, it is ignored, since
everything contains it. Self-RAG's closed sets need the letter that the others take for an article.
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
"""Normalisations that leave words to compare."""
AnswerForm = Literal["dragin", "airrag", "selfrag"]
_ALL_OR_NOTHING = {"yes", "no", "noanswer"}
_LABEL = re.compile(r"\(?(\w)(?:[).:](?=\s|$)|$)")
_VERDICT = re.compile(r"(true|supports|false|refutes)\b")
_VERDICTS = {"true": "true", "supports": "true", "false": "false", "refutes": "false"}


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


NORMALISATIONS: Mapping[AnswerForm, Callable[[str], str]] = {
    "dragin": normalise_answer,
    "airrag": normalise_answer,
    "selfrag": closed_set_form,
}
"""The normal form of a prediction or an accepted answer, by name."""


def accepted_forms(golds: Sequence[str], normalisation: AnswerForm) -> list[str]:
    """The normal forms of the golds that count; none where all are ignored."""
    forms = map(NORMALISATIONS[normalisation], golds)
    return [form for form in forms if form or normalisation != "airrag"]


def exact_match(prediction: str, golds: Sequence[str], normalisation: AnswerForm = "dragin") -> float | None:
    """1 if the answer is one of the accepted ones, otherwise 0; nothing where the normalisation ignores all.

    SQuAD (Rajpurkar et al. 2016, arXiv 1606.05250), HotpotQA, DRAGIN; AirRAG (Feng et al. 2025, arXiv
    2501.10053) and the closed sets of Self-RAG (Asai et al. 2023, arXiv 2310.11511) by their names. As in
    SQuAD and DRAGIN, an empty answer matches a gold made of articles and punctuation, such as "A".

    >>> exact_match("The Rhine.", ["Rhein", "rhine"])
    1.0
    """
    accepted = accepted_forms(golds, normalisation)
    return float(NORMALISATIONS[normalisation](prediction) in accepted) if accepted else None


def f1(prediction: str, golds: Sequence[str], normalisation: WordForm = "dragin") -> float | None:
    """The harmonic mean of precision and recall over words, as multisets; the best over the golds.

    SQuAD (Rajpurkar et al. 2016, arXiv 1606.05250); yes and no as in HotpotQA (Yang et al. 2018, arXiv
    1809.09600), DRAGIN and AirRAG (Feng et al. 2025, arXiv 2501.10053). Nothing where the normalisation
    ignores every gold. 0 where both sides have no words left, though they match exactly; SQuAD's second
    version says 1 there. "river Rhine" against "Rhine": precision 1/2, recall 1.

    >>> round(f1("the river Rhine", ["the Rhine"]), 3)
    0.667
    """
    return _best(prediction, golds, normalisation, lambda shared, num, of_gold: 2 * shared / (num + of_gold))


def precision(prediction: str, golds: Sequence[str], normalisation: WordForm = "dragin") -> float | None:
    """The share of the answer's words that are in an accepted answer, from 0 to 1.

    It is the best over the golds; that need not be the gold that recall or F1 is best for. Nothing where the
    normalisation ignores every gold. "river Rhine" against "Rhine": one word of two.

    >>> precision("the river Rhine", ["the Rhine"])
    0.5
    """
    return _best(prediction, golds, normalisation, lambda shared, num, of_gold: shared / num)


def recall(prediction: str, golds: Sequence[str], normalisation: WordForm = "dragin") -> float | None:
    """The share of an accepted answer's words that are in the answer, from 0 to 1.

    It is the best over the golds; that need not be the gold that precision or F1 is best for. Nothing where
    the normalisation ignores every gold. "Ada" against "Ada Lovelace": one word of two.

    >>> recall("Ada", ["Ada Lovelace"])
    0.5
    """
    return _best(prediction, golds, normalisation, lambda shared, num, of_gold: shared / of_gold)


def _best(
    prediction: str, golds: Sequence[str], normalisation: WordForm, share: Callable[[int, int, int], float]
) -> float | None:
    """The best of `share(shared, predicted, gold)` over the golds, which takes numbers of words.

    0 for a gold without a shared word, and where either side is yes, no or noanswer and the other is not the
    same: "no" shares nothing with "no one". Nothing where the normalisation ignores every gold.
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
    """1 if an accepted answer is part of the short answer, once both are normalised, otherwise 0.

    AirRAG (Feng et al. 2025, arXiv 2501.10053), where a node that answers writes a sentence of its own;
    FlashRAG (Jin et al. 2024, arXiv 2405.13576) computes it the same way, though it does not ignore empty
    golds. Here golds of which normalisation leaves nothing are ignored, and where all are, nothing applies.

    It reads the short answer, for that is what the paper's answering nodes write; the whole text may weigh
    candidates up before it decides, and naming a gold on the way is not answering. A part need not be whole
    words: "son" is part of "Johnson".

    >>> accuracy("It is the river Rhine.", ["Rhein", "the Rhine"])
    1.0
    """
    accepted, normal = accepted_forms(golds, "airrag"), normalise_answer(prediction)
    return float(any(gold in normal for gold in accepted)) if accepted else None


def yes_no_accuracy(prediction: str, golds: Sequence[str]) -> float | None:
    """1 if the answer is the gold's yes or no, 0 if it is anything else; nothing where the gold is neither.

    StrategyQA (Geva et al. 2021, arXiv 2101.02235), DRAGIN.

    >>> yes_no_accuracy("Yes.", ["yes"]), yes_no_accuracy("", ["no"]), yes_no_accuracy("yes", ["Bonn"])
    (1.0, 0.0, None)
    """
    known = {normalise_answer(gold) for gold in golds}
    return float(normalise_answer(prediction) in known) if known in ({"yes"}, {"no"}) else None


def choice_accuracy(prediction: str, example: Example) -> float | None:
    """1 if the option named first is the right one, otherwise 0; an answer that names no option is wrong.

    Self-RAG (Asai et al. 2023, arXiv 2310.11511) for PubHealth and ARC-Challenge. Nothing where the question
    has no options.

    Of the choice between "A: iron" and "B: gold", gold is named by "B", "(B)", "B.", "B: gold" and "Gold"; of
    true and false, by the words as well as by SUPPORTS and REFUTES (`text.options.named_option`).

    Deviation: the authors' code looks for the gold anywhere in the output, letter case and all, so that a
    capital A anywhere is the answer A (metric `match`).

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
    """1 if an accepted answer occurs in the text, letter by letter, otherwise 0; empty golds are ignored.

    Self-RAG (Asai et al. 2023, arXiv 2310.11511) and its code, for PopQA and TriviaQA, where the text is the
    answer. A chain of thought that merely names a gold matches, too: where methods reason, read `accuracy`
    instead.

    Args:
        normalisation: "raw" compares as the authors' code does, case and all; "normalised" in lower case,
            without ASCII punctuation, articles and superfluous white space, as `accuracy` does.

    >>> match("The Rhine does.", ["Rhine"]), match("The Rhine does.", ["the rhine"])
    (1.0, 0.0)
    """
    if normalisation == "normalised":
        return accuracy(text, golds)
    accepted = [gold for gold in golds if gold]
    return float(any(gold in text for gold in accepted)) if accepted else None


def str_em(text: str, example: Example) -> float | None:
    """From 0 to 1: the share of answer groups of which a short answer occurs in the text.

    ASQA (Stelmakh et al. 2022, arXiv 2204.06092) and ALCE (Gao et al. 2023, arXiv 2305.14627). It tells how
    many of the things that a long answer has to tell occur in it. Both sides are normalised, and citation
    markers such as [1] left out. Nothing where there are no groups, or normalisation leaves nothing of them.

    Deviations from ALCE's code: it reads the first line only; here a text may have several. A short answer of
    which normalisation leaves nothing occurs in every text there; here it is ignored.

    >>> from askance.core.types import Question
    >>> groups = ("1898",), ("12 November 1949", "1949")
    >>> example = Example(Question("q", "When was the bridge opened?"), ("1898",), answer_groups=groups)
    >>> str_em("The old bridge was opened in 1898 [1].", example)
    0.5
    """
    normal = normalise_answer(unmarked(text))
    groups = [[form for form in map(normalise_answer, group) if form] for group in example.answer_groups]
    told = [any(form in normal for form in group) for group in groups if group]
    return sum(told) / len(told) if told else None


def rouge_l(text: str, golds: Sequence[str]) -> float:
    """From 0 to 1, the best over the golds, without stemming; precision and recall weigh the same.

    Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries": the longest common subsequence of
    words; computed by the package rouge-score. Its words are runs of digits and of the letters a to z, in
    lower case: other scripts have none, and "Köln" is two.

    "Rhine flows north" is common to the two: 3 words of 4, and of 5.

    >>> round(rouge_l("The Rhine flows north.", ["Rhine: it flows north, mostly"]), 3)
    0.667
    """
    return max(_rouge("rougeL", gold, text) for gold in golds)


def rouge_lsum(text: str, golds: Sequence[str]) -> float:
    """From 0 to 1, the best over the golds, sentence by sentence; citation markers such as [1] are left out.

    This is the summary level of ROUGE-L, with stemming, as ASQA (Stelmakh et al. 2022, arXiv 2204.06092) and
    ALCE (Gao et al. 2023, arXiv 2305.14627) have it. Unlike in `rouge_l`, the order of sentences does not
    count: each sentence of the gold is held against all of the text's.

    Deviation: sentences are found by askance's own rules, not by NLTK's.

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
