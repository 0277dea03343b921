"""The stages of the study: a folder that resumes, what it refuses, and a base that has learned nothing."""

import json
from dataclasses import replace

import pytest
from tests.evaluation.hand_made import record, written

from askance.configuration.evaluation import read_dataset
from askance.core.errors import InputError
from studies.known_unknown import runs, study
from studies.known_unknown.questions import chain_of, questions
from studies.known_unknown.teaching import taught_chains


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("study") / "out"
    return out, study.write_world(out, study.POCKET, 1)


def contents(out):
    return {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_the_questions_that_are_written_are_those_that_are_asked(made):
    out, world = made
    read = [
        example
        for name in ("questions", "calibration")
        for example in read_dataset(f"jsonl:{out / name}.jsonl")
    ]
    several = {chain for chain in taught_chains(world, 1) if len(chain) > 1}
    asked = questions(world, study.POCKET.questions, 1, others=several)
    assert [(one.question.text, one.golds, one.kind, one.hops) for one in read[: len(asked)]] == [
        (one.question.text, one.golds, one.kind, one.hops) for one in asked
    ]
    assert len(read) > len(asked)
    for example in read:
        chain = chain_of(world, example)
        assert [fact.subject for fact in chain] == [*example.supporting_titles]
        assert chain[-1].object == example.golds[0]


def test_both_sets_of_documents_differ_in_the_stale_ones_alone(made):
    out, world = made
    texts = {
        name: {
            row["title"]: row["text"]
            for row in map(json.loads, (out / "documents" / f"{name}.jsonl").read_text().splitlines())
        }
        for name in study.DOCUMENTS
    }
    assert texts["stale"].keys() == texts["fresh"].keys()
    differing = {title for title, text in texts["stale"].items() if text != texts["fresh"][title]}
    assert differing == {name for name, entity in world.entities.items() if entity.document == "stale"}


def test_making_it_again_changes_nothing(made):
    out, _ = made
    before = contents(out)
    study.write_world(out, study.POCKET, 1)
    assert contents(out) == before


@pytest.mark.parametrize("size", [study.POCKET, study.FULL])
def test_there_is_a_second_world_to_read_about_for_every_size(size, tmp_path, monkeypatch):
    given = {}

    def train(examples, *rest, builder):
        given.update(examples)

    monkeypatch.setattr(study, "train_reader", train)
    monkeypatch.setattr(study, "torch_folder", lambda reader: tmp_path)
    monkeypatch.setattr(study, "load_base", lambda spec: None)
    study.teach(tmp_path, size, study.write_world(tmp_path, size, 1))
    sets = {example.supporting_facts.paragraphs for example in given["reading"]}
    assert len(sets) == size.exercises
    assert given["taught"]


def closed_book(folder, kinds):
    records = [
        replace(record(id), kind=kind, scores={"exact_match": score}) for id, (kind, score) in kinds.items()
    ]
    return written(folder / "run", records)


def test_a_base_that_has_not_learned_the_facts_is_said_before_the_runs(tmp_path, monkeypatch):
    kinds = {1: ("32 fresh", 0.0), 2: ("32 stale", 0.0), 3: ("1 fresh", 0.0), 4: ("0 fresh > 32 fresh", 1.0)}
    made = closed_book(tmp_path, kinds)
    monkeypatch.setattr(runs, "_run", lambda *arguments: {"stale/closed_book": made})
    with pytest.raises(InputError, match=r"from memory is 0\.00 on facts that it was taught 32 times"):
        runs.run_from_memory(tmp_path)
    assert runs.accuracy_from_memory(made) == {1: 0.0, 32: 0.0}, "single facts alone count"
