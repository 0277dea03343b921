"""Print the tree of the package with the first line of every module.

python scripts/tree.py [FOLDER]
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

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


if __name__ == "__main__":
    print("\n".join(tree(Path(*sys.argv[1:]) if sys.argv[1:] else PACKAGE)))
