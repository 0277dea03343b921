"""The configuration: where its values come from, what is wrong with them, and what repeats it."""

import json
from dataclasses import dataclass, fields, replace

import pytest

import askance
from askance.configuration.settings import SETTINGS, EngineConfig, open_engine
from askance.configuration.sources import read_config
from askance.core.answers import Answer
from askance.core.errors import ConfigError, InputError, ParameterError, UnknownName
from askance.core.extensions import implements
from askance.core.ports import Method, Needs
from askance.core.token_ledger import Budget
from askance.core.trace import Asked, Trace
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.storage.trace_file import read_trace, trace_text, write_file
from askance.terminal.console import described


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A working folder of its own; writes askance.toml there, or that of the user."""
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "user" / "askance").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(
        "askance.configuration.sources.user_config_path", lambda *_, **__: tmp_path / "user" / "askance"
    )

    def write(text, *, of_user=False):
        place = tmp_path / "user" / "askance" if of_user else folder
        (place / "askance.toml").write_text(text, encoding="utf-8")
        return place / "askance.toml"

    return write


def origins(sourced):
    return {key: (value, origin) for key, value, origin in sourced.lines() if origin != "default"}


def test_flags_win_then_the_environment_then_the_project_then_the_user(project, monkeypatch):
    text = "seed = 1\npreset = 'paper'\nin_flight = 2\n[models]\nattend = 'scripted'\n"
    of_user = project(text, of_user=True)
    project("# mine\nseed = 2\nin_flight = 3\nindex = 'here'\n[set]\npassages = 4\nl_max = 900\n")
    monkeypatch.setenv("ASKANCE_SEED", "3")
    monkeypatch.setenv("ASKANCE_SET__PASSAGES", "5")
    monkeypatch.setenv("ASKANCE_MODEL", "scripted")
    found = read_config({"seed": 4, "budget": {"calls": 9}})
    assert origins(found) == {
        "index": ("here", "askance.toml"),
        "models.attend": ("scripted", f"{of_user}"),
        "models.answer": ("scripted", "ASKANCE_MODEL"),
        "parameters.passages": ("5", "ASKANCE_SET__PASSAGES"),
        "parameters.l_max": (900, "askance.toml"),
        "preset": ("paper", f"{of_user}"),
        "seed": (4, "Python"),
        "budget.calls": (9, "Python"),
        "in_flight": (3, "askance.toml"),
    }
    assert found.config.seed == 4
    assert found.config.budget == Budget(calls=9)


def test_without_any_source_it_is_the_default(project):
    assert read_config().config == EngineConfig() == EngineConfig(models="bundled", parameters={}, seed=0)
    assert read_config().origins == {}


def test_what_is_said_of_one_method_goes_with_it(project):
    project("method = 'dragin'\nset = { profile = 'paper' }\n")
    assert read_config().config.parameters == {"profile": "paper"}
    assert read_config({"method": "dragin"}).config.parameters == {"profile": "paper"}
    assert read_config({"method": "single", "parameters": {"passages": 2}}).config.parameters == {
        "passages": 2
    }


def test_another_thing_to_search_takes_the_place_of_the_index(project):
    project("index = 'one'\nretriever = 'hybrid'\n")
    assert read_config({"index": "two"}).config.settings["retriever"] == "hybrid"
    other = read_config({"retriever": "mine:Remote?url=x"}).config
    assert (other.index, other.retriever) == (None, "mine:Remote?url=x")
    project("retriever = 'mine:Remote'\n")
    assert read_config({"index": "two"}).config.retriever == "bm25"


def test_a_reranker_from_a_file_is_left_out_where_nothing_is_searched(project):
    project("rerank = 'bundled'\nmodel = 'scripted'\n")
    assert read_config({"method": "single", "index": "one"}).for_method().rerank == "bundled"
    assert read_config({"method": "closed_book", "index": "one"}).for_method().rerank is None
    config = read_config({"method": "closed_book", "rerank": "bundled"}).for_method()
    with pytest.raises(InputError, match="the reranker 'bundled' is given, but nothing is searched"):
        config.open()


@pytest.mark.parametrize(
    ("settings", "error", "told"),
    [
        ({"seed": "x"}, InputError, "seed='x': input should be a valid integer"),
        ({"sede": 1}, UnknownName, "unknown setting 'sede': did you mean 'seed'"),
        ({"retriever": 5}, InputError, "retriever=5: expected the name of a retriever"),
        ({"models": {"anser": "x"}}, UnknownName, "unknown role 'anser' of a model: did you mean 'answer'"),
        ({"models": {"answer": 3}}, InputError, "expected the name of a model"),
        ({"budget": {"cals": 3}}, UnknownName, "did you mean 'calls'"),
        ({"budget": {"calls": 1.5}}, ParameterError, "parameter calls=1.5 of the budget"),
        ({"parameters": 3}, InputError, "parameters=3: input should be a valid dictionary"),
        ({"in_flight": 0}, InputError, "in_flight=0: input should be greater than or equal to 1"),
    ],
)
def test_bad_values_in_python(settings, error, told):
    with pytest.raises(error, match=told):
        EngineConfig(**settings)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("seed = 1\nindex = 3", "askance.toml: index=3: input is not a valid path."),
        ("\nsede = 1\n", "unknown setting 'sede' in askance.toml: did you mean 'seed'"),
        ("seed = '1'\n", "askance.toml: seed='1': input should be a valid integer"),
        ("method = 'single'\n[models]\nanswr = 'x'\n", "askance.toml: unknown role 'answr'"),
        ("[budget]\n\ncalls = 'many'\n", "askance.toml: parameter calls='many' of the budget"),
        ("index = { x = 1 }\n", "askance.toml: index={'x': 1}: "),
        ("models = 3\n", "askance.toml: models=3"),
        ("schema = 2\nwhat = 1\n", "askance.toml has schema 2; this version reads 1. Use"),
        ("schema = 2\naskance = '9.1'\n", "It was written for askance 9.1. Use"),
        ("seed =\n", "askance.toml is not TOML"),
    ],
)
def test_bad_files(project, run, text, told):
    project(text)
    code, _, error = run("config")
    assert code == 2
    assert told in error


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        (
            "ASKANCE_SEDE",
            "1",
            "unknown variable 'ASKANCE_SEDE' of the environment: did you mean 'ASKANCE_SE",
        ),
        ("ASKANCE_SEED", "many", "ASKANCE_SEED: seed='many': input should be a valid integer"),
        ("ASKANCE_IN_FLIGHT", "0", "ASKANCE_IN_FLIGHT: in_flight=0: input should be greater"),
        ("ASKANCE_BUDGET__CALLS", "x", "ASKANCE_BUDGET__CALLS: parameter calls='x' of the budget"),
        ("ASKANCE_SET", "x", "ASKANCE_SET: parameters='x': input should be a valid dictionary"),
    ],
)
def test_bad_variables(project, run, monkeypatch, variable, text, told):
    monkeypatch.setenv(variable, text)
    code, _, error = run("config")
    assert code == 2
    assert told in error


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--seed", "many"], "--seed"),
        (["--budget", "calls=x"], "--budget: parameter calls='x' of the budget"),
        (["--model", "answr=x"], "--model: unknown role 'answr'"),
    ],
)
def test_bad_flags(project, run, flags, told):
    code, _, error = run("config", *flags)
    assert code == 2
    assert told in error


@pytest.mark.parametrize(
    ("text", "variables", "told"),
    [
        (
            "method = 'single'\n[set]\npassages = 'two'",
            {},
            "askance.toml: parameter passages='two' of method",
        ),
        (
            "method = 'single'\n[set]\npassages = -1",
            {},
            "askance.toml: parameter passages=-1 of method",
        ),
        (
            "method = 'single'\nset.passage = 3",
            {},
            "askance.toml: unknown parameter 'passage' of method",
        ),
        (
            "method = 'single'",
            {"ASKANCE_SET__PASSAGES": "x"},
            "ASKANCE_SET__PASSAGES: parameter passages='x'",
        ),
        ("method = 'single'\nset.prompts = 'nope'", {}, "askance.toml: unknown prompt set 'nope'"),
        (
            "method = 'blender'\nset = {'single.passages' = -1}",
            {},
            "askance.toml: parameter passages=-1",
        ),
        ("method = 'singel'", {}, "askance.toml: unknown method 'singel'"),
        ("method = 'single'\nprompts = 'nope'", {}, "askance.toml: unknown prompt set 'nope'"),
        ("method = 'single'\npreset = 'nope'", {}, "askance.toml: unknown preset 'nope'"),
        ("method = 'single'\nmodel = 'bundeld'", {}, "askance.toml: unknown model 'bundeld'"),
        ("method = 'single'\nretriever = 'bm26'", {}, "askance.toml: unknown retriever 'bm26'"),
        ("method = 'single'\nindex = 'nowhere'", {}, "askance.toml: the index nowhere"),
    ],
)
def test_what_is_wrong_with_a_value_names_where_it_was_given(
    project, run, monkeypatch, text, variables, told
):
    project(text)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code, _, err = run("ask", "Where?", columns=300)
    assert code == 2
    assert f"error: {told}" in err


def test_an_evaluation_names_where_the_index_that_is_not_there_was_given(project, run):
    project("method = 'single'\nindex = 'nowhere'\nmodel = 'scripted'")
    code, _, err = run("eval", "--dataset", "sample", "--out", "run", columns=300)
    assert (code, "error: askance.toml: the index nowhere" in err) == (2, True), err


def test_no_model_is_loaded_where_there_is_nothing_to_search(project, run):
    code, _, err = run("ask", "Where?", "--method", "single", "--model", "bundled", columns=300)
    assert code == 2
    assert err.startswith("error: method single searches, but no index is given")


def test_what_a_flag_said_wrongly_names_no_file(project, run):
    project("method = 'single'\n[set]\npassages = 2")
    code, _, err = run("ask", "Where?", "--set", "passages=x", "--model", "scripted", columns=300)
    assert (code, err.splitlines()[-1]) == (
        2,
        "error: parameter passages='x' of method single: expected int.",
    )


def test_what_files_name_and_nothing_asks_for_is_passed_over(project, run, sample_index, monkeypatch):
    project("encoder = 'scripted'\nprompts = 'hotpotqa'\n[models]\nanswer = 'scripted'\nattend = 'scripted'")
    given = ("--index", sample_index, "--method", "closed_book")
    code, _, err = run("ask", "Where?", *given, "--json", columns=300)
    assert code == 0, err
    assert run("search", "Bergman", "--index", sample_index)[0] == 0
    assert run("ask", "Where?", *given, "--encoder", "scripted")[0] == 2
    assert run("ask", "Where?", *given, "--model", "attend=scripted")[0] == 2


def test_variables_that_are_no_settings_are_left_alone(project, monkeypatch, tmp_path):
    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path))
    monkeypatch.setenv("ASKANCE_CACHE_FILE", "kept.sqlite")
    monkeypatch.setenv("ASKANCE_INDEX", "")
    config = read_config().config
    assert (str(config.cache), config.index) == ("kept.sqlite", None)


def test_a_preset_is_weaker_than_every_other_source(project, monkeypatch, tmp_path):
    (tmp_path / "mine.toml").write_text(
        "[single]\npassages = 2\nmax_tokens = 9\nl_max = 900\n[blender]\nl_max = 900\n", encoding="utf-8"
    )
    project("method = 'single'\nset = { passages = 7 }\n")
    monkeypatch.setenv("ASKANCE_SET__L_MAX", "800")
    made = read_config({"preset": str(tmp_path / "mine.toml")}).config.make()
    assert (made.passages, made.l_max, made.max_tokens) == (7, 800, 9)
    project("method = 'blender'\n[set]\nmethods = 'single,more=single'\nsingle = {passages = 7}\n")
    made = read_config({"preset": str(tmp_path / "mine.toml")}).config.make()
    assert {name: each.passages for name, each in made.methods.named} == {"single": 7, "more": 2}
    assert (made.l_max, [each.l_max for _, each in made.methods.named]) == (800, [None, None])


def test_the_parameters_of_members_are_values_of_their_own(project, monkeypatch):
    project("method = 'blender'\n[set.single]\npassages = 7\nl_max = 900\n")
    monkeypatch.setenv("ASKANCE_SET__SINGLE__PASSAGES", "3")
    found = read_config()
    assert found.config.parameters == {"single.passages": "3", "single.l_max": 900}
    assert origins(found)["parameters.single.passages"] == ("3", "ASKANCE_SET__SINGLE__PASSAGES")
    assert origins(found)["parameters.single.l_max"] == (900, "askance.toml")


def test_a_preset_that_can_not_be_read_is_told_by_what_asks_a_method(project, run, sample_index, monkeypatch):
    project("method = 'dragin'\nset.threshold = 2\n")
    monkeypatch.setenv("ASKANCE_PRESET", "nope")
    assert run("search", "Bergman", "--index", sample_index)[0] == 0
    code, _, err = run("ask", "Where?", "--index", sample_index, columns=300)
    assert (code, "error: ASKANCE_PRESET: unknown preset 'nope'" in err) == (2, True), err


def test_a_run_repeats_what_a_preset_gave(project, run, sample_index, tmp_path):
    project("method = 'flare'\nmodel = 'scripted'\n")
    (tmp_path / "mine.toml").write_text("[flare]\nsearch_below = 0.3\n", encoding="utf-8")
    given = ("--index", sample_index, "--trace", tmp_path / "why.jsonl")
    code, _, err = run("ask", "Where?", *given, "--preset", tmp_path / "mine.toml")
    assert code == 0, err
    assert read_config(file=tmp_path / "why.jsonl").config.make().search_below == 0.3


def test_the_command_shows_every_setting_with_its_origin(project, run):
    project("seed = 7\n")
    code, out, _ = run("config", "--method", "single", "--json")
    shown = json.loads(out)
    assert code == 0
    assert shown["origins"]["seed"] == "askance.toml"
    assert shown["origins"]["method"] == "--method"
    assert shown["config"].keys() == {"schema", *SETTINGS}
    code, out, _ = run("config", "--set", "passages=3")
    lines = [line.split() for line in out.splitlines()]
    assert ["seed", "7", "askance.toml"] in lines
    assert ["parameters.passages", "3", "--set"] in lines


def test_a_trace_holds_the_configuration_and_repeats_it(project, run, tmp_path):
    project("model = 'scripted'\nmethod = 'closed_book'\nset = { max_tokens = 9 }\nseed = 5\n")
    assert run("ask", "Who?", "--trace", "one.jsonl", "--budget", "calls=7")[0] == 0
    project("seed = 1\n")
    assert run("ask", "Who?", "--trace", "two.jsonl", "--config", "one.jsonl")[0] == 0
    first, second = (read_trace(tmp_path / "project" / name) for name in ("one.jsonl", "two.jsonl"))
    assert first[0].config == second[0].config
    assert first[0].config["parameters"] == {"max_tokens": 9}
    assert first[-1].answer == second[-1].answer
    assert run("ask", "Who?", "--trace", "two.jsonl", "--config", "one.jsonl", "--seed", "6")[0] == 0
    assert read_trace(tmp_path / "project" / "two.jsonl")[0].config == first[0].config | {"seed": 6}


def test_a_run_folder_holds_the_configuration_and_repeats_it(project, run, sample_index, tmp_path):
    words = (
        "--dataset",
        "sample",
        "--limit",
        1,
        "--out",
        "run",
        "--model",
        "scripted",
        "--index",
        sample_index,
    )
    assert run("eval", *words, "--out", "run", "--method", "single", "--set", "passages=2")[0] == 0
    kept = json.loads((tmp_path / "project" / "run" / "settings.json").read_text())["config"]
    assert (kept["method"], kept["parameters"], kept["index"]) == (
        "single",
        {"passages": "2"},
        str(sample_index),
    )
    _, out, _ = run("config", "--config", "run", "--json")
    assert json.loads(out)["config"] == kept
    assert run("ask", "Who?", "--config", "run", "--trace", "t.jsonl")[0] == 0
    assert read_trace(tmp_path / "project" / "t.jsonl")[0].config == kept


def test_a_trace_without_configuration_can_be_read_but_not_repeated(project, run, tmp_path):
    project("model = 'scripted'\nmethod = 'closed_book'\n")
    run("ask", "Who?", "--trace", "new.jsonl")
    trace = Trace()
    trace.events += (
        replace(event, config={}) if isinstance(event, Asked) else event
        for event in read_trace(tmp_path / "project" / "new.jsonl")
    )
    write_file(tmp_path / "project" / "other.jsonl", trace_text(trace))
    assert read_trace(tmp_path / "project" / "other.jsonl")[0].config == {}
    code, _, error = run("ask", "Who?", "--config", "other.jsonl")
    assert code == 2
    assert "other.jsonl contains no configuration" in error


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("absent.toml", "can't read the configuration absent.toml"),
        ("absent.jsonl", "can't read the trace absent.jsonl"),
        (".", "can't read the configuration settings.json"),
    ],
)
def test_a_configuration_that_can_not_be_read(project, run, name, told):
    code, _, error = run("config", "--config", name)
    assert code == 2
    assert told in error


@implements(Method)
@dataclass(frozen=True)
class Echo:
    """Says the question again."""

    times: int = 1

    @property
    def needs(self):
        return Needs()

    async def answer(self, question, run):
        run.trace.commit(question.text * self.times)
        return Answer(question.text * self.times)


def test_objects_stand_wherever_names_do(tmp_path):
    config = EngineConfig(method=Echo(2), models=ScriptedModel(), retriever=ScriptedRetriever([]))
    engine = config.open()
    result = engine.ask("Who?")
    assert result.answer.text == "Who?Who?"
    stored = result.trace.events[0].config
    assert (stored["method"], stored["parameters"]) == (
        "tests.configuration.test_settings:Echo",
        {"times": 2},
    )
    assert stored["models"] == {"answer": {"object": ScriptedModel().name}}
    assert open_engine(method=Echo(), model="scripted", parameters={"times": "3"}).method == Echo(3)


def test_what_was_an_object_without_a_name_is_told_where_it_is_repeated(tmp_path):
    from askance.storage.trace_file import trace_text, write_file

    given = {"models": ScriptedModel(), "retriever": ScriptedRetriever([])}
    result = EngineConfig(method=Echo(2), **given).open().ask("Who?")
    path = tmp_path / "t.jsonl"
    write_file(path, trace_text(result.trace))
    with pytest.raises(ConfigError, match=r"retriever was an object .* give --retriever in its place"):
        read_config(file=path, trust=True)
    named = {"model": "scripted", "index": tmp_path}
    assert read_config(named, file=path, trust=True).config.retriever == "bm25"
    given = {"model": "scripted", "retriever": "bm25"}
    again = read_config(given, file=path, trust=True).config.open().ask("Who?")
    assert again.answer.text == "Who?Who?"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"method": object()}, "is no method: it lacks needs, answer"),
        ({"model": object()}, "is no model: it lacks name, "),
        ({"retriever": object()}, "is no retriever: it lacks name, fingerprint, search"),
        ({"encoder": object()}, "is no encoder: it lacks name, fingerprint, embed"),
    ],
)
def test_an_object_that_lacks_a_member_of_its_port(settings, told):
    with pytest.raises(InputError, match=told):
        open_engine(**settings)


def test_every_setting_has_one_declaration_that_says_what_it_means(run):
    for each in fields(EngineConfig):
        assert described(EngineConfig.__doc__, "Attributes")[each.name]
    _, out, _ = run("eval", "--help", columns=200)
    for name, each in SETTINGS.items():
        assert (each.metadata["flag"] or f"--{name.replace('_', '-')}") in out


def test_it_is_public():
    assert askance.EngineConfig is EngineConfig
    assert askance.read_config is read_config
