"""`askance compare` and `askance report` as a user types them."""

import json

import pytest

from tests.evaluation.hand_made import record, written


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
    return tmp_path


def words(text):
    return " ".join(text.split())


def test_compare_shows_tables_per_dataset(run, runs):
    code, out, err = run("compare", runs / "a", runs / "b", runs / "c", "--questions", 2)
    assert (code, err) == (0, "")
    assert "jsonl:bridges.jsonl, 4 questions" in out
    assert "hotpotqa:dev.json, 1 question" in out
    assert "Difference in f1: run minus single" in out
    assert "dragin +0.500 −0.500 to +1.000 0.625 0.625 3 1 0" in words(out)
    assert "q2: Where �[31m?" in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 100


def test_compare_with_another_base(run, runs):
    for base in (runs / "b", "dragin"):
        _, out, _ = run("compare", runs / "a", runs / "b", "--base", base)
        assert "run minus dragin" in out
    code, out, err = run("compare", runs / "a", runs / "b", "--base", "dragon")
    assert (code, out) == (2, "")
    assert "unknown run 'dragon' in --base (and no such folder among the runs given): did you mean" in words(
        err
    )


def test_compare_as_json(run, runs):
    code, out, _ = run("compare", runs / "a", runs / "b", "--json", "--all-pairs")
    assert code == 0
    (only,) = json.loads(out)["datasets"]
    assert only["names"] == ["single", "dragin"]
    assert only["differences"][0]["p"] == 0.625
    assert only["summaries"][1]["metrics"]["f1"]["mean"] == 0.75


def test_compare_as_markdown(run, runs):
    code, out, _ = run("compare", runs / "a", runs / "b", "--markdown", "--questions", 4)
    assert code == 0
    assert out.startswith("## jsonl:bridges.jsonl, 4 questions\n\n**Results**\n\n| run | f1 |")
    assert "&lt;script>alert" in out
    assert "\x1b" not in out


def test_one_run_is_summarised(run, runs):
    code, out, _ = run("compare", runs / "a")
    assert code == 0
    assert "single 0.250 0.000–0.750" in words(out)
    assert "Difference" not in out


def test_prices(run, runs):
    prices = ["--price", "prompt=1", "--price", "generated=10", "--price", "currency=EUR"]
    code, out, _ = run("compare", runs / "a", *prices)
    assert code == 0
    assert "EUR per" in out
    assert "single 1.00 110 10 0 1.00 1.00 0.20" in words(out)


def test_settings_that_differ_are_told(run, runs):
    written(runs / "d", [record(1)], dataset="hotpotqa:x.json", title="flare", index_content="", index="")
    _, out, _ = run("compare", runs / "c", runs / "d")
    assert "index content: c0ffee, plain (single); none (flare)" in out


def test_an_unfinished_run(run, runs):
    written(runs / "d", [record(1)], dataset="hotpotqa:x.json", title="flare", num_questions=3)
    code, out, err = run("compare", runs / "c", runs / "d")
    assert (code, out) == (2, "")
    assert "is not finished (1 of 3 questions)" in words(err)
    code, out, _ = run("compare", runs / "c", runs / "d", "--common")
    assert code == 0
    assert "flare is unfinished: 1 of 3 questions." in out


@pytest.mark.parametrize(
    ("words_given", "expected"),
    [
        (["a", "a"], "is given more than once"),
        (["absent"], "absent holds no run"),
        (["a", "--metric", "f2"], "with --metric scores a run by another one): did you mean 'f1'"),
        (["a", "--json", "--markdown"], "exclude each other"),
        (["a", "--questions", "-1"], "--questions"),
        (["a", "--price", "prompt=1"], "no price for generated"),
        (["a", "--price", "prompt=x"], "parameter prompt='x' of the prices: expected float"),
        ([], "RUN"),
    ],
)
def test_bad_input_of_compare(run, runs, monkeypatch, words_given, expected):
    monkeypatch.chdir(runs)
    code, out, err = run("compare", *words_given)
    assert (code, out == "") == (2, "--json" not in words_given)
    assert expected in words(err)


def test_report_writes_a_page_of_its_own(run, runs):
    page = runs / "page.html"
    code, out, err = run("report", runs / "a", runs / "b", runs / "c", "--out", page)
    assert (code, err) == (0, "")
    assert words(out) == words(f"report: {page}")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "3 runs over 2 datasets" in text
    assert "run minus single" in text
    assert "Is &lt;script&gt;alert(1)&lt;/script&gt; it?" in text
    assert "<script" not in text
    assert "<h3>Outcomes</h3>" in text
    assert [path.name for path in runs.iterdir() if path.is_file()] == ["page.html"]


def test_report_of_a_run_that_goes_on(run, runs):
    written(runs / "d", [record(1)], dataset="hotpotqa:x.json", title="flare", num_questions=3)
    code, _, _ = run("report", runs / "d", "--out", runs / "page.html")
    assert code == 0
    assert "flare is unfinished: 1 of 3 questions." in (runs / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words_given", "expected"),
    [
        (["a", "--out", "absent/page.html"], "the folder absent does not exist"),
        (["a", "--out", "a"], "it is a folder"),
        (["absent", "--out", "page.html"], "absent holds no run"),
        (["a", "a", "--out", "page.html"], "is given more than once"),
        (["a"], "--out"),
    ],
)
def test_bad_input_of_report_writes_nothing(run, runs, monkeypatch, words_given, expected):
    monkeypatch.chdir(runs)
    code, out, err = run("report", *words_given)
    assert (code, out) == (2, "")
    assert expected in words(err)
    assert not (runs / "page.html").exists()


def test_a_place_that_cannot_be_written_is_told_before_the_runs_are_read(run, tmp_path):
    _, _, err = run("report", tmp_path / "no-run", "--out", tmp_path / "absent" / "page.html")
    assert "does not exist" in words(err)
    assert "holds no run" not in words(err)
