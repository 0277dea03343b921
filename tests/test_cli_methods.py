"""The list of methods, and what it says of one."""

import dataclasses

import pytest

from askance.cli.lists import NEEDS
from askance.configuration.methods import method_class
from tests.laboratory import EVERY_METHOD


@pytest.fixture
def narrow(run):
    """Runs a command on 80 columns; gives the lines."""

    def narrow(*words):
        code, out, _ = run(*words, columns=80)
        assert code == 0
        return [line.rstrip() for line in out.splitlines()]

    return narrow


def test_every_method_has_one_line_on_80_columns(narrow):
    lines = narrow("methods")
    listed = {line.split()[0]: line for line in lines[1 : lines.index("")]}
    variants = ("_paper", "_authors")
    assert sorted(listed) == sorted(name for name in EVERY_METHOD if not name.endswith(variants))
    for name, line in listed.items():
        assert method_class(name).searches in line
    assert sum("(default)" in line for line in listed.values()) == 1
    assert listed["closed_book"].endswith("any model")
    assert "Variants by the paper and the authors' code: dragin_paper" in " ".join(lines)
    assert all(len(line) <= 80 for line in lines)


def test_a_variant_is_shown_with_the_page_of_its_method(run):
    code, out, _ = run("methods", "dragin_paper")
    assert (code, "docs/methods/dragin.md" in out) == (0, True)


def test_every_need_in_the_list_is_explained(narrow):
    lines = narrow("methods")
    named = {need for line in lines[1 : lines.index("")] for need in NEEDS if need in line}
    assert named | {"raw"} == set(NEEDS), "only methods of the laboratory need raw text"
    for need in NEEDS:
        assert sum(line.startswith(f"{need}: ") for line in lines) == 1
    assert "All methods except closed_book search: they need an index." in lines


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_a_method_is_shown_with_all_its_parameters(run, name):
    code, out, _ = run("methods", name)
    assert code == 0
    told, cls = " ".join(out.split()), method_class(name)
    page = name.removesuffix("_authors").removesuffix("_paper")
    for part in (cls.paper, f"docs/methods/{page}.md", f"searches {cls.searches}"):
        assert part in told
    table = out.partition("meaning, and its values\n")[2]
    shown = [line.split()[0] for line in table.splitlines() if line[:1] > " "]
    assert sorted(shown) == sorted(field.name for field in dataclasses.fields(cls))


def test_a_parameter_has_its_default_bounds_and_meaning(run):
    lines = [" ".join(line.split()) for line in run("methods", "airrag")[1].splitlines()]
    assert "rollouts 1 number of rollouts (int, 1 or more)" in lines
    assert "exploration 2.0 exploration weight of UCT (float, 0 or more)" in lines
    assert "top_p 0.8 probability mass to sample from (float, 0.01 to 1)" in lines
    assert any(line.startswith("l_max none maximum number of input tokens") for line in lines)


def test_a_misspelt_method_has_a_nearest_one(run):
    code, out, err = run("methods", "dragon")
    assert (code, out) == (2, "")
    assert "did you mean 'dragin'" in err
