"""Train a reader with the whole recipe, which makes more kinds of examples than `askance train reader`.

python -m recipes.reader --dataset 2wikimultihopqa:train.json --out my-reader
"""

import typer
from typer.main import get_command

from askance.cli.main import exit_codes, explain
from askance.cli.train import reader_command

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
app.command()(exit_codes()(reader_command("recipes.reader.data_mix:RecipeBuilder")))

if __name__ == "__main__":
    command = get_command(app)
    explain(command)
    command()
