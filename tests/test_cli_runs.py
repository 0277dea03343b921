"""Finished runs on the command line: `compare`, `report`, `judge` and `export`."""

import json

import pytest

from askance.configuration.evaluation import read_dataset
from askance.core.answers import Answer, Citation
from askance.core.types import Passage
from askance.models.scripted import Reply, ScriptedModel
from tests.evaluation.datasets.test_files import FILES
from tests.evaluation.hand_made import answered, record, written

BONN = Passage("1", "Bonn", "Bonn is an old city.")


@pytest.fixture
def runs(tmp_path):
    """Two methods over the same four questions, and a run over another dataset."""
    texts = ["Who?", "Where \x1b[31m?", "When?", "Is <script>alert(1)</script> it?"]

    def records(values):
        made = enumerate(zip(texts, values, strict=True), start=1)
        return [record(number, {"f1": value}, question=text) for number, (text, value) in made]

    written(tmp_path / "a", records([0.0, 0.0, 0.0, 1.0]))
    written(tmp_path / "b", records([1.0, 1.0, 1.0, 0.0]), title="dragin", method="dragin")
    written(tmp_path / "c", [record(1)], dataset="hotpotqa:dev.json")
    unfinished = {"num_questions": 3, "index_content": "", "index": ""}
    written(tmp_path / "d", [record(1)], dataset="hotpotqa:x.json", title="flare", **unfinished)
    return tmp_path


def write_run(folder, dataset, answer, num_questions=1, **fields):
    """Write a run in which the first question of a dataset got an answer."""
    example = read_dataset(dataset)[0]
    fields |= {name: getattr(example, name) for name in ("golds", "kind", "supporting_titles")}
    kept = record(1, id=example.question.id, question=example.question.text, text=answer.text, **fields)
    written(folder, [kept], [answered(answer)], dataset=dataset, num_questions=num_questions)
    return folder


def write_long_answer(folder):
    """Write a run over ASQA, in which one of two questions is finished."""
    answer = Answer("Bonn is old.", "", (Citation(1, BONN, 0, 12),))
    return write_run(folder, f"asqa:{FILES / 'asqa.json'}", answer, 2, cited_titles=("Bonn",))


def write_biography(folder):
    return write_run(folder, f"biographies:{FILES / 'biographies.txt'}", Answer("She played."))


def lines(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def test_compare_shows_tables_per_dataset(run, runs):
    code, out, err = run("compare", runs / "a", runs / "b", runs / "c", "--questions", 2)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 100
    shown = " ".join(lines(out))
    for part in (
        "All datasets",
        "single 0.250 1.000* 0.625* – – –",
        "bridges.jsonl, 4 questions",
        "hotpotqa, 1 question",
        "Difference in f1: run minus single",
        "dragin +0.500 −0.600 to +0.987 0.625 0.625 3 1 0",
        "q2: Where �[31m?",
    ):
        assert part in shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("a", "single 0.250 0.006–0.806"),
        ("a b --base b", "run minus dragin"),
        ("a b --base dragin", "run minus dragin"),
        ("a --price prompt=1 --price generated=10 --price currency=EUR", "EUR per"),
        ("a --price prompt=1 --price generated=10", "single 1.00 – 110 10 1.00 1.00 0.20"),
        ("c d --common", "flare is unfinished: 1 of 3 questions."),
        ("c d --common", "index content: c0ffee, plain (single); none (flare)"),
        ("a b --markdown --questions 4", "## bridges.jsonl, 4 questions  **Results**  | run | f1 |"),
        ("a b --markdown --questions 4", "&lt;script>alert"),
    ],
)
def test_compare_with_options(run, runs, monkeypatch, words, told):
    monkeypatch.chdir(runs)
    code, out, _ = run(f"compare {words}")
    assert (code, "\x1b" in out, "Difference" in out) == (0, False, len(words.split("--")[0].split()) == 2)
    assert told in " ".join(lines(out))


def test_compare_as_json(run, runs):
    (only,) = json.loads(run("compare", runs / "a", runs / "b", "--json", "--all-pairs")[1])["datasets"]
    assert only["names"] == ["single", "dragin"]
    assert only["differences"][0]["p"] == 0.625
    assert only["summaries"][1]["metrics"]["f1"]["mean"] == 0.75


def test_compare_for_papers_and_spreadsheets(run, runs):
    tables = run("compare", runs / "a", runs / "b", runs / "c", "--latex")[1]
    assert tables.startswith("% All datasets\n\n\\begin{table}")
    assert tables.count(r"\toprule") == tables.count(r"\end{tabular}") == 6
    head, *rows = run("compare", runs / "a", runs / "b", "--csv")[1].splitlines()
    assert head.startswith("dataset,run,metric,mean,low,high,num_questions,")
    assert [row.split(",")[:4] for row in rows] == [
        ["bridges.jsonl", "single", "f1", "0.25"],
        ["bridges.jsonl", "dragin", "f1", "0.75"],
    ]


def test_a_report_is_a_page_without_scripts(run, runs):
    page = runs / "page.html"
    code, out, err = run("report", *(runs / name for name in "abc"), "--out", page)
    assert (code, err, "".join(out.split())) == (0, "", f"report:{page}")
    text = page.read_text(encoding="utf-8")
    assert (text.startswith("<!doctype html>"), "<script" in text) == (True, False)
    for part in (
        "3 runs over 2 datasets",
        "run minus single",
        "Is &lt;script&gt;alert(1)&lt;/script&gt; it?",
        "<h3>Outcomes</h3>",
    ):
        assert part in text
    assert [path.name for path in runs.iterdir() if path.is_file()] == ["page.html"]
    assert run("report", runs / "d", "--out", page)[0] == 0
    assert "flare is unfinished: 1 of 3 questions." in page.read_text(encoding="utf-8")


def test_judge_the_citations(run, tmp_path):
    folder = write_long_answer(tmp_path / "long")
    code, out, _ = run("judge", folder, "--citations", "scripted", columns=300)
    (file,) = (folder / "judged").glob("citations-*.json")
    assert (code, lines(out)) == (
        0,
        [
            "single citations by scripted, 1 answers",
            "metric mean 95 % interval questions",
            "nli_citation_recall 1.000 0.025 to 1.000 1",
            "nli_citation_precision 1.000 0.025 to 1.000 1",
            f"judged: {file}",
            "unfinished: 1 of 2 questions",
        ],
    )


def test_judge_by_mauve(run, tmp_path):
    pytest.importorskip("sklearn")
    folder = write_long_answer(tmp_path / "long")
    code, out, _ = run("judge", folder, "--mauve", "scripted", columns=300)
    (file,) = (folder / "judged").glob("mauve-*.json")
    head, columns, *_, judged, _ = lines(out)
    assert (code, head, judged) == (0, "single mauve by scripted, 1 answers", f"judged: {file}")
    assert columns == "metric mean range of 5 clusterings questions"
    both = json.loads(run("judge", folder, "--mauve", "scripted", "--citations", "scripted", "--json")[1])
    assert [each["kind"] for each in both["runs"][0]["judged"]] == ["citations", "mauve"]
    assert both["runs"][0]["judged"][1]["scores"] == json.loads(file.read_text())["scores"]


def test_judge_the_facts_of_several_runs(run, tmp_path, sample_index, monkeypatch):
    def reply(self, shown, key):
        return Reply("- Radium was found." if key[2] == "split" else "true")

    monkeypatch.setattr(ScriptedModel, "_reply", reply)
    life, long = write_biography(tmp_path / "life"), write_long_answer(tmp_path / "long")
    given = ("--facts", "scripted", "--index", sample_index, "--gamma", 0, "--json")
    first, second = json.loads(run("judge", life, long, *given)[1])["runs"]
    assert (first["run"], second["run"]) == (str(life), str(long))
    (judged,) = first["judged"]
    assert (judged["kind"], judged["judge"]["judge"]) == ("facts", "scripted")
    assert judged["scores"]["factscore"]["mean"] == 1
    out = run("judge", long, *given, "--citations", "scripted")[1]
    assert [each["kind"] for each in json.loads(out)["runs"][0]["judged"]] == ["citations", "facts"]


def test_a_file_of_the_configuration_is_not_blamed_for_an_option(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_long_answer(tmp_path / "long")
    (tmp_path / "askance.toml").write_text("index = 'mine'\nmodel = 'scripted'\ncache = 'kept.sqlite'\n")
    _, _, err = run("judge long --facts scripted --index absent")
    assert err.startswith("error: the index absent")
    assert run("judge long --citations scripted --config askance.toml")[0] == 0


def test_export_the_answers_for_the_scripts_of_the_papers(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_long_answer(tmp_path / "long")
    write_biography(tmp_path / "life")
    assert run("export alce long --out alce.json")[:2] == (0, "1 of 2 questions: alce.json\n")
    (item,) = json.loads((tmp_path / "alce.json").read_text())["data"]
    assert (item["sample_id"], item["output"]) == ("-3", "Bonn is old [1].")
    again = f"export alce long --dataset 'asqa:{FILES / 'asqa.json'}' --out alce.json"
    code, _, err = run(again, columns=300)
    assert (code, "it exists already" in err) == (2, True)
    assert run("export trec long --qrels --out long.qrels")[:2] == (0, "1 of 2 questions: long.qrels\n")
    assert {line.split()[0] for line in (tmp_path / "long.qrels").read_text().splitlines()} == {"-3"}
    assert run("export factscore life --out lives.jsonl")[:2] == (0, "1 questions: lives.jsonl\n")
    assert json.loads((tmp_path / "lives.jsonl").read_text())["topic"] == "Clara Schumann"


def test_people_judge_a_run_on_a_sheet(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_long_answer(tmp_path / "long")
    code, out, _ = run("export sheet long --out ann.csv")
    assert (code, lines(out)) == (0, ["1 of 2 questions: ann.csv"])
    blank = (tmp_path / "ann.csv").read_text()
    (tmp_path / "ann.csv").write_text(blank.replace(",,,,,,", ",,,yes,yes,,"))
    (tmp_path / "bob.csv").write_text(blank.replace(",,,,,,", ",,,yes,no,,"))
    before = sorted(tmp_path.rglob("*"))
    code, out, _ = run("judge long --sheet ann.csv --sheet bob.csv", columns=200)
    assert code == 0
    assert "plausible_and_supported 1.000 0.025 to 1.000 1" in lines(out)
    assert "plausible_and_supported 0.000 0.000 to 0.975 1" in lines(out)
    assert "supported 0.000 1" in lines(out), "the agreement of both"
    shown = json.loads(run("judge long --sheet ann.csv --json")[1])
    assert shown["sheets"]["ann.csv"]["supported"]["mean"] == 1.0
    assert sorted(tmp_path.rglob("*")) == before
    code, _, err = run("judge long --sheet ann.csv --sheet ann.csv")
    assert (code, "is given twice: give that of another person" in err) == (2, True)
