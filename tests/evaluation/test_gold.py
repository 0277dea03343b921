"""The gold retriever returns the supporting facts of the dataset for every query."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from askance.configuration.build import load_models
from askance.configuration.experiment import Experiment, prepare_experiment
from askance.core.errors import DatasetError, InputError
from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, SupportingFacts
from askance.evaluation.run.gold_retriever import GoldRetriever, GoldRetrievers
from askance.evaluation.run.runner import evaluate

LUEBECK = Paragraph("Lübeck", "Lübeck lies on the Trave. It is old.", ((0, 25),))
MANN = Paragraph("Thomas Mann", "Mann was born in Lübeck.", ((0, 24),))
OTHER = Paragraph("Pisa", "Pisa lies on the Arno.")


def search(supporting_facts: SupportingFacts, query: str, k: int, **options: frozenset[str]):
    return asyncio.run(GoldRetriever(supporting_facts).search(query, k, **options))


def test_every_query_finds_the_supporting_paragraphs_in_the_order_of_the_dataset():
    supporting_facts = SupportingFacts((MANN, OTHER, LUEBECK))
    hits = search(supporting_facts, "anything", 3)
    assert [(hit.passage.title, hit.passage.text, hit.rank) for hit in hits] == [
        ("Thomas Mann", MANN.text, 1),
        ("Lübeck", LUEBECK.text, 2),
    ]
    assert [hit.passage.title for hit in search(supporting_facts, "x", 1)] == ["Thomas Mann"]
    seen = frozenset({hits[0].passage.id})
    assert [hit.passage.title for hit in search(supporting_facts, "x", 3, exclude=seen)] == ["Lübeck"]
    assert search(supporting_facts, "?!", 3) == ()


def test_facts_without_a_source_are_passages_without_a_title():
    hits = search(SupportingFacts(facts=("Argon is a gas.", "Gases can't be chewed.")), "argon", 5)
    assert [(hit.passage.title, hit.passage.text) for hit in hits] == [
        ("", "Argon is a gas."),
        ("", "Gases can't be chewed."),
    ]


def test_no_passages_can_be_asked_for_neither():
    with pytest.raises(InputError, match="k=0"):
        search(SupportingFacts((MANN,)), "x", 0)


def test_a_question_without_supporting_facts_is_named():
    example = Example(Question("q7", "Why?"), ("because",))
    with pytest.raises(DatasetError, match="'q7' has no supporting paragraphs"):
        GoldRetrievers((example,))


def test_an_evaluation_shows_each_question_its_own_gold_and_knows_its_content(tmp_path: Path):
    rows = [
        {
            "_id": f"q{number}",
            "question": f"Which river flows through {town}?",
            "answer": river,
            "supporting_facts": [[town, 0]],
            "context": [[town, [f"{town} lies on the {river}."]], ["Rome", ["Rome is old."]]],
        }
        for number, (town, river) in enumerate([("Pisa", "Arno"), ("Ulm", "Danube")])
    ]
    file = tmp_path / "dev.json"
    file.write_text(json.dumps(rows))
    experiment = Experiment(
        dataset=f"hotpotqa:{file}", method="single", index=Path("@gold"), models={"answer": "scripted"}
    )
    run = asyncio.run(evaluate(prepare_experiment(experiment), tmp_path / "run", load_models))
    assert [record.scores["supporting_recall"] for record in run.records] == [1, 1]
    assert run.settings.index_content.startswith("@gold ")
    rows[0]["context"][0][1] = ["Pisa lies on the river Arno."]  # type: ignore[index]
    file.write_text(json.dumps(rows))
    other = asyncio.run(evaluate(prepare_experiment(replace(experiment)), tmp_path / "other", load_models))
    assert other.settings.index_content != run.settings.index_content
