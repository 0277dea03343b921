"""Plug-ins and module:Class: a method, retriever, model, encoder, dataset, metric, prompts of one's own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import askance
from askance.cli import main
from askance.configuration.build import load_encoder, load_model, open_retriever
from askance.configuration.evaluation import open_metrics, read_dataset
from askance.configuration.methods import calibrated_methods, make_method
from askance.configuration.prompts import open_prompts
from askance.configuration.settings import EngineConfig, open_engine
from askance.core import extensions
from askance.core.errors import InputError, UnknownName

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
from askance.methods.common.prompts import PromptTemplate
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
[askance.prompts]
found = ours_ext:prompts
[askance.commands]
greet = ours_ext:greet
crooked = ours_broken:Anything
absurd = ours_ext:TOWN
ask = ours_ext:greet
"""


def packaged(folder, name, points):
    place = folder / f"{name}-1.0.dist-info"
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
def test_a_method_and_a_retriever_of_somebody_s_own(ours, run, method, retriever):
    words = ("--method", method, "--retriever", retriever, "--model", "scripted", "--set", "times=2")
    code, out, error = run("ask", TOWN, "--json", *words)
    assert code == 0, error
    assert json.loads(out)["answer"] == "Bonn Bonn"
    assert open_engine(method=method, retriever=retriever, model="scripted").ask(TOWN).answer.text == "Bonn"


@pytest.mark.parametrize(
    "spec", ["ours", "ours:Rhine", "ours_ext:model", "ours_ext:model?reply=Rhine&port=80&what=b"]
)
def test_a_model_of_somebody_s_own(ours, spec):
    expected = "Rhine" if "Rhine" in spec else "Bonn"
    assert open_engine(method="closed_book", model=spec).ask("?").answer.short == expected
    assert load_model(spec).name


@pytest.mark.parametrize("name", ["ours", "ours_ext:encoder"])
def test_an_encoder_of_somebody_s_own(ours, name):
    assert load_encoder(name).name == "scripted"


def test_evaluation_with_everything_of_somebody_s_own(ours, run, tmp_path):
    words = ("--dataset", "towns", "--method", "echo", "--retriever", "towns", "--model", "ours")
    code, out, error = run("eval", *words, "--metric", "alike", "--out", tmp_path / "run", "--json")
    assert code == 0, error
    assert json.loads(out)["metrics"]["alike"]["mean"] == 1
    spelled = (
        "--dataset",
        "ours_ext:questions",
        "--method",
        "ours_ext:Echo",
        "--retriever",
        "ours_ext:Towns",
    )
    words = (*spelled, "--model", "scripted", "--metric", "ours_ext:starts_alike", "--metric", "f1")
    code, out, error = run("eval", *words, "--out", tmp_path / "other", "--json")
    assert code == 0, error
    assert json.loads(out)["metrics"]["ours_ext:starts_alike"]["mean"] == 1
    assert run("eval", *words, "--out", tmp_path / "other")[0] == 0


def test_a_grid_with_plug_ins(ours, run, tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(
        'retriever = "towns"\nmetrics = ["alike"]\n[datasets.towns]\nquestions = "towns"\n'
        '[models.ours]\nanswer = "ours"\n[methods.echo]\nset = { times = 2 }\n[methods.closed_book]\n'
    )
    code, out, error = run("grid", path, "--out", tmp_path / "out")
    assert code == 0, error
    assert "towns/ours/echo" in out
    assert (tmp_path / "out" / "towns" / "ours" / "closed_book" / "settings.json").exists()


def test_a_command_of_somebody_s_own(ours, run):
    assert run("greet", "--name", "Pisa")[:2] == (0, "Hello, Pisa\n")
    code, out, _ = run("greet", "--help", columns=80)
    assert (code, "Greet a town." in out, "askance greet --name Bonn" in out) == (0, True, True)
    assert "greet --name" not in run("ask", "--help")[1], "a name of askance is no plug-in's"


def test_a_command_that_can_not_be_imported_is_named_and_stops_no_other(ours, run):
    code, out, _ = run("--help", columns=200)
    assert (code, "Greet a town." in out) == (0, True)
    assert "the plug-in 'crooked' of ours can't be imported: ModuleNotFoundError" in out
    for name, told in (
        ("crooked", "crooked' of ours can't be imported"),
        ("absurd", "'absurd' is no command"),
    ):
        for words in ((), ("--help",), ("some", "--words", "of=its")):
            code, out, err = run(name, *words, columns=200)
            assert (code, out, told in err) == (2, "", True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("command train", ("train", "reader", "--dataset", "sample", "--out", "x")),
        ("command annotate", ("annotate", "--help")),
        ("method dragin_authors", ("methods", "dragin_authors")),
        ("model features", ("ask", TOWN, "--method", "airrag", "--model", "reward=features:x")),
    ],
)
def test_without_the_laboratory_its_names_say_how_to_install_it(sample_index, run, monkeypatch, name, words):
    monkeypatch.setattr(extensions, "plugins", lambda kind: {})
    monkeypatch.setattr(main, "plugins", lambda kind: {})
    index = ("--index", sample_index) if words[0] == "ask" else ()
    code, _, err = run(*words, *index, columns=300)
    assert code == 2
    assert f"the {name} needs the package 'askance-lab', which is not installed: " in err
    assert f"pip install -e .{os.sep}lab" in err


def test_prompts_of_somebody_s_own(ours):
    for name in ("found", "ours_ext:prompts"):
        assert open_prompts(name).heading == "Found:"
        assert make_method("single", {"prompts": name}).prompts.heading == "Found:"
    assert EngineConfig(method="single", prompts=open_prompts("found")).make().prompts.heading == "Found:"


def test_the_list_of_methods_goes_on_where_a_plug_in_fails(ours, run):
    code, out, error = run("methods")
    assert code == 0
    assert "echo " in out
    assert "dragin" in out
    (line,) = [line for line in out.splitlines() if line.startswith("broken ")]
    assert line.endswith("a plug-in of ours")
    assert (
        "broken: the plug-in 'broken' of ours can't be imported: ModuleNotFoundError: No module named"
        in error
    )
    assert "twice: two plug-ins are called 'twice'" in error
    code, out, _ = run("methods", "echo", "--json")
    assert json.loads(out)["properties"]["times"] == {
        "type": "integer", "minimum": 1, "description": "how often it says it", "default": 1
    }  # fmt: skip
    assert "times" in run("methods", "echo")[1]
    assert "how often it says it" in run("methods", "ours_ext:Echo")[1]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("datasets", "towns"),
        ("models", "ours"),
        ("prompts", "found"),
        ("retrievers", "towns"),
        ("encoders", "ours"),
        ("metrics", "alike"),
    ],
)
def test_lists_name_plug_ins_with_their_package(ours, run, command, name):
    code, out, _ = run(command, columns=200)
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith(f"{name} ")]
    assert "a plug-in of ours" in line


def test_the_list_says_that_a_plug_in_with_a_built_in_name_is_ignored(ours, run):
    _, _, told = run("methods", columns=300)
    assert "the plug-in 'single' of theirs in askance.methods is ignored" in told
    assert "write theirs_ext:Echo to use it" in told


def test_models_of_plug_ins_are_listed_as_json(ours, run):
    told = json.loads(run("models", "--json")[1])["models"]
    (listed,) = (each for each in told if each["spec"] == "ours")
    assert listed == {"spec": "ours", "what": "a plug-in of ours", "missing": [], "install": ""}


def test_a_plug_in_s_method_is_among_those_that_can_be_calibrated(ours):
    assert calibrated_methods()["echo"] == "doubt"


@pytest.mark.parametrize(
    ("method", "told"),
    [
        (
            "broken",
            "the plug-in 'broken' of ours can't be imported: ModuleNotFoundError: No module named 'nothing_",
        ),
        ("twice", "two plug-ins are called 'twice' in askance.methods: those of "),
        (
            "ours_ext:Bare",
            "the method ours_ext:Bare does not declare itself a method, so it is not called",
        ),
        (
            "ours_ext:Ech",
            "ours_ext:Ech can't be imported: AttributeError: module 'ours_ext' has no attribute 'Ech'",
        ),
        (
            "ours_broken:X",
            "ours_broken:X can't be imported: ModuleNotFoundError: No module named 'nothing_of_th",
        ),
        ("ours_ext:prompts", "the method ours_ext:prompts is no class"),
        ("ecco", "unknown method 'ecco': did you mean 'echo'"),
        ("nowhere:Echo", "unknown method 'nowhere:Echo': there is no module 'nowhere'"),
    ],
)
def test_methods_that_can_not_be_used(ours, run, method, told):
    code, _, error = run("ask", "Who?", "--method", method, "--model", "scripted", columns=400)
    assert code == 2
    assert told in error
    assert run("ask", "Who?", "--method", "closed_book", "--model", "scripted")[0] == 0


def test_a_name_of_askance_s_own_is_no_plug_in_s(ours):
    assert type(make_method("single")).__module__ == "askance.methods.baselines"


@pytest.mark.parametrize(
    ("what", "spec", "told"),
    [
        (
            open_engine,
            {"retriever": "ours_ext:Bare", "method": "single"},
            "the retriever ours_ext:Bare does not declare itself a retriever",
        ),
        (open_engine, {"retriever": "ours_ext:Towns?plce=x", "method": "single"}, "can't be made: .*plce"),
        (open_engine, {"retriever": "towns", "index": "x", "method": "single"}, "leave out --index"),
        (
            open_engine,
            {"retriever": "twns:x", "method": "single"},
            "unknown retriever 'twns:x': did you mean 'towns'",
        ),
        (open_engine, {"model": "ours_ext:Bare", "method": "closed_book"}, "does not declare itself a model"),
    ],
)
def test_others_that_can_not_be_used(ours, what, spec, told):
    with pytest.raises(InputError, match=told):
        what(**{"model": "scripted", **spec})


def test_a_search_needs_an_index(sample_index, run):
    code, out, error = run("search", "Rhine", "--index", sample_index, "--json")
    assert code == 0, error
    assert json.loads(out)["hits"]
    code, _, error = run("search", "Rhine")
    assert (code, "no index is named" in error) == (2, True)


@pytest.mark.parametrize("reranker", ["upside:down", "ours_ext:Upside?place=down"])
def test_a_reranker_of_somebody_s_own(ours, sample_index, reranker):
    for index, kind in ((None, "towns:Bonn?name=mine"), (sample_index, "bm25")):
        retriever = open_retriever(index, kind, reranker=reranker)
        assert retriever.name.endswith("the first 50 reranked by upside down")
    with pytest.raises(UnknownName, match=r"unknown reranker 'upsid'.*did you mean 'upside'"):
        open_retriever(sample_index, reranker="upsid")


def test_metrics_and_datasets_that_there_are_not(ours):
    with pytest.raises(UnknownName, match="did you mean 'alike'"):
        open_metrics(["alke"])
    with pytest.raises(UnknownName, match="did you mean 'towns'"):
        read_dataset("twns:x")
    with pytest.raises(InputError, match="ours_ext:Towns_ can't be imported"):
        open_retriever(None, "ours_ext:Towns_")


def test_a_module_in_the_working_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "here_ext.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert make_method("here_ext:Echo", {"times": "3"}).times == 3
    assert sys.path == before


def test_the_ports_are_public():
    for name in ("Model", "Retriever", "Reranker", "Encoder", "Method", "Needs", "Run", "Answer", "Hit"):
        assert getattr(askance, name) is not None


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
        command = [sys.executable, "-m", "askance.cli.main", *map(str, words)]
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
