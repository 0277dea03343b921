"""Experiments: which questions are asked, and that retriever and encoder are part of a run's identity."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from askance.configuration.build import open_retriever
from askance.configuration.evaluation import read_dataset
from askance.configuration.experiment import Experiment, prepare_experiment
from askance.configuration.grid import read_grid
from askance.configuration.settings import EngineConfig
from askance.core.errors import DatasetError, InputError, RunFolderError
from askance.core.trace import Searched
from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, SupportingFacts
from askance.evaluation.run.dataset_retriever import DatasetRetriever, DatasetRetrievers, dataset_texts
from askance.evaluation.run.experiment import select_examples, stratified
from askance.evaluation.run.runner import evaluate
from askance.evaluation.statistics.run_groups import names_of
from askance.models.scripted import ScriptedEncoder
from askance.retrieval.index.build import build_index
from tests.evaluation.datasets.rows import write
from tests.evaluation.test_harness import Rivers

KINDS = ["bridge"] * 12 + ["comparison"] * 6 + ["inference"] * 2
TOWNS = {"Bonn": "Rhine", "Cairo": "Nile", "Rome": "Tiber"}


def choose(folder, *, limit=None, **which):
    rows = (
        {"id": f"id-{n}", "question": f"Where, {n}?", "answers": ["Bonn"], "type": kind}
        for n, kind in enumerate(KINDS, start=1)
    )
    dataset = f"jsonl:{write(folder / 'questions.jsonl', tuple(rows))}"
    return select_examples(dataset, read_dataset(dataset, limit), **which)


def test_all_or_the_first_or_those_of_a_list_in_the_order_of_the_dataset(tmp_path):
    assert list(choose(tmp_path)) == list(range(1, 21))
    assert {number: each.question.id for number, each in choose(tmp_path, limit=2).items()} == {
        1: "id-1",
        2: "id-2",
    }
    chosen = choose(tmp_path, ids=write(tmp_path / "ids", "id-9\n\n id-2 \n"))
    assert {number: each.question.id for number, each in chosen.items()} == {2: "id-2", 9: "id-9"}


@pytest.mark.parametrize("num_wanted", [1, 5, 10, 19, 20, 50])
def test_a_sample_has_the_kinds_of_the_dataset_and_grows(tmp_path, num_wanted):
    examples = tuple(choose(tmp_path).values())
    ranked = stratified(examples, 20)
    assert ranked[:num_wanted] == stratified(examples, num_wanted)
    assert list(choose(tmp_path, sample=num_wanted)) == sorted(place + 1 for place in ranked[:num_wanted])
    kinds = [examples[place].kind for place in ranked[:10]]
    assert [kinds.count(kind) for kind in ("bridge", "comparison", "inference")] == [6, 3, 1]
    assert sorted(ranked[:5]) != [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id-1\nid-99x", "names the question 'id-99x', which"),
        ("\n ", "names no questions: write one question id per line"),
        ("Köln".encode("latin-1"), "is not UTF-8"),
        (None, "No such file"),
    ],
)
def test_flawed_lists(tmp_path, content, message):
    if content is not None:
        write(tmp_path / "ids", content)
    with pytest.raises(DatasetError, match=re.escape(message)):
        choose(tmp_path, ids=tmp_path / "ids")


@pytest.fixture
def experiment(tmp_path):
    texts = ({"id": town, "title": town, "text": f"The {river} is here."} for town, river in TOWNS.items())
    corpus = write(tmp_path / "rows.jsonl", tuple(texts))
    build_index([corpus], tmp_path / "index", encoder=ScriptedEncoder())
    row = {"id": "Bonn", "question": "Which river? Bonn", "answers": ["Rhine"]}
    path = write(tmp_path / "bonn.jsonl", row)
    models = {"answer": "scripted"}
    return Experiment(
        dataset=f"jsonl:{path}", method="single", index=tmp_path / "index", models=models, retriever="bm25"
    )


def run(experiment, folder):
    return asyncio.run(evaluate(prepare_experiment(experiment), folder, Rivers()))


def test_runs_that_search_otherwise_are_other_runs(experiment, tmp_path):
    kinds = ("bm25", "dense", "hybrid")
    assert replace(experiment, retriever="auto").stored()["retriever"] == "hybrid", "the index has vectors"
    runs = [run(replace(experiment, retriever=kind), tmp_path / kind) for kind in kinds]
    assert len({each.settings.index_content for each in runs}) == 3
    assert [each.settings.retriever for each in runs] == list(kinds)
    assert names_of(runs) == tuple(f"single, retriever={kind}" for kind in kinds)
    with pytest.raises(RunFolderError, match="retriever: dense, now hybrid"):
        run(replace(experiment, retriever="hybrid"), tmp_path / "dense")
    assert runs[1].trace(runs[1].records[0])[0].retriever.startswith("dense ")
    spec = "tests.retrieval.test_reranking:ByLength?candidates=9"
    reranked = run(replace(experiment, rerank=spec), tmp_path / "reranked")
    assert reranked.settings.retriever == f"bm25, reranked by {spec}"
    with pytest.raises(RunFolderError, match=f"bm25, reranked by {re.escape(spec)}, now bm25"):
        run(experiment, tmp_path / "reranked")


def test_another_encoder_is_another_run(experiment, tmp_path, monkeypatch):
    verified = {"verifier": "emb", "answer_samples": 2}
    experiment = replace(experiment, method="airrag", parameters=verified, encoder="scripted")
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
    ("changes", "message"),
    [
        ({"retriever": "dens"}, "did you mean 'dense'"),
        ({"retriever": "dense", "index": None}, "--retriever dense is given without an index"),
        ({"retriever": "dense", "index": Path("@gold")}, "leave out --retriever dense"),
        ({"rerank": "bundled", "index": Path("@gold")}, "leave out --rerank bundled"),
        ({"rerank": "bundled", "index": None}, "leave --rerank out"),
        ({"rerank": "bundeld"}, "unknown reranker 'bundeld': did you mean 'bundled'"),
        ({"encoder": "scripted"}, "an encoder is given, but nothing uses it"),
        ({"encoder": "nowhere", "retriever": "dense"}, "unknown encoder 'nowhere'"),
        ({"limit": 3, "sample": 4}, "limit and sample both say which questions to ask"),
        ({"sample": 0}, "sample=0: input should be greater than or equal to 1"),
    ],
)
def test_flawed_experiments(experiment, changes, message):
    with pytest.raises(InputError, match=message):
        prepare_experiment(replace(experiment, **changes))


def test_cells_of_a_grid_take_what_they_ask(experiment, tmp_path):
    text = f"""
        index = "{experiment.index}"
        retriever = "dense"
        encoder = "scripted"
        datasets.few.questions = "{experiment.dataset}"
        models.fake.answer = "scripted"
        methods.closed_book = {{}}
        methods.single = {{}}
        methods.single-bm25 = {{ method = "single", retriever = "bm25" }}
        methods.airrag = {{ retriever = "bm25", set = {{ verifier = "emb" }} }}
    """
    ready = read_grid(write(tmp_path / "grid.toml", text)).prepare()
    found = {
        name.rpartition("/")[2]: (each.config["retriever"], each.config["encoder"], each.encoder is not None)
        for name, each in ready.items()
    }
    assert found == {
        "closed_book": ("dense", "scripted", False),
        "single": ("dense", "scripted", False),
        "single-bm25": ("bm25", None, False),
        "airrag": ("bm25", "scripted", True),
    }


def found(supporting_facts, query="anything", k=3, **options):
    texts = dataset_texts(Example(Question("q", "Why?"), (), supporting_facts=supporting_facts))
    hits = asyncio.run(DatasetRetriever(texts).search(query, k, **options))
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    return [(hit.passage.title, hit.passage.text) for hit in hits]


def test_the_gold_retriever_finds_the_supporting_facts_with_every_query():
    pisa = Paragraph("Pisa", "Pisa lies on the Arno.")
    bonn = Paragraph("Bonn", "Bonn lies on the Rhine. It is old.", ((0, 23),))
    mann = Paragraph("Mann", "He was born in Lübeck.", ((0, 22),))
    facts = SupportingFacts((mann, pisa, bonn))
    both = [("Mann", mann.text), ("Bonn", bonn.text)]
    assert (found(facts), found(facts, k=1), found(facts, "?!")) == (both, both[:1], [])
    (first,) = asyncio.run(DatasetRetriever(both).search("x", 1))
    assert found(facts, exclude=frozenset({first.passage.id})) == both[1:]
    untitled = SupportingFacts(facts=("Argon is a gas.", "Gases can't be chewed."))
    assert found(untitled) == [("", "Argon is a gas."), ("", "Gases can't be chewed.")]
    with pytest.raises(InputError, match="k=0"):
        found(facts, k=0)
    with pytest.raises(DatasetError, match="'q7' has no supporting paragraphs"):
        DatasetRetrievers((Example(Question("q7", "Why?"), ("because",)),))


def test_supplied_passages_in_place_of_an_index(tmp_path):
    first, second = {"title": "Bonn", "text": "Bonn lies on the Rhine."}, {"title": None, "text": "Old."}
    row = {"question": "Which river?", "answers": ["Rhine"], "ctxs": [first, second, {"text": " "}]}
    path = write(tmp_path / "own.jsonl", (row, {**row, "ctxs": [second]}))
    experiment = Experiment(
        dataset=f"jsonl:{path}", method="single", index=Path("@supplied"), models={"answer": "scripted"}
    )
    recorded = run(experiment, tmp_path / "run")
    searches = [
        [(hit.passage.title, hit.passage.text) for hit in event.hits]
        for number in (1, 2)
        for event in recorded.trace(recorded.records[number - 1])
        if isinstance(event, Searched)
    ]
    assert searches == [[("Bonn", "Bonn lies on the Rhine."), ("", "Old.")], [("", "Old.")]]
    assert recorded.settings.index_content.startswith("@supplied (selected questions: 2), ")
    fewer = (
        r"index content: @supplied \(selected questions: 2\), \w+, now @supplied \(selected questions: 1\)"
    )
    with pytest.raises(RunFolderError, match=fewer):
        run(replace(experiment, limit=1), tmp_path / "run")
    write(path, (row, {**row, "ctxs": None}))
    with pytest.raises(DatasetError, match=r"question '2' has no passages \(\"ctxs\" or .*--index @supplied"):
        run(experiment, tmp_path / "other")


def test_an_evaluation_shows_each_question_its_own_gold_and_knows_its_content(tmp_path):
    rows = [
        {
            "_id": town,
            "question": f"Which river flows through {town}?",
            "answer": river,
            "supporting_facts": [[town, 0]],
            "context": [[town, [f"{town} lies on the {river}."]], ["Ulm", ["Ulm is old."]]],
        }
        for town, river in TOWNS.items()
    ]
    path = write(tmp_path / "dev.json", rows)
    experiment = Experiment(
        dataset=f"hotpotqa:{path}", method="single", index=Path("@gold"), models={"answer": "scripted"}
    )
    before = run(experiment, tmp_path / "run")
    assert [record.scores["supporting_recall"] for record in before.records] == [1, 1, 1]
    assert before.settings.index_content.startswith("@gold ")
    rows[0]["context"][0][1] = ["Bonn lies on the river Rhine."]
    write(path, rows)
    assert run(experiment, tmp_path / "other").settings.index_content != before.settings.index_content
