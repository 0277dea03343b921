"""The configuration: where its values come from, what is wrong with them, and what repeats it."""

import json
import os
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace

import pytest

from askance.configuration.server import ServerConfig
from askance.configuration.settings import SETTINGS, EngineConfig, open_engine
from askance.configuration.sources import read_config
from askance.core.answers import Answer
from askance.core.errors import ConfigError, InputError, ParameterError, UnknownName
from askance.core.extensions import implements
from askance.core.ports import Method, Needs
from askance.core.token_ledger import Budget
from askance.core.trace import Asked, Trace
from askance.core.types import Hit, Passage
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.storage.trace_file import read_trace, trace_text, write_file
from askance.terminal.console import described


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A working folder; a call writes its askance.toml, or that of the user."""
    folder, of_the_user = tmp_path / "project", tmp_path / "user" / "askance"
    folder.mkdir()
    of_the_user.mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("askance.configuration.sources.user_config_path", lambda *_, **__: of_the_user)

    def write(text, place=folder):
        (place / "askance.toml").write_text(text, encoding="utf-8")
        return place / "askance.toml"

    write.user = of_the_user
    return write


def origins(sourced):
    return {key: (value, origin) for key, value, origin in sourced.lines() if origin != "default"}


def test_flags_win_then_the_environment_then_the_project_then_the_user(project, monkeypatch):
    assert read_config().config == EngineConfig() == EngineConfig(models="bundled", parameters={}, seed=0)
    text = "seed = 1\npreset = 'airrag/table1'\nin_flight = 2\n[models]\nattend = 'scripted'\n"
    of_user = f"{project(text, project.user)}"
    text = "# mine\nseed = 2\nin_flight = 3\nindex = 'here'\n[set]\npassages = 4\nl_max = 900\n"
    project(f"{text}single = {{passages = 7, l_max = 900}}\n")
    variables = {"SEED": "3", "SET__PASSAGES": "5", "SET__SINGLE__PASSAGES": "3", "MODEL": "scripted"}
    variables |= {"CACHE": "folder", "CACHE_FILE": "kept.sqlite", "METHOD": ""}
    for name, value in variables.items():
        monkeypatch.setenv(f"ASKANCE_{name}", value)
    found = read_config({"seed": 4, "budget": {"calls": 9}})
    assert origins(found) == {
        "index": ("here", "askance.toml"),
        "models.attend": ("scripted", of_user),
        "models.answer": ("scripted", "ASKANCE_MODEL"),
        "parameters.passages": ("5", "ASKANCE_SET__PASSAGES"),
        "parameters.l_max": (900, "askance.toml"),
        "parameters.single.passages": ("3", "ASKANCE_SET__SINGLE__PASSAGES"),
        "parameters.single.l_max": (900, "askance.toml"),
        "preset": ("airrag/table1", of_user),
        "seed": (4, "Python"),
        "budget.calls": (9, "Python"),
        "cache": ("kept.sqlite", "ASKANCE_CACHE_FILE"),
        "in_flight": (3, "askance.toml"),
    }
    assert (found.config.seed, found.config.budget) == (4, Budget(calls=9))


def test_the_table_serve_has_the_same_sources_and_concerns_only_the_server(project, run, monkeypatch):
    of_user = str(project("[serve]\nhost = '::1'\nwaiting = 2\nport = 1\n", project.user))
    project("[serve]\nport = 2\nwaiting = 3\n")
    monkeypatch.setenv("ASKANCE_SERVE__PORT", "4")
    monkeypatch.setenv("ASKANCE_SERVE__API_KEY_ENV", "MY_KEY")
    found = read_config({"strict_parameters": True}, kind=ServerConfig)
    assert origins(found) == {
        "serve.host": ("::1", of_user),
        "serve.port": (4, "ASKANCE_SERVE__PORT"),
        "serve.api_key_env": (("MY_KEY",), "ASKANCE_SERVE__API_KEY_ENV"),
        "serve.waiting": (3, "askance.toml"),
        "serve.strict_parameters": (True, "Python"),
    }
    assert (read_config().config, read_config().origins) == (EngineConfig(), {})
    assert "serve.port" in run("config --json")[1]
    project("[serve]\nhost = '0.0.0.0'\n")
    told = "askance.toml: serve.host decides who reaches the server"
    assert told in run("config", columns=300)[2]
    assert run("config --trust-config")[0] == 0


PROFILE = "method = 'dragin'\nset = { profile = 'paper' }"
RERANKED = "rerank = 'bundled'\nmodel = 'scripted'"


@pytest.mark.parametrize(
    ("text", "flags", "expected"),
    [
        (PROFILE, {}, {"parameters": {"profile": "paper"}}),
        (PROFILE, {"method": "dragin"}, {"parameters": {"profile": "paper"}}),
        (PROFILE, {"method": "single", "parameters": {"l_max": 2}}, {"parameters": {"l_max": 2}}),
        ("index = 'one'\nretriever = 'hybrid'", {"index": "two"}, {"retriever": "hybrid"}),
        ("index = 'one'", {"retriever": "mine:R?url=x"}, {"index": None, "retriever": "mine:R?url=x"}),
        ("retriever = 'mine:Remote'", {"index": "two"}, {"retriever": "bm25"}),
    ],
)
def test_a_stronger_source_makes_settings_of_weaker_ones_obsolete(project, text, flags, expected):
    project(text)
    config = read_config(flags).config
    assert {name: getattr(config, name) for name in expected} == expected


def test_settings_of_files_that_nothing_uses_are_ignored(project, run, sample_index):
    project(f"{RERANKED}\nencoder = 'scripted'\nprompts = 'hotpotqa'\n")
    assert read_config({"method": "single", "index": "one"}).for_method().rerank == "bundled"
    assert read_config({"method": "closed_book", "index": "one"}).for_method().rerank is None
    with pytest.raises(InputError, match="the reranker 'bundled' is given, but nothing is searched"):
        read_config({"method": "closed_book", "rerank": "bundled"}).for_method().open()
    project("encoder = 'scripted'\nprompts = 'hotpotqa'\n[models]\nanswer = 'scripted'\nattend = 'scripted'")
    given = ("--index", sample_index, "--method", "closed_book")
    code, _, err = run("ask", "Where?", *given, "--json", columns=300)
    assert code == 0, err
    assert run("search", "Bergman", "--index", sample_index)[0] == 0


class Plain:
    """A retriever whose search is a plain function."""

    name = fingerprint = "plain"

    def __init__(self, search):
        self.search = search


def test_a_function_of_a_port_may_be_plain():
    found = Hit(Passage("1", "Bonn", "Bonn lies on the Rhine."), 1.0, 1)
    engine = open_engine(
        method="single", model="scripted", retriever=Plain(lambda query, k, *, exclude=frozenset(): (found,))
    )
    searched = [event.hits for event in engine.ask("Where?").trace.events if event.type == "search"]
    assert (engine.retriever.name, searched) == ("plain", [(found,)])


BAD = [
    ({"seed": "x"}, InputError, "seed='x': input should be a valid integer"),
    ({"sede": 1}, UnknownName, "unknown setting 'sede': did you mean 'seed'"),
    ({"retriever": 5}, InputError, "retriever=5: expected the name of a retriever"),
    ({"models": {"anser": "x"}}, UnknownName, "unknown role 'anser' of a model: did you mean 'answer'"),
    ({"models": {"answer": 3}}, InputError, "expected the name of a model"),
    ({"budget": {"cals": 3}}, UnknownName, "did you mean 'calls'"),
    ({"passages": 3}, UnknownName, "unknown setting 'passages': write parameters={'passages': 3}"),
    ({"method": "closed_book", "passages": 3}, UnknownName, "unknown setting 'passages': did you mean"),
    ({"budget": 100}, InputError, r"budget=100: expected a budget, such as Budget\(tokens=100\)"),
    ({"budget": {"calls": 1.5}}, ParameterError, "parameter calls=1.5 of the budget"),
    ({"parameters": 3}, InputError, "parameters=3: input should be a valid dictionary"),
    ({"in_flight": 0}, InputError, "in_flight=0: input should be greater than or equal to 1"),
    ({"abstain_below": -0.1}, InputError, "abstain_below=-0.1: give a confidence from 0 to 1, or auto"),
    ({"abstain_below": "often"}, InputError, "abstain_below='often': give a confidence from 0 to 1, or auto"),
    ({"abstain_below": float("nan")}, InputError, "abstain_below=nan: give a confidence from 0 to 1"),
    ({"abstain_below": True}, InputError, "abstain_below=True: give a confidence from 0 to 1"),
    ({"abstain_below": [0.3]}, InputError, "abstain_below=.*: give a confidence from 0 to 1"),
    ({"method": object()}, InputError, "is no method: it lacks needs, answer"),
    ({"models": object()}, InputError, "is no model: it lacks name, "),
    ({"retriever": object()}, InputError, "is no retriever: it lacks name, fingerprint, search"),
    ({"retriever": SimpleNamespace(name="")}, InputError, "SimpleNamespace is no retriever: it lacks finger"),
    ({"retriever": Plain(lambda query, k: ())}, InputError,
     "the retriever Plain is no retriever: it can't be called as search.*exclude.*, got an unexpected "
     "keyword argument 'exclude'; docs/extending.md shows one"),
    ({"retriever": Plain(lambda query, *, exclude: ())}, InputError, "too many positional arguments"),
    ({"retriever": Plain(3)}, InputError, "3 is not a callable object"),
    ({"encoder": object()}, InputError, "is no encoder: it lacks name, fingerprint, embed"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "error", "told"), BAD)
def test_bad_values_in_python(settings, error, told):
    with pytest.raises(error, match=told):
        EngineConfig(**settings)


def test_a_threshold_is_a_number_or_auto():
    assert EngineConfig(abstain_below="0.25").abstain_below == 0.25
    assert EngineConfig(abstain_below="auto").abstain_below == "auto"


SINGLE = "method = 'single'\n"
ORIGINS = [
    ("seed = 1\nindex = 3", "", "askance.toml: index=3: input is not a valid path."),
    ("\nsede = 1\n", "", "unknown setting 'sede' in askance.toml: did you mean 'seed'"),
    ("seed = '1'\n", "", "askance.toml: seed='1': input should be a valid integer"),
    ("[models]\nanswr = 'x'\n", "", "askance.toml: unknown role 'answr'"),
    ("[budget]\n\ncalls = 'many'\n", "", "askance.toml: parameter calls='many' of the budget"),
    ("index = { x = 1 }\n", "", "askance.toml: index={'x': 1}: "),
    ("models = 3\n", "", "askance.toml: models=3"),
    ("schema = 2\nwhat = 1\n", "", "askance.toml has schema 2; this version reads 1. Use"),
    ("schema = 2\naskance = '9.1'\n", "", "It was written for askance 9.1. Use"),
    ("seed =\n", "", "askance.toml is not TOML"),
    ("", "ASKANCE_SEDE=1", "unknown variable 'ASKANCE_SEDE' of the environment: did you mean 'ASKANCE_SE"),
    ("", "ASKANCE_SEED=many", "ASKANCE_SEED: seed='many': input should be a valid integer"),
    ("", "ASKANCE_IN_FLIGHT=0", "ASKANCE_IN_FLIGHT: in_flight=0: input should be greater"),
    ("", "ASKANCE_BUDGET__CALLS=x", "ASKANCE_BUDGET__CALLS: parameter calls='x' of the budget"),
    ("", "ASKANCE_SET=x", "ASKANCE_SET: parameters='x': input should be a valid dictionary"),
    ("", "ASKANCE_STRICT=perhaps", "ASKANCE_STRICT: strict='perhaps': "),
    ("serve = 3", "", "askance.toml: serve=3: expected a table, such as [serve]"),
    ("[serve]\nprot = 1", "", "unknown setting 'prot' of [serve] in askance.toml: did you mean 'port'"),
    ("[serve]\nport = 99999", "", "askance.toml: port=99999: input should be less than or equal to 65535"),
    ("[server]\nport = 1", "", "unknown setting 'server' in askance.toml: did you mean 'serve'"),
    ("", "ASKANCE_SERVE__PORT=x", "ASKANCE_SERVE__PORT: port='x': input should be a valid integer"),
    ("", "ASKANCE_PORT=1", "ASKANCE_SERVE__PORT"),
    (f"{SINGLE}set.passages = 'two'", "", "error: askance.toml: parameter passages='two' of method"),
    (f"{SINGLE}set.passages = -1", "", "error: askance.toml: parameter passages=-1 of method"),
    (f"{SINGLE}set.passage = 3", "", "error: askance.toml: unknown parameter 'passage' of method"),
    (SINGLE, "ASKANCE_SET__PASSAGES=x", "error: ASKANCE_SET__PASSAGES: parameter passages='x'"),
    (f"{SINGLE}set.prompts = 'nope'", "", "error: askance.toml: unknown prompt set 'nope'"),
    (f"{SINGLE}set.passages = 2", "--set passages=x", "error: parameter passages='x' of method single: e"),
    ("method = 'blender'\nset = {'single.passages' = -1}", "", "error: askance.toml: parameter passages=-1"),
    ("method = 'singel'", "", "error: askance.toml: unknown method 'singel'"),
    (f"{SINGLE}prompts = 'nope'", "", "error: askance.toml: unknown prompt set 'nope'"),
    (f"{SINGLE}preset = 'nope'", "", "error: askance.toml: unknown preset 'nope'"),
    ("method = 'dragin'\nset.threshold = 2", "ASKANCE_PRESET=nope", "error: ASKANCE_PRESET: unknown preset"),
    (f"{SINGLE}model = 'bundeld'", "", "error: askance.toml: unknown model 'bundeld'"),
    (f"{SINGLE}retriever = 'bm26'", "", "error: askance.toml: unknown retriever 'bm26'"),
    (f"{SINGLE}index = 'nowhere'", "", "error: askance.toml: the index nowhere"),
    (SINGLE, "--model bundled", "error: method single searches, but no index is given"),
]


@pytest.mark.parametrize(("text", "given", "told"), ORIGINS)
def test_an_error_names_where_the_wrong_value_comes_from(project, run, monkeypatch, text, given, told):
    """An origin is a file or a variable. The message about an option of the command line needs none."""
    project(text)
    variable, _, value = given.partition("=")
    if variable.startswith("ASKANCE"):
        monkeypatch.setenv(variable, value)
    options = given.split() if given.startswith("--") else []
    code, out, err = run("ask", "Where?", *options, columns=300)
    assert (code, out) == (2, "")
    assert told in err
    if "nowhere" in text:
        code, _, err = run("eval --dataset sample --out run --model scripted", columns=300)
        assert (code, told in err) == (2, True)


def test_a_preset_is_weaker_than_every_other_source(project, monkeypatch, tmp_path):
    preset = tmp_path / "mine.toml"
    preset.write_text("[single]\npassages = 2\nmax_tokens = 9\nl_max = 900\n[blender]\nl_max = 900\n")
    project("method = 'single'\nset = { passages = 7 }\n")
    monkeypatch.setenv("ASKANCE_SET__L_MAX", "800")
    made = read_config({"preset": str(preset)}).config.make()
    assert (made.passages, made.l_max, made.max_tokens) == (7, 800, 9)
    project("method = 'blender'\n[set]\nmethods = 'single,more=single'\nsingle = {passages = 7}\n")
    made = read_config({"preset": str(preset)}).config.make()
    assert {name: each.passages for name, each in made.methods.named} == {"single": 7, "more": 2}
    assert (made.l_max, [each.l_max for _, each in made.methods.named]) == (800, [None, None])


def test_the_command_shows_every_setting_with_its_origin(project, run):
    project("seed = 7\n")
    code, out, _ = run("config --method single --json")
    shown = json.loads(out)
    assert (code, shown["origins"]["seed"], shown["origins"]["method"]) == (0, "askance.toml", "--method")
    assert shown["config"].keys() == {"schema", *SETTINGS}
    lines = [line.split() for line in run("config --set passages=3")[1].splitlines()]
    assert ["seed", "7", "askance.toml"] in lines
    assert ["parameters.passages", "3", "--set"] in lines
    described_settings = described(EngineConfig.__doc__, "Attributes")
    assert all(described_settings[each.name] for each in fields(EngineConfig))
    out = run("eval --help", columns=200)[1]
    for name, each in SETTINGS.items():
        assert (each.metadata["flag"] or f"--{name.replace('_', '-')}") in out


def test_a_trace_holds_the_configuration_and_repeats_it(project, run, sample_index, tmp_path):
    project("model = 'scripted'\nmethod = 'flare'\nset = { max_tokens = 9 }\nseed = 5\n")
    (tmp_path / "mine.toml").write_text("[flare]\nsearch_below = 0.3\n", encoding="utf-8")
    given = f"--index {sample_index} --preset {tmp_path / 'mine.toml'}"
    assert run(f"ask Who? --trace one.jsonl --budget calls=7 {given}")[0] == 0
    project("seed = 1\n")
    assert run("ask Who? --trace two.jsonl --config one.jsonl")[0] == 0
    assert run("ask Who? --trace three.jsonl --config one.jsonl --seed 6")[0] == 0
    folder = tmp_path / "project"
    first, second, third = (read_trace(folder / f"{name}.jsonl") for name in ("one", "two", "three"))
    assert first[0].config == second[0].config == third[0].config | {"seed": 5}
    assert first[0].config["parameters"]["max_tokens"] == 9
    assert first[-1].answer == second[-1].answer
    assert read_config(file=folder / "one.jsonl").config.make().search_below == 0.3
    trace = Trace()
    trace.events += (replace(event, config={}) if isinstance(event, Asked) else event for event in first)
    write_file(folder / "other.jsonl", trace_text(trace))
    code, _, err = run("ask Who? --config other.jsonl", columns=200)
    assert (code, "other.jsonl contains no configuration" in err) == (2, True)


def test_a_run_folder_holds_the_configuration_and_repeats_it(project, run, sample_index, tmp_path):
    words = f"--dataset sample --limit 1 --out run --model scripted --index {sample_index}"
    assert run(f"eval {words} --method single --set passages=2")[0] == 0
    kept = json.loads((tmp_path / "project" / "run" / "settings.json").read_text())["config"]
    assert (kept["method"], kept["parameters"]) == ("single", {"passages": "2"})
    assert kept["index"] == os.fspath(sample_index)
    assert json.loads(run("config --config run --json")[1])["config"] == kept
    assert run("ask Who? --config run --trace t.jsonl")[0] == 0
    assert read_trace(tmp_path / "project" / "t.jsonl")[0].config == kept


@implements(Method)
@dataclass(frozen=True)
class Echo:
    """Says the question again."""

    times: int = 1
    needs = Needs()

    async def answer(self, question, run):
        run.trace.commit(question.text * self.times)
        return Answer(question.text * self.times)


def test_objects_may_be_given_for_names_and_are_named_if_a_trace_is_repeated(tmp_path):
    given = {"models": ScriptedModel(), "retriever": ScriptedRetriever([])}
    result = EngineConfig(method=Echo(2), **given).open().ask("Who?")
    assert result.answer.text == "Who?Who?"
    stored = result.trace.events[0].config
    assert (stored["method"], stored["parameters"]) == (f"{__name__}:Echo", {"times": 2})
    assert stored["models"] == {"answer": {"object": ScriptedModel().name}}
    assert open_engine(method=Echo(), model="scripted", parameters={"times": "3"}).method == Echo(3)
    path = tmp_path / "t.jsonl"
    write_file(path, trace_text(result.trace))
    with pytest.raises(ConfigError, match=r"retriever was an object .* give --retriever in its place"):
        read_config(file=path, trust=True)
    named = {"model": "scripted", "index": tmp_path}
    assert read_config(named, file=path, trust=True).config.retriever == "bm25"
    given = {"model": "scripted", "retriever": "bm25"}
    again = read_config(given, file=path, trust=True).config.open().ask("Who?")
    assert again.answer.text == "Who?Who?"
