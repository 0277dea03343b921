"""The training examples that the package makes by itself, and their passages."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from lab.tests.training.reader.sample_examples import (
    ARGON,
    BOTH,
    DWAN,
    FILM,
    HEIDI,
    NO_TOWER,
    OTHER_FILM,
    PISA,
    TOWER,
)

from askance.evaluation.datasets.example import Paragraph, SupportingFacts
from askance_lab.training.reader.data_mix import build_data_mix
from askance_lab.training.reader.passages import PassageLimits, mix_with_distractors, shortened
from askance_lab.training.reader.settings import ReaderSettings

NONE = ReaderSettings(reading=0.0, memory=0.0, paragraph=0.0, chat=0.0, held_out=0.0)
EXAMPLES = {"2wiki": (FILM, OTHER_FILM), "strategyqa": (ARGON,), "squad2": (TOWER, NO_TOWER)}


def tasks(made):
    return Counter(training_example.task for training_example in made.training)


def test_it_teaches_to_answer_from_passages_and_from_memory():
    made = build_data_mix(EXAMPLES, BOTH, replace(NONE, reading=9.0, memory=9.0, paragraph=9.0))
    assert set(tasks(made)) == {"reading", "memory", "going_on", "single_hop"}
    assert {dataset for dataset, _ in made.num_by_task} == set(EXAMPLES)
    assert not made.left_out


def test_the_reasoning_is_what_the_dataset_marks_or_tells():
    made = build_data_mix(EXAMPLES, BOTH, replace(NONE, reading=1.0))
    targets = {
        training_example.id: training_example.target
        for training_example in made.training
        if training_example.task == "reading"
    }
    heidi, dwan = (paragraph.text for paragraph in FILM.supporting_facts.supporting)
    assert targets["2wiki/f1"] == f" {heidi} {dwan} So the answer is 3 April 1885."
    assert targets["strategyqa/s1"] == " Argon is a gas. Gases can't be chewed. So the answer is no."


def test_a_decomposition_alone_is_left_out_and_told():
    steps = replace(
        ARGON,
        question=replace(ARGON.question, id="s2"),
        supporting_facts=SupportingFacts(steps=ARGON.supporting_facts.steps),
    )
    made = build_data_mix({"strategyqa": (ARGON, steps)}, BOTH, replace(NONE, reading=1.0))
    assert made.left_out_reasons == ("1 of strategyqa: steps, but no supporting paragraphs or facts",)


TEXT = "One two three. Four five six. Seven eight nine. Ten eleven twelve."


def part(text):
    start = TEXT.index(text)
    return (start, start + len(text))


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
