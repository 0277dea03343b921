"""Results that papers print, as they print them."""

import re

from askance.evaluation.judging.judge_run import JudgedAnswer, stored
from askance.evaluation.papers import AVERAGE, PAPERS, read_paper
from askance.evaluation.report.published import caveats, published, rows_by_source
from askance.evaluation.statistics.compare import MeanInterval
from askance.evaluation.statistics.run_groups import group_runs
from askance.evaluation.statistics.summaries import summarise
from tests.evaluation.hand_made import record, run_of
from tests.tolerances import near

TABLES = [table for name in PAPERS for table in read_paper(name).tables.values()]
DATASETS = sorted({name for table in TABLES for name in table.datasets})
ROWS = [row for dataset in DATASETS for row in published(dataset)]


def row(dataset, method, model, table="Table 2"):
    (found,) = (
        each
        for each in published(dataset)
        if (each.method, each.model) == (method, model) and each.table.startswith(table)
    )
    return found


def test_rows_as_printed():
    found = row("hotpotqa", "DRAGIN", "Llama2-13b-chat")
    assert (found.arxiv, found.num_questions, found.counterpart) == ("2403.10081", 1000, "dragin_paper")
    assert found.scores == {"exact_match": 0.314, "f1": 0.4238, "searches": 3.505}
    assert row("strategyqa", "wo-RAG", "Vicuna-13b-v1.5").scores == {"yes_no_accuracy": 0.682}
    assert row("iirc", "FLARE", "Vicuna-13b-v1.5").scores["searches"] == 0.335
    assert row("popqa", "Self-RAG", "Self-RAG 13B").scores == {"match": near(0.558)}
    assert row("arc", "Self-RAG", "Self-RAG 7B").scores == {"choice_accuracy": near(0.673)}
    found = row("asqa", "no retrieval", "Alpaca 7B")
    assert found.scores == {"str_em": near(0.188), "rouge_lsum": near(0.294), "mauve": near(0.617)}
    found = row("musique", "AirRAG, 8k", "Qwen2.5-14B-Instruct", "Table 1")
    assert found.scores == {"f1": near(0.41), "accuracy": near(0.35)}, "percentages become shares"
    assert found.corpus.startswith("one million documents")
    assert row("musique", "AirRAG-Lite, 8k", "Qwen2.5-14B-Instruct", "Table 1").counterpart == "airrag_lite"


def test_the_rows_of_the_other_tables_as_printed():
    """Precision, judged numbers, and rows that can't be run."""
    found = row("iirc", "DRAGIN", "Vicuna-13b-v1.5", "Table 4")
    assert found.scores == {"exact_match": 0.196, "f1": 0.2367, "precision": 0.2476}
    found = row("2wikimultihopqa", "DRAGIN, θ = 0.9", "Llama2-13b-chat", "Table 5")
    assert found.scores == {"exact_match": 0.301, "f1": 0.3944, "precision": 0.3947}
    found = row("hotpotqa", "Full Context", "Llama2-13b-chat", "Table 6")
    assert found.scores == {"exact_match": 0.252, "f1": 0.3584, "precision": 0.3711}
    found = row("hotpotqa", "DRAGIN, SGPT", "Llama2-13b-chat", "Table 7")
    assert found.scores == {"exact_match": 0.264, "f1": 0.371, "precision": 0.388}
    assert row("webquestions", "AirRAG", "Llama-3-8B-Instruct", "Table 5").scores == {
        "exact_match": near(0.526)
    }
    for method, counterpart in {"Iter-RetGen": "iter_retgen", "Auto-RAG": "auto_rag", "Self-RAG": ""}.items():
        assert row("nq", method, "Llama-3-8B-Instruct", "Table 5").counterpart == counterpart
    assert row("biographies", "no retrieval", "CoVE 65B").scores == {"factscore": near(0.712)}
    assert row("biographies", "no retrieval", "CoVE 65B").source.endswith(", Contriever-MSMARCO")
    assert row("biographies", "web search", "Perplexity.ai").scores == {"factscore": near(0.712)}
    found = row("asqa", "Self-RAG", "Self-RAG 7B").scores
    judged = [found[name] for name in ("mauve", "nli_citation_precision", "nli_citation_recall")]
    assert judged == [near(0.743), near(0.669), near(0.678)]


def test_the_counterparts_of_the_dragin_paper():
    """The variants of its other tables are parameters of one method."""
    main, *others = (table.rows for table in read_paper("dragin").tables.values())
    assert {each.name: (each.method, each.authors["method"]) for each in main} == {
        "wo-RAG": ("closed_book", "closed_book_authors"),
        "SR-RAG": ("single", "single_authors"),
        "FL-RAG": ("fixed_length", "fixed_length_authors"),
        "FS-RAG": ("fixed_sentence", "fixed_sentence_authors"),
        "FLARE": ("flare", "flare_token"),
        "DRAGIN": ("dragin_paper", "dragin_authors"),
    }
    variants = [each for rows in others for each in rows]
    assert {(each.method, each.authors["method"]) for each in variants} == {
        ("dragin_paper", "dragin_authors")
    }
    shown = {each.method: each.counterpart for each in ROWS if each.table.startswith("Table 2; searches")}
    assert shown == {each.name: each.method for each in main}


def test_judged_numbers_stand_beside_the_judged_ones_of_a_run(tmp_path):
    run = run_of([record(1, {"f1": 1.0})], tmp_path, dataset="biographies:x.txt")
    means = {"factscore": MeanInterval(0.25, 0.1, 0.5, 1), "f1": MeanInterval(0.99, 0.9, 1, 1)}
    stored(JudgedAnswer("facts", {"judge": "hf:x"}, str(tmp_path / "judged" / "facts-0.json"), 1, means), run)
    (group,) = group_runs([run])
    (ours,) = next(iter(rows_by_source(group, [summarise(run)]).values()))
    assert (ours.scores["factscore"], ours.scores["f1"]) == (0.25, 1.0), "f1 is what was measured"
    assert ours.source.startswith("This report, facts judged by hf:x\n")


def test_the_averages_of_table_1_of_airrag_come_out():
    datasets = ("hotpotqa", "musique", "2wikimultihopqa")
    rows = [row(name, "AirRAG-Blender, 8k", "Qwen2.5-14B-Instruct", "Table 1") for name in datasets]
    assert sum(each.scores["f1"] for each in rows) / 3 == near(0.683, "as told", "3 decimals")
    assert sum(each.scores["accuracy"] for each in rows) / 3 == near(0.660, "as told", "3 decimals")


def test_the_printed_averages_are_those_of_the_printed_cells():
    """Except for one that the table's note names."""
    table = read_paper("airrag").tables["1"]
    assert any("62.2" in note for note in table.notes)
    assert table.columns[-1].dataset == AVERAGE
    for each in table.rows:
        (cells,) = each.printed.values()
        for place, printed in enumerate(cells[-1]):
            tenths = round(10 * sum(cell[place] for cell in cells[:-1]) / 3)
            is_printed = tenths - round(10 * printed) in (-1, 0, 1)
            assert is_printed == (printed != 62.2), each.name


def test_every_row_can_be_true():
    assert len({(row.table, row.arxiv, row.dataset, row.model, row.method) for row in ROWS}) == len(ROWS)
    for each in ROWS:
        shares = {name: value for name, value in each.scores.items() if name != "searches"}
        assert shares
        assert all(0 < value < 1 for value in shares.values())
        assert 0 <= each.scores.get("searches", 0) < 10
        assert re.fullmatch(r"\d{4}\.\d{5}", each.arxiv)
        assert each.corpus
        if "exact_match" in shares and "f1" in shares:
            assert shares["exact_match"] < shares["f1"]


def test_caveats_go_with_the_dataset():
    slip = [caveat for caveat in caveats("2wikimultihopqa") if "slip" in caveat]
    assert len(slip) == 1
    assert slip[0].startswith("Su et al. 2024, DRAGIN, Table 2; searches: Table 3: The wo-RAG rows")
    assert not [caveat for caveat in caveats("hotpotqa") if "slip" in caveat]
    with_match = [dataset for dataset in DATASETS if any("Match:" in each for each in caveats(dataset))]
    assert with_match == ["popqa", "triviaqa"]
    assert caveats("sample") == published("sample") == ()
