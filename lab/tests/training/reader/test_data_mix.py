"""The training examples that the package makes by itself; what a recipe adds is tested with the recipe."""

from collections import Counter
from dataclasses import replace

import pytest
from lab.tests.training.reader.sample_examples import ARGON, BOTH, FILM, NO_TOWER, OTHER_FILM, TOWER

from askance.evaluation.datasets.example import SupportingFacts
from askance_lab.training.reader.data_mix import build_data_mix
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


@pytest.mark.parametrize(
    ("share", "expected"),
    [({"reading": 3.0}, {"reading": 9}), ({"memory": 2.0}, {"memory": 6}), ({"paragraph": 2.0}, {})],
)
def test_a_share_is_a_number_of_examples_per_example(share, expected):
    made = build_data_mix(EXAMPLES, BOTH, replace(NONE, **share))
    found = tasks(made)
    assert {task: found[task] for task in ("reading", "memory") if found[task]} == expected
    assert bool(found["single_hop"]) == ("paragraph" in share)


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
