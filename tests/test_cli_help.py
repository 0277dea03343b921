"""Every help text explains all options, and ends with two examples, which are commands that exist."""

import shlex

import pytest
from typer.main import get_command

from askance.cli.main import app
from askance.cli.options import by_name, parameters_by_name
from askance.configuration.catalogue import DATASETS, DEFAULT_METHOD, METHODS, RETRIEVERS
from askance.configuration.methods import make_method
from askance.configuration.presets import open_preset
from askance.core.spec import parse_spec
from askance.terminal.console import described


def commands(group, path=()):
    """All commands and groups below one, by their words."""
    found = {path: group}
    for name in getattr(group, "commands", {}):
        found |= commands(group.get_command(None, name), (*path, name))
    return found


def examples(command):
    """What its help ends with."""
    return command.epilog.splitlines()[1:]


ROOT = get_command(app)
COMMANDS = commands(ROOT)
EXAMPLES = {example for command in COMMANDS.values() for example in examples(command)}


def command_of(path):
    """The command or group of these words, which may be one of a plug-in."""
    found = ROOT
    for name in path:
        found = found.get_command(None, name)
    return found


def parsed(words):
    """The command that the words call, and its options."""
    context, words = ROOT.make_context("askance", list(words)), list(words)
    while hasattr(context.command, "commands"):
        name, command, words = context.command.resolve_command(context, words)
        if words == ["--help"]:
            return command, {}
        context = command.make_context(name, words, parent=context)
    return context.command, context.params


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "askance")
def test_every_help_explains_all_parameters_and_ends_with_two_examples(run, path):
    command = command_of(path)
    code, out, _ = run(*path, "--help", columns=80)
    lines = [" ".join(line.split()) for line in out.splitlines() if line.strip()]
    first, second = examples(command)
    assert (code, lines[-3:], first != second) == (0, ["Examples:", first, second], True)
    assert first.startswith(" ".join(("askance", *path)))
    assert command.help
    assert "Args:" not in command.help
    assert all(parameter.help and "\n" not in parameter.help for parameter in command.params)
    if command.callback is not None:  # an entry that is called like no parameter would be lost silently
        explained = described(command.callback.__doc__, "Args")
        assert explained.keys() <= {parameter.name for parameter in command.params}


@pytest.mark.parametrize("example", sorted(EXAMPLES))
def test_every_example_is_a_command_that_there_is(example):
    assert len(example) < 79
    first, *words = shlex.split(example)
    assert first == "askance"
    command, options = parsed(words)
    assert command in COMMANDS.values()
    method = options.get("method") or DEFAULT_METHOD
    assert method in METHODS
    assert (options.get("retriever") or "bm25") in RETRIEVERS
    settings = parameters_by_name(options.get("parameters", options.get("set_")) or ())
    make_method(method, settings)
    specs = [*by_name("models", options.get("models") or ()).values()]
    specs += [options[name] for name in ("encoder", "spec", "citations", "facts") if options.get(name)]
    for spec in specs:
        if command.name != "datasets":
            parse_spec(spec)
    if options.get("preset"):
        open_preset(options["preset"])
    datasets = options.get("dataset") or ()
    for dataset in [datasets] if isinstance(datasets, str) else datasets:
        assert dataset.partition(":")[0] in DATASETS
