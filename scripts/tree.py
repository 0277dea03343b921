"""Print the tree of the package with the first line of every module, or draw its packages.

python scripts/tree.py [FOLDER]      # the tree
python scripts/tree.py --packages    # the packages and what they import, in Mermaid

An arrow leads from a package to one that it imports; an arrow that others imply is left out.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import grimp

PACKAGE = Path(__file__).parent.parent / "src" / "askance"


def tree(folder: Path, depth: int = 0) -> Iterator[str]:
    """Yield one line for each module below a folder, and one for each folder before its modules."""
    for path in sorted(folder.iterdir(), key=lambda path: (path.is_file(), path.name)):
        module = path / "__init__.py" if path.is_dir() else path
        if module.suffix == ".py" and module.exists() and path.name != "__init__.py":
            docstring = ast.get_docstring(ast.parse(module.read_bytes())) or ""
            name = f"{'  ' * depth}{path.name}{'/' * path.is_dir()}"
            yield f"{name:<34}{docstring.partition(chr(10))[0]}".rstrip()
            if path.is_dir():
                yield from tree(path, depth + 1)


def drawing() -> Iterator[str]:
    """Yield the lines of a drawing of the packages and of `ask.py`."""
    graph = grimp.build_graph("askance", cache_dir=None)
    names = [path.name for path in sorted(PACKAGE.iterdir()) if (path / "__init__.py").exists()] + ["ask"]
    for name in names:
        graph.squash_module(f"askance.{name}")
    yield "flowchart TD"
    for name in names:
        below = graph.find_modules_directly_imported_by(f"askance.{name}")
        below &= {f"askance.{each}" for each in names}
        implied = {each for each in below for other in below - {each} if graph.chain_exists(other, each)}
        if direct := sorted(each.removeprefix("askance.") for each in below - implied):
            yield f"    {name} --> {' & '.join(direct)}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--packages"]:
        print("\n".join(drawing()))
    else:
        print("\n".join(tree(Path(*sys.argv[1:]) if sys.argv[1:] else PACKAGE)))
