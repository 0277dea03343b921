"""The reproductions where a user meets them: calibration, presets and a spaCy pipeline."""

import asyncio

import pytest

from askance.configuration.methods import make_method
from askance.configuration.presets import preset_text
from askance.core.parameters import changed_parameters
from askance.core.types import Passage, Question
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.asking import ask
from tests.configuration.test_presets import HOTPOT, filled
from tests.evaluation.choose.test_calibrate import FLARE, run
from tests.text.test_spacy_pipeline import pipeline


def test_a_sentence_is_judged_by_its_mean():
    def script(prompt, key):
        return Reply(" So the answer is Bonn.", sureness=float(key[1]))

    found = run("flare_token", {}, 0.5, script=script)
    assert 0.45 <= found.value < 0.55


def test_a_jump_over_the_number_wanted_is_told():
    def script(prompt, key):
        return Reply(" So the answer is Bonn.", sureness=0.5)

    found = run("flare_token", {}, 0.5, script=script, max_trials=20)
    assert 0.499 <= found.value <= 0.501
    assert found.remark.startswith("no value tried gave 0.5: it lies between 0.00 (threshold=0.5")
    assert run("flare", FLARE, 0.5).remark == ""


@pytest.mark.parametrize(
    ("name", "threshold", "query_top", "max_tokens"),
    [
        ("dragin/llama2-13b-chat/2wikimultihopqa", 0.8, 25, 64),
        (HOTPOT, 1.2, 35, 100),
        ("dragin/llama2-7b-chat/iirc", 0.6, 35, 128),
        ("dragin/vicuna-13b-v1.5/strategyqa", 1.5, 25, 100),
    ],
)
def test_the_values_of_the_authors_configurations(name, threshold, query_top, max_tokens):
    dragin = filled("dragin_authors", name)
    assert (dragin.threshold, dragin.query_top, dragin.max_tokens) == (threshold, query_top, max_tokens)
    assert filled("flare_token", "dragin/vicuna-13b-v1.5/iirc").threshold == 0.4


def test_what_is_written_can_be_read_again(tmp_path):
    path = tmp_path / "p"
    settings = {"threshold": 0.25, "space_marker": '"▁\\', "real_words_only": "no"}
    method = make_method("dragin_authors", settings)
    path.write_text(preset_text(type(method), changed_parameters(method), ["two\nlines"]), encoding="utf-8")
    assert path.read_text(encoding="utf-8").startswith("# two lines\n[dragin_authors]\n")
    assert filled("dragin_authors", path) == method


__all__ = ["pipeline"]


def test_a_method_reads_with_the_pipeline_that_its_parameter_names(pipeline):
    spec = pipeline("sentencizer", "entity_ruler")
    method = make_method("flare_entity", {"linguistics": spec, "threshold": "0.5"})
    doubtful = Reply(" Ann met Jo Smith. So it was.", {"Ann": 0.1, "Jo": 0.1, "Smith": 0.1})
    model = ScriptedModel([doubtful, " So the answer is Bonn."])
    retriever = ScriptedRetriever([Passage("a", "A", "Text.")])
    asyncio.run(ask(Question("q", "Who?"), method, {"answer": model}, retriever))
    assert retriever.queries == ["Ann met ."]
