"""The retriever and the encoder are part of a run's identity."""

import asyncio
import json
from dataclasses import replace

import pytest

from askance.configuration.build import open_retriever
from askance.configuration.experiment import Experiment, prepare_experiment
from askance.configuration.grid import prepare_experiments, read_grid
from askance.configuration.settings import EngineConfig
from askance.core.errors import GridError, InputError, RunFolderError, UnknownName
from askance.evaluation.run.runner import evaluate
from askance.evaluation.statistics.run_groups import names_of
from askance.models.scripted import ScriptedEncoder
from askance.retrieval.index.build import build_index
from tests.evaluation.test_harness import Rivers


@pytest.fixture
def index(tmp_path, sample_rows):
    build_index([sample_rows], tmp_path / "index", encoder=ScriptedEncoder())
    return tmp_path / "index"


@pytest.fixture
def sample_rows(tmp_path):
    towns = {"Bonn": "Rhine", "Cairo": "Nile", "Rome": "Tiber"}
    rows = [{"id": town, "title": town, "text": f"The {river} is here."} for town, river in towns.items()]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def experiment(tmp_path, index):
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps({"id": "Bonn", "question": "Which river? Bonn", "answers": ["Rhine"]}))
    return Experiment(dataset=f"jsonl:{path}", method="single", index=index, models={"answer": "scripted"})


EMB = {"verifier": "emb", "answer_samples": 2}


def run(experiment, folder):
    return asyncio.run(evaluate(prepare_experiment(experiment), folder, Rivers()))


def test_runs_that_search_otherwise_are_other_runs(experiment, tmp_path):
    runs = {
        kind: run(replace(experiment, retriever=kind), tmp_path / kind)
        for kind in ("bm25", "dense", "hybrid")
    }
    assert len({each.settings.index_content for each in runs.values()}) == 3
    assert [each.settings.retriever for each in runs.values()] == list(runs)
    assert names_of(list(runs.values())) == (
        "single, retriever=bm25",
        "single, retriever=dense",
        "single, retriever=hybrid",
    )
    with pytest.raises(RunFolderError, match="retriever: bm25, now dense"):
        run(replace(experiment, retriever="dense"), tmp_path / "bm25")
    with pytest.raises(RunFolderError, match="retriever: dense, now hybrid"):
        run(replace(experiment, retriever="hybrid"), tmp_path / "dense")
    (found,) = runs["dense"].records
    (asked, *_) = runs["dense"].trace(found)
    assert asked.retriever.startswith("dense ")


def test_runs_with_another_reranker_are_other_runs(experiment, tmp_path):
    spec = "tests.retrieval.test_reranking:ByLength"
    reranked = run(replace(experiment, rerank=f"{spec}?candidates=9"), tmp_path / "run")
    assert reranked.settings.retriever == f"bm25, reranked by {spec}?candidates=9"
    with pytest.raises(RunFolderError, match=f"retriever: bm25, reranked by {spec}.candidates=9, now bm25"):
        run(experiment, tmp_path / "run")


def test_another_encoder_is_another_run(experiment, tmp_path, monkeypatch):
    experiment = replace(experiment, method="airrag", parameters=EMB, encoder="scripted")
    before = run(experiment, tmp_path / "run")
    assert before.settings.encoder == "scripted, scripted, 16 dimensions"
    monkeypatch.setattr("askance.configuration.build.load_encoder", lambda spec: ScriptedEncoder(8))
    with pytest.raises(RunFolderError, match="encoder: scripted, scripted, 16 dimensions, now scripted, scr"):
        run(experiment, tmp_path / "run")


def test_a_cache_tells_retrievers_apart(experiment, tmp_path):
    found = {}
    for kind in ("bm25", "dense", "bm25", "dense"):
        config = EngineConfig(cache=tmp_path / "cache")
        retriever = config.cached_retriever(open_retriever(experiment.index, kind))
        hits = asyncio.run(retriever.search("Bonn", 3))
        assert found.setdefault(kind, hits) == hits
    assert len(found["dense"]) == 3 > len(found["bm25"])


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({"retriever": "dens"}, UnknownName, "did you mean 'dense'"),
        ({"retriever": "dense", "index": None}, InputError, "--retriever dense is given without an index"),
        ({"retriever": "dense", "index": "@gold"}, InputError, "leave out --retriever dense"),
        ({"rerank": "bundled", "index": "@gold"}, InputError, "leave out --rerank bundled"),
        ({"rerank": "bundled", "index": None}, InputError, "leave --rerank out"),
        ({"rerank": "bundeld"}, UnknownName, "unknown reranker 'bundeld': did you mean 'bundled'"),
        ({"encoder": "scripted"}, InputError, "an encoder is given, but nothing uses it"),
        ({"encoder": "nowhere", "retriever": "dense"}, UnknownName, "unknown encoder 'nowhere'"),
    ],
)
def test_what_can_not_be_searched_so(experiment, changes, error, told):
    from pathlib import Path

    if isinstance(changes.get("index"), str):
        changes = {**changes, "index": Path(changes["index"])}
    with pytest.raises(error, match=told):
        prepare_experiment(replace(experiment, **changes))


GRID = """
index = "INDEX"
retriever = "dense"
encoder = "scripted"

[datasets.few]
questions = "QUESTIONS"

[models.fake]
answer = "scripted"

[methods.closed_book]
[methods.single]
[methods.single-bm25]
method = "single"
retriever = "bm25"
[methods.airrag]
retriever = "bm25"
set = { verifier = "emb" }
"""


def test_cells_of_a_grid_take_what_they_ask(experiment, tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(GRID.replace("INDEX", str(experiment.index)).replace("QUESTIONS", experiment.dataset))
    ready = prepare_experiments(read_grid(path).experiments())
    found = {
        name.rpartition("/")[2]: (
            each.config["retriever"],
            each.config["encoder"],
            each.encoder is not None,
        )
        for name, each in ready.items()
    }
    assert found == {
        "closed_book": ("dense", "scripted", False),
        "single": ("dense", "scripted", False),
        "single-bm25": ("bm25", None, False),
        "airrag": ("bm25", "scripted", True),
    }
    path.write_text(path.read_text().replace('"dense"', '"dens"'))
    with pytest.raises(GridError, match="unknown retriever 'dens': did you mean 'dense'"):
        prepare_experiments(read_grid(path).experiments())
