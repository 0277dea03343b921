"""Tables and figures of papers: every row runs or says why not, and no printed number is without a place."""

import re

import pytest

from askance.configuration.catalogue import METHODS
from askance.configuration.methods import make_method
from askance.configuration.presets import open_preset, shipped
from askance.configuration.reproduction import Reproduction, rows_of, with_values
from askance.core.extensions import LABORATORY
from askance.core.trace import Expanded, Trace
from askance.evaluation.papers import (
    CANDIDATES,
    COUNTS,
    PAPERS,
    Axis,
    Column,
    PaperRow,
    PaperTable,
    read_paper,
)
from askance.evaluation.report.paper_tables import ModelTable, UsedModel, figure_files, result_table
from tests.evaluation.datasets.test_files import FILES
from tests.evaluation.hand_made import record, written
from tests.laboratory import usable

TABLES = [(paper, number) for paper in PAPERS for number in read_paper(paper).tables]


@pytest.mark.parametrize(("name", "number"), TABLES)
def test_every_row_can_be_run_or_says_why_not(name, number):
    """Its method, with the preset and the parameters of its table, can be made for each model and dataset."""
    paper = read_paper(name)
    table = paper.tables[number]
    assert "retriever" in paper.settings, "no default of askance decides"
    for row in rows_of(table, authors=True):
        assert bool(row.method) != bool(row.absent)
        assert row.absent or row.calls
        assert row.printed or table.axis
        for model in row.printed or table.models if usable(row.method) else ():
            for dataset in table.datasets:
                preset = table.preset.format(model=model.lower(), dataset=dataset)
                make_method(row.method, row.set, model="scripted", preset=preset)
        assert not row.method or row.method in {*METHODS, *LABORATORY["methods"]}


@pytest.mark.parametrize(("name", "number"), TABLES)
def test_no_two_cells_share_a_run_and_only_named_ones_have_none(name, number, sample_index):
    paper = read_paper(name)
    table = paper.tables[number]
    official = {each: f"{each}:{FILES / each}.json" for each in ("hotpotqa", "iirc", "strategyqa")}
    official["2wikimultihopqa"] = f"2wikimultihopqa:{FILES / '2wikimultihopqa.json'}"
    datasets = dict.fromkeys(table.datasets, "sample") | official
    settings = {"index": str(sample_index), "retriever": "bm25"}
    for label in table.models:
        models = (UsedModel(label, "scripted"),)
        job = Reproduction(paper=paper, datasets=datasets, models=models, settings=settings)
        (filled,) = job.tables_by_model({number: table})
        ready, names = job.prepare([filled]), filled.experiments.values()
        assert len(set(names)) == len(names), "each cell has settings of its own"
        assert {*names} == ready.keys()
        absent = {row.name for row in table.rows if row.absent or row.encoder} | {"AirRAG, verifier=emb"}
        assert {row for cells in filled.remarks.values() for row, _ in cells} <= absent


def test_models_whose_names_no_folder_can_have_get_folders_of_their_own(sample_index):
    long = "x" * 200
    names = ("a/b", "a-b", "模型甲", "模型乙", f"{long}y", f"{long}z", f"y{long}")
    job = Reproduction(
        paper=read_paper("dragin"),
        datasets={"hotpotqa": f"hotpotqa:{FILES / 'hotpotqa.json'}"},
        models=tuple(UsedModel("", f"scripted:{name}") for name in names),
        settings={"index": str(sample_index)},
    )
    tables = job.tables_by_model({"6": job.paper.tables["6"]})
    ready = job.prepare(tables)
    assert not any(each.remarks for each in tables)
    folders = {name.split("/")[1] for name in ready}
    assert len(folders) == len(names)
    assert max(map(len, folders)) <= 150
    assert all(folder.startswith("scripted-") for folder in folders)


@pytest.mark.parametrize(("option", "asked"), [("", ["2"]), ("?popularity<1000", ["1", "2"])])
def test_self_rag_is_asked_the_long_tail_of_popqa_unless_the_user_says_otherwise(
    option, asked, sample_index, tmp_path
):
    rows = [("1", "100"), ("2", "99"), ("3", "1000")]
    lines = [f'{id}\tcountry\t{views}\tWhere is {id}?\t"[""Germany""]"' for id, views in rows]
    head = "id\tprop\ts_pop\tquestion\tpossible_answers"
    (tmp_path / "popqa.tsv").write_text("\n".join([head, *lines]))
    job = Reproduction(
        paper=read_paper("selfrag"),
        datasets={"popqa": f"popqa:{tmp_path / 'popqa.tsv'}{option}"},
        models=(UsedModel("", "scripted"),),
        settings={"index": str(sample_index), "retriever": "bm25"},
    )
    ready = job.prepare(job.tables_by_model({"2": read_paper("selfrag").tables["2"]}))
    found = [[each.question.id for each in one.questions.values()] for one in ready.values()]
    assert found == [asked] * 3


def test_the_presets_have_the_printed_hyper_parameters():
    """Table 9 of DRAGIN: 4 lengths and, for each of 3 models, 4 thresholds and 4 numbers of words."""
    table = read_paper("dragin").tables["9"]
    names = [heading.lower() for heading in table.headings[1:]]
    for name, *values in table.facts:
        model, _, parameter = name.rpartition(", ")
        for dataset, value in zip(names, values, strict=True):
            for each in [model] if model else table_models():
                made = make_method("dragin_paper", preset=f"dragin/{each.lower()}/{dataset}")
                assert str(getattr(made, parameter)) == value


def table_models():
    return read_paper("dragin").tables["2"].models


def test_the_rows_of_airrag_have_no_worked_examples_that_airrag_lacks():
    table = read_paper("airrag").tables["1"]
    zero_shot, vanilla = (row for row in table.rows if row.name in ("ZeroShot QA, 8k", "Vanilla RAG, 8k"))
    made = make_method(zero_shot.method, zero_shot.set, preset=table.preset)
    assert not made.needs.retriever
    assert not make_method(vanilla.method, vanilla.set, preset=table.preset).prompts.demos


@pytest.mark.parametrize("dataset", read_paper("selfrag").tables["2"].datasets)
def test_the_baselines_of_self_rag_have_no_worked_examples(dataset):
    table = read_paper("selfrag").tables["2"]
    baselines = [row for row in table.rows if row.name in ("no retrieval", "retrieval")]
    preset = table.preset.format(dataset=dataset)
    made = [make_method(row.method, row.set, preset=preset) for row in baselines]
    assert [(one.prompts.name, one.prompts.demos) for one in made] == [("plain", ())] * 2


COLUMN = Column(dataset="hotpotqa", metrics=("f1", "exact_match"))
AXIS = {"parameter": "passages", "label": "k", "values": (1, 3)}
FLAWED = [
    ({"name": "x"}, "give a method, or the reason"),
    ({"name": "x", "method": "single", "absent": "because"}, "give a method, or the reason"),
    ({"name": "x", "method": "single", "printed": {"m": ((1.0,), (2.0,))}}, "does not fit the columns"),
    ({"name": "x", "method": "single", "printed": {"m": ((1.0, 2.0, 3.0),)}}, "does not fit the columns"),
    ({"name": "x", "method": "single", "printed": {"other": ((1.0,),)}}, "other is no model of the table"),
    ({"name": "x", "method": "single", "prnted": {}}, "prnted"),
]


@pytest.mark.parametrize(("row", "message"), FLAWED, ids=range(len(FLAWED)))
def test_a_printed_number_without_a_place_is_refused(row, message):
    with pytest.raises(ValueError, match=message):
        PaperTable(title="Table 1", about="", models=("m",), columns=(COLUMN,), rows=(PaperRow(**row),))


def test_a_figure_has_a_row_for_each_point_of_each_curve():
    rows = (
        PaperRow(name="Vanilla", method="single", set={"l_max": 512}),
        PaperRow(name="AirRAG", method="airrag"),
    )
    figure = PaperTable(title="Figure 1", about="", columns=(COLUMN,), rows=rows, axis=Axis(**AXIS))
    found = [(row.name, row.series, row.at, row.set) for row in rows_of(figure, authors=False)]
    assert found[:2] == [
        ("Vanilla, passages=1", "Vanilla", 1, {"l_max": 512, "passages": 1}),
        ("Vanilla, passages=3", "Vanilla", 3, {"l_max": 512, "passages": 3}),
    ]
    assert [name for name, *_ in found[2:]] == ["AirRAG, passages=1", "AirRAG, passages=3"]
    (changed,) = with_values({"1": figure}, ["passages=2,5,2"]).values()
    assert [row.set["passages"] for row in rows_of(changed, authors=False)] == ["2", "5"] * 2


def tree(*ends):
    """The trace of a search whose paths ended in these answers: (action, answer, visits, rejected)."""
    trace = Trace()
    for number, (action, text, visits, rejected) in enumerate(ends, start=1):
        numbers = {"visits": visits, "reward": 0.5}
        trace.add(Expanded, node=f"0.{number}", action=action, text=text, numbers=numbers, rejected=rejected)
    trace.add(Expanded, node="0.9", action="ra", text="x → y", numbers={"visits": 1.0})
    return trace


def test_the_counts_and_candidates_of_a_tree(tmp_path):
    """The best candidate is taken. Direct answers, refusals and unvisited ends are no rollouts."""
    trace = tree(
        ("sa", "Bonn in Germany", 1.0, ""), ("sa", "Rome", 2.0, ""), ("sa", "Oslo", 0.0, ""),
        ("sa", "unknown", 1.0, "it says that there is no answer"), ("da", "Riga", 1.0, ""),
    )  # fmt: skip
    column = Column(dataset="hotpotqa", metrics=("accuracy", *COUNTS, *CANDIDATES))
    row = PaperRow(name="AirRAG", method="airrag")
    table = PaperTable(title="Figure 5", about="", columns=(column,), rows=(row,))
    run = written(tmp_path / "run", [record(1, {"accuracy": 0.0}, text="Rome", short="Rome")], [trace])
    alone = written(tmp_path / "none", [record(1, {"accuracy": 1.0})], [tree()])
    means = []
    for each in (run, alone):
        filled = ModelTable(table, UsedModel("", "scripted"), [(row, "")])
        filled.runs[row.name, "hotpotqa"] = each
        _, numbers = result_table(read_paper("airrag"), filled)
        means.append({cell["metric"]: cell["mean"] for cell in numbers})
        assert [cell["low"] == cell["high"] for cell in numbers] == [False, True, True, True, False, False]
    assert means[0] == {
        "accuracy": 0, "searches": 1, "tokens": 110, "valid_rollouts": 2, "candidate_accuracy": 0.25,
        "best_candidate_accuracy": 1,
    }  # fmt: skip
    assert (means[1]["valid_rollouts"], *(means[1][name] for name in CANDIDATES)) == (0, 1, 1)


def test_a_picture_keeps_the_order_of_the_axis():
    """Also if the first curve lacks a point, as after a run that stopped. Tables have no pictures."""
    ends = {"low": 0.25, "high": 0.75, "num_questions": 4, "model": "hf:A/b", "dataset": "average"}
    rows = [
        {"table": table, "axis": axis, "metric": "f1", "series": series, "at": at, "mean": mean, **ends}
        for table, axis in (("Figure 1", "passages"), ("Figure 2", "l_max"), ("Table 1", ""))
        for series, means in (("AirRAG", (0.5, None, 0.5)), ("Vanilla", (0.25, 0.75, 0.5)))
        for at, mean in zip((1, 5, "none"), means, strict=True)
        if table != "Figure 2" or (at == 5 and mean is None)
    ]
    ((name, svg),) = figure_files(rows)
    assert name == "figure-1-average-hf-a-b.svg"
    texts = re.findall(r">([^<>]+)</text>", svg)
    assert [text for text in texts if text in {"1", "5", "none"}] == ["1", "5", "none"]
    assert {"passages", "f1", "AirRAG", "Vanilla"} <= {*texts}


def test_every_preset_that_a_table_names_exists():
    named = {
        table.preset.format(model=model.lower(), dataset=dataset)
        for paper in map(read_paper, PAPERS)
        for table in paper.tables.values()
        for model in table.models
        for dataset in table.datasets
    }
    assert {open_preset(name).name for name in named} == named
    of_papers = {name for name in shipped() if name.partition("/")[0] in PAPERS}
    assert of_papers == named, "and every preset of a paper has a table"
