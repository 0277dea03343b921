"""The measuring scripts on the scripted model: what is recorded, stopped runs, what is compared."""

import json

import pytest

from askance.core.errors import InputError
from askance.core.types import Question
from askance.eval.datasets import Example
from askance.models.scripted import ScriptedModel
from runs import proxy_agreement, recorded_runs, side_by_side, threshold_sweep

QUESTIONS = [
    {"id": "a", "question": "Which moon was discovered earlier, Iapetus or Triton?", "answers": ["Iapetus"],
     "type": "comparison", "supporting": ["Iapetus", "Triton"]},
    {"id": "b", "question": "Which river flows through Bonn?", "answers": ["Rhine"], "type": "bridge"},
    {"id": "c", "question": "Which river flows through Cairo?", "answers": ["Nile"], "type": "bridge"},
]  # fmt: skip


def choose_rhine(prompt, key):
    return " So the answer is the Rhine."


@pytest.fixture
def options(tmp_path, sample_index):
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS), encoding="utf-8")
    return [
        "--dataset", f"jsonl:{file}", "--index", str(sample_index), "--model", "scripted",
        "--limit", "3", "--out", str(tmp_path / "out"),
    ]  # fmt: skip


@pytest.fixture
def rhine(monkeypatch):
    """Every method answers "the Rhine"; the prompts of all calls are in `prompts`."""
    model = ScriptedModel(choose_rhine)
    monkeypatch.setattr(recorded_runs, "load_model", lambda spec: model)
    monkeypatch.setattr(proxy_agreement, "load_model", lambda spec: ScriptedModel())
    return model


def rows(tmp_path):
    lines = (tmp_path / "out" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[1:]]


def results(tmp_path):
    return json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["results"]


def test_all_cells_answer_the_same_questions(options, rhine, tmp_path, capsys):
    side_by_side.main(options)
    names = list(side_by_side.CELLS)
    assert [row["cell"] for row in rows(tmp_path)] == [name for name in names for _ in QUESTIONS]
    found = results(tmp_path)["jsonl"]
    assert [cell["cell"] for cell in found["cells"]] == names
    assert [cell["exact_match"]["mean"] for cell in found["cells"]] == pytest.approx([1 / 3] * len(names))
    assert {cell["failures"] for cell in found["cells"]} == {0}
    by_name = {cell["cell"]: cell for cell in found["cells"]}
    assert by_name["closed_book"]["searches"] == 0
    assert by_name["single"]["searches"] == by_name["single"]["supporting_recall"] == 1
    usage = rows(tmp_path)[0]["usage"]
    assert by_name["closed_book"]["tokens_generated"] == usage["generated_tokens"]
    assert by_name["closed_book"]["tokens_computed"] > usage["generated_tokens"]
    assert [each["cell"] for each in found["differences"]] == [name for name in names if name != "single"]
    assert all(each["mean"] == 0 for each in found["differences"])
    printed = capsys.readouterr().out
    assert "| single | 1.00 |" in printed
    assert "| dragin+paper | 0.000 (0.000 to 0.000) | 0.000 |" in printed
    transcript = (tmp_path / "out" / "transcripts" / "jsonl" / "single.txt").read_text(encoding="utf-8")
    assert "gold: Iapetus" in transcript
    assert "Which river flows through Bonn?" in transcript


def test_a_stopped_run_goes_on_where_it_was(options, rhine, tmp_path):
    def stop_at_c(prompt, key):
        if "c" in key:
            raise KeyboardInterrupt
        return choose_rhine(prompt, key)

    cells = ["--cells", "closed_book", "single"]
    rhine._replies = stop_at_c
    with pytest.raises(SystemExit, match="130"):
        side_by_side.main([*options, *cells])
    done = rows(tmp_path)
    assert 0 < len(done) < 3
    with (tmp_path / "out" / "questions.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"dataset": "jsonl", "ce')
    rhine._replies = choose_rhine
    rhine.prompts.clear()
    side_by_side.main([*options, *cells])
    assert rows(tmp_path)[: len(done)] == done
    assert len(rows(tmp_path)) == len(rhine.prompts) + len(done) == 6
    side_by_side.main([*options, *cells, "dragin"])
    assert len(rows(tmp_path)) == 9, "another cell joins"


@pytest.mark.parametrize(
    ("changed", "told"), [(["--prompts", "hotpotqa"], "prompts 'dataset'"), (["--model", "bundled"], "model")]
)
def test_other_settings_are_refused(options, rhine, tmp_path, capsys, changed, told):
    cells = ["--cells", "closed_book"]
    side_by_side.main([*options, *cells])
    before = rows(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        side_by_side.main([*options, *cells, *changed])
    assert told in capsys.readouterr().err
    assert rows(tmp_path) == before


def test_a_cell_whose_knobs_changed_is_refused(options, rhine, monkeypatch, capsys):
    side_by_side.main([*options, "--cells", "single"])
    other = recorded_runs.Cell("single", "single", {"passages": 2})
    monkeypatch.setattr(recorded_runs.Cell, "named", lambda name, common: other)
    with pytest.raises(SystemExit, match="2"):
        side_by_side.main([*options, "--cells", "single"])
    assert "passages=2" in capsys.readouterr().err


def test_a_failure_is_recorded_and_wrong(options, rhine, tmp_path):
    def fail_at_b(prompt, key):
        return RuntimeError("out of ink") if "b" in key else choose_rhine(prompt, key)

    rhine._replies = fail_at_b
    side_by_side.main([*options, "--cells", "single"])
    (cell,) = results(tmp_path)["jsonl"]["cells"]
    assert (cell["failures"], cell["num_questions"], cell["f1"]["mean"]) == (1, 3, 0)
    (failed,) = [row for row in rows(tmp_path) if row["error"]]
    assert failed["id"] == "b"
    assert "out of ink" in failed["error"]


def test_yes_no_questions_are_judged_by_accuracy(options, rhine, tmp_path, capsys):
    (tmp_path / "questions.jsonl").write_text(
        '{"question": "Is Bonn on the Rhine?", "answers": ["yes"], "task": "yes_no"}\n', encoding="utf-8"
    )
    rhine._replies = lambda prompt, key: " So the answer is yes."
    side_by_side.main([*options, "--cells", "closed_book"])
    (cell,) = results(tmp_path)["jsonl"]["cells"]
    assert cell["yes_no_accuracy"]["mean"] == 1
    assert "accuracy (95 %)" in capsys.readouterr().out


def kinds(sizes):
    return [
        Example(Question(f"{kind}{at}", "?"), ("!",), kind=kind)
        for kind, size in sizes.items()
        for at in range(size)
    ]


def test_questions_are_drawn_by_kind_and_a_greater_limit_adds_to_them():
    examples = kinds({"bridge": 60, "comparison": 30, "inference": 10})
    ten = recorded_runs.stratified(examples, 10)
    counts = [sum(example.kind == kind for example in ten) for kind in ("bridge", "comparison", "inference")]
    assert counts == [6, 3, 1]
    assert recorded_runs.stratified(examples, 50)[:10] == ten
    assert len({example.question.id for example in recorded_runs.stratified(examples, 100)}) == 100
    assert [example.question.id for example in ten] != [f"bridge{at}" for at in range(10)]


def test_a_higher_threshold_searches_less(options, tmp_path, capsys):
    threshold_sweep.main([*options, "--thresholds", "0", "1000", "--limit", "1"])
    low, high = results(tmp_path)
    assert (low["cell"], high["cell"]) == ("θ=0", "θ=1000")
    assert low["searches"] > high["searches"] == 1
    assert "| 0.6 | 0.304 | 0.3931 |" in capsys.readouterr().out


def test_the_own_verdicts_are_those_of_the_run(options, tmp_path, sample_index):
    questions = recorded_runs.read_questions(options[1], 1, "own")
    setting = recorded_runs.Setting("scripted", ScriptedModel(), recorded_runs.open_retriever(sample_index))
    engine = setting.engine(recorded_runs.Cell("dragin", "dragin", {"threshold": 0.5}), "own")
    row = proxy_agreement.asyncio.run(
        proxy_agreement.judge_one(engine, questions.examples[0], {"other": ScriptedModel()})
    )
    assert row["error"] == ""
    result = engine.ask(questions.examples[0].question)
    judged = [each for each in result.trace.decisions if each.words]
    assert len(judged) == len(row["sentences"]) > 0
    for decision, sentence in zip(judged, row["sentences"], strict=True):
        own = sentence[proxy_agreement.OWN]
        hits = [word for word in decision.words if word.is_hit]
        at = proxy_agreement.doubtful(own, 0.5)
        assert (at is None) == (not hits)
        assert set(own["scores"]) | {0.0} == {word.value for word in decision.words} | {0.0}
        if decision.query:
            assert own["queries"][at] == decision.query
        assert sentence["other"]["words"] == own["words"]


def test_proxies_are_compared_and_the_run_goes_on(options, rhine, tmp_path, capsys):
    arguments = [*options, "--proxy", "scripted", "bundled"]
    proxy_agreement.main(arguments)
    own_twice, matched, *_ = found = results(tmp_path)
    assert [each["proxy"] for each in found] == ["scripted", "scripted", "bundled", "bundled"]
    assert own_twice["num_sentences"] == sum(len(row["sentences"]) for row in rows(tmp_path)) > 0
    assert matched["proxy_searches"] == matched["own_searches"]
    rhine.prompts.clear()
    proxy_agreement.main(arguments)
    assert rhine.prompts == []
    assert "| scripted |" in capsys.readouterr().out


def sentence(own, other, queries=("", "")):
    return {
        name: {"words": ["w"] * len(scores), "scores": scores, "queries": [query] * len(scores)}
        for name, scores, query in (("own", own, queries[0]), ("other", other, queries[1]))
    }


SENTENCES = [
    sentence([0.2, 0.9], [0.6, 0.3], ("old town Bonn", "town bonn")),
    sentence([0.1, 0.3], [0.4, 0.2]),
    sentence([0.8, 0.1], [0.9, 0.1], ("river", "river")),
    sentence([0.1], [0.7]),
]


def test_agreement_by_hand():
    found = proxy_agreement.agreement(SENTENCES, "other", 0.5, 0.5)
    assert (found.own_searches, found.proxy_searches, found.both_search) == (2, 3, 2)
    assert found.same_verdict == 0.75
    assert found.kappa == pytest.approx(0.5)
    assert found.same_word == 0.5
    assert found.query_overlap == pytest.approx((2 / 3 + 1) / 2)


def test_the_matched_threshold_searches_as_often():
    threshold = proxy_agreement.matched_threshold(SENTENCES, 0.5, "other")
    found = proxy_agreement.agreement(SENTENCES, "other", 0.5, threshold)
    assert threshold == 0.6
    assert found.proxy_searches == found.own_searches == 2
    assert proxy_agreement.matched_threshold(SENTENCES, 0.0, "other") == 0.0
    assert proxy_agreement.matched_threshold(SENTENCES, 5.0, "other") == 5.0


def test_rank_correlation():
    assert proxy_agreement.spearman([1, 2, 3], [10, 20, 90]) == pytest.approx(1)
    assert proxy_agreement.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4.
    assert proxy_agreement.spearman([1, 5, 5, 9], [1, 2, 3, 4]) == pytest.approx(0.9486833)
    assert proxy_agreement.spearman([1, 1], [1, 2]) is None


def test_cells_have_knobs_of_their_own_and_common_ones_that_they_know():
    cell = recorded_runs.Cell.named("dragin+paper,heads=mean,passages=2", ["passages=4", "search_below=0.5"])
    assert (cell.method, dict(cell.knobs)) == (
        "dragin", {"profile": "paper", "heads": "mean", "passages": "2"}
    )  # fmt: skip
    with pytest.raises(InputError, match="sets no knob"):
        recorded_runs.Cell.named("dragin,heads")
