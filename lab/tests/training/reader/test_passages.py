"""Passages of training examples: cut between sentences and never in the evidence, among distractors."""

import random

import pytest
from lab.tests.training.reader.sample_examples import DWAN, HEIDI, PISA

from askance.evaluation.datasets.example import Paragraph
from askance_lab.training.reader.passages import PassageLimits, mix_with_distractors, shortened

TEXT = "One two three. Four five six. Seven eight nine. Ten eleven twelve."


def part(text):
    start = TEXT.index(text)
    return (start, start + len(text))


def test_a_short_paragraph_stays_as_it_is():
    assert shortened(HEIDI, 100) is HEIDI


@pytest.mark.parametrize(
    ("evidence", "words", "text"),
    [
        (["Seven eight nine."], 6, "Seven eight nine. Ten eleven twelve."),
        (["Seven eight nine."], 9, "Four five six. Seven eight nine. Ten eleven twelve."),
        (["Four five six.", "Ten eleven twelve."], 9, "Four five six. Seven eight nine. Ten eleven twelve."),
        ([], 7, "One two three. Four five six."),
    ],
)
def test_a_long_one_keeps_whole_sentences_around_its_evidence(evidence, words, text):
    paragraph = shortened(Paragraph("T", TEXT, tuple(map(part, evidence))), words)
    assert paragraph is not None
    assert paragraph.text == text
    assert list(paragraph.evidence_texts) == evidence


def test_evidence_that_does_not_fit_is_never_cut():
    assert shortened(Paragraph("T", TEXT, (part("One two three."), part("Ten eleven twelve."))), 9) is None
    assert (
        mix_with_distractors(
            [Paragraph("T", TEXT, ((0, len(TEXT)),))], [PISA], PassageLimits(5), random.Random(0)
        )
        is None
    )


def test_all_needed_ones_are_shown_among_some_others_in_any_order():
    others = [Paragraph(f"D{number}", "Nothing.") for number in range(9)]
    orders, sizes = set(), set()
    for seed in range(40):
        hits = mix_with_distractors([HEIDI, DWAN], others, PassageLimits(100, 4), random.Random(seed))
        assert hits is not None
        titles = [hit.passage.title for hit in hits]
        assert {"Heidi (1937 film)", "Allan Dwan"} <= set(titles)
        assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
        orders.add(titles.index("Allan Dwan") < titles.index("Heidi (1937 film)"))
        sizes.add(len(titles))
    assert orders == {True, False}
    assert sizes == {3, 4}
