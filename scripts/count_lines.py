"""Count lines of code by package, without blank lines, comments and docstrings.

    python scripts/count_lines.py [FOLDER …]

A line counts if it contains code other than comments and strings that are whole statements.
"""

import ast
import sys
from collections import Counter
from io import BytesIO
from pathlib import Path
from tokenize import COMMENT, DEDENT, ENCODING, ENDMARKER, INDENT, NEWLINE, NL, tokenize

_EMPTY = {COMMENT, DEDENT, ENCODING, ENDMARKER, INDENT, NEWLINE, NL}


def lines_of_code(source: bytes) -> int:
    """Return the number of lines of a file that are code."""
    docstrings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    tokens = [token for token in tokenize(BytesIO(source).readline) if token.type not in _EMPTY]
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - docstrings)


def main(*given: str) -> None:
    """Print the lines of the direct subfolders of each folder, the largest first, and their sum."""
    lines, files = Counter[str](), Counter[str]()
    for folder in map(Path, given or ("src", "lab/askance_lab", "recipes", "studies")):
        root = folder / "askance" if (folder / "askance").is_dir() else folder
        for path in sorted(root.rglob("*.py")):
            inner = path.relative_to(root).parts
            place = f"{root.name}/{inner[0] if len(inner) > 1 else ''}"
            lines[place] += lines_of_code(path.read_bytes())
            files[place] += 1
    for place, number in lines.most_common():
        print(f"{number:>7,} lines in {files[place]:>3} files: {place}")
    print(f"{lines.total():>7,} lines of code in {files.total():>3} files")


if __name__ == "__main__":
    main(*sys.argv[1:])
