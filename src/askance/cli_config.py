"""The command that shows the configuration, and where each of its values comes from."""

from rich.table import Table
from rich.text import Text

from askance.cli_options import JsonFlag
from askance.cli_settings import with_settings
from askance.config_sources import DEFAULT, Sourced
from askance.core.strict_json import json_line
from askance.serve.console import out
from askance.text.printable import printable


@with_settings()
def config(sourced: Sourced, as_json: JsonFlag = False) -> None:
    """Show every setting with its origin: a default, askance.toml, the environment, or an option.

    What `--json` prints is what traces and run folders keep, with the origins beside it.
    """
    rows = list(sourced.lines())
    if as_json:
        origins = {key: origin for key, _, origin in rows}
        print(json_line({"config": sourced.config.stored(), "origins": origins}))
        return
    table = Table("setting", "value", "from", box=None, pad_edge=False, header_style="bold")
    for key, value, origin in rows:
        told = "none" if value is None else str(value)
        style = "dim" if origin == DEFAULT else ""
        table.add_row(*(Text(printable(cell), style=style) for cell in (key, told, origin)))
    out.print(table)
