"""List every test's id with the number of its assertions, so that a change shows lost assertions.

    python scripts/list_tests.py [PYTEST ARGUMENT …] > before

An assertion is an `assert` statement, or a call of `raises`, `warns`, `fail` or a function whose name begins
with `assert_`. The assertions of a test are those in its own body, in its fixtures, and in the test helpers
that the test or its fixtures use, directly or indirectly. Each assertion counts once.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1] / "tests"
_CALLS = ("raises", "warns", "fail")


def is_assertion(node: ast.AST) -> bool:
    """Return whether a node of a syntax tree is an assertion."""
    if isinstance(node, ast.Assert):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return name in _CALLS or name.startswith("assert_")


def is_helper(thing: object) -> bool:
    """Return whether an object is a function or a class that is defined in the tests folder."""
    if not (inspect.isfunction(thing) or inspect.isclass(thing)):
        return False
    file = getattr(sys.modules.get(thing.__module__), "__file__", None)
    return file is not None and Path(file).is_relative_to(ROOT)


def tree_of(thing: Any) -> ast.AST:
    """Return the syntax tree of a function or class."""
    return ast.parse(textwrap.dedent(inspect.getsource(thing)))


def named_in(thing: Any, tree: ast.AST) -> Iterable[object]:
    """Return the objects in a module's namespace that a function or class of the module uses by name."""
    around = vars(sys.modules[thing.__module__])
    return (around[node.id] for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in around)


def assertions_of(*things: Callable[..., object]) -> int:
    """Return the number of assertions in functions and in the test helpers that they use, at any depth."""
    waiting: list[Any] = list(things)
    known, found = set[int](), 0
    while waiting:
        thing = inspect.unwrap(waiting.pop())
        if id(thing) in known or not is_helper(thing):
            continue
        known.add(id(thing))
        tree = tree_of(thing)
        found += sum(map(is_assertion, ast.walk(tree)))
        waiting += named_in(thing, tree)
    return found


class Listing:
    """A pytest plug-in that prints the collected tests."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Print a line for each test, in the order of their ids."""
        for item in sorted(session.items, key=lambda item: item.nodeid):
            fixtures = getattr(item, "_fixtureinfo", None)
            made = fixtures.name2fixturedefs.values() if fixtures else ()
            function = getattr(item, "function", None)
            every = [*([function] if function else []), *(each[-1].func for each in made)]
            print(assertions_of(*every), item.nodeid)


def main(*arguments: str) -> int:
    """Collect the tests, print them, and return the exit code of pytest."""
    quiet = ("-o", "addopts=", "-p", "no:terminal")
    code = pytest.main(["--collect-only", *quiet, *arguments], plugins=[Listing()])
    if code:
        says = "`python -m pytest --collect-only` says why"
        print(f"not collected: {says} (exit code {code})", file=sys.stderr)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
