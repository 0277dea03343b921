"""Check docstrings for first words that make them fragments, and for words that the style refuses.

    python scripts/check_words.py [FOLDER …]

The script prints every docstring that begins with a word of OPENINGS or uses a word of WORDS, and then the
number of these docstrings. The exit code is 1 if there are any.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("src", "recipes", "scripts", "benchmarks")
OPENINGS = re.compile(
    r"(Of|By|That|What|Whether|With|Without|As|Who|Whom|Whose|Where|When|How|Why|In|On|At|From|For|To|Only|"
    r"Also|Always|Never|None|Nothing|Everything|And|Or|But|Because|Than|Those|Beside|Behind|Among)\b"
)
WORDS = re.compile(
    r"\b(told|tells?|at hand|as it stands|what it is|goes on|go on|gone on|going on with|amiss|whoever|"
    r"whatever|knobs?|wordings?|elicit(?!ation)\w*|begun|abreast|anew|there is nothing to)\b",
    re.IGNORECASE,
)
QUOTED = re.compile(r"``.*?``|`[^`]*`|\"[^\"]*\"|(?m:^ {4,}[{\[>].*$)", re.DOTALL)
"""Code, quotations and examples, whose words are not the docstring's own."""


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every docstring of a module."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def flaw(text: str) -> str:
    """Return the first word or the other word that a docstring should not have, or an empty string."""
    match = OPENINGS.match(text) or WORDS.search(QUOTED.sub("", text))
    return match.group() if match else ""


def main(*given: str) -> int:
    """Print the docstrings with a flaw and their number, and return the exit code."""
    num_docstrings = num_flaws = 0
    for folder in given or FOLDERS:
        for path in sorted(Path(folder).rglob("*.py")):
            for line, text in docstrings(path):
                num_docstrings += 1
                word = flaw(text)
                num_flaws += bool(word)
                if word:
                    print(f"{path}:{line}: {word!r} in {text.splitlines()[0]!r}")
    print(f"{num_flaws} of {num_docstrings} docstrings begin as fragments or use a refused word")
    return 1 if num_flaws else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
