import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from markupsafe import escape

from askance.core.answers import Usage
from askance.evaluation.report.charts import curves_of, risk_chart
from askance.evaluation.report.published import caveats, published
from askance.evaluation.statistics.paired_runs import compare_group
from askance.evaluation.statistics.run_groups import group_runs
from askance.viewer.report_page import MOST_FAILURES, Reported, report_page
from tests.evaluation.hand_made import record, run_of

EVIL = '<script>alert("x")</script> & \x1b[31m'
VOID = {"meta", "link", "br"}


class Balanced(HTMLParser):
    """Fails where an element is not closed; collects elements and the text of each kind."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.attributes = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page_of(*runs, common=False, **choice):
    groups = group_runs(runs, common=common)
    return report_page([Reported(group, compare_group(group, **choice)) for group in groups], "2026-11-21")


def run(name, values, folder, **fields):
    usages = [Usage(prompt_tokens=100 * len(name), searches=number % 3) for number in range(len(values))]
    made = [
        record(number, {"f1": value}, usage=usage, kind=("bridge", "comparison")[number % 2])
        for number, (value, usage) in enumerate(zip(values, usages, strict=True), start=1)
    ]
    return run_of(made, f"runs/{folder}", title=name, **fields)


@pytest.fixture
def runs():
    return [run("single", [0.0, 1.0, 0.5], "a"), run("dragin", [1.0, 1.0, 0.0], "b")]


def test_the_parts_of_a_section(runs):
    text = page_of(*runs, num_questions=2)
    assert re.findall(r"<h3>(.*?)</h3>", text) == [
        "Runs",
        "Results",
        "Cost",
        "Searches per question",
        "Differences between runs",
        "By kind and number of hops",
        "Questions that differ most",
    ]
    assert "2 runs over 1 dataset; written on 2026-11-21 by askance" in text
    assert "<svg" in text
    assert "Versions: python 3.11.9." in text


def test_the_page_is_whole_and_needs_nothing_from_elsewhere(runs):
    page = Balanced(page_of(*runs, num_questions=2))
    assert not {"script", "img", "iframe"} & set(page.seen)
    sources = [value for _, name, value in page.attributes if name in ("src", "href")]
    assert all(value.startswith("#") or value == "data:," for value in sources)
    assert "://" not in page_of(*runs)
    assert "@import" not in page_of(*runs)
    assert "url(" not in page_of(*runs)


def test_the_policy_of_the_page_allows_no_script(runs):
    page = Balanced(page_of(*runs))
    (policy,) = (value for _, _, value in page.attributes if value and value.startswith("default-src"))
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    assert "script" not in policy


def test_tables_and_charts_can_be_read_aloud(runs):
    page = Balanced(page_of(*runs))
    scopes = {value for tag, name, value in page.attributes if (tag, name) == ("th", "scope")}
    assert scopes == {"col", "row", "rowgroup"}
    heads = [tag for tag, name, _ in page.attributes if (tag, name) == ("th", "scope")]
    assert len(heads) == page.seen.count("th")
    assert page.seen.count("caption") == page.seen.count("table")
    assert page.seen.count("svg") == sum(
        value == "img" for _, name, value in page.attributes if name == "role"
    )


def test_questions_and_answers_are_text_and_nothing_else():
    evil = record(1, {"f1": 0.0}, id=EVIL, question=EVIL, golds=(EVIL,), short=EVIL, text=EVIL, kind=EVIL)
    broken = record(2, {"f1": 0.0}, error=EVIL, short="")
    other = [replace(evil, scores={"f1": 1.0}, error=""), broken]
    fields = {"models": {"answer": EVIL}, "index": EVIL, "machine": EVIL, "dataset": f"jsonl:{EVIL}"}
    text = page_of(
        run_of([evil, broken], "runs/a", title=EVIL, **fields),
        run_of(other, "runs/b", title="b", **fields),
        num_questions=3,
    )
    page = Balanced(text)
    assert "script" not in page.seen
    assert "\x1b" not in text
    assert text.count("&lt;script&gt;alert") > 10


def test_what_is_not_whole_is_marked():
    whole = run("single", [1.0, 0.0, 1.0], "a")
    unfinished = run("dragin", [1.0, 0.0], "b", num_questions=3)
    text = page_of(whole, unfinished, common=True)
    assert '<p class="remark">dragin is unfinished: 2 of 3 questions.</p>' in text
    assert "left out: 1 of each." in text
    assert '<td class="number">2 of 3</td>' in text


def test_failed_questions_are_listed_up_to_a_number():
    failed = [
        record(number, {"f1": 0.0}, error=f"ModelFailure {number}.", short="") for number in range(1, 31)
    ]
    text = page_of(run_of([*failed, record(31, {"f1": 1.0})], "runs/a"))
    assert "single (30)" in text
    assert text.count("ModelFailure") == MOST_FAILURES
    assert "Failed questions" not in page_of(run_of([record(1)], "runs/a"))


def test_published_numbers_stand_beside_ours():
    ours = run(
        "dragin_paper(threshold=1.3)",
        [1.0, 0.0, 0.2],
        "a",
        dataset="hotpotqa:x.json",
        models={"answer": "SmolLM2"},
        parameters={"threshold": "1.3"},
    )
    text = page_of(ours)
    section = text[text.index("Published results") :]
    assert "used other models, corpora and prompts" in section
    assert "This report\nSmolLM2\nindex my-index\n3 questions" in section
    assert "Su et al. 2024, DRAGIN (arXiv 2403.10081), Table 2; searches: Table 3\nLlama2-13b-chat" in section
    cells = re.findall(
        r"<tr>(?:<th[^>]*rowgroup.*?</th>)?<th scope=\"row\">(.*?)</th>(.*?)</tr>", section, re.S
    )
    by_method = {method: re.findall(r">([^<]*)</td>", row) for method, row in cells}
    assert by_method["dragin_paper"] == ["–", "0.400", "–", "1.000"]
    assert by_method["DRAGIN, here dragin_paper"] == ["0.288", "0.416", "–", "3.184"]
    assert by_method["SR-RAG, here single_authors"] == [
        "0.254",
        "0.353",
        "–",
        "–",
    ]  # the last of 3 models
    assert len(cells) == 1 + len(published("hotpotqa"))
    for caveat in caveats("hotpotqa"):
        assert escape(caveat) in section
    assert "Published results" not in page_of(run("a", [1.0], "a"))


def test_our_runs_are_together_by_model_and_index():
    fields = {"dataset": "hotpotqa:x.json"}
    runs = [
        run("a", [1.0], "a", **fields),
        run("b", [1.0], "b", index="", **fields),
        run("c", [1.0], "c", **fields),
    ]
    section = page_of(*runs).partition("Published results")[2]
    assert section.index(">a<") < section.index(">c<") < section.index(">b<")


def test_one_run_has_no_frontier_and_no_differences():
    text = page_of(run("a", [1.0, 0.0], "a"))
    assert 'class="frontier"' not in text
    assert "Differences" not in text
    assert "Searches per question" in text


def test_runs_that_never_searched_have_no_table_of_searches():
    usage = Usage(prompt_tokens=10)
    text = page_of(run_of([record(1, usage=usage)], "runs/a"))
    assert "Searches per question" not in text


def test_several_datasets_are_linked():
    text = page_of(run("a", [1.0], "a"), run("b", [1.0], "b", dataset="hotpotqa:x.json"))
    assert '<a href="#dataset-2">hotpotqa:x.json</a>' in text
    assert '<h2 id="dataset-2">hotpotqa:x.json</h2>' in text


def test_without_matplotlib_the_page_is_whole_and_says_so(runs, monkeypatch):
    charts = "Charts need matplotlib"
    assert charts not in page_of(*runs)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = page_of(*runs)
    Balanced(text)
    assert "<svg" not in text
    assert text.count(charts) == 1
    assert "single: 0.500 (0.000 to 1.000), 600 tokens" in text


def test_runs_whose_answers_have_a_confidence_get_a_table_and_a_chart_of_risk(runs):
    confident = [
        replace(each, records=tuple(replace(one, confidence=one.number / 4) for one in each.records))
        for each in runs
    ]
    text = page_of(*confident)
    Balanced(text)
    assert "<h3>Confidence</h3>" in text
    assert 'class="risk"' in text
    assert "single: AURC 0." in text
    assert "AUROC right" in text
    plain = page_of(*runs)
    assert "<h3>Confidence</h3>" not in plain
    assert 'class="risk"' not in plain


def test_the_chart_of_risk_tells_each_run_and_its_area_in_words(runs):
    pytest.importorskip("matplotlib")
    (group,) = group_runs(
        [replace(runs[0], records=tuple(replace(r, confidence=0.5) for r in runs[0].records))]
    )
    curves = curves_of(compare_group(group))
    assert list(curves) == ["single"]
    assert f"single (AURC {curves['single'].aurc.mean:.3f})" in str(risk_chart(curves))
    assert str(risk_chart(curves)) == str(risk_chart(curves)), "a chart is reproducible"
