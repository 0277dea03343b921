"""The command that lists the kinds of models."""

from importlib.util import find_spec

from rich.console import Console
from rich.table import Table
from rich.text import Text

from askance.models.kinds import MODEL_KINDS

out = Console(highlight=False, emoji=False)


def models() -> None:
    """List the kinds of models and whether they can be used here."""
    table = Table("spec", "what it is", "here", box=None, pad_edge=False, header_style="bold")
    for kind in MODEL_KINDS.values():
        missing = [package for package in kind.needs_packages if find_spec(package) is None]
        here = f"missing: {kind.install}" if missing else "ready"
        table.add_row(*map(Text, (kind.spec, kind.what, here)))
    out.print(table)
