import asyncio
import doctest

from askance.core.answers import Answer, Citation
from askance.core.types import Passage
from askance.evaluation.judging import citations
from askance.evaluation.judging.citations import citation_scores, judge_citations
from askance.evaluation.judging.judge_run import JudgeFinding
from askance.models.scripted import ScriptedEntailment
from tests.tolerances import near

OLD, RIVER, OPERA = (
    Passage("1", "Bonn", "An old city."),
    Passage("2", "Rhine", "A long river."),
    Passage("3", "Tosca", "An opera."),
)
TEXT = "Bonn is old [1]. It is an old city on a long river. Nobody cites this."


def answer(*cited):
    """Passages cited by the first and the second sentence."""
    at = [(0, 16), (17, 50)]
    return Answer(
        TEXT,
        "",
        tuple(
            Citation(number, passage, *at[sentence])
            for sentence, passages in enumerate(cited)
            for number, passage in enumerate(passages, start=1)
        ),
    )


def judged(given, entailment=None):
    return asyncio.run(judge_citations(given, entailment or ScriptedEntailment()))


def test_worked_example():
    results = doctest.testmod(citations)
    assert (results.attempted, results.failed) == (1, 0)


def test_support_and_relevance():
    # Both sentences follow from all they cite; the opera adds nothing to what the others say together.
    found = judged(answer([OLD], [OLD, RIVER, OPERA]))
    assert found == (
        JudgeFinding("Bonn is old.", True, 1, 1),
        JudgeFinding("It is an old city on a long river.", True, 3, 2),
        JudgeFinding("Nobody cites this.", False, 0, 0),
    )
    assert citation_scores(found) == {
        "nli_citation_recall": near(2 / 3),
        "nli_citation_precision": 3 / 4,
    }


def test_what_is_not_supported_makes_no_citation_relevant():
    found = judged(answer([RIVER], [OLD, OPERA]))
    assert [(each.is_supported, each.cited, each.relevant) for each in found] == [
        (False, 1, 0),
        (False, 2, 0),
        (False, 0, 0),
    ]
    assert citation_scores(found) == {"nli_citation_recall": 0, "nli_citation_precision": 0}


def test_a_citation_that_entails_alone_is_relevant_though_others_do_too():
    other = Passage("4", "Bonn", "An old city, too.")
    (first, *_) = judged(answer([OLD, other], []))
    assert (first.cited, first.relevant) == (2, 2)


def test_the_judge_reads_titles_and_no_markers():
    entailment = ScriptedEntailment()
    judged(answer([OLD], [OLD, RIVER]), entailment)
    assert entailment.calls[0] == ("Title: Bonn\nAn old city.", "Bonn is old.")
    assert entailment.calls[1][0] == "Title: Bonn\nAn old city.\nTitle: Rhine\nA long river."


def test_an_answer_without_sentences_or_citations():
    assert judged(Answer("")) == ()
    assert citation_scores(()) == {"nli_citation_recall": 0, "nli_citation_precision": 0}
    assert citation_scores(judged(Answer("It is."))) == {
        "nli_citation_recall": 0,
        "nli_citation_precision": 0,
    }
