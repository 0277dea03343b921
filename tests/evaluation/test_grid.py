"""Grids: what a file means, what is run, what is refused."""

import asyncio
import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from askance.configuration.grid import prepare_experiments, read_grid
from askance.configuration.methods import make_method
from askance.core.errors import (
    GridError,
    InputError,
    MissingAbility,
    ModelSpecError,
    RunFolderError,
    TooManyFailures,
    UnknownName,
)
from askance.core.token_ledger import Budget
from askance.evaluation.run.runner import RunOptions, run_grid
from askance.models.scripted import ScriptedModel

GRID = """
index = "INDEX"
sample = 6
seed = 7

[datasets.all]
questions = "sample"

[datasets.few]
questions = "sample"
limit = 2
prompts = "hotpotqa"

[models.fake]
answer = "scripted"

[models.other]
answer = "hf:elsewhere"

[methods.closed_book]

[methods."dragin+20"]
method = "dragin_paper"
set = { max_tokens = 20 }
"""


@pytest.fixture
def grid_file(tmp_path, sample_index):
    def write(text=GRID):
        path = tmp_path / "grid.toml"
        path.write_text(text.replace("INDEX", str(sample_index)), encoding="utf-8")
        return path

    return write


class Loader:
    """Counts how often models are loaded."""

    def __init__(self, model=None):
        self.model, self.loads = model, 0

    def __call__(self, specs):
        self.loads += 1
        return dict.fromkeys(specs, self.model or ScriptedModel())


def run(path, folder, load=None, **terms):
    grid = read_grid(path)
    experiments = prepare_experiments(grid.experiments(), place_of=grid.place_of)
    return asyncio.run(
        run_grid(
            experiments,
            folder,
            load or Loader(),
            RunOptions(**terms),
            lambda name: nullcontext(lambda status: None),
        )
    )


def test_a_file_becomes_cells(grid_file, sample_index):
    experiments = read_grid(grid_file()).experiments()
    assert list(experiments) == [
        f"{dataset}/{model}/{method}"
        for model in ("fake", "other")
        for dataset in ("all", "few")
        for method in ("closed_book", "dragin+20")
    ]
    experiment = experiments["few/fake/dragin+20"]
    assert (experiment.method, experiment.parameters) == ("dragin_paper", {"max_tokens": 20})
    assert (experiment.limit, experiment.sample) == (2, None)
    assert (experiment.prompts, experiment.seed, experiment.index) == ("hotpotqa", 7, sample_index)
    assert experiments["all/fake/closed_book"].sample == 6
    assert experiments["all/fake/closed_book"].prompts is None


def test_a_method_s_members_have_parameters_of_their_own(grid_file):
    text = GRID + '[methods.blender.set]\nl_max = 900\nsingle.passages = 5\n"airrag.rollouts" = 2\n'
    experiment = read_grid(grid_file(text)).experiments()["all/fake/blender"]
    method = make_method(experiment.method, experiment.parameters)
    assert str(method.methods) == "single=single(passages=5),iterdrag,airrag_lite,airrag=airrag(rollouts=2)"


def test_prompts_are_for_the_methods_that_take_any(grid_file):
    experiments = read_grid(grid_file(GRID + "[methods.iterdrag]\n")).experiments()
    assert experiments["few/fake/iterdrag"].prompts is None
    assert experiments["few/fake/closed_book"].prompts == "hotpotqa"


def test_a_budget_is_one_of_each_cell(grid_file):
    experiments = read_grid(grid_file("budget = { seconds = 60, calls = 9 }\n" + GRID)).experiments()
    assert {experiment.budget for experiment in experiments.values()} == {Budget(calls=9, seconds=60)}
    with pytest.raises(InputError, match="unknown parameter 'cals' of the budget: did you mean 'calls'"):
        read_grid(grid_file("budget = { cals = 9 }\n" + GRID)).experiments()
    with pytest.raises(InputError, match=r"parameter calls=9\.5 of the budget"):
        read_grid(grid_file("budget = { calls = 9.5 }\n" + GRID)).experiments()


def test_all_cells_are_run_each_model_loaded_once(grid_file, tmp_path):
    load = Loader()
    found = run(grid_file(), tmp_path / "out", load)
    assert {name: len(each.records) for name, each in found.items()} == {
        name: 6 if name.startswith("all") else 2 for name in read_grid(grid_file()).experiments()
    }
    assert load.loads == 2
    assert found["few/fake/closed_book"].folder == tmp_path / "out" / "few" / "fake" / "closed_book"


def test_a_lent_attention_is_for_the_methods_that_ask_for_it(grid_file, tmp_path):
    load = Loader()
    lent = GRID.replace('answer = "hf:elsewhere"', 'answer = "hf:elsewhere"\nattend = "scripted"')
    lent = lent.replace("dragin_paper", "dragin")
    found = run(grid_file(lent), tmp_path / "out", load)
    roles = {name.split("/", 1)[1]: set(each.settings.models) for name, each in found.items()}
    assert roles == {
        "fake/closed_book": {"answer"},
        "fake/dragin+20": {"answer"},
        "other/closed_book": {"answer"},
        "other/dragin+20": {"answer", "attend"},
    }
    assert load.loads == 3


def test_only_what_is_not_done_is_run(grid_file, tmp_path):
    run(grid_file(), tmp_path / "out")
    model = ScriptedModel()
    grown = GRID.replace("limit = 2", "limit = 3")
    found = run(grid_file(grown), tmp_path / "out", Loader(model))
    assert len(found["few/other/closed_book"].records) == 3
    asked = {name: len(each.records) for name, each in found.items()}
    assert set(asked.values()) == {6, 3}
    assert len(model.prompts) < 40


def test_what_is_wrong_with_the_last_cell_is_known_before_the_first_is_run(grid_file, tmp_path):
    run(grid_file(), tmp_path / "out")
    model = ScriptedModel()
    changed = GRID.replace("max_tokens = 20", "max_tokens = 21").replace("sample = 6", "sample = 9")
    with pytest.raises(RunFolderError, match=r"dragin\+20 was started with other settings \(parameter max_t"):
        run(grid_file(changed), tmp_path / "out", Loader(model))
    assert not model.prompts


def test_a_cell_that_fails_too_often_does_not_keep_the_others(grid_file, tmp_path):
    def fails_on_the_first(prompt, key):
        if key[1] == "q01":
            raise ValueError("no")
        return " So the answer is Bonn."

    found = run(grid_file(), tmp_path / "out", Loader(ScriptedModel(fails_on_the_first)), max_failures=0)
    stopped = {name for name, each in found.items() if isinstance(each, TooManyFailures)}
    assert stopped == {name for name in found if name.startswith("few")}
    assert len(found) == 8


def test_a_model_that_can_not_be_loaded_does_not_keep_the_others(grid_file, tmp_path):
    class Refusing(Loader):
        def __call__(self, specs):
            if "scripted" in specs.values():
                raise ModelSpecError("there is none")
            return super().__call__(specs)

    found = run(grid_file(), tmp_path / "out", Refusing())
    assert list(found) == list(read_grid(grid_file()).experiments())
    told = {name.split("/")[1]: str(each) for name, each in found.items() if isinstance(each, ModelSpecError)}
    assert told == {"fake": "there is none"}
    assert [len(each.records) for name, each in found.items() if "/other/" in name] == [6, 6, 2, 2]


def test_what_a_model_lacks_is_known_before_the_first_is_asked(grid_file, tmp_path):
    deaf = ScriptedModel(signals=frozenset())
    with pytest.raises(MissingAbility):
        run(grid_file(), tmp_path / "out", Loader(deaf))
    assert not deaf.prompts


def test_the_preset_of_a_method_fills_what_no_table_sets(grid_file, tmp_path):
    (tmp_path / "mine.toml").write_text(
        "[flare]\nsearch_below = 0.3\nmax_tokens = 30\nlook_ahead_tokens = 9\n", encoding="utf-8"
    )
    top = "set = { search_below = 0.9, passages = 4 }\n"
    method = f"[methods.flare]\npreset = '{tmp_path / 'mine.toml'}'\nset = {{ max_tokens = 40 }}\n"
    text = top + GRID[: GRID.index("[methods")] + method
    made = read_grid(grid_file(text)).experiments()["all/fake/flare"].make()
    assert (made.search_below, made.max_tokens, made.passages, made.look_ahead_tokens) == (0.9, 40, 4, 9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace("sample = 6", "smaple = 6"), "unknown key 'smaple' at the top of the grid"),
        (lambda t: t.replace("questions = \"sample\"\nlimit", "question = \"sample\"\nlimit"),
         "unknown key 'question' in [datasets.few] of the grid"),
        (lambda t: t.replace("limit = 2", "limit = \"2\""),
         "toml, [datasets.few]: limit='2': input should be a valid integer"),
        (lambda t: t.replace("[datasets.few]", "[dataset.few]"), "toml: did you mean 'datasets'?"),
        (lambda t: t.replace("questions = \"sample\"", "questions = 3"),
         "grid.toml, [datasets.all]: dataset=3: input should be a valid string."),
        (lambda t: t.replace("limit = 2", "limit = 2\nsample = 3"), "few/fake/closed_book: limit and"),
        (lambda t: t.replace("max_tokens =", "max_tokns ="),
         "grid.toml, [methods.dragin+20]: unknown parameter 'max_tokns'"),
        (lambda t: t + "[methods.blender.set]\nl_max = 900\nsingle.passges = 5\n",
         "grid.toml, [methods.blender]: unknown parameter 'passges' of method single: did you mean"),
        (lambda t: t + "[methods.blender.set]\n\n[methods.blender.set.sngle]\npassages = 5\n",
         "grid.toml, [methods.blender]: unknown member 'sngle' of method blender: did you mean 'single'?"),
        (lambda t: t.replace("max_tokens =", "single.passages ="),
         "grid.toml, [methods.dragin+20]: unknown parameter 'single.passages' of method dragin_paper"),
        (lambda t: t.replace("[methods.closed_book]", "[methods.closedbook]"),
         "[methods.closedbook]: unknown method 'closedbook'"),
        (lambda t: t.replace("questions = \"sample\"", "questions = \"smaple\""), "did you mean 'sample'?"),
        (lambda t: t.replace("[models.fake]", "[models.\"../fake\"]"),
         "[models]: '../fake' can't be the name of a folder: "),
        (lambda t: t.replace("answer = ", "anser = ", 1), "unknown key 'anser' in [models.fake] of the grid"),
        (lambda t: t.replace("answer = ", "attend = ", 1), "lacks 'answer' in [models.fake]: add it"),
        (lambda t: t + "=", "is not TOML"),
        (lambda t: t[: t.index("[methods")], "'methods' holds no tables: write [methods."),
    ],
)  # fmt: skip
def test_flawed_grids(grid_file, tmp_path, change, message):
    with pytest.raises(InputError, match=re.escape(message)):
        run(grid_file(change(GRID)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace("sample = 6", 'metrics = ["nope"]'), ": unknown metric 'nope'"),
        (lambda t: t.replace("sample = 6", 'reading = "nope"'), ": unknown reading 'nope'"),
        (lambda t: t.replace("limit = 2", 'ids = "nowhere"'), ", [datasets.few]: can't read nowhere"),
        (lambda t: t.replace("limit = 2", 'index = "nowhere"'), ", [datasets.few]: the index nowhere"),
        (
            lambda t: t.replace('"sample"\nlimit', '"jsonl:nowhere"\nlimit'),
            ", [datasets.few]: can't read nowhere",
        ),
        (lambda t: t + 'retriever = "nope"\n', ", [methods.dragin+20]: unknown retriever 'nope'"),
    ],
)
def test_what_is_found_out_when_names_are_looked_up_names_the_table(grid_file, tmp_path, change, message):
    with pytest.raises(GridError, match=rf"^\S+/fake/\S+: the grid .*grid\.toml{re.escape(message)}"):
        run(grid_file(change(GRID)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_grid_that_can_not_be_read(tmp_path):
    with pytest.raises(GridError, match=r"can't read the grid .*No such file"):
        read_grid(Path(tmp_path / "nowhere.toml"))
    (tmp_path / "latin.toml").write_bytes("# Köln".encode("latin-1"))
    with pytest.raises(GridError, match="is not UTF-8"):
        read_grid(tmp_path / "latin.toml")


def test_misspelt_keys_are_unknown_names(grid_file):
    with pytest.raises(UnknownName, match="did you mean 'set'"):
        read_grid(grid_file(GRID.replace("set =", "sett =")))
