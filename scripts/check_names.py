"""Check that each class name means one thing: print the public class names that several modules define.

    python scripts/check_names.py

The exit code is 1 if there are any. A name that begins with an underscore is private and not checked.
"""

import ast
import sys
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "askance"


def repeated_names(package: Path) -> dict[str, list[str]]:
    """Return the public class names that several modules define, each with its modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path.relative_to(package).as_posix())
    return {name: files for name, files in sorted(places.items()) if len(files) > 1}


def main() -> int:
    """Print the repeated names, and return the exit code."""
    found = repeated_names(PACKAGE)
    for name, files in found.items():
        print(f"{name} is defined in {', '.join(files)}: one class name means one thing")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
