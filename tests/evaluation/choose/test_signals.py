"""Signals are recorded as the methods answer, once, and whatever a model can give."""

import asyncio
from dataclasses import replace

import pytest

from askance.ask import Engine
from askance.configuration.evaluation import open_gates, open_score
from askance.core.errors import AllFailed, ModelFailure, RunFolderError
from askance.core.types import Passage, Question
from askance.evaluation.choose.gates import measure_gates
from askance.evaluation.choose.outcomes import SignalRecorder, lacking, read_outcomes, record_signals
from askance.evaluation.datasets import Example
from askance.methods.baselines import ClosedBook, Single
from askance.methods.common.prompts import PLAIN
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.bm25 import open_index
from askance.retrieval.scripted import ScriptedRetriever
from tests.tolerances import near

EXAMPLES = [Example(Question(f"q{at}", "Where does Anna Lind live?"), ("Bonn",)) for at in range(4)]
HEADER = {"model": "scripted"}


def reply(prompt, key):
    if key[-1] == "samples":
        return " So the answer is Ulm."
    if key[-1] == "confidence":
        return " 85%"
    if "Anna Lind lives in Bonn." in prompt:
        return Reply(" Anna Lind lives in Bonn. So the answer is Bonn.", {"Bonn": 0.9})
    return Reply(" So the answer is Kiel.", {"Kiel": 0.25})


def recorder(script=reply, samples=3, others=None, **model):
    model = ScriptedModel(script, scores={" true": -1.0, " false": -2.0}, **model)
    retriever = ScriptedRetriever([Passage("p", "Lind", "Anna Lind lives in Bonn.")])
    engine = Engine(Single(), {"answer": model}, retriever)
    return SignalRecorder(
        engine, samples, {name: replace(engine, method=each) for name, each in (others or {}).items()}
    )


def recorded(folder, recorder, examples=EXAMPLES, header=HEADER, progress=None):
    shown = []
    progress = progress or (lambda *done: shown.append(done))
    work = record_signals(recorder, examples, folder, header, in_flight=2, progress=progress)
    failures = asyncio.run(work)
    return read_outcomes(folder), failures, shown


def test_the_answers_are_those_of_the_methods_with_all_signals(tmp_path):
    outcomes, failures, shown = recorded(tmp_path, recorder(others={"again": ClosedBook()}))
    assert (len(outcomes), failures, shown[-1]) == (4, {}, (4, 4))
    first = outcomes[0]
    assert {name: each.answer for name, each in first.answers.items()} == {
        "none": "Kiel", "one": "Bonn", "again": "Kiel",
    }  # fmt: skip
    assert [first.cost("searches", name) for name in first.answers] == [0, 1, 0]
    none, one, again = (first.cost("tokens", name) for name in first.answers)
    assert none == again < one
    memory, read = first.signals.memory, first.signals.read
    assert memory.text == " So the answer is Kiel."
    assert min(memory.logprobs) == near(-1.3862943611198906)  # of a probability of 0.25
    assert len(memory.entropies) == len(memory.margins) == len(memory.tokens)
    assert len(memory.influences) == 5
    assert memory.samples == ("Ulm",) * 3
    assert memory.numbers["stated_confidence"] == 0.85
    assert memory.numbers["p_true"] == near(0.7310585786300049)
    assert read.numbers["support"] == 1.0
    assert first.signals.scores == (1.0,)
    assert first.signals.numbers["name_rarity"] > 0


def test_a_model_without_signals_is_recorded_without_them_and_they_are_named(tmp_path):
    bare = {"signals": frozenset(), "capabilities": frozenset({"raw"})}
    assert lacking(ScriptedModel(**bare)) == [
        "logprob", "entropy", "top_logprobs", "attention", "P(True)",
    ]  # fmt: skip
    assert lacking(ScriptedModel()) == []
    (first, *_), _, _ = recorded(tmp_path, recorder(samples=0, **bare))
    assert first.signals.memory.samples == ()
    assert first.signals.memory.tokens[0].logprob is None
    assert "p_true" not in first.signals.memory.numbers


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        *((text, 0.7) for text in ("70", " 70 %.", "Probability: 70/100", "I'd say 70 out of 100")),
        *(("0", 0.0), ("100%", 1.0)),
        *((text, None) for text in ("", "high", "-7", "0.7", "170", "60 or 70", "7e1", "999" * 5)),
    ],
)
def test_a_confidence_is_asked_for_in_a_chat_and_a_malformed_one_is_left_out(text, confidence, tmp_path):
    def states(prompt, key):
        if key[-1] != "confidence":
            return reply(prompt, key)
        assert "<|user|>" in prompt
        assert "Proposed answer: Kiel\nHow probable" in prompt
        return text

    bare = recorder(states, 0, signals=frozenset(), capabilities=frozenset({"raw", "chat"}))
    (first, *_), failures, _ = recorded(tmp_path, bare, EXAMPLES[:1])
    assert (first.signals.memory.numbers.get("stated_confidence"), failures) == (confidence, {})


def test_an_interrupted_recording_goes_on_and_a_failed_question_is_asked_again(tmp_path):
    asked = []

    def failing(prompt, key):
        asked.append(key[1])
        if key[1] == "q2":
            return ModelFailure("the server is down")
        if key[1] == "q1" and key[-1] == "samples":
            return ZeroDivisionError("by zero")
        return reply(prompt, key)

    def asking(prompt, key):
        asked.append(key[1])
        return reply(prompt, key)

    def interrupt(num_done, num):
        if num_done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recorded(tmp_path, recorder(failing), EXAMPLES[:1], progress=interrupt)
    assert asked
    asked.clear()
    outcomes, failures, _ = recorded(tmp_path, recorder(failing), EXAMPLES[:3])
    assert [each.id for each in outcomes] == ["q0"]
    assert failures == {"q1": "ZeroDivisionError: by zero", "q2": "the server is down"}
    assert set(asked) == {"q1", "q2"}
    asked.clear()
    outcomes, failures, _ = recorded(tmp_path, recorder(asking))
    assert ([each.id for each in outcomes], failures) == (["q0", "q1", "q2", "q3"], {})
    assert set(asked) == {"q1", "q2", "q3"}


def test_a_question_that_has_changed_is_asked_again(tmp_path):
    recorded(tmp_path, recorder(), EXAMPLES[:2])
    changed = [EXAMPLES[0], replace(EXAMPLES[1], golds=("Kiel",))]
    outcomes, _, shown = recorded(tmp_path, recorder(), changed)
    assert shown[0] == (1, 2)
    assert [each.golds for each in outcomes] == [("Bonn",), ("Kiel",)]


def test_another_model_is_refused_and_without_any_answer_nothing_is_written(tmp_path):
    with pytest.raises(AllFailed, match="no question could be recorded; the first error: it is down"):
        recorded(tmp_path, recorder(lambda *_: ModelFailure("it is down")))
    assert not (tmp_path / "outcomes.jsonl").exists()
    recorded(tmp_path, recorder())
    with pytest.raises(RunFolderError, match="made with model 'scripted', now it is 'another'"):
        recorded(tmp_path, recorder(), header={"model": "another"})


@pytest.mark.parametrize("model_name", ["llama", "qwen", "few_layers_gguf"])
def test_every_gate_that_a_real_model_allows_is_measured(model_name, request, sample_index, tmp_path):
    engine = Engine(
        Single(max_tokens=12, passages=1, prompts=PLAIN),
        {"answer": request.getfixturevalue(model_name)},
        open_index(sample_index),
    )
    examples = [
        Example(Question(f"{at}", "Where was Ingmar Bergman born?"), ("Uppsala",)) for at in range(10)
    ]
    outcomes, failures, _ = recorded(tmp_path, SignalRecorder(engine, 2, {}), examples)
    found = measure_gates("t", outcomes, (), "f1", open_score("f1"), *open_gates())
    assert failures == {}
    by_chance = {"stated_confidence"}  # random weights rarely write a number
    assert {*found.lacking} - by_chance == {"energy_score"}
    assert {*found.failures} <= by_chance
