"""`askance advise`: what is written, tried, advised and refused, with a model that knows its part."""

import json
import re
import shutil
import tomllib
from types import SimpleNamespace

import pytest

from askance.configuration.evaluation import read_dataset
from askance.configuration.sources import read_config
from askance.core.errors import MissingExtra
from askance.evaluation.choose import advise as choosing
from askance.models.scripted import ScriptedModel, ScriptedPairScorer

TOWNS = [
    f"{first}{last}" for first in "Kall Norr Vest Oster Lang".split() for last in "sund vik holm by".split()
]
FEW = {"closed_book": {}, "single": {}, "single-1": {"method": "single", "set": {"passages": 1}}}
WRITING = "Write one question"


def year_of(town):
    return str(1801 + 4 * TOWNS.index(town))


def document(town):
    return (
        f"# {town}\n\nThe lighthouse of {town} was built of granite in {year_of(town)}. "
        f"Fishermen from the harbour near {town} paid for the lamp, the stairs and the keeper.\n"
    )


class Writer:
    """Writes questions about lighthouses, and answers those whose passage it sees."""

    def __init__(self, written=None):
        self.model = ScriptedModel(self.reply)
        self.written, self.loads, self.stop_at = written, 0, None

    def __call__(self, specs):
        self.loads += 1
        return dict.fromkeys(specs, self.model)

    def reply(self, prompt, key):
        if self.stop_at is not None and len(self.model.prompts) >= self.stop_at:
            raise KeyboardInterrupt
        asked = prompt.rpartition("lighthouse of ")[2]
        if WRITING in prompt:
            town = re.search(r"lighthouse of (\w+)", prompt.rpartition("Passage: ")[2])[1]
            text = f"Question: In which year was the lighthouse of {town} built?\nAnswer: {year_of(town)}"
            return self.written or text
        town = asked.split()[0]
        seen = f"of granite in {year_of(town)}" in prompt if town in TOWNS else False
        return f" So the answer is {year_of(town) if seen else 'unknown'}."


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for town in TOWNS:
        (folder / f"{town}.md").write_text(document(town))
    return folder


@pytest.fixture
def advise(run, docs, tmp_path, monkeypatch):
    """Run the command without extras, or with a cross-encoder that gives every passage a logit."""

    def missing(*spec):
        raise MissingExtra("onnxruntime", "rerank", "the cross-encoder")

    def advise(*words, load=None, logit=None, page=False):
        if not page:
            monkeypatch.setattr("askance.cli.advise.report_page", lambda reported, made_on: "the report")
        scripted = (lambda *spec: ScriptedPairScorer(lambda *pair: logit)) if logit is not None else missing
        monkeypatch.setattr("askance.cli.advise.load_models", load or Writer())
        monkeypatch.setattr("askance.cli.advise.load_encoder", missing)
        monkeypatch.setattr("askance.cli.advise.load_cross_encoder", scripted)
        monkeypatch.setattr("askance.configuration.build.load_reranker", scripted)
        monkeypatch.setattr(choosing, "CANDIDATES", FEW)
        given = ("--docs", docs, "--out", tmp_path / "advice", "--model", "scripted", "--questions", "16")
        code, out, err = run("advise", *given, *words, columns=200)
        return code, " ".join(out.split()), " ".join(err.split())

    return advise


def test_the_folder_holds_questions_runs_a_report_and_settings_that_work(advise, tmp_path):
    code, out, _ = advise(page=True)
    folder = tmp_path / "advice"
    assert code == 0
    examples = read_dataset(f"jsonl:{folder / 'questions.jsonl'}")
    assert [example.kind for example in examples[:4]] == [*3 * ["answerable"], "unanswerable"]
    assert len(examples) == 16
    for told in (
        "12 answerable and 4 unanswerable questions kept of 16 written",
        "advised: single, because no other candidate is better beyond chance.",
        "abstaining was not measured: it needs a cross-encoder",
    ):
        assert told in out
    assert (folder / "report.html").read_text().count("closed_book")
    config = read_config(file=folder / "askance.toml").config
    assert (config.method, config.answer_spec, config.where) == ("single", "scripted", None)
    assert config.index == (folder / "index").absolute()
    assert "# single | 1.000 | 0.735–1.000" in (folder / "askance.toml").read_text()
    assert len((folder / "written.jsonl").read_text().splitlines()) == 17
    records = map(json.loads, (folder / "runs" / "single" / "records.jsonl").read_text().splitlines())
    verdicts = {(record["kind"], record["short"] == "unknown") for record in records}
    assert verdicts == {("answerable", False), ("unanswerable", True)}, "held out documents answer nothing"


def test_questions_that_fail_a_check_are_counted_by_reason(advise, tmp_path):
    code, out, err = advise(load=Writer("Question: How tall is the old lighthouse?\nAnswer: 90 feet"))
    assert (code, "another --model" in err) == (2, True)
    assert re.search(r"0 answerable .* \(rejected: \d+ with an answer that is not in the passage\)", out)
    assert "0 answerable questions were kept, and advice needs 8" in err
    assert not (tmp_path / "advice" / "questions.jsonl").exists()


def test_an_interrupted_run_continues_without_asking_again(advise, tmp_path):
    load = Writer()
    load.stop_at = 20
    assert advise("--in-flight", "1", load=load)[0] == 130
    assert 0 < len((tmp_path / "advice" / "written.jsonl").read_text().splitlines()) - 1 < 16
    load.stop_at = None
    assert advise(load=load)[0] == 0
    asked = sum(WRITING in prompt for prompt in load.model.prompts)
    assert asked <= 16 + 1, "only the interrupted question is written again"
    again = Writer()
    assert advise(load=again)[0] == 0
    assert again.model.prompts == []


def test_the_budget_is_in_the_settings(advise, tmp_path):
    assert advise("--budget", "3000")[0] == 0
    assert tomllib.loads((tmp_path / "advice" / "askance.toml").read_text())["budget"] == {"tokens": 3000}


def test_abstaining_by_a_confidence_without_information_is_not_advised(advise, tmp_path):
    code, out, _ = advise(logit=-9.0)
    assert (code, "abstaining below 0.28: not advised. It refuses 100%" in out) == (0, True)
    assert "abstain_below" not in tomllib.loads((tmp_path / "advice" / "askance.toml").read_text())


def test_what_can_not_be_advised_on_is_refused(advise, docs, tmp_path, monkeypatch):
    code, _, err = advise("--out", docs / "advice")
    assert (code, "name a folder outside" in err, (docs / "advice").exists()) == (2, True, False)
    code, _, err = advise("--budget", "3")
    assert (code, "no candidate answered a question" in err, "larger --budget" in err) == (2, True, True)
    shutil.rmtree(tmp_path / "advice" / "runs")
    clock = SimpleNamespace(monotonic=iter(range(0, 10**9, 10**6)).__next__)
    with monkeypatch.context() as patch:
        patch.setattr("askance.cli.advise.time", clock)
        code, _, err = advise("--minutes", "1")
    assert (code, "single has answered 0 answerable questions" in err) == (2, True)
    assert "more --minutes. The same command continues" in err
    shutil.rmtree(tmp_path / "advice")
    for town in TOWNS[5:]:
        (docs / f"{town}.md").unlink()
    code, _, err = advise()
    assert (code, "the documents have 5 passages" in err, "name more documents" in err) == (2, True, True)


def test_questions_of_the_user_are_used_as_they_are(advise, tmp_path):
    folder, load = tmp_path / "advice", Writer()
    folder.mkdir()
    question = "In which year was the lighthouse of {} built?"
    rows = [{"question": question.format(town), "answers": [year_of(town)]} for town in TOWNS[:9]]
    (folder / "questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert advise(load=load)[0] == 0
    assert not any(WRITING in prompt for prompt in load.model.prompts)
    assert not (folder / "written.jsonl").exists()
