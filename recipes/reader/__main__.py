"""Train a reader with the whole recipe, which makes more kinds of examples than `askance train reader`.

python -m recipes.reader --dataset 2wikimultihopqa:train.json --out my-reader
"""

from typing import TYPE_CHECKING

import typer
from typer.main import get_command

from askance.cli.main import exit_codes, explain
from askance_lab.commands.train import reader_command

if TYPE_CHECKING:
    from askance_lab.training.reader.data_mix import ExampleBuilder

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


def _builder() -> "type[ExampleBuilder]":
    from recipes.reader.data_mix import RecipeBuilder

    return RecipeBuilder


app.command()(exit_codes()(reader_command(_builder)))

if __name__ == "__main__":
    command = get_command(app)
    explain(command)
    command()
