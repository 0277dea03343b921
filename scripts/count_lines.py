"""Count lines of code by package, without blank lines, comments and docstrings.

    python scripts/count_lines.py [FOLDER …]

A line counts if it contains code other than comments and strings that are whole statements.
"""

import ast
import sys
import tokenize
from collections import Counter
from pathlib import Path

FOLDERS = ("src", "recipes")
_EMPTY = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def lines_of_code(path: Path) -> int:
    """Return the number of lines of a file that are code."""
    alone = {
        line
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and type(node.value.value) is str
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    with path.open("rb") as file:
        tokens = [each for each in tokenize.tokenize(file.readline) if each.type not in _EMPTY]
    return len({line for each in tokens[1:] for line in range(each.start[0], each.end[0] + 1)} - alone)


def count(folders: list[Path]) -> tuple[Counter[str], Counter[str]]:
    """Return the counts of lines and files by package. A package is a direct subfolder of a given folder."""
    lines, files = Counter[str](), Counter[str]()
    for folder in folders:
        root = folder / "askance" if (folder / "askance").is_dir() else folder
        for path in sorted(root.rglob("*.py")):
            inner = path.relative_to(root).parts
            place = f"{root.name}/{inner[0] if len(inner) > 1 else ''}"
            lines[place] += lines_of_code(path)
            files[place] += 1
    return lines, files


def main(*given: str) -> None:
    """Print the counts, the largest first, and their sum."""
    folders = [Path(each) for each in given or FOLDERS if given or Path(each).is_dir()]
    lines, files = count(folders)
    for place, number in lines.most_common():
        print(f"{number:>7,} lines in {files[place]:>3} files: {place}")
    print(f"{lines.total():>7,} lines of code in {files.total():>3} files")


if __name__ == "__main__":
    main(*sys.argv[1:])
