"""Print the tree of the package with the first line of every module, or write it into CONTRIBUTING.md.

python scripts/tree.py             # print it
python scripts/tree.py --write     # write it between the marks of CONTRIBUTING.md
python scripts/tree.py --check     # exit with 1 if CONTRIBUTING.md has another tree
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "askance"
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- The tree: python scripts/tree.py --write -->\n```\n", "```\n<!-- End of the tree. -->\n"
_COLUMN = 34


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring, or an empty string if the module has no docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_bytes())) or ""
    return docstring.partition("\n")[0]


def tree(folder: Path = PACKAGE, depth: int = 0) -> Iterator[str]:
    """Yield one line for each module below a folder, and one for each folder before its modules."""
    for path in sorted(folder.iterdir(), key=lambda each: (each.is_file(), each.name)):
        if path.is_dir() and (path / "__init__.py").exists():
            yield _line(f"{path.name}/", first_line(path / "__init__.py"), depth)
            yield from tree(path, depth + 1)
        elif path.suffix == ".py" and path.name != "__init__.py":
            yield _line(path.name, first_line(path), depth)


def _line(name: str, text: str, depth: int) -> str:
    return f"{'  ' * depth + name:<{_COLUMN}}{text}".rstrip()


def page_with(lines: Iterator[str], page: str) -> str:
    """Return the page with the lines inserted between its marks, in place of the old lines.

    Raises:
        ValueError: The page lacks the marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} lacks the marks between which the tree stands")
    return before + BEGIN + "".join(f"{line}\n" for line in lines) + END + after


def main(*options: str) -> int:
    """Print, write or check the tree, and return the exit code."""
    if not options:
        print("\n".join(tree()))
        return 0
    page = PAGE.read_text(encoding="utf-8")
    wanted = page_with(tree(), page)
    if options == ("--write",):
        PAGE.write_text(wanted, encoding="utf-8")
    elif wanted != page:
        print(f"the tree in {PAGE.name} is not the package's: run python scripts/tree.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
