"""The page of a report: its sections, its tables and charts, and no text that becomes markup."""

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


HEADINGS = ["Runs", "Results", "Cost", "Searches per question", "Differences between runs"]


def test_a_section_is_whole_needs_nothing_from_elsewhere_and_can_be_read_aloud(runs):
    text = page_of(*runs, num_questions=2)
    page = Balanced(text)
    headings = re.findall(r"<h3>(.*?)</h3>", text)
    assert headings == [*HEADINGS, "By kind and number of hops", "Questions that differ most"]
    assert "2 runs over 1 dataset; written on 2026-11-21 by askance" in text
    assert "Versions: python 3.11.9." in text
    assert not {"script", "img", "iframe"} & set(page.seen)
    sources = [value for _, name, value in page.attributes if name in ("src", "href")]
    assert all(value.startswith("#") or value == "data:," for value in sources)
    assert not re.search(r"://|@import|url\(", text)
    (policy,) = (value for _, _, value in page.attributes if value and value.startswith("default-src"))
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    assert "script" not in policy
    scopes = [value for tag, name, value in page.attributes if (tag, name) == ("th", "scope")]
    assert set(scopes) == {"col", "row", "rowgroup"}
    assert len(scopes) == page.seen.count("th")
    assert page.seen.count("caption") == page.seen.count("table")
    images = [value for _, name, value in page.attributes if (name, value) == ("role", "img")]
    assert len(images) == page.seen.count("svg") > 0


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


def test_published_numbers_stand_beside_ours():
    fields = {"models": {"answer": "SmolLM2"}, "parameters": {"threshold": "1.3"}}
    values = [1.0, 0.0, 0.2]
    text = page_of(run("dragin_paper(threshold=1.3)", values, "a", dataset="hotpotqa:x.json", **fields))
    section = text[text.index("Published results") :]
    assert "used other models, corpora and prompts" in section
    assert "This report\nSmolLM2\nindex my-index\n3 questions" in section
    assert "Su et al. 2024, DRAGIN (arXiv 2403.10081), Table 2; searches: Table 3\nLlama2-13b-chat" in section
    cells = re.findall(
        r"<tr>(?:<th[^>]*rowgroup.*?</th>)?<th scope=\"row\">(.*?)</th>(.*?)</tr>", section, re.S
    )
    rows = [(method, *re.findall(r">([^<]*)</td>", row)) for method, row in cells]
    assert rows[0] == ("dragin_paper", "–", "0.400", "–", "–", "1.000")
    of_dragin = [row for row in rows if row[0] == "DRAGIN, here dragin_paper"]
    assert of_dragin[2][1:] == ("0.288", "0.416", "–", "–", "3.184"), "the last of three models"
    assert of_dragin[4][1:] == ("0.288", "0.416", "0.423", "–", "–"), "Table 6 has the precision"
    (last_of_three_models,) = (row for row in rows if row[0] == "SR-RAG, here single" and "0.254" in row)
    assert last_of_three_models[1:] == ("0.254", "0.353", "–", "–", "–")
    assert len(cells) == 1 + len(published("hotpotqa"))
    for caveat in caveats("hotpotqa"):
        assert escape(caveat) in section


def test_our_runs_are_together_by_model_and_index():
    fields = {"dataset": "hotpotqa:x.json"}
    others = (run(name, [1.0], name, **fields) for name in "ac")
    section = page_of(*others, run("b", [1.0], "b", index="", **fields)).partition("Published results")[2]
    assert section.index(">a<") < section.index(">c<") < section.index(">b<")


def test_sections_without_content_are_left_out():
    text = page_of(run("a", [1.0, 0.0], "a"))
    assert re.findall(r"<h3>(.*?)</h3>", text) == [*HEADINGS[:4], "By kind and number of hops"]
    assert 'class="frontier"' not in text
    assert "Published results" not in text
    never = page_of(run_of([record(1, usage=Usage(prompt_tokens=10))], "runs/a"))
    assert "Searches per question" not in never
    assert "Failed questions" not in never


def test_several_datasets_are_linked():
    text = page_of(run("a", [1.0], "a"), run("b", [1.0], "b", dataset="hotpotqa:x.json"))
    assert '<a href="#dataset-2">hotpotqa</a>' in text
    assert '<h2 id="dataset-2">hotpotqa</h2>' in text


def test_without_matplotlib_the_page_is_whole_and_says_so(runs, monkeypatch):
    charts = "Charts need matplotlib"
    assert charts not in page_of(*runs)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = page_of(*runs)
    Balanced(text)
    assert "<svg" not in text
    assert text.count(charts) == 1
    assert "single: 0.500 (0.063 to 0.932), 600 tokens" in text


def test_answers_with_a_confidence_get_a_table_and_a_chart_of_risk(runs):
    pytest.importorskip("matplotlib")
    confident = [
        replace(each, records=tuple(replace(one, confidence=one.number / 4) for one in each.records))
        for each in runs
    ]
    text = page_of(*confident)
    Balanced(text)
    parts = ("<h3>Confidence</h3>", 'class="risk"', "single: AURC 0.", "AUROC right")
    assert [part for part in parts if part not in text] == []
    assert [part for part in parts if part in page_of(*runs)] == []
    (group,) = group_runs(confident[:1])
    curves = curves_of(compare_group(group))
    assert f"single (AURC {curves['single'].aurc.mean:.3f})" in str(risk_chart(curves))
    assert str(risk_chart(curves)) == str(risk_chart(curves)), "a chart is reproducible"
