"""The study's Self-RAG model: which entities it learns reflection from, and what it learns of each."""

import shutil

import pytest

from askance.core.errors import InputError
from askance.methods.selfrag.tokens import has_reflection_tokens
from askance.models.hf.load import load_hf
from askance_lab.training.selfrag.rows import written_segments
from studies.known_unknown import reflecting
from studies.known_unknown.questions import questions
from studies.known_unknown.study import POCKET
from studies.known_unknown.world import make_world

WORLD = make_world(1, POCKET.entities)
ASKED = questions(WORLD, POCKET.questions, 1)
NAMES = {name for example in ASKED for name in (*example.supporting_titles, *example.golds)}
ROWS = reflecting.reflection_rows(WORLD, NAMES)


def test_no_name_of_a_question_is_trained_on():
    assert ROWS
    for row in ROWS:
        assert row.topic in WORLD.entities
        assert row.topic not in NAMES
        assert row.topic in row.instruction


def test_a_known_fact_needs_no_search_and_an_unknown_one_does():
    for row in ROWS:
        entity = WORLD.entities[row.topic]
        (segment,), utility = written_segments(row.output)
        objects = {fact.object for fact in WORLD.facts[entity.name]}
        assert segment.text in objects
        assert utility == "[Utility:5]"
        if entity.is_known:
            assert entity.exposures >= reflecting.MIN_EXPOSURES
            assert (segment.retrieve, segment.passage) == ("[No Retrieval]", None)
        elif row.learned == "all":
            assert (segment.relevance, segment.support) == ("[Relevant]", "[Fully supported]")
            assert segment.text in segment.passage.text
            assert segment.passage.title == entity.name
        else:
            assert segment.relevance == "[Irrelevant]"
            assert segment.passage.title != entity.name
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert {row.learned for row in ROWS} == {"all", "tokens"}


def test_a_world_whose_entities_are_all_asked_about():
    with pytest.raises(InputError, match="leave 0 known and 0 unknown entities of 156"):
        reflecting.reflection_rows(WORLD, set(WORLD.entities))


@pytest.mark.parametrize("name", ["llama_folder", "qwen_folder"])
def test_the_taught_model_gets_the_tokens_and_is_not_trained_twice(name, request, tmp_path, monkeypatch):
    shutil.copytree(request.getfixturevalue(name), tmp_path / "reader")
    monkeypatch.setattr(reflecting, "reflection_rows", lambda world, names: ROWS[:20] + ROWS[-20:])
    reflecting.teach_reflection(tmp_path, WORLD, ASKED)
    assert has_reflection_tokens(load_hf(str(tmp_path / "selfrag"), device="cpu", dtype="float32"))
    before = (tmp_path / "selfrag" / "README.md").stat().st_mtime_ns
    reflecting.teach_reflection(tmp_path, WORLD, ASKED)
    assert (tmp_path / "selfrag" / "README.md").stat().st_mtime_ns == before
