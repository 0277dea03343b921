"""Help texts of the laboratory's commands: each ends with two examples, which are commands that exist."""

import shlex

import pytest

from askance.cli.options import parameters_by_name
from askance.configuration.catalogue import DATASETS
from askance.core.extensions import LABORATORY
from askance_lab.training.reader.settings import ReaderSettings
from askance_lab.training.relevance.settings import RelevanceSettings
from askance_lab.training.selfrag.critic import CriticSettings
from askance_lab.training.selfrag.settings import SelfRagSettings
from tests import test_cli_help as product

COMMANDS = {
    path: command
    for name in LABORATORY["commands"]
    for path, command in product.commands(product.command_of((name,)), (name,)).items()
}
EXAMPLES = {example for command in COMMANDS.values() for example in product.examples(command)}
TRAINING = {
    "reader": ReaderSettings,
    "relevance": RelevanceSettings,
    "selfrag": SelfRagSettings,
    "critic": CriticSettings,
}
"""The settings of commands that train a model and have examples with settings."""


def test_the_commands():
    assert {" ".join(path) for path in COMMANDS} == {
        "annotate", "sweep", "train", "train actions", "train critic", "train curve", "train reader",
        "train relevance", "train reward", "train selfrag",
    }  # fmt: skip


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_help_is_whole(run, path):
    product.test_every_help_explains_all_parameters_and_ends_with_two_examples(run, path)


@pytest.mark.parametrize("example", sorted(EXAMPLES))
def test_every_example_is_a_command_that_exists(example):
    assert len(example) < 79
    first, *words = shlex.split(example)
    assert first == "askance"
    command, options = product.parsed(words)
    assert command.name in {path[-1] for path in COMMANDS}
    settings = parameters_by_name(options.get("set_") or ())
    assert not settings or settings.keys() <= {*TRAINING[command.name].__dataclass_fields__}
    for dataset in options.get("dataset") or ():
        assert dataset.partition(":")[0] in DATASETS
