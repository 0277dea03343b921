"""Thresholds relative to a calibration, as a user types them: ``--set search_below=70%``."""

import asyncio
import json
import math
import re
import shutil
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from askance.configuration import thresholds
from askance.configuration.methods import make_method, method_class
from askance.configuration.settings import EngineConfig
from askance.core.errors import ThresholdError
from askance.evaluation.choose.calibrate import KeptScores, inert_before
from askance.models.scripted import Reply, ScriptedModel
from tests.evaluation.choose.test_calibrate import PROBABILITIES, reply
from tests.serve.served import serving
from tests.tolerances import near

DRAGIN, FLARE = method_class("dragin"), method_class("flare")


def kept(*sentences, searches=1.0):
    return KeptScores(key="k", fingerprint="f", source="a test", searches=searches, sentences=sentences)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("0%", 0.0),
        ("50%", 0.55),  # the greatest scores of the ten questions are 0.1 to 1
        ("90%", 0.91),
        ("100%", math.inf),
        ("1/question", math.inf),
        ("1.5/question", 0.525),  # above it are five of the twenty sentences
        ("3/question", 0.0),
    ],
)
def test_a_relative_threshold_is_a_quantile_in_the_direction_of_the_method(wanted, expected):
    doubts = kept(*((number / 10, number / 20) for number in range(1, 11)))
    probabilities = kept(*((1 - number / 10, 1 - number / 20) for number in range(1, 11)))
    value, (low, high), _ = doubts.find(wanted, DRAGIN)
    assert value == near(expected)
    assert low <= value <= high
    value, (low, high), _ = probabilities.find(wanted, FLARE)
    assert value == near(max(1 - expected, 0.0))
    assert low <= value <= high


def test_the_ends_that_a_message_names_can_be_given():
    scores = kept(*[(0.1, 0.2, 0.3)] * 30, searches=31 / 30)
    with pytest.raises(ThresholdError, match=re.escape("give 1.034/question to 4.033/question")):
        scores.find("9/question", FLARE)
    assert scores.find("1.034/question", FLARE)[0] < scores.find("4.033/question", FLARE)[0]


def test_the_share_of_other_questions_lies_in_its_interval():
    """So it does for 95 % of samples of any distribution; a question may have no score."""
    random, inside = np.random.default_rng(1), 0
    for _ in range(100):
        value, _, (low, high) = kept(*((each,) for each in random.exponential(size=30))).find("70%", DRAGIN)
        inside += low <= np.mean(random.exponential(size=30) > value) <= high
    assert 90 <= inside <= 99
    assert kept((), (2.0,), ()).find("50%", DRAGIN)[0] == 0


def test_a_threshold_alone_is_not_resampled_and_resampling_is_bounded_in_memory(monkeypatch):
    many = kept(*[(0.1, 0.2, 0.3, 0.4, 0.5)] * 400)
    tracemalloc.start()
    value = many.find("2/question", DRAGIN)[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000, "2,000 draws of 2,000 scores are 32 MB"
    monkeypatch.setattr(np.random, "default_rng", None)
    assert many.threshold("2/question", DRAGIN) == value


@pytest.mark.parametrize(
    ("method", "settings", "scores", "remark"),
    [
        (
            "dragin",
            {"trigger": "token_probability", "threshold": 10.0},
            None,
            "never fires: 1 − probability is 0 to",
        ),
        (
            "dragin",
            {"threshold": 0.0},
            None,
            "always fires: doubt (nats) × attention is 0 to inf by definition",
        ),
        ("dragin", {"threshold": 10.0}, None, ""),
        ("dragin", {"threshold": 10.0}, 20, "never fires: doubt (nats) × attention is 0.1 to 0.9 for a test"),
        ("dragin", {"threshold": 10.0}, 19, ""),
        (
            "dragin",
            {"threshold": 0.05},
            20,
            "always fires: doubt (nats) × attention is 0.1 to 0.9 for a test",
        ),
        ("dragin", {"threshold": 0.5}, 20, ""),
        ("dragin", {"threshold": 10.0, "trigger": "every_sentence"}, 20, ""),
        ("dragin", {"threshold": 0.0, "trigger": "entropy_trend"}, None, ""),
        ("dragin", {"threshold": 0.0, "trigger": "entropy_trend"}, 20, "entropy_trend is 0.1 to"),
        ("flare", {"search_below": 0.0}, None, "never fires: token probability is 0 to 1 by definition"),
        ("flare", {"search_below": 1.0}, None, "always fires: token probability is 0 to 1 by definition"),
        ("flare", {"search_below": 0.05}, 20, "never fires: token probability is 0.1 to 0.9 for a test"),
        ("flare", {"search_below": 0.95}, 20, "always fires: token probability is 0.1 to 0.9 for a test"),
    ],
)
def test_a_threshold_outside_the_scores_is_named_before_an_answer(method, settings, scores, remark):
    made = make_method(method, settings)
    said = inert_before(made, scores and kept(*[(0.1,), (0.9,)] * 9, (0.5,) * (scores - 18)))
    assert remark in said
    assert bool(said) == bool(remark)


@pytest.fixture
def typed(run, sample_index, tmp_path, monkeypatch):
    """Run commands on a model with a fingerprint, whose least probability is the number in the question."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "idx").symlink_to(sample_index)
    rows = [{"id": str(p), "question": f"Where is it, {p}?", "answers": ["Bonn"]} for p in PROBABILITIES]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def scripted(self, shown, key):
        number = re.search(r"Where is it, ([\d.]+)", shown)
        made = reply("", ("", number[1] if number else "0.99", "", key[3] if isinstance(key[3], int) else 1))
        return Reply(made) if isinstance(made, str) else made

    monkeypatch.setattr(ScriptedModel, "_reply", scripted)
    monkeypatch.setattr(ScriptedModel, "fingerprint", "the weights")

    def typed(command):
        options = "" if "grid" in command else "--index idx --model scripted"
        code, out, err = run(f"{command} {options}", columns=400)
        return code, " ".join(out.split()), " ".join(err.split())

    return typed


QUICK = "calibrate --quick --method flare --dataset jsonl:q.jsonl"


def test_a_quick_calibration_is_kept_and_used_by_every_command(typed, tmp_path):
    (tmp_path / "askance.toml").write_text('method = "flare"\n[set]\nsearch_below = "70%"\n')
    code, out, err = typed(f"{QUICK} --percentile 70 --searches 1.5")
    assert code == 0
    assert "10 questions of jsonl:q.jsonl with scripted, 20" in out
    assert "scores 0.05 to 0." in out
    assert re.search(
        r"calibrating flare with 10 questions of jsonl:q.jsonl: about 20 model calls and \d+ s more", err
    )
    value = float(re.search(r"70%: threshold (\S+) \(95 % interval", out)[1])
    assert value == near(0.32)  # the 70 % of the least probabilities above it are not searched for
    assert "use it: --set search_below=1.5/question" in out
    shown = json.loads(typed("calibrate --method flare --percentile 70 --json")[1])
    assert f"{shown['thresholds']['70%'][0]:.4g}" == f"{value:.4g}"
    value = shown["thresholds"]["70%"][0]
    assert typed("ask 'Where is it, 0.25?' --method flare --set search_below=70% --trace t.jsonl")[0] == 0
    assert f'"threshold": {value}' in (tmp_path / "t.jsonl").read_text()
    assert typed("eval --dataset jsonl:q.jsonl --out run")[0] == 0
    settings = json.loads((tmp_path / "run/settings.json").read_text())
    assert (settings["parameters"]["search_below"], settings["config"]["parameters"]) == (
        repr(value),
        {"search_below": "70%"},
    )
    (tmp_path / "grid.toml").write_text(
        'index = "idx"\n[datasets.own]\nquestions = "jsonl:q.jsonl"\n[models.scripted]\nanswer = "scripted"\n'
        '[methods.flare]\nset = { search_below = "70%" }\n'
    )
    assert typed("grid grid.toml --out runs")[0] == 0
    settings = json.loads((tmp_path / "runs/own/scripted/flare/settings.json").read_text())
    assert settings["parameters"]["search_below"] == repr(value)
    lines = (tmp_path / "run/records.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["usage"]["searches"] - 1 for line in lines) == 3


def test_a_calibration_that_does_not_fit_is_refused(typed, tmp_path, monkeypatch):
    ask = "ask 'Where is it?' --method flare --set search_below=70%"
    make = "askance calibrate --quick --method flare --model scripted --index DIR"
    assert f"no calibration is kept. Make one: {make}" in typed(ask)[2]
    assert typed(QUICK)[0] == 0
    code, _, err = typed(f"{ask} --set search_first=false")
    assert (code, "--model scripted --set search_first=false --index DIR" in err) == (2, True)
    code, _, err = typed("ask Q? --method flare --set search_below=5/question")
    assert (code, "5/question: give 1/question to 3/question (10 questions" in err) == (2, True)
    monkeypatch.setattr(ScriptedModel, "fingerprint", "other weights")
    code, _, err = typed(ask)
    assert (code, "scripted has changed since its calibration. Make another: askance" in err) == (2, True)
    (file,) = (tmp_path / "cache/thresholds").iterdir()
    for content in ("[" * 100_000, file.read_text().replace("[0.05", "[NaN", 1), "{}"):
        file.write_text(content)
        code, _, err = typed(ask)
        assert (code, "can't be read: remove it, and make another" in err) == (2, True)
    assert typed("ask 'Where is it?' --method flare")[0] == 0


def test_a_member_with_a_number_needs_no_calibration_of_this_model(typed, monkeypatch):
    assert typed(QUICK)[0] == 0
    monkeypatch.setattr(ScriptedModel, "fingerprint", "other weights")
    assert typed(f"{QUICK} --set search_first=false")[0] == 0
    members = "a=flare(search_below=70%,search_first=false),b=flare(search_below={})"
    ask = f"ask 'Where is it?' --method 'blender({members})'"
    assert typed(ask.format(0.3))[0] == 0
    assert "scripted has changed since its calibration" in typed(ask.format("70%"))[2]


def test_a_request_uses_no_calibration_of_another_model(typed, sample_index, monkeypatch, tmp_path):
    def asked(**options):
        response = served.ask(model="askance/flare", askance=options)
        return response.status_code, response.json().get("error", {}).get("message", "")

    settings = {"models": {"answer": "scripted"}}
    changed = "no calibration of this server's model is kept: give a number."
    with serving(sample_index, **settings) as served:
        assert asked(search_below="60%") == (400, changed), "no path of the server is told"
    assert typed(QUICK)[0] == 0
    with serving(sample_index, **settings) as served:
        assert asked(search_below="60%") == (200, "")
        assert asked(search_below="9/question") == (400, "9/question: give 1/question to 3/question.")
    monkeypatch.setattr(ScriptedModel, "fingerprint", "other weights")
    with serving(sample_index, **settings) as served:
        assert asked(search_below="60%") == (400, changed)
        assert asked(search_below=0.6) == (200, "")
    assert typed(f"{QUICK} --set as_published=true")[0] == 0
    monkeypatch.setattr(ScriptedModel, "fingerprint", "the weights")
    with serving(sample_index, method="flare", parameters={"search_below": "60%"}, **settings) as served:
        assert asked(passages=1) == (200, "")
        assert asked(as_published=True) == (400, changed), "the calibration of another parameter"
        shutil.rmtree(tmp_path / "cache/thresholds")
        assert asked(passages=2) == (200, ""), "the threshold of the server stays"
        assert asked(search_below="60%") == (400, changed)


OWN_GATE = """from askance import implements
from askance.methods.gates.signals import Gate

@implements(Gate)
def doubt(signals):
"""


def test_the_scores_of_a_gate_are_those_of_its_source(typed, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ScriptedModel, "_reply", lambda *_: Reply(" So the answer is Bonn.", {"Bonn": 0.5}))
    ask = "ask 'Where is it?' --method dragin --set trigger=own_gate:doubt --set threshold=70%"
    for number, code in ((1, 0), (22, 2)):  # of different sizes, so that no old bytecode is used
        monkeypatch.delitem(sys.modules, "own_gate", raising=False)
        text = f"{OWN_GATE}    return {number}\n"
        (tmp_path / "own_gate.py").write_text(text)
        if number == 1:
            made = typed(f"{QUICK.replace('flare', 'dragin')} --set trigger=own_gate:doubt")
            assert made[0] == 0, made
        got, _, err = typed(ask)
        assert (got, "no calibration is kept" in err) == (code, code == 2)


def test_a_calibration_that_stops_keeps_nothing(typed, tmp_path, monkeypatch):
    def broken(self, shown, key):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ScriptedModel, "_reply", broken)
        assert typed(QUICK)[0] == 130
    assert not any((tmp_path / "cache/thresholds").iterdir())
    code, _, err = typed("calibrate --quick --method dragin --set trigger=every_sentence")
    told = "dragin(trigger=every_sentence) compares no scores with a threshold: leave out the parameter"
    assert (code, told in err) == (2, True)
    monkeypatch.setattr(ScriptedModel, "fingerprint", "")
    assert "can't be kept, since no fingerprint distinguishes it" in typed(QUICK)[2]
    monkeypatch.setattr(ScriptedModel, "fingerprint", "the weights")
    (tmp_path / "file").touch()
    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path / "file"))
    code, _, err = typed(QUICK)
    assert (code, "name another folder in the environment variable ASKANCE_CACHE" in err) == (2, True)


def test_the_first_use_of_a_local_model_at_a_terminal_calibrates_it(typed, tmp_path, monkeypatch):
    offer = "search_below=0.8 of flare was not calibrated for scripted. To do so: askance calibrate --quick"
    ask = "ask 'Where is it, 0.5?' --method flare"
    assert offer not in typed(ask)[2]  # a model without a scale of its own
    monkeypatch.setattr(thresholds, "_LOCAL", ("scripted",))
    assert offer in typed(ask)[2]
    assert offer not in typed(f"{ask} --set search_below=0.7")[2]
    terminal = SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(thresholds, "sys", terminal)
    with monkeypatch.context() as patch:
        patch.setattr(thresholds, "_MOST_SECONDS", -1.0)
        assert re.search(f"s more, too long to go on unasked.*{re.escape(offer)}", typed(ask)[2])
        said = typed(ask)[2]
        assert offer in said
        assert "calibrating" not in said  # only the first use tries
    (tried,) = (tmp_path / "cache/thresholds").iterdir()
    tried.unlink()

    async def in_a_loop():
        config = EngineConfig(method="flare", index=tmp_path / "idx", models={"answer": "scripted"})
        config.open_to_answer()

    asyncio.run(in_a_loop())
    assert not tried.exists(), "no calibration can run in a loop"
    tried.touch()
    tried.unlink()
    monkeypatch.setattr(thresholds, "_MOST_SECONDS", math.inf)  # however slow the machine is
    assert "calibrating flare with 30 questions of sample" in typed(ask)[2]
    assert [*(tmp_path / "cache/thresholds").glob("*.json")]
    said = typed(ask)[2]
    assert (
        "the threshold 0.8 never fires: token probability is 0.99 to 0.99 for 30 questions of sample" in said
    )
    assert "calibrating" not in said
    assert offer not in said
    monkeypatch.setattr(thresholds, "_LOCAL", ())
    monkeypatch.setattr(thresholds, "_SERVERS", ("scripted",))
    assert "--set search_first=false --index DIR" in typed(f"{ask} --set search_first=false")[2]
