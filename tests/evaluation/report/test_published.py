"""Results that papers print, as they print them."""

import re
import tomllib
from pathlib import Path

from askance.configuration.catalogue import METHODS
from askance.configuration.methods import make_method
from askance.core.extensions import LABORATORY
from askance.evaluation.report import published as module
from askance.evaluation.report.published import caveats, published
from tests.laboratory import usable
from tests.tolerances import near

PAPERS = tomllib.loads(Path(module.__file__).with_name("published.toml").read_text(encoding="utf-8"))
DATASETS = sorted({results["dataset"] for paper in PAPERS.values() for results in paper["results"]})
ROWS = [row for dataset in DATASETS for row in published(dataset)]


def row(dataset, method, model="in the name"):
    (found,) = (each for each in published(dataset) if (each.method, each.model) == (method, model))
    return found


def test_rows_as_printed():
    found = row("hotpotqa", "DRAGIN", "Llama2-13b-chat")
    assert (found.arxiv, found.num_questions, found.counterpart) == ("2403.10081", 1000, "dragin_paper")
    assert found.scores == {"exact_match": 0.314, "f1": 0.4238, "searches": 3.505}
    assert row("strategyqa", "wo-RAG", "Vicuna-13b-v1.5").scores == {"yes_no_accuracy": 0.682}
    assert row("iirc", "FLARE", "Vicuna-13b-v1.5").scores["searches"] == 0.335
    assert row("popqa", "Self-RAG 13B").scores == {"match": near(0.558)}
    assert row("arc", "Self-RAG 7B").scores == {"choice_accuracy": near(0.673)}
    assert row("asqa", "Alpaca 7B").scores == {"str_em": near(0.188), "rouge_lsum": near(0.294)}
    found = row("musique", "AirRAG, 8k", "Qwen2.5-14B-Instruct")
    assert found.scores == {"f1": near(0.41), "accuracy": near(0.35)}, "percentages become shares"
    assert found.corpus.startswith("one million documents")


def test_the_averages_of_table_1_of_airrag_come_out():
    datasets = ("hotpotqa", "musique", "2wikimultihopqa")
    rows = [row(dataset, "AirRAG-Blender, 8k", "Qwen2.5-14B-Instruct") for dataset in datasets]
    assert sum(each.scores["f1"] for each in rows) / 3 == near(0.683, "as told", "3 decimals")
    assert sum(each.scores["accuracy"] for each in rows) / 3 == near(0.660, "as told", "3 decimals")


def test_every_row_can_be_true():
    assert len({(row.table, row.dataset, row.model, row.method) for row in ROWS}) == len(ROWS)
    for each in ROWS:
        shares = {name: value for name, value in each.scores.items() if name != "searches"}
        assert shares
        assert all(0 < value < 1 for value in shares.values())
        assert 0 <= each.scores.get("searches", 0) < 10
        assert re.fullmatch(r"\d{4}\.\d{5}", each.arxiv)
        assert each.corpus
        if "exact_match" in shares and "f1" in shares:
            assert shares["exact_match"] < shares["f1"]


def test_counterparts_are_methods_and_named_as_printed_somewhere():
    for paper in PAPERS.values():
        printed = {row[0] for results in paper["results"] for row in results["rows"]}
        assert set(paper["methods"]) <= printed
        assert {*paper["methods"].values()} <= {*METHODS, *LABORATORY["methods"]}
    counterparts = {each.counterpart for each in ROWS if each.arxiv == "2403.10081"}
    of_authors = {"closed_book", "single", "fixed_length", "fixed_sentence"}
    assert counterparts == {f"{name}_authors" for name in of_authors} | {"flare_token", "dragin_paper"}
    assert all(make_method(counterpart) for counterpart in usable(*counterparts))


def test_caveats_go_with_the_dataset():
    slip = [caveat for caveat in caveats("2wikimultihopqa") if "slip" in caveat]
    assert len(slip) == 1
    assert slip[0].startswith("Su et al. 2024, DRAGIN, Table 2; searches: Table 3: The wo-RAG rows")
    assert not [caveat for caveat in caveats("hotpotqa") if "slip" in caveat]
    with_match = [dataset for dataset in DATASETS if any("Match:" in each for each in caveats(dataset))]
    assert with_match == ["popqa", "triviaqa"]
    assert caveats("sample") == published("sample") == ()
