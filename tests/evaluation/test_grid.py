"""Grids: what a file means, what is run, what is refused."""

import asyncio
import re
import subprocess
import sys
from contextlib import nullcontext

import pytest

from askance.configuration.grid import read_grid
from askance.configuration.methods import make_method
from askance.core.errors import (
    GridError,
    InputError,
    MissingAbility,
    ModelSpecError,
    RunFolderError,
    TooManyFailures,
)
from askance.core.notes import noted
from askance.core.token_ledger import Budget
from askance.evaluation.run import runner
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
CELLS = [
    f"{dataset}/{model}/{method}"
    for model in ("fake", "other")
    for dataset in ("all", "few")
    for method in ("closed_book", "dragin+20")
]


@pytest.fixture
def grid_file(tmp_path, sample_index):
    def write(text=GRID):
        path = tmp_path / "grid.toml"
        path.write_text(text.replace("INDEX", str(sample_index)), encoding="utf-8")
        return path

    return write


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "out"


class Loader:
    """A loader that counts how often models are loaded, and refuses those of one specification."""

    def __init__(self, model=None, refused=None):
        self.model, self.refused, self.loads = model, refused, 0

    def __call__(self, specs):
        if self.refused in specs.values():
            raise ModelSpecError("there is none")
        self.loads += 1
        return dict.fromkeys(specs, self.model or ScriptedModel())


def run(path, folder, load=None, **terms):
    ready = read_grid(path).prepare()
    work = run_grid(
        ready, folder, load or Loader(), RunOptions(**terms), lambda name: nullcontext(lambda status: None)
    )
    return asyncio.run(work)


def test_a_file_becomes_cells(grid_file, sample_index):
    experiments = read_grid(grid_file(GRID + "[methods.iterdrag]\n")).experiments()
    assert [name for name in experiments if "iterdrag" not in name] == CELLS
    experiment, other = experiments["few/fake/dragin+20"], experiments["all/fake/closed_book"]
    assert (experiment.method, experiment.parameters) == ("dragin_paper", {"max_tokens": 20})
    assert (experiment.limit, experiment.sample, other.sample) == (2, None, 6)
    assert (experiment.prompts, experiment.seed, experiment.index) == ("hotpotqa", 7, sample_index)
    assert (other.prompts, experiments["few/fake/iterdrag"].prompts) == (None, None)


def test_a_method_s_members_have_parameters_of_their_own(grid_file):
    text = GRID + '[methods.blender.set]\nl_max = 900\nsingle.passages = 5\n"airrag.rollouts" = 2\n'
    experiment = read_grid(grid_file(text)).experiments()["all/fake/blender"]
    method = make_method(experiment.method, experiment.parameters)
    assert str(method.methods) == "single=single(passages=5),iterdrag,airrag_lite,airrag=airrag(rollouts=2)"


def test_several_seeds_are_several_runs(grid_file):
    """A method's table takes precedence over the top, as for other settings."""
    text = GRID.replace("seed = 7", "seeds = [3, 1]") + "seeds = [0, 5]\n[methods.single]\nseed = 4\n"
    grid = read_grid(grid_file(text))
    of_few = {name: each.seed for name, each in grid.experiments().items() if name.startswith("few/fake")}
    assert list(of_few.items()) == [
        ("few/fake/closed_book@3", 3),
        ("few/fake/closed_book@1", 1),
        ("few/fake/dragin+20@0", 0),
        ("few/fake/dragin+20@5", 5),
        ("few/fake/single", 4),
    ]


def test_a_budget_is_one_of_each_cell(grid_file):
    experiments = read_grid(grid_file("budget = { seconds = 60, calls = 9 }\n" + GRID)).experiments()
    assert {experiment.budget for experiment in experiments.values()} == {Budget(calls=9, seconds=60)}


def test_all_cells_are_run_and_later_only_what_is_not_done(grid_file, folder):
    load = Loader()
    found = run(grid_file(), folder, load)
    sizes = {name: len(each.records) for name, each in found.items()}
    assert sizes == {name: 6 if name.startswith("all") else 2 for name in CELLS}
    assert load.loads == 2, "each model is loaded once"
    assert found["few/fake/closed_book"].folder == folder / "few" / "fake" / "closed_book"
    model = ScriptedModel()
    found = run(grid_file(GRID.replace("limit = 2", "limit = 3")), folder, Loader(model))
    assert {name: len(each.records) for name, each in found.items()} == {
        name: max(3, size) for name, size in sizes.items()
    }
    assert len(model.prompts) < 40
    model = ScriptedModel()
    changed = GRID.replace("max_tokens = 20", "max_tokens = 21").replace("sample = 6", "sample = 9")
    with pytest.raises(RunFolderError, match=r"dragin\+20 was started with other settings \(parameter max_t"):
        run(grid_file(changed), folder, Loader(model))
    assert not model.prompts, "what is wrong with the last cell is known before the first is run"


def test_a_lent_attention_is_for_the_methods_that_ask_for_it(grid_file, folder):
    load = Loader()
    lent = GRID.replace('answer = "hf:elsewhere"', 'answer = "hf:elsewhere"\nattend = "scripted"')
    found = run(grid_file(lent.replace("dragin_paper", "dragin")), folder, load)
    roles = {name.split("/", 1)[1]: set(each.settings.models) for name, each in found.items()}
    assert roles == {
        "fake/closed_book": {"answer"},
        "fake/dragin+20": {"answer"},
        "other/closed_book": {"answer"},
        "other/dragin+20": {"answer", "attend"},
    }
    assert load.loads == 3


def test_cells_that_fail_do_not_keep_the_others(grid_file, folder, tmp_path):
    def fails_on_the_first(prompt, key):
        if key[1] == "q01":
            raise ValueError("no")
        return " So the answer is Bonn."

    found = run(grid_file(), folder, Loader(ScriptedModel(fails_on_the_first)), max_failures=0)
    assert list(found) == CELLS
    stopped = [name for name, each in found.items() if isinstance(each, TooManyFailures)]
    assert stopped == [name for name in CELLS if name.startswith("few")]
    found = run(grid_file(), tmp_path / "other", Loader(refused="scripted"))
    assert list(found) == CELLS
    told = {name.split("/")[1]: str(each) for name, each in found.items() if isinstance(each, ModelSpecError)}
    assert told == {"fake": "there is none"}
    assert [len(each.records) for name, each in found.items() if "/other/" in name] == [6, 6, 2, 2]


def test_what_a_model_lacks_is_known_before_the_first_is_asked(grid_file, folder):
    deaf = ScriptedModel(signals=frozenset())
    with pytest.raises(MissingAbility):
        run(grid_file(), folder, Loader(deaf))
    assert not deaf.prompts


def test_the_preset_of_a_method_fills_what_no_table_sets(grid_file, tmp_path):
    preset = tmp_path / "mine.toml"
    preset.write_text("[flare]\nsearch_below = 0.3\nmax_tokens = 30\nlook_ahead_tokens = 9\n")
    top = "set = { search_below = 0.9, passages = 4 }\n"
    method = f"[methods.flare]\npreset = '{preset}'\nset = {{ max_tokens = 40 }}\n"
    text = top + GRID[: GRID.index("[methods")] + method
    made = read_grid(grid_file(text)).experiments()["all/fake/flare"].make()
    assert (made.search_below, made.max_tokens, made.passages, made.look_ahead_tokens) == (0.9, 40, 4, 9)


def test_a_run_that_another_process_holds_is_left_for_the_end(grid_file, folder, monkeypatch):
    monkeypatch.setattr(runner, "_HELD_SECONDS", 0.05)
    held, order, notes = folder / CELLS[0], [], []
    code = (
        "import sys, pathlib; from askance.storage.durable_files import locked_folder as locked\n"
        "with locked(pathlib.Path(sys.argv[1]), 'lock'): print(flush=True); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}

    def listen(name):
        order.append(name)
        return nullcontext(lambda status: None)

    def noted_once(*given):
        if not notes:
            holder.kill()
        notes.append(given)

    with subprocess.Popen([sys.executable, "-c", code, held], **pipes) as holder, noted(noted_once):
        holder.stdout.readline()
        ready = read_grid(grid_file()).prepare()
        found = asyncio.run(run_grid(ready, folder, Loader(), RunOptions(), listen))
    assert list(found) == CELLS
    assert all(run.is_complete for run in found.values())
    assert order[-1] == CELLS[0]
    assert notes[0] == ("held", f"another process works on {CELLS[0]}: waiting for it.")


def test_two_grids_share_the_runs_and_ask_nothing_twice(grid_file, folder, monkeypatch):
    monkeypatch.setattr(runner, "_HELD_SECONDS", 0.05)
    alone, shared, begun = ScriptedModel(), ScriptedModel(), ([], [])
    run(grid_file(), folder / "alone", Loader(alone))

    def grid(names):
        def listen(name):
            names.append(name)
            return nullcontext(lambda status: None)

        ready = read_grid(grid_file()).prepare()
        return run_grid(ready, folder / "shared", Loader(shared), RunOptions(), listen)

    async def both():
        return await asyncio.gather(*map(grid, begun))

    first, second = asyncio.run(both())
    assert sorted(shared.prompts) == sorted(alone.prompts)
    assert all(run.is_complete for run in (*first.values(), *second.values()))
    assert begun[0] != begun[1], "each goes on with what the other does not hold"


BLENDER = "[methods.blender.set]\nl_max = 900\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sample = 6", "smaple = 6", "unknown key 'smaple' at the top of the grid"),
        ("seed = 7", "seeds = [0, 1, 0]", "grid.toml: seeds=[0, 1, 0] at the top: write different whole"),
        ("seed = 7", "seeds = [-1]", "seeds=[-1] at the top: write different whole numbers from 0"),
        ("seed = 7", "seeds = [true]", "seeds=[True] at the top"),
        ("seed = 7", "seeds = []", "seeds=[] at the top"),
        ("seed = 7", "seeds = 3", "seeds=3 at the top"),
        ("seed = 7", "seed = 7\nseeds = [1]", "such as seeds = [0, 1, 2], and no seed beside them"),
        ("limit = 2", "limit = 2\nseeds = ['1']", "seeds=['1'] in [datasets.few]: write"),
        ("sample = 6", "budget = { cals = 9 }", "parameter 'cals' of the budget: did you mean 'calls'"),
        ("sample = 6", "budget = { calls = 9.5 }", "parameter calls=9.5 of the budget"),
        ('questions = "sample"\nl', 'question = "sample"\nl', "unknown key 'question' in [datasets.few] of"),
        ("limit = 2", 'limit = "2"', "toml, [datasets.few]: limit='2': input should be a valid integer"),
        ("[datasets.few]", "[dataset.few]", "toml: did you mean 'datasets'?"),
        ('questions = "sample"', "questions = 3", "grid.toml, [datasets.all]: dataset=3: input should be a"),
        ("limit = 2", "limit = 2\nsample = 3", "few/fake/closed_book: limit and"),
        ("max_tokens =", "max_tokns =", "grid.toml, [methods.dragin+20]: unknown parameter 'max_tokns'"),
        (
            "",
            BLENDER + "single.passges = 5\n",
            "[methods.blender]: unknown parameter 'passges' of method sing",
        ),
        (
            "",
            BLENDER + "sngle.passages = 5\n",
            "unknown member 'sngle' of method blender: did you mean 'sing",
        ),
        ("max_tokens =", "single.passages =", "unknown parameter 'single.passages' of method dragin_paper"),
        ("set =", "sett =", "did you mean 'set'"),
        (
            "[methods.closed_book]",
            "[methods.closedbook]",
            "[methods.closedbook]: unknown method 'closedbook'",
        ),
        ('questions = "sample"', 'questions = "smaple"', "did you mean 'sample'?"),
        ("[models.fake]", '[models."../fake"]', "[models]: '../fake' can't be the name of a folder: "),
        ('answer = "s', 'anser = "s', "unknown key 'anser' in [models.fake] of the grid"),
        ('answer = "s', 'attend = "s', "lacks 'answer' in [models.fake]: add it"),
        ("", "=", "is not TOML"),
        (GRID[GRID.index("[methods") :], "", "'methods' holds no tables: write [methods."),
    ],
)
def test_flawed_grids(grid_file, folder, old, new, message):
    changed = GRID.replace(old, new) if old else GRID + new
    with pytest.raises(InputError, match=re.escape(message)):
        run(grid_file(changed), folder)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sample = 6", 'metrics = ["nope"]', ": unknown metric 'nope'"),
        ("sample = 6", 'reading = "nope"', ": unknown reading 'nope'"),
        ("sample = 6", 'retriever = "dens"', ": unknown retriever 'dens': did you mean 'dense'"),
        ("limit = 2", 'ids = "nowhere"', ", [datasets.few]: can't read nowhere"),
        ("limit = 2", 'index = "nowhere"', ", [datasets.few]: the index nowhere"),
        ('"sample"\nlimit', '"jsonl:nowhere"\nlimit', ", [datasets.few]: can't read nowhere"),
        ("{ max_tokens = 20 }", '{}\nretriever = "nope"', ", [methods.dragin+20]: unknown retriever 'nope'"),
    ],
)
def test_names_that_turn_out_to_name_nothing_are_told_with_the_table(grid_file, folder, old, new, message):
    with pytest.raises(GridError, match=rf"^\S+/fake/\S+: the grid .*grid\.toml{re.escape(message)}"):
        run(grid_file(GRID.replace(old, new)), folder)
    assert not folder.exists()


def test_a_grid_that_can_not_be_read(tmp_path):
    with pytest.raises(GridError, match=r"can't read the grid .*No such file"):
        read_grid(tmp_path / "nowhere.toml")
    (tmp_path / "latin.toml").write_bytes("# Köln".encode("latin-1"))
    with pytest.raises(GridError, match="is not UTF-8"):
        read_grid(tmp_path / "latin.toml")
