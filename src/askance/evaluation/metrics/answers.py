"""Metrics of answers and of their evidence, each as a function with a worked example.

A metric takes the short answer or the whole text, and the gold answers or the whole example. It returns a
number from 0 to 1, which is the maximum over the gold answers, or None if the metric does not apply to the
question.

Answers are normalised before they are compared: they are converted to lower case, and then ASCII
punctuation, articles and superfluous white space are removed, in this order
(`text.answers.normalise_answer`), as in SQuAD, HotpotQA, DRAGIN and AirRAG. A gold answer that becomes empty,
such as "A", equals every answer that also becomes empty.

The metrics of evidence compare the titles of documents, character by character, with supporting titles such
as those of HotpotQA (Yang et al. 2018, arXiv 1809.09600): were the supporting documents found, and are they
cited? They do not apply if a dataset has no supporting titles. ALCE (Gao et al. 2023, arXiv 2305.14627) has
citation metrics with the same names, for which a model judges entailment (`evaluation.judging.citations`).
The metrics here read no text and need no model.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

from askance.core.answers import Citation
from askance.core.trace import AnyEvent, Searched
from askance.core.types import Passage
from askance.evaluation.datasets import Example
from askance.text.answers import normalise_answer, sentences
from askance.text.options import named_option
from askance.text.support import unmarked
from askance.text.words import split_words

_ALL_OR_NOTHING = {"yes", "no", "noanswer"}


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """Return 1 if the answer equals a gold answer, otherwise 0.

    The source is SQuAD (Rajpurkar et al. 2016, arXiv 1606.05250), HotpotQA and DRAGIN. As there, an empty
    answer matches a gold answer that has only articles and punctuation, such as "A".

    >>> exact_match("The Rhine.", ["Rhein", "rhine"])
    1.0
    """
    return float(normalise_answer(prediction) in map(normalise_answer, golds))


def f1(prediction: str, golds: Sequence[str]) -> float:
    """Return the harmonic mean of precision and recall over multisets of words.

    The result is the maximum over the gold answers. The source is SQuAD (Rajpurkar et al. 2016, arXiv
    1606.05250). Yes and no must match exactly, as in HotpotQA (Yang et al. 2018, arXiv 1809.09600), DRAGIN
    and AirRAG (Feng et al. 2025, arXiv 2501.10053). If normalisation leaves no words of the answer and of the
    gold answer, the result is 0, although the two match exactly; the evaluation of SQuAD 2.0 gives 1 in this
    case.

    In the example, "river Rhine" has precision 1/2 and recall 1:

    >>> round(f1("the river Rhine", ["the Rhine"]), 3)
    0.667
    """
    return _best(prediction, golds, lambda shared, num, of_gold: 2 * shared / (num + of_gold))


def precision(prediction: str, golds: Sequence[str]) -> float:
    """Return the fraction of the answer's words that are in a gold answer, from 0 to 1.

    The result is the maximum over the gold answers. Recall and F1 may have their maxima at other gold
    answers.

    In the example, one of the two words of "river Rhine" is in "Rhine":

    >>> precision("the river Rhine", ["the Rhine"])
    0.5
    """
    return _best(prediction, golds, lambda shared, num, of_gold: shared / num)


def recall(prediction: str, golds: Sequence[str]) -> float:
    """Return the fraction of a gold answer's words that are in the answer, from 0 to 1.

    The result is the maximum over the gold answers. Precision and F1 may have their maxima at other gold
    answers.

    In the example, one of the two words of "Ada Lovelace" is in "Ada":

    >>> recall("Ada", ["Ada Lovelace"])
    0.5
    """
    return _best(prediction, golds, lambda shared, num, of_gold: shared / of_gold)


def _best(prediction: str, golds: Sequence[str], share: Callable[[int, int, int], float]) -> float:
    """Return the maximum of `share` over the gold answers.

    A gold answer counts 0 if it has no word in common with the prediction. It also counts 0 if it differs
    from the prediction and one of them is yes, no or noanswer: "no" is no match at all for "no one".

    Args:
        share: A function of three numbers of words: those in common, those of the prediction, and those of
            the gold answer.
    """
    predicted, best = normalise_answer(prediction), 0.0
    for gold in map(normalise_answer, golds):
        words, gold_words = split_words(predicted), split_words(gold)
        num_shared = (Counter(words) & Counter(gold_words)).total()
        if num_shared and (predicted == gold or not {predicted, gold} & _ALL_OR_NOTHING):
            best = max(best, share(num_shared, len(words), len(gold_words)))
    return best


def accuracy(prediction: str, golds: Sequence[str]) -> float | None:
    """Return 1 if the normalised short answer contains a normalised gold answer, otherwise 0.

    The source is AirRAG (Feng et al. 2025, arXiv 2501.10053), where an answering node writes a sentence.
    FlashRAG (Jin et al. 2024, arXiv 2405.13576) computes accuracy in the same way, but does not ignore empty
    gold answers. Here a gold answer that normalisation leaves empty is ignored. If all gold answers are
    ignored, the result is None.

    The metric uses the short answer, because it is all that the paper's answering nodes write. The whole text
    may compare several candidates, so a gold answer mentioned in it is not necessarily its final answer.
    A match need not be a whole word: "Johnson" contains "son".

    >>> accuracy("It is the river Rhine.", ["Rhein", "the Rhine"])
    1.0
    """
    return match(normalise_answer(prediction), [*map(normalise_answer, golds)])


def yes_no_accuracy(prediction: str, golds: Sequence[str]) -> float | None:
    """Return 1 if the answer equals the gold answer "yes" or "no", otherwise 0.

    The result is None if the gold answer is neither. The source is StrategyQA (Geva et al. 2021, arXiv
    2101.02235) and DRAGIN.

    >>> yes_no_accuracy("Yes.", ["yes"]), yes_no_accuracy("", ["no"]), yes_no_accuracy("yes", ["Bonn"])
    (1.0, 0.0, None)
    """
    known = {normalise_answer(gold) for gold in golds}
    return float(normalise_answer(prediction) in known) if known in ({"yes"}, {"no"}) else None


def choice_accuracy(prediction: str, example: Example) -> float | None:
    """Return 1 if the first option that the answer names is the right one, otherwise 0.

    The source is Self-RAG (Asai et al. 2024, arXiv 2310.11511) for PubHealth and ARC-Challenge. The result is
    None if the question has no options, and 0 if the answer names none of them.

    In the choice between "A: iron" and "B: gold", the answers "B", "(B)", "B.", "B: gold" and "Gold" name
    gold. SUPPORTS and REFUTES name the options true and false (`text.options.named_option`).

    Deviation: the authors' code searches the whole output for the gold answer, case-sensitively, so a capital
    A anywhere counts as the answer A, as in the metric `match`.

    >>> from askance.core.types import Question
    >>> question = Question("q", "Which one rusts?", "choice", ("A: iron", "B: gold"))
    >>> choice_accuracy("(A)", Example(question, ("A: iron", "iron")))
    1.0
    """
    options = example.question.options
    right = set(options).intersection(example.golds)
    return float(named_option(prediction, options) in right) if right else None


def match(text: str, golds: Sequence[str]) -> float | None:
    """Return 1 if a gold answer occurs literally in the text, otherwise 0.

    Empty gold answers are ignored. The source is Self-RAG (Asai et al. 2024, arXiv 2310.11511) and its code,
    for PopQA and TriviaQA, where the whole text is the answer. A chain of thought that merely mentions a gold
    answer also matches, so use `accuracy` for methods that reason.

    >>> match("The Rhine does.", ["Rhine"]), match("The Rhine does.", ["the rhine"])
    (1.0, 0.0)
    """
    accepted = [gold for gold in golds if gold]
    return float(any(gold in text for gold in accepted)) if accepted else None


def str_em(text: str, example: Example) -> float | None:
    """Return the fraction of answer groups with a short answer that occurs in the text, from 0 to 1.

    The source is ASQA (Stelmakh et al. 2022, arXiv 2204.06092) and ALCE (Gao et al. 2023, arXiv 2305.14627).
    The metric measures how many parts of a complete answer a long answer contains. The text and the short
    answers are normalised, and citation markers such as [1] are removed. The result is None if there are no
    groups, or if normalisation leaves all short answers empty.

    Deviations: ALCE's code reads only the first line of a text; here all lines are read. In ALCE's code, a
    short answer that normalisation leaves empty occurs in every text; here it is ignored.

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

    The result is the maximum over the gold answers. The source is Lin 2004, "ROUGE: A Package for Automatic
    Evaluation of Summaries". The package rouge-score computes the metric. It converts a text to lower case
    and takes runs of the letters a to z and of digits as words, so texts in other scripts have no words, and
    "Köln" counts as two.

    The texts below share "Rhine flows north": 3 of 4 words of the first, and 3 of 5 of the second.

    >>> round(rouge_l("The Rhine flows north.", ["Rhine: it flows north, mostly"]), 3)
    0.667
    """
    return max(_rouge("rougeL", gold, text) for gold in golds)


def rouge_lsum(text: str, golds: Sequence[str]) -> float:
    """Return summary-level ROUGE-L, from 0 to 1: an F1 over sentences, without citation markers.

    The result is the maximum over the gold answers, with stemming, as in ASQA (Stelmakh et al. 2022, arXiv
    2204.06092) and ALCE (Gao et al. 2023, arXiv 2305.14627). Unlike in `rouge_l`, the order of sentences does
    not matter: each sentence of the gold answer is compared with all sentences of the text.

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


def citation_precision(citations: Iterable[Citation], example: Example) -> float | None:
    """Return the fraction of the cited passages that come from supporting documents, from 0 to 1.

    A passage counts once, however often it is cited. An answer without citations has precision 0, as in ALCE,
    so every method is measured on the same questions. If the supporting documents are "Fidelio" and "Bonn",
    and the answer cites two passages of "Fidelio" and one of "Tosca", precision is 2/3.
    """
    if not example.supporting_titles:
        return None
    titles = {citation.passage.id: citation.passage.title for citation in citations}.values()
    return sum(title in example.supporting_titles for title in titles) / len(titles) if titles else 0.0


def citation_recall(citations: Iterable[Citation], example: Example) -> float | None:
    """Return the fraction of the supporting documents that the answer cites, from 0 to 1.

    If the supporting documents are "Fidelio" and "Bonn", and the answer cites two passages of "Fidelio" and
    one of "Tosca", recall is 1/2.
    """
    wanted = set(example.supporting_titles)
    cited = {citation.passage.title for citation in citations}
    return len(wanted & cited) / len(wanted) if wanted else None


def found_passages(events: Iterable[AnyEvent]) -> dict[str, Passage]:
    """Return the passages that the searches of a trace found, by id, in the order of the searches."""
    searches = (event for event in events if isinstance(event, Searched))
    return {hit.passage.id: hit.passage for event in searches for hit in event.hits}


def found_documents(events: Iterable[AnyEvent]) -> list[str]:
    """Return the titles of the documents that the searches of a trace found, each once; see `found_passages`.

    The id of a passage without a title takes the place of the title.
    """
    passages = found_passages(events).values()
    return list(dict.fromkeys(passage.title or passage.id for passage in passages))


def answer_recall(events: Iterable[AnyEvent], example: Example, *, first: int | None = None) -> float | None:
    """Return 1 if a found passage contains a gold answer, otherwise 0.

    The source is DPR (Karpukhin et al. 2020, arXiv 2004.04906), which calls this top-k accuracy. Passages and
    answers are normalised, and an answer must consist of whole words of the passage's text. The result is
    None if the question is a choice or is answered by yes or no.

    Args:
        first: As in `supporting_recall`.
    """
    golds = [gold for gold in map(normalise_answer, example.golds) if gold]
    if not golds or example.question.task != "open" or _ALL_OR_NOTHING.issuperset(golds):
        return None
    texts = [f" {normalise_answer(each.text)} " for each in list(found_passages(events).values())[:first]]
    return float(any(f" {gold} " in text for text in texts for gold in golds))


def _ranking_quality(
    events: Iterable[AnyEvent], example: Example, *, measure: str, first: int | None = None
) -> float | None:
    """Return a measure of ir-measures for the ranking of a question's documents, from 0 to 1.

    The documents are ranked by when the searches first found them. Those with a supporting title are
    relevant. The result is None if there are no supporting titles.

    Args:
        measure: The name of the measure in ir-measures.
        first: The number of documents to consider; None for all.
    """
    if not example.supporting_titles:
        return None
    import ir_measures

    run = [
        ir_measures.ScoredDoc("q", title, 1 / rank) for rank, title in enumerate(found_documents(events), 1)
    ]
    qrels = [ir_measures.Qrel("q", title, 1) for title in example.supporting_titles]
    named = ir_measures.parse_measure(measure if first is None else f"{measure}@{first}")
    return float(named.calc_aggregate(qrels, run)) if run else 0.0


ndcg = partial(_ranking_quality, measure="nDCG")
ndcg.__doc__ = "Return the normalised discounted cumulative gain (Järvelin and Kekäläinen 2002), from 0 to 1."
mrr = partial(_ranking_quality, measure="RR")
mrr.__doc__ = "Return the reciprocal rank of the first supporting document; its mean over questions is MRR."
average_precision = partial(_ranking_quality, measure="AP")
average_precision.__doc__ = "Return the average precision over the supporting documents; its mean is MAP."


def supporting_recall(
    events: Iterable[AnyEvent], example: Example, *, first: int | None = None
) -> float | None:
    """Return the fraction of the supporting documents that the searches of a trace found, from 0 to 1.

    This is document-level recall over all searches of a question. If the supporting documents are "Fidelio"
    and "Bonn", and the searches found "Fidelio" and "Tosca", recall is 1/2.

    Args:
        first: The number of distinct passages to consider, counted over all searches in order; None for all.
    """
    titles = [passage.title for passage in list(found_passages(events).values())[:first]]
    wanted = set(example.supporting_titles)
    return len(wanted.intersection(titles)) / len(wanted) if wanted else None
