"""The commands that list what there is: methods, models, datasets, prompts, presets."""

import dataclasses
import json

import pytest
from rich.console import Console

from askance.cli import lists
from askance.configuration.catalogue import DATASETS, METRICS, MODELS
from askance.configuration.methods import method_class
from tests.laboratory import EVERY_METHOD


@pytest.fixture
def listed(run):
    """Run a command on a terminal of 80 columns; return its lines."""

    def listed(*words, columns=80):
        code, out, _ = run(*words, columns=columns)
        assert code == 0
        return [" ".join(line.split()) for line in out.splitlines()]

    return listed


def test_every_method_has_one_line_on_80_columns(listed, run):
    assert max(map(len, run("methods", columns=80)[1].splitlines())) <= 80
    lines = listed("methods")
    rows = {line.split()[0]: line for line in lines[1 : lines.index("")]}
    variants = [name for name in EVERY_METHOD if name.endswith(("_paper", "_authors"))]
    assert {*rows} == {*EVERY_METHOD} - {*variants}
    assert all(method_class(name).searches in line for name, line in rows.items())
    assert rows["dragin"].startswith("dragin (default) ")
    assert rows["closed_book"].endswith("any model")
    notes = " ".join(lines[lines.index("") :])
    assert "Variants by the paper and the authors' code: " in notes
    assert all(name in notes for name in variants)
    assert "All methods except closed_book search: they need an index." in notes
    named = {need for line in rows.values() for need in lists.NEEDS if need in line}
    assert named | {"raw"} == set(lists.NEEDS), "only methods of the laboratory need raw text"
    assert all(notes.count(f"{need}: ") == 1 for need in lists.NEEDS)


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_a_method_is_shown_with_its_page_and_all_its_parameters(listed, name):
    lines, cls = listed("methods", name, columns=300), method_class(name)
    page = name.removesuffix("_authors").removesuffix("_paper")
    facts = {line.partition(" ")[0]: line.partition(" ")[2] for line in lines[1 : lines.index("")]}
    assert (facts["searches"], facts["paper"], facts["page"]) == (
        cls.searches,
        cls.paper,
        f"docs/methods/{page}.md",
    )
    table = lines[lines.index("parameter default meaning, and its values") + 1 :]
    assert {line.split()[0] for line in table} == {field.name for field in dataclasses.fields(cls)}
    assert len(table) == len(dataclasses.fields(cls))


def test_a_parameter_has_its_default_bounds_and_meaning(listed):
    lines = listed("methods airrag", columns=100)
    for line in (
        "rollouts 1 number of rollouts (int, 1 or more)",
        "exploration 2.0 exploration weight of UCT (float, 0 or more)",
        "top_p 0.8 probability mass to sample from (float, 0.01 to 1)",
    ):
        assert line in lines
    assert any(line.startswith("l_max none maximum number of input tokens") for line in lines)
    assert "raw (it continues a text without any chat format)" not in " ".join(lines)


def test_models_are_listed_with_what_is_missing(run, listed, monkeypatch):
    assert all(kind.form.partition("[")[0] in run("models", columns=200)[1] for kind in MODELS.values())
    shown = {each["spec"]: each for each in json.loads(run("models --json")[1])["models"]}
    for kind in MODELS.values():
        assert (shown[kind.form]["what"], shown[kind.form]["missing"]) == (kind.what, kind.missing)
    monkeypatch.setattr("askance.configuration.catalogue.find_spec", lambda name: None)
    lines = listed("models", columns=300)
    assert any(line.startswith("openai needs: ") and "[remote]" in line for line in lines)
    assert any(line.startswith("scripted") and line.endswith("ready") for line in lines)


def test_prompts_are_listed_with_their_examples_and_printed(listed, run, tmp_path):
    rows = {line.split()[0]: line for line in listed("prompts", columns=200)}
    for name, examples in (("own", 4), ("hotpotqa", 8), ("airrag-reader", 0)):
        assert rows[name].startswith(f"{name} {examples} ")
    assert "yes or no" in rows["strategyqa"]
    assert run("prompts airrag")[1].startswith('base = "airrag"\nsystem = ')
    (tmp_path / "mine.toml").write_text(run("prompts strategyqa")[1])
    assert run("prompts", tmp_path / "mine.toml")[1] == (tmp_path / "mine.toml").read_text()


def test_every_metric_has_a_description_of_its_own(listed):
    rows = [line.partition(" ") for line in listed("metrics", columns=300)]
    described = {name.partition("[")[0]: what for name, _, what in rows if name.partition("[")[0] in METRICS}
    assert described.keys() == METRICS.keys()
    assert len(set(described.values())) == len(METRICS)
    assert described["mrr"].startswith("the reciprocal rank of the first supporting document")


def test_presets_are_listed(listed):
    lines = listed("presets", columns=300)
    assert any(line.startswith("bundled ") for line in lines)
    at = next(at for at, line in enumerate(lines) if line.startswith("dragin/llama2-13b-chat/hotpotqa "))
    any_method, of_paper = (line.split(maxsplit=1) for line in lines[at + 1 : at + 3])
    assert any_method == ["any", "max_tokens=100, passages=3, trigger=rind, query_top=35"]
    assert of_paper == ["dragin_paper", "threshold=1.2"]


@pytest.mark.parametrize("width", [80, 110])
def test_datasets_are_listed_and_no_address_is_broken(monkeypatch, capsys, width):
    monkeypatch.setattr(lists, "out", Console(width=width))
    lists.datasets()
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert max(map(len, lines)) <= width
    assert {dataset.source for dataset in DATASETS.values()} <= {line.split()[-1] for line in lines} | {""}
    for dataset in DATASETS.values():
        assert dataset.spec.partition("[")[0] in printed
        assert dataset.licence.split()[0] in printed
    assert "[?unanswerable=keep]" in printed


def test_a_file_is_counted_by_kind_and_hops(listed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = {"question": "Who\u001b[2J is [red]it[/red]?", "answers": ["Bonn", "city of Bonn"], "type": "easy"}
    own |= {"supporting": ["Fidelio"]}
    other = {"question": "Who?", "answers": ["Ada"], "facts": ["Ada wrote it."]}
    rows = [own | {"hops": 2}, own | {"hops": 1}, other]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert listed("datasets jsonl:own.jsonl", columns=100) == [
        "jsonl:own.jsonl: 3 questions, 2 with supporting titles, 1 with supporting texts or facts",
        *("kind questions", "(none) 1", "easy 2"),
        *("hops questions", "(not known) 1", "1 1", "2 1"),
        *("first", "id 1", "question Who�[2J is [red]it[/red]?", "task open"),
        *("golds Bonn | city of Bonn", "supporting Fidelio"),
    ]
