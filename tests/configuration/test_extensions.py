"""Plug-ins and module:Class: methods, retrievers, models, encoders, datasets, metrics, prompts, commands."""

import asyncio
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from askance.cli import main
from askance.configuration.build import load_encoder, open_retriever
from askance.configuration.evaluation import open_metrics, read_dataset
from askance.configuration.experiment import Experiment, prepare_experiment
from askance.configuration.methods import calibrated_methods, make_method
from askance.configuration.presets import preset_text
from askance.configuration.prompts import open_prompts
from askance.configuration.settings import EngineConfig, open_engine
from askance.core import extensions
from askance.core.errors import FunctionFailure, InputError, PresetError
from askance.core.extensions import LABORATORY, NamedFunction
from askance.core.types import Passage, Question
from askance.core.version import VERSION
from askance.methods.dragin.method import Dragin
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.index.build import build_index
from askance.retrieval.scripted import ScriptedRetriever
from tests.asking import ask

TOWN = "Which town?"
MODULE = '''
TOWN = 1
from askance.core.extensions import implements
from askance.core.parameters import Parameters, SearchParameter, checked_dataclass, parameter
from askance.core.ports import Model, Needs, Reranker
from askance.core.answers import Answer
from askance.core.types import Question
from askance.evaluation.datasets import Dataset, Example
from askance.evaluation.metrics import Metric
from askance.evaluation.run.readings import Reading
from askance.methods.common.prompts import PromptTemplate
from askance.methods.common.search import Query
from askance.models.scripted import ScriptedModel
from askance.models.scripted import ScriptedEncoder
from askance.retrieval.scripted import ScriptedRetriever
from askance.core.types import Passage


@checked_dataclass()
class Echo(Parameters):
    """Searches once, and says the title of what it finds."""

    searches = "once"
    calibrated = SearchParameter("doubt")
    times: int = parameter(1, "how often it says it", at_least=1)
    doubt: float = parameter(0.5, "of no use here")

    @property
    def needs(self):
        return Needs(retriever=True)

    async def answer(self, question, run):
        hits = await run.retriever.search(question.text, 1)
        text = " ".join([hits[0].passage.title] * self.times)
        run.trace.commit(text)
        return Answer(text, text)


class Towns(ScriptedRetriever):
    def __init__(self, place="Bonn", name="towns"):
        super().__init__([Passage("p", place, f"{place} is a town.")], name=name)


@implements(Reranker)
class Upside:
    name = fingerprint = "upside"

    def __init__(self, place="down"):
        self.name = f"upside {place}"

    async def score(self, query, passages):
        return range(len(passages))


class Bare:
    """Lacks what a method has."""


@implements(Model)
def model(reply="Bonn", port="", what=""):
    return ScriptedModel([f" So the answer is {reply}."] * 9)


@implements(Dataset)
def questions(path=None, **options):
    for number in (1, 2):
        yield Example(Question(f"q{number}", f"Which town is number {number}?"), ("Bonn",))


@implements(Metric)
def starts_alike(answer, golds):
    return float(any(answer[:1] == gold[:1] for gold in golds))


@implements(Reading)
def tagged(text, question):
    return text.partition("<answer>")[2].partition("</answer>")[0].strip()


@implements(Reading)
def crooked(text, question):
    return len(text)


@implements(Query)
def doubtful(question, answer, words):
    return " ".join((answer, *(word.text for word in words if word.is_hit)))


def doubt(signals):
    return float(signals.draft.entropies.max())


def greet(name: str = "Bonn"):
    """Greet a town.

    Args:
        name: The town.

    Examples:
        askance greet
        askance greet --name Bonn
    """
    print("Hello,", name)


encoder = ScriptedEncoder
prompts = PromptTemplate(heading="Found:")
'''
POINTS = """
[askance.gates]
doubt = ours_ext:doubt
[askance.guards]
doubt = ours_ext:doubt
[askance.methods]
echo = ours_ext:Echo
twice = ours_ext:Echo
broken = ours_broken:Anything
[askance.retrievers]
towns = ours_ext:Towns
[askance.rerankers]
upside = ours_ext:Upside
[askance.models]
ours = ours_ext:model
[askance.encoders]
ours = ours_ext:encoder
[askance.datasets]
towns = ours_ext:questions
[askance.metrics]
alike = ours_ext:starts_alike
[askance.readings]
tagged = ours_ext:tagged
[askance.query_modes]
doubtful = ours_ext:doubtful
[askance.prompts]
found = ours_ext:prompts
[askance.commands]
greet = ours_ext:greet
crooked = ours_broken:Anything
absurd = ours_ext:TOWN
ask = ours_ext:greet
"""


def packaged(folder, name, points):
    place = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (place / "entry_points.txt").write_text(points)


@pytest.fixture
def ours(tmp_path, monkeypatch):
    """A package of somebody's own beside askance, and a second one with a method of the same name."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "ours_ext.py").write_text(MODULE)
    (folder / "ours_broken.py").write_text("import nothing_of_this_name\n")
    packaged(folder, "ours", POINTS)
    packaged(folder, "theirs", "[askance.methods]\ntwice = theirs_ext:Echo\nsingle = theirs_ext:Echo\n")
    monkeypatch.syspath_prepend(str(folder))
    extensions.plugins.cache_clear()
    yield folder
    extensions.plugins.cache_clear()
    for name in ("ours_ext", "ours_broken"):
        sys.modules.pop(name, None)


EXAMPLE = Path(__file__).parents[2] / "examples" / "askance-plugin"


@pytest.mark.parametrize("method", ["echo", "ours_ext:Echo"])
@pytest.mark.parametrize("retriever", ["towns", "towns:Bonn?name=mine", "ours_ext:Towns?place=Bonn"])
def test_a_method_and_a_retriever(ours, run, method, retriever):
    words = ("--method", method, "--retriever", retriever, "--model", "scripted", "--set", "times=2")
    code, out, error = run("ask", TOWN, "--json", *words)
    assert code == 0, error
    assert json.loads(out)["answer"] == "Bonn Bonn"
    assert open_engine(method=method, retriever=retriever, model="scripted").ask(TOWN).answer.text == "Bonn"


@pytest.mark.parametrize("spec", ["ours", "ours:Rhine", "ours_ext:model?reply=Rhine&port=80&what=b"])
def test_a_model(ours, spec):
    expected = "Rhine" if "Rhine" in spec else "Bonn"
    assert open_engine(method="closed_book", model=spec).ask("?").answer.short == expected


def test_encoders_rerankers_prompts_and_calibrated_methods(ours, sample_index):
    assert [load_encoder(name).name for name in ("ours", "ours_ext:encoder")] == ["scripted"] * 2
    for reranker in ("upside:down", "ours_ext:Upside?place=down"):
        for index, kind in ((None, "towns:Bonn?name=mine"), (sample_index, "bm25")):
            retriever = open_retriever(index, kind, reranker=reranker)
            assert retriever.name.endswith("the first 50 reranked by upside down")
    for name in ("found", "ours_ext:prompts"):
        assert make_method("single", {"prompts": name}).prompts.heading == "Found:"
    assert EngineConfig(method="single", prompts=open_prompts("found")).make().prompts.heading == "Found:"
    assert calibrated_methods()["echo"] == "doubt"
    assert type(make_method("single")).__module__ == "askance.methods.baselines", "built-in names come first"


def test_an_evaluation_and_a_grid_of_plug_ins(ours, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = "--dataset towns --method echo --retriever towns --model ours --metric alike --out run"
    shown = json.loads(run(f"eval {given} --json")[1])
    assert shown["metrics"]["alike"]["mean"] == 1
    given = "--dataset ours_ext:questions --method ours_ext:Echo --retriever ours_ext:Towns --model scripted"
    words = f"eval {given} --metric ours_ext:starts_alike --metric f1 --out other --json"
    shown = json.loads(run(words)[1])
    assert shown["metrics"]["ours_ext:starts_alike"]["mean"] == 1
    assert run(words)[0] == 0
    (tmp_path / "grid.toml").write_text(
        'retriever = "towns"\nmetrics = ["alike"]\n[datasets.towns]\nquestions = "towns"\n'
        '[models.ours]\nanswer = "ours"\n[methods.echo]\nset = { times = 2 }\n[methods.closed_book]\n'
    )
    code, out, error = run("grid grid.toml --out out")
    assert (code, "towns/ours/echo" in out) == (0, True), error
    assert (tmp_path / "out" / "towns" / "ours" / "closed_book" / "settings.json").exists()


PARTS = {
    "method": ("echo", "ours_ext:Echo"),
    "retriever": ("towns:Bonn?name=mine", "ours_ext:Towns?place=Bonn"),
    "rerank": ("upside", "ours_ext:Upside?place=down", "model:ours_ext:model"),
    "encoder": ("ours", "ours_ext:encoder"),
    "models": ({"answer": "ours"}, {"answer": "ours_ext:model?reply=Rhine"}),
    "dataset": ("towns", "ours_ext:questions"),
    "metrics": (("f1", "alike"), ("ours_ext:starts_alike",)),
    "reading": ("tagged", "ours_ext:tagged"),
    "parameters": ({"guard": "doubt"}, {"prompts": "found"}, {}),
}


@pytest.mark.parametrize(("part", "spec"), [(part, spec) for part, specs in PARTS.items() for spec in specs])
def test_a_run_has_a_hash_of_each_plug_in(ours, sample_index, part, spec):
    given = {"dataset": "sample", "method": "single", "models": {"answer": "scripted"}, "index": sample_index}
    given |= {"index": None} if part == "retriever" else {"retriever": "hybrid"} if part == "encoder" else {}
    if part == "encoder":
        given["index"] = build_index(
            [ours / "ours_ext.py"], ours / "index", encoder=load_encoder("ours")
        ).folder
    ready = prepare_experiment(Experiment(**given | {part: spec}))
    is_plugin = spec not in ({"prompts": "found"}, {})
    assert list(ready.code) == ["askance", "ours_ext"] if is_plugin else ["askance"]


@pytest.mark.parametrize("command", ["eval {} --out run --limit", "grid grid.toml --out run"])
def test_a_run_goes_on_with_edited_code_only_on_request(ours, run, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    given = "--dataset towns --method ours_ext:Echo --retriever towns --model ours --metric alike"
    table = 'retriever = "towns"\nmetrics = ["alike"]\nlimit = {}\n[datasets.t]\nquestions = "towns"\n'

    def again(limit, *words):
        (tmp_path / "grid.toml").write_text(
            table.format(limit) + '[models.m]\nanswer = "ours"\n[methods.echo]\nmethod = "ours_ext:Echo"\n'
        )
        is_eval = command.startswith("eval")
        return run(*command.format(given).split(), *[limit] * is_eval, *words, columns=500)

    def source():
        (path,) = tmp_path.glob("run/**/settings.json")
        return json.loads(path.read_bytes())["code"]["ours_ext"]

    assert again(1)[0] == 0
    first = source()
    for path, changed in ((ours, "answer[:2] == gold[:2]"), (tmp_path / "other", "answer[:3] == gold[:3]")):
        path.mkdir(exist_ok=True)
        (path / "ours_ext.py").write_text(MODULE.replace("answer[:1] == gold[:1]", changed))
        monkeypatch.syspath_prepend(str(path))
        sys.modules.pop("ours_ext")
        code, out, err = again(2)
        assert (code, out) == (2, "")
        assert f"other code (code of ours_ext: {first}, now " in err
        assert "go on with --accept-new-code" in err
    assert again(2, "--accept-new-code")[0] == 0
    assert re.fullmatch(f"{first}, then from question 2 on [0-9a-f]{{16}}", source())
    assert again(2)[0] == 0


@pytest.mark.parametrize("query", ["doubtful", "ours_ext:doubtful"])
@pytest.mark.parametrize("method", ["dragin", "dragin_paper"])
def test_a_query_mode(ours, run, tmp_path, method, query):
    given = f"{method}(query={query}, trigger=token_probability, threshold=0.5)"
    made = make_method(given)
    assert (repr(made.query), make_method(str(made))) == (query, made)
    assert EngineConfig(method=made).stored()["parameters"]["query"] == query
    assert f'query = "{query}"' in preset_text(type(made), {"query": made.query}, [])
    replies = [Reply(" She lives in Kiel. So", {"Kiel": 0.1}), " in Bonn. So the", " So the answer is Bonn."]
    model, retriever = ScriptedModel(replies), ScriptedRetriever([Passage("p", "Lind", "She lives in Bonn.")])
    result = asyncio.run(ask(Question("q", TOWN), made, {"answer": model}, retriever))
    assert " She lives in Kiel." in [each.query for each in result.trace.decisions]
    assert "doubtful: a plug-in of ours" in run("methods", method, columns=300)[1]
    preset = tmp_path / "mine.toml"
    preset.write_text(f'[{method}]\nquery = "{query}"\n')
    with pytest.raises(PresetError, match="names code that is not part of askance"):
        make_method(method, preset=preset)
    preset.write_text(f'[{method}]\nquery = "last_sentence"\n')
    assert make_method(method, preset=preset).query == "last_sentence"


def test_a_reading(ours, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "replies.jsonl").write_text(json.dumps({"text": " I see. <answer> Bonn </answer>"}) + "\n")
    given = "--dataset towns --method closed_book --set ask_short_answer=no --model scripted:replies.jsonl"
    words = f"eval {given} --limit 1 --metric exact_match --out run --json"
    assert json.loads(run(words)[1])["metrics"]["exact_match"]["mean"] == 0
    for reading in ("tagged", "ours_ext:tagged"):
        code, out, err = run(f"{words} --reading {reading}")
        assert (code, json.loads(out)["metrics"]["exact_match"]["mean"]) == (0, 1), err
        (settings,) = tmp_path.glob("run/settings.json")
        assert json.loads(settings.read_bytes())["reading"] == reading
    assert f"answers read by {reading}" in run(f"{words.removesuffix('--json')} --reading {reading}")[1]
    assert "own, authors, tagged" in run("metrics")[1]
    for reading, told in {
        "tagd": "unknown reading 'tagd': did you mean 'tagged'",
        "ours_ext:doubt": "does not declare itself a reading",
        "ours_ext:crooked": "ours_ext:crooked returned 30: expected a text",
    }.items():
        code, _, err = run(f"{words} --reading {reading}", columns=300)
        assert (code in (1, 2), told in err) == (True, True), err


@pytest.mark.parametrize(
    ("query", "error", "told"),
    [
        ("lambda question, answer, words: 1 / 0", FunctionFailure, "mine failed: ZeroDivisionError"),
        ("lambda question, answer, words: None", FunctionFailure, "mine returned None: expected a text"),
        ("lambda question: question", FunctionFailure, "mine failed: TypeError: .*takes 1 positional"),
    ],
)
def test_a_query_mode_that_fails_fails_the_question_and_is_named(query, error, told):
    method = Dragin(query=NamedFunction("mine", eval(query)), trigger="token_probability", threshold=0.5)
    model = ScriptedModel([Reply(" She lives in Kiel. So", {"Kiel": 0.1})])
    with pytest.raises(error, match=told):
        asyncio.run(ask(Question("q", TOWN), method, {"answer": model}, ScriptedRetriever([])))


def test_a_command(ours, run):
    assert run("greet --name Pisa")[:2] == (0, "Hello, Pisa\n")
    code, out, _ = run("greet --help", columns=80)
    assert (code, "Greet a town." in out, "askance greet --name Bonn" in out) == (0, True, True)
    assert "greet --name" not in run("ask --help")[1], "built-in names come first"
    code, out, _ = run("--help", columns=200)
    assert (code, "Greet a town." in out) == (0, True)
    assert "the plug-in 'crooked' of ours can't be imported: ModuleNotFoundError" in out
    told = {"crooked": "crooked' of ours can't be imported", "absurd": "'absurd' is no command"}
    for name, words in itertools.product(told, ((), ("--help",), ("some", "--words", "of=its"))):
        code, out, err = run(name, *words, columns=200)
        assert (code, out, told[name] in err) == (2, "", True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("command train", "train reader --dataset sample --out x"),
        ("command annotate", "annotate --help"),
        ("method dragin_authors", "methods dragin_authors"),
        ("model features", "ask Q? --method airrag --model reward=features:x --index "),
    ],
)
def test_names_of_the_laboratory_say_how_to_install_it(sample_index, run, monkeypatch, name, words):
    monkeypatch.setattr(extensions, "plugins", lambda kind: {})
    monkeypatch.setattr(main, "plugins", lambda kind: {})
    code, _, err = run(words + str(sample_index) * words.endswith(" "), columns=300)
    assert code == 2
    assert f"the {name} needs the package 'askance-lab', which is not installed: " in err
    assert f"pip install -e .{os.sep}lab" in err


@pytest.mark.parametrize(
    "words", ["train reader", "annotate --help", "methods dragin_authors", "ask Where? --method flare_token"]
)
def test_a_laboratory_of_another_version_stops_only_its_own_names(ours, run, words):
    kinds = {kind: [f"{name} = absent:X" for name in names] for kind, names in LABORATORY.items()}
    packaged(ours, "askance-lab", "\n".join(f"[askance.{kind}]\n" + "\n".join(kinds[kind]) for kind in kinds))
    extensions.plugins.cache_clear()
    code, _, err = run(words, columns=300)
    assert (code, f"needs askance 1.0, and this is {VERSION}; install the laboratory" in err) == (2, True)
    assert run("methods", columns=300)[0] == 0


def test_lists_name_plug_ins_with_their_package(ours, run):
    for command, name in {
        "methods": "broken", "datasets": "towns", "models": "ours", "prompts": "found",
        "retrievers": "towns", "encoders": "ours", "metrics": "alike",
    }.items():  # fmt: skip
        code, out, error = run(command, columns=300)
        (line,) = [line for line in out.splitlines() if line.startswith(f"{name} ")]
        assert (code, "a plug-in of ours" in line) == (0, True)
        if command == "methods":
            assert "echo " in out
            for told in (
                "broken: the plug-in 'broken' of ours can't be imported: ModuleNotFoundError",
                "twice: two plug-ins are called 'twice'",
                "the plug-in 'single' of theirs in askance.methods is ignored",
                "write theirs_ext:Echo to use it",
            ):
                assert told in error
    times = {"type": "integer", "minimum": 1, "description": "how often it says it", "default": 1}
    assert json.loads(run("methods echo --json")[1])["properties"]["times"] == times
    assert "how often it says it" in run("methods ours_ext:Echo")[1]
    listed = {each["spec"]: each for each in json.loads(run("models --json")[1])["models"]}
    assert listed["ours"] == {"spec": "ours", "what": "a plug-in of ours", "missing": [], "install": ""}


UNUSABLE = [
    ({"method": "broken"}, "the plug-in 'broken' of ours can't be imported: ModuleNotFoundError: No module"),
    ({"method": "twice"}, "two plug-ins are called 'twice' in askance.methods: those of "),
    (
        {"method": "ours_ext:Bare"},
        "ours_ext:Bare does not declare itself a method, so it is not called",
    ),
    (
        {"method": "ours_ext:Ech"},
        "AttributeError: module 'ours_ext' has no attribute 'Ech'",
    ),
    ({"method": "ours_broken:X"}, "ours_broken:X can't be imported: ModuleNotFoundError: No module named 'n"),
    ({"method": "ours_ext:prompts"}, "the method ours_ext:prompts is no class"),
    ({"method": "ecco"}, "unknown method 'ecco': did you mean 'echo'"),
    ({"method": "nowhere:Echo"}, "unknown method 'nowhere:Echo': there is no module 'nowhere'"),
    ({"retriever": "ours_ext:Bare"}, "the retriever ours_ext:Bare does not declare itself a retriever"),
    ({"retriever": "ours_ext:Towns?plce=x"}, "can't be made: .*plce"),
    ({"retriever": "ours_ext:Towns_"}, "ours_ext:Towns_ can't be imported"),
    ({"retriever": "towns", "index": "x"}, "leave out --index"),
    ({"retriever": "twns:x"}, "unknown retriever 'twns:x': did you mean 'towns'"),
    ({"retriever": "towns", "rerank": "upsid"}, r"unknown reranker 'upsid'.*did you mean 'upside'"),
    ({"model": "ours_ext:Bare", "method": "closed_book"}, "does not declare itself a model"),
]


@pytest.mark.parametrize(("settings", "told"), UNUSABLE, ids=lambda each: str(each)[:40])
def test_plug_ins_that_can_not_be_used(ours, settings, told):
    with pytest.raises(InputError, match=told):
        open_engine(**{"model": "scripted", "method": "single", **settings})
    with pytest.raises(InputError, match="did you mean 'alike'"):
        open_metrics(["alke"])
    with pytest.raises(InputError, match="did you mean 'towns'"):
        read_dataset("twns:x")


def test_a_module_in_the_working_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "here_ext.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert make_method("here_ext:Echo", {"times": "3"}).times == 3
    assert sys.path == before


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The example package, installed from outside; nothing is fetched."""
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(EXAMPLE, folder / "source")
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--target", folder / "site"]
    command = [sys.executable, "-m", "pip", "install", *options, source]
    subprocess.run(list(map(str, command)), check=True, cwd=folder)
    return folder / "site"


def test_the_example_package_runs_everywhere(installed, tmp_path):
    """In new processes, as a user would run it."""

    def run(*words):
        paths = os.pathsep.join([str(installed), *filter(None, sys.path)])
        command = [sys.executable, "-m", "askance", *map(str, words)]
        environment = os.environ | {"PYTHONPATH": paths}
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    (tmp_path / "notes.txt").write_text("The Rhine flows through Bonn.\nThe Tiber flows through Rome.\n")
    named = ("--method", "doubting", "--retriever", "grep:notes.txt", "--model", "parrot:Rhine")
    assert "doubting" in run("methods")
    answer = json.loads(run("ask", "Which river flows through Bonn?", *named, "--json"))
    assert answer["answer"].strip() == "Rhine"
    metrics = ("--metric", "starts_alike", "--metric", "exact_match")
    found = json.loads(run("eval", "--dataset", "towns", *named, *metrics, "--out", "run", "--json"))
    assert found["metrics"]["starts_alike"]["mean"] == found["metrics"]["exact_match"]["mean"] == 0.5
    (tmp_path / "grid.toml").write_text(
        'retriever = "grep:notes.txt"\nmetrics = ["starts_alike"]\n[datasets.towns]\nquestions = "towns"\n'
        '[models.parrot]\nanswer = "parrot"\n[methods.doubting]\nset = { passages = 1 }\n'
    )
    assert "towns/parrot/doubting" in run("grid", "grid.toml", "--out", "grid")
    trials = ("--searches", 0, "--trials", 1, "--json", "--set", "threshold=0")
    assert json.loads(run("calibrate", "--dataset", "towns", *named, *trials))["parameter"] == "threshold"
