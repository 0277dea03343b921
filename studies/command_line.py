"""Parsers, tables and gates: the functions that the command lines of recipes and measurements share."""

import argparse
from collections.abc import Iterable, Mapping, Sequence

from askance.terminal.console import out, print_plain


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help begins with the docstring of a module, with its line breaks."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table with a heading for each column and with the given rows of strings."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (titles, ["---"] * len(titles), *rows))


def check_gate(conditions: Mapping[str, bool], *, exits: bool = True) -> None:
    """Print each condition of a gate, and whether it is met.

    Args:
        exits: Whether to exit with 1 if a condition is missed.
    """
    for condition, is_met in conditions.items():
        print_plain(out, f"{'met' if is_met else 'missed'}: {condition}")
    if exits and not all(conditions.values()):
        raise SystemExit(1)
