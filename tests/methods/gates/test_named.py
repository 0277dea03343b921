"""Gates that methods call while they answer: triggers of dragin, the guard of single, and what they cost."""

import asyncio
import json
import re
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from askance.configuration.catalogue import NAMES
from askance.configuration.methods import make_method, parameter_schema
from askance.configuration.presets import preset_text
from askance.configuration.settings import EngineConfig
from askance.core.errors import FunctionFailure, InputError, MissingAbility, ModelLacks
from askance.core.trace import Decided
from askance.core.types import Passage, Question
from askance.methods.baselines import ClosedBook, Single
from askance.methods.common.search import TriggerMode
from askance.methods.dragin.method import Dragin
from askance.methods.flare import Flare
from askance.methods.gates.built_in import rind
from askance.methods.gates.named import named_gate
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.storage.trace_file import read_trace
from askance.text.linguistics import OWN
from tests.asking import ask
from tests.methods.gates.test_gates import GATES, GUARDS
from tests.tolerances import near

QUESTION = Question("q", "Where does Anna Lind live?", demos=())
LIND = Passage("p", "Lind", "Anna Lind lives in Bonn.")
DOUBTFUL = Reply(" She lives in Kiel. So the", entropies={"lives": 2.0, "Kiel": 3.0})
BONN = " So the answer is Bonn."
TOKENS = frozenset({"logprob", "entropy", "top_logprobs", "attention"})


def run(method, replies, question=QUESTION, **model):
    model = ScriptedModel(replies, **model)
    return asyncio.run(ask(question, method, {"answer": model}, ScriptedRetriever([LIND])))


def dragin(gate, threshold=1.0, **parameters):
    return Dragin(trigger=named_gate("mine", gate), threshold=threshold, **parameters)


def scores(result):
    return [[(word.text, word.value) for word in each.words] for each in result.trace.decisions if each.words]


REFUSED = {"lexical_disagreement", "semantic_entropy", "eigenvalues", "p_true", "stated_confidence"}
REFUSED |= {"energy_score", "best_score", "score_gap", "name_rarity", *GUARDS}
NEEDS = {
    "perplexity": {"logprob"},
    "least_probability": {"logprob"},
    "flare": {"logprob"},
    "margin": {"top_logprobs"},
    "rind": {"entropy", "attention"},
    **{name: {"entropy"} for name in ("mean_entropy", "largest_entropy", "entropy_trend")},
}


def test_every_gate_of_the_catalogue_is_a_trigger_with_known_needs_or_is_refused():
    assert {*NEEDS} | REFUSED == {*GATES, *GUARDS}
    assert {*get_args(TriggerMode), *GATES} == {*NAMES["trigger"][1]}
    for name, needed in NEEDS.items():
        made = named_gate(name, GATES[name])
        assert (made.signals, made.needs_samples) == (needed, False)
    for name in REFUSED:
        with pytest.raises(InputError, match=f"{name} can't be a trigger, which only knows .* not recorded"):
            named_gate(name, {**GATES, **GUARDS}[name])
    guards = [named_gate(name, gate, is_guard=True) for name, gate in GUARDS.items()]
    assert [(*each.signals, each.needs_samples) for each in guards] == [
        ("logprob", False), ("logprob", False), (True,), (False,)
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["llama", "qwen"])
@pytest.mark.parametrize("search_first", [True, False, "auto"])
@pytest.mark.parametrize(
    ("own", "gate"), [("token_probability", GATES["flare"]), ("rind", rind)], ids=["flare", "rind"]
)
def test_a_gate_decides_as_the_trigger_of_the_method_that_computes_the_same(
    own, gate, search_first, name, request
):
    model, retriever = request.getfixturevalue(name), ScriptedRetriever([LIND])
    limits = {"threshold": 0.5 if own == "rind" else 0.9, "max_tokens": 24, "max_rounds": 4}
    method = Dragin(trigger=own, search_first=search_first, **limits)
    # The influence that the gate reads excludes the attention of a word to itself only after a first search.
    twin = replace(method, trigger=named_gate("twin", gate))
    one, other = (asyncio.run(ask(QUESTION, each, {"answer": model}, retriever)) for each in (method, twin))
    assert one.answer == other.answer
    assert one.usage.searches == other.usage.searches
    assert [[word for word, _ in each] for each in scores(one)] == [
        [word for word, _ in each] for each in scores(other)
    ]
    values = ([value for each in scores(result) for _, value in each] for result in (one, other))
    assert next(values) == near(next(values), "two layers", "float32")


def test_words_that_are_none_of_content_and_tokens_after_the_answer_trigger_nothing():
    seen = []

    def gate(signals):
        seen.append(signals)
        return np.full(len(signals.draft.influences or signals.draft.text.split()), 5.0)

    answer = Reply(" She lives in Kiel [1]. So the answer is Kiel. But", entropies={"Kiel": 3.0})
    result = run(
        dragin(gate, query="question", threshold=4, search_first=False, max_searches=1), [answer, BONN]
    )
    assert scores(result)[0] == [("She", 0.0), ("lives", 5.0), ("in", 0.0), ("Kiel", 5.0), (".", 0.0)]
    draft = next(each.draft for each in seen if each.question == QUESTION.text)
    assert draft.text.split()[-2:] == ["Kiel", "."]
    assert draft.entropies.max() == near(3.0, "entropy", "scripted")
    assert np.isfinite(draft.logprobs).all()


def test_one_number_for_a_sentence_counts_for_its_last_content_word():
    result = run(dragin(GATES["largest_entropy"], search_first=False), [DOUBTFUL, " in Bonn. So the", BONN])
    assert scores(result)[0] == [
        ("She", 0),
        ("lives", 0),
        ("in", 0),
        ("Kiel.", near(3.0, "entropy", "scripted")),
    ]
    (search,) = [each for each in result.trace.decisions if each.outcome == "search"]
    assert (search.signal, search.threshold, search.why) == ("mine", 1.0, "a word is above 1")
    assert dragin(GATES["largest_entropy"], threshold=None).theta == 0
    no_content = replace(OWN, content_spans=lambda text: ())
    result = run(dragin(GATES["flare"], search_first=False, linguistics=no_content), [DOUBTFUL, BONN])
    assert {value for each in scores(result) for _, value in each} == {0}


def failing(signals):
    raise ValueError(f"no {signals.question[:5]}")


def reads_a_number(signals):
    return signals.draft.number("mine") if signals.question.startswith("Where does") else 0.0


@pytest.mark.parametrize(
    ("gate", "error", "message"),
    [
        (failing, FunctionFailure, "the gate mine failed: ValueError: no Where"),
        (lambda _: nan, FunctionFailure, "the gate mine returned nan: expected a finite number"),
        (lambda _: [1.0] * 9, FunctionFailure, r"returned \[1.*or one for each of 5 words"),
        (lambda _: "much", FunctionFailure, "the gate mine failed: ValueError: could not convert"),
        (lambda _: None, FunctionFailure, "mine returned nan"),
        (reads_a_number, MissingAbility, "the gate mine can't be used here: mine was not recorded"),
    ],
)
def test_a_gate_that_fails_fails_the_question_and_is_named(gate, error, message):
    for method in (dragin(gate), Single(guard=named_gate("mine", gate, is_guard=True))):
        with pytest.raises(error, match=message):
            run(method, [BONN] * 4)


def test_the_signals_that_a_gate_needs_are_asked_of_the_model_before_the_first_question():
    trend = dragin(GATES["entropy_trend"], query="question")
    for model, lacks in ({"signals": {"logprob"}}, "entropy"), ({"signals": set()}, "entropy"):
        with pytest.raises(ModelLacks, match=f"method dragin needs {lacks}"):
            run(trend, [BONN], **model)
    with pytest.raises(ModelLacks, match="needs attention"):
        run(dragin(rind, query="question"), [BONN], signals={"logprob", "entropy"})
    with pytest.raises(ModelLacks, match="method single needs logprob"):
        run(make_method("single(guard=confidence_gain)"), [BONN, BONN], signals=set())
    assert run(trend, [BONN], signals={"entropy"}).answer.short == "Bonn"


AUTO = "dragin(search_first=auto, trigger=largest_entropy, threshold=1)"


def test_auto_searches_for_the_question_only_if_a_sentence_from_memory_is_in_doubt():
    doubtful = run(make_method(AUTO), [DOUBTFUL, " She lives in Bonn. So the", BONN])
    first, *others = doubtful.trace.decisions
    assert (first.name, first.outcome, first.query, first.threshold) == (
        "retrieve",
        "search",
        QUESTION.text,
        1.0,
    )
    assert [word.value for word in first.words] == near([0, 0, 0, 3.0], "entropy", "scripted")
    assert "the first sentence, from memory, is above 1" in first.why
    assert not [each for each in others if each.outcome == "search"]
    assert doubtful.answer.text == "She lives in Bonn. So the answer is Bonn."
    assert [each.passage.id for each in doubtful.answer.citations] == ["p", "p"]
    replies = [" She lives in Kiel. So the", DOUBTFUL, " Bonn. So the", BONN]
    sure, never = (run(make_method(AUTO, changed), replies) for changed in ({}, {"search_first": False}))
    assert [each.outcome for each in sure.trace.decisions] == ["keep", "search", "keep", "keep", "stop"]
    assert sure.answer == never.answer
    texts = ["true", "yes", "false", "auto", True, "auto"]
    read = [make_method("dragin", {"search_first": each}).search_first for each in texts]
    assert read == [True, True, False, "auto", True, "auto"]
    for method in (Dragin, Flare):
        shown = parameter_schema(method)["properties"]["search_first"]
        assert shown["anyOf"] == [{"type": "boolean"}, {"const": "auto", "type": "string"}]
    shown = parameter_schema(Dragin)["properties"]
    assert shown["trigger"]["anyOf"][1] == parameter_schema(Single)["properties"]["guard"]["anyOf"][0]


def test_a_preset_keeps_the_gate_that_its_threshold_belongs_to(tmp_path):
    made = make_method("dragin(trigger=entropy_trend, threshold=0.3)")
    file = tmp_path / "mine.toml"
    file.write_text(preset_text(Dragin, {"trigger": made.trigger, "threshold": 0.3}, ["for a test"]))
    assert make_method("dragin", preset=file) == made
    assert repr(made) == "dragin(trigger=entropy_trend, threshold=0.3)"
    stored = EngineConfig(method=made).stored()
    stored = {key: stored[key] for key in ("method", "parameters")}
    assert EngineConfig(**stored).make().trigger == made.trigger
    assert make_method("dragin(trigger=entropy_trend)", preset=file) == made
    assert make_method("dragin(trigger=rind)", preset=file).threshold is None
    assert make_method("dragin(trigger=flare)", model="bundled").threshold is None


def reply(prompt, key):
    if key[-1] == "samples":
        return " So the answer is Ulm."
    if "Anna Lind lives in Bonn." in prompt:
        return Reply(" Anna Lind lives in Bonn. So the answer is Bonn.", {"Bonn": 0.9})
    return Reply(" So the answer is Kiel.", {"Kiel": 0.25})


@pytest.mark.parametrize(
    ("method", "number", "outcome", "calls"),
    [
        ("single(guard=support)", 1.0, "passages", 2),
        ("single(guard=support, guard_threshold=1)", 1.0, "memory", 2),
        ("single(guard=agreement)", 0.0, "memory", 7),
        ("single(guard=agreement, guard_threshold=-1)", 0.0, "passages", 7),
        ("single(guard=least_probability_gain)", 0.65, "passages", 2),
        ("single(guard=least_probability_gain, guard_threshold=0.66)", 0.65, "memory", 2),
        ("single(guard=support, l_max=2000)", 1.0, "passages", 2),
    ],
)
def test_a_guard_takes_the_answer_of_closed_book_unless_its_number_is_above(method, number, outcome, calls):
    guarded, single, closed = (run(each, reply) for each in (make_method(method), Single(), ClosedBook()))
    (source,) = [each for each in guarded.trace.decisions if each.name == "source"]
    assert (source.outcome, [*source.numbers.values()]) == (outcome, near([number]))
    assert source.why.endswith("'Kiel' from memory, 'Bonn' from the passages")
    chosen = single if outcome == "passages" else closed
    assert (guarded.answer, guarded.trace.committed) == (chosen.answer, chosen.trace.committed.strip())
    assert (guarded.usage.calls, guarded.usage.searches) == (calls, 1)
    least = single.usage.tokens + closed.usage.tokens
    assert guarded.usage.tokens == least if calls == 2 else guarded.usage.tokens > least


@pytest.mark.parametrize(("memory", "read"), [("", BONN), (BONN, ""), ("", "")])
def test_a_guard_has_nothing_to_decide_where_one_answer_is_empty(memory, read):
    def written(prompt, key):
        return "" if key[-1] != "answer" else read if "Anna Lind lives in Bonn." in prompt else memory

    result = run(make_method("single(guard=confidence_gain)"), written)
    assert result.answer.text == result.trace.committed
    assert ("So the answer is Bonn." in result.answer.text) == bool(memory or read)
    (source,) = [each for each in result.trace.decisions if each.name == "source"]
    outcome = "passages" if read else "memory"
    assert (source.outcome, source.why) == (outcome, "one of the two answers is empty")


def test_brackets_of_an_answer_from_memory_are_no_citation_markers():
    listed = " The numbers are [1, 2]. So the answer is [1, 2]."
    result = run(make_method("single(guard=support, guard_threshold=1)"), [listed, BONN])
    assert result.answer.text == result.trace.committed == listed.strip()


@pytest.mark.parametrize("name", ["llama", "qwen"])
def test_a_guard_reads_both_answers_of_a_real_model(name, request):
    model = request.getfixturevalue(name)
    guarded = Single(guard=named_gate("rises", GUARDS["confidence_gain"], is_guard=True), max_tokens=12)
    methods = guarded, replace(guarded, guard=None), ClosedBook(max_tokens=12)
    retriever = ScriptedRetriever([LIND])
    answers = (asyncio.run(ask(QUESTION, each, {"answer": model}, retriever)) for each in methods)
    result, read, memory = answers
    (source,) = [each for each in result.trace.decisions if each.name == "source"]
    assert result.answer == (read if source.outcome == "passages" else memory).answer
    assert (source.numbers["rises"] > 0) == (source.outcome == "passages")


def test_the_gate_of_the_page_is_a_trigger_and_a_row_of_the_table(run, tmp_path, monkeypatch, sample_index):
    page = (Path(__file__).parents[3] / "docs" / "gates.md").read_text(encoding="utf-8")
    (code,) = re.findall("```python\n(.*?)```", page, re.DOTALL)
    assert len(code.splitlines()) <= 25
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_module.py").write_text(code)
    asked, measured = re.findall(r"\$ askance ((?:ask|gates) .*my_module:least_margin.*)", page)
    status, _, err = run(asked.replace("my-index", str(sample_index)) + " --model scripted --trace t.jsonl")
    assert status == 0, err
    decisions = [each for each in read_trace(tmp_path / "t.jsonl") if isinstance(each, Decided)]
    assert "my_module:least_margin" in {each.signal for each in decisions}
    rows = [{"question": f"Which river is number {at}?", "answers": ["Rhine"]} for at in range(10)]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    given = f"--dataset jsonl:q.jsonl --index {sample_index} --model scripted --samples 0 --out signals"
    assert run(f"signals {given}")[0] == 0
    status, out, _ = run(measured)
    assert (status, "my_module:least_margin" in out) == (0, True)


PLUGIN = """
import askance
from askance.methods.gates.signals import Gate


@askance.implements(Gate)
def least_margin(signals):
    \"\"\"Return 1 minus the smallest margin of the two best tokens.\"\"\"
    if signals.question.startswith("Which sea"):
        raise KeyError("no sea")
    return float(1 - signals.draft.margins.min())
"""


def test_a_run_counts_the_questions_for_which_a_gate_fails_and_goes_on(
    run, tmp_path, monkeypatch, sample_index
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_gate.py").write_text(PLUGIN)
    rows = ["Which sea is it?", "Which river is it?"]
    lines = [json.dumps({"question": text, "answers": ["Rhine"]}) for text in rows]
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    trigger = "--set trigger=my_gate:least_margin --set threshold=0.9 --set query=question"
    given = f"--dataset jsonl:q.jsonl --model scripted --index {sample_index}"
    _, out, err = run(f"eval {given} --method dragin {trigger} --out r")
    assert "the gate my_gate:least_margin failed: KeyError" in out + err
    assert "1 of 2" in out + err
    settings = (tmp_path / "r" / "settings.json").read_text()
    assert "my_gate:least_margin" in settings
    assert '"my_gate":' in settings
