"""Advice on own documents: what is written, tried, advised and refused, with a model that knows its part."""

import json
import re
import tomllib
from types import SimpleNamespace

import pytest

from askance.configuration.evaluation import read_dataset
from askance.configuration.sources import read_config
from askance.core.errors import MissingExtra
from askance.evaluation.choose import advise as choosing
from askance.models.scripted import ScriptedModel, ScriptedPairScorer

TOWNS = [
    f"{first}{last}"
    for first in ("Kall", "Norr", "Vest", "Oster", "Lang")
    for last in ("sund", "vik", "holm", "by")
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
    """Runs the command without extras, or with a cross-encoder that gives every passage a logit."""

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
    assert code == 0
    examples = read_dataset(f"jsonl:{tmp_path / 'advice' / 'questions.jsonl'}")
    assert [example.kind for example in examples[:4]] == [*3 * ["answerable"], "unanswerable"]
    assert len(examples) == 16
    assert "12 answerable and 4 unanswerable questions kept of 16 written" in out
    assert "advised: single, because no other candidate is better beyond chance." in out
    assert (tmp_path / "advice" / "report.html").read_text().count("closed_book")
    settings = tmp_path / "advice" / "askance.toml"
    config = read_config(file=settings).config
    assert (config.method, config.answer_spec, config.where) == ("single", "scripted", None)
    assert config.index == (tmp_path / "advice" / "index").absolute()
    assert "# single | 1.000 | 1.000–1.000" in settings.read_text()


def test_questions_that_fail_a_check_are_counted_by_reason(advise, tmp_path):
    load = Writer("Question: How tall is the old lighthouse?\nAnswer: 90 feet")
    code, out, err = advise(load=load)
    assert code == 2
    assert re.search(r"0 answerable .* \(rejected: \d+ with an answer that is not in the passage\)", out)
    assert "0 answerable questions were kept, and advice needs 8" in err
    assert "another --model" in err
    assert not (tmp_path / "advice" / "questions.jsonl").exists()


def test_documents_that_are_held_out_answer_no_search(advise, tmp_path):
    advise()
    rows = [json.loads(line) for line in (tmp_path / "advice" / "written.jsonl").read_text().splitlines()[1:]]
    assert len(rows) == 16
    records = tmp_path / "advice" / "runs" / "single" / "records.jsonl"
    found = {record["kind"]: set() for record in map(json.loads, records.read_text().splitlines())}
    for record in map(json.loads, records.read_text().splitlines()):
        found[record["kind"]].add(record["short"] == "unknown")
    assert found == {"answerable": {False}, "unanswerable": {True}}


def test_an_interrupted_run_continues_without_asking_again(advise, tmp_path):
    load = Writer()
    load.stop_at = 20
    assert advise("--in-flight", "1", load=load)[0] == 130
    num_written = len((tmp_path / "advice" / "written.jsonl").read_text().splitlines()) - 1
    assert 0 < num_written < 16
    load.stop_at = None
    assert advise(load=load)[0] == 0
    asked = sum(WRITING in prompt for prompt in load.model.prompts)
    assert asked <= 16 + 1  # the interrupted question is written again
    again = Writer()
    assert advise(load=again)[0] == 0
    assert again.model.prompts == []


def test_a_budget_too_small_for_any_candidate_is_named(advise):
    code, _, err = advise("--budget", "3")
    assert code == 2
    assert "no candidate answered a question" in err
    assert "larger --budget" in err


def test_the_budget_is_in_the_settings(advise, tmp_path):
    assert advise("--budget", "3000")[0] == 0
    assert tomllib.loads((tmp_path / "advice" / "askance.toml").read_text())["budget"] == {"tokens": 3000}


def test_a_confidence_that_tells_nothing_is_not_worth_abstaining(advise, tmp_path):
    code, out, _ = advise(logit=-9.0)
    assert code == 0
    assert "abstaining below 0.28: not advised. It refuses 100%" in out
    assert "abstain_below" not in tomllib.loads((tmp_path / "advice" / "askance.toml").read_text())


def test_without_the_extra_the_command_that_installs_it_is_shown(advise):
    _, out, _ = advise()
    assert "abstaining was not measured: it needs a cross-encoder" in out


def test_too_few_passages_are_refused(advise, docs):
    for town in TOWNS[5:]:
        (docs / f"{town}.md").unlink()
    code, _, err = advise()
    assert code == 2
    assert "the documents have 5 passages" in err
    assert "name more documents" in err


def test_a_folder_inside_the_documents_is_refused(advise, docs):
    code, _, err = advise("--out", docs / "advice")
    assert code == 2
    assert "name a folder outside" in err
    assert not (docs / "advice").exists()


def test_minutes_that_are_too_few_say_what_continues(advise, tmp_path, monkeypatch):
    advise()  # the questions
    for folder in (tmp_path / "advice" / "runs").iterdir():
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    clock = SimpleNamespace(monotonic=iter(range(0, 10**9, 10**6)).__next__)
    monkeypatch.setattr("askance.cli.advise.time", clock)  # the module's own, not asyncio's
    code, _, err = advise("--minutes", "1")
    assert code == 2
    assert "single has answered 0 answerable questions" in err
    assert "more --minutes. The same command continues" in err


def test_questions_of_the_user_are_used_as_they_are(advise, tmp_path):
    folder = tmp_path / "advice"
    folder.mkdir()
    rows = [
        {"question": f"In which year was the lighthouse of {town} built?", "answers": [year_of(town)]}
        for town in TOWNS[:9]
    ]
    (folder / "questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    load = Writer()
    assert advise(load=load)[0] == 0
    assert not any(WRITING in prompt for prompt in load.model.prompts)
    assert not (folder / "written.jsonl").exists()
