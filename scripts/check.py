"""Check budgets, import cycles, class names and the words of docstrings, which no other tool checks.

    python scripts/check.py            # the exit code is 1 if anything is wrong
    python scripts/check.py --lower    # lower the rows of budgets.toml to what is used

Every text file that git tracks, or would track, belongs to one row of budgets.toml, which says what each
table counts. Binary files have no rows.
"""

import ast
import gzip
import math
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path, PurePosixPath

import grimp
from count_lines import lines_of_code

ROOT = Path(__file__).parents[1]
BUDGETS = "budgets.toml"
Row = tuple[str, str]
"""A table of budgets.toml and a key in it."""

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


class UnusableBudgets(Exception):
    """The file of budgets can't be read."""


def tracked(root: Path) -> list[PurePosixPath]:
    """Return the files that git tracks, or would track once they are added."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout.decode().split("\0")
    return [PurePosixPath(name) for name in sorted(set(names)) if name and (root / name).is_file()]


def measure(path: PurePosixPath, content: bytes) -> tuple[Row, int] | None:
    """Return the row of a file and what the file uses of it, or None for a binary file."""
    try:
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    except (UnicodeDecodeError, OSError, EOFError):
        return None
    if "\0" in text:
        return None
    lines, folders = text.splitlines(), path.parts[:-1]
    top = folders[0] if folders else "."
    if path.suffix == ".py" and "tests" in folders:
        return ("tests", top), len(lines)
    if path.suffix == ".py":
        return ("code", "/".join(folders[:3]) if top == "src" else top), lines_of_code(content)
    if path.suffix in (".js", ".css", ".html"):
        return ("web", top), sum(bool(line.strip()) for line in lines)
    if path.suffix == ".md" or path.name == "LICENSE":
        return ("words", "docs/log" if folders[:2] == ("docs", "log") else top), len(text.split())
    return ("data", top), sum(math.ceil(len(line.rstrip()) / 110) for line in lines)


def usage(root: Path) -> dict[Row, int]:
    """Return what is used of every row, and then the totals."""
    rows, totals = Counter[Row](), Counter[Row]()
    for path in tracked(root):
        found = measure(path, (root / path).read_bytes())
        if found:
            rows[found[0]] += found[1]
    for (table, key), used in rows.items():
        totals["total", "words" if table == "words" else "lines"] += used
        if table == "code" and key.startswith("src/"):
            totals["total", "code of src"] += used
    return dict(sorted(rows.items())) | dict(sorted(totals.items()))


def read_budgets(path: Path) -> dict[Row, int]:
    """Return what is allowed by row."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise UnusableBudgets(f"{path.name} can't be read ({error}): correct or restore it") from error
    allowed = {}
    for table, rows in tables.items():
        for key, value in rows.items() if isinstance(rows, dict) else [("", rows)]:
            if not key or type(value) is not int or value < 0:
                place = f"[{table}] {key}".strip()
                remedy = 'write a whole number in a table, such as "src/askance/cli" = 960'
                raise UnusableBudgets(f"{path.name} has {value!r} at {place}: {remedy}")
            allowed[table, key] = value
    return allowed


def budget_faults(used: Mapping[Row, int], allowed: Mapping[Row, int]) -> Iterator[str]:
    """Yield a message for each row that is exceeded, missing or of no use."""
    for row in used.keys() | allowed.keys():
        table, key = row
        place = f"[{table}] {key!r}"
        if row not in allowed:
            yield f"{place} uses {used[row]:,} and has no row in {BUDGETS}: add one, and lower others"
        elif row not in used:
            yield f"{place} of {BUDGETS} names nothing that is there: remove the row, or correct its name"
        elif used[row] > allowed[row]:
            excess = used[row] - allowed[row]
            yield (
                f"{place} uses {used[row]:,} of {allowed[row]:,}: remove {excess:,} there, or "
                f"raise the row of {BUDGETS} in a commit whose message says what leaves in return"
            )


def lowered(text: str, used: Mapping[Row, int]) -> str:
    """Return the text of budgets.toml with every row lowered to what is used, and without rows of no use."""
    table, lines = "", []
    for line in text.splitlines(keepends=True):
        if heading := re.match(r"\[(\w+)\]", line):
            table = heading[1]
        if row := re.match(r'("?)([^"=#\n]+?)\1(\s*=\s*)([\d_]+)', line):
            if (table, row[2]) not in used:
                continue
            value = min(used[table, row[2]], int(row[4]))
            line = f"{row[1]}{row[2]}{row[1]}{row[3]}{value:_}{line[row.end() :]}"
        lines.append(line)
    return "".join(lines)


def cycle_faults(*packages: str) -> Iterator[str]:
    """Yield an import cycle if there is one. Imports in functions and under TYPE_CHECKING count too."""
    graph = grimp.build_graph(*(packages or ("askance", "askance_lab")), cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        cycle = error.args[1][::-1]
        for importer, imported in pairwise(cycle):
            (detail, *_) = graph.get_import_details(importer=importer, imported=imported)
            yield f"import cycle: {importer}, line {detail['line_number']}: {detail['line_contents']}"


def name_faults(trees: Mapping[str, ast.AST]) -> Iterator[str]:
    """Yield the public class names that several modules of the packages define."""
    places = defaultdict[str, list[str]](list)
    for path, tree in trees.items():
        for node in ast.walk(tree) if path.startswith(("src/", "lab/")) else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    for name, paths in places.items():
        if len(paths) > 1:
            yield f"class {name} is defined in {', '.join(paths)}: one class name means one thing"


def word_faults(trees: Mapping[str, ast.AST]) -> Iterator[str]:
    """Yield the docstrings that begin as fragments or use a refused word."""
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if match := OPENINGS.match(text) or WORDS.search(QUOTED.sub("", text)):
                    place = f"{path}:{node.body[0].lineno}"
                    yield f"{place}: {match.group()!r} in {text.splitlines()[0]!r}: write a plain sentence"


def check(root: Path) -> list[str]:
    """Print what is used and allowed for every row, and return all faults."""
    used, allowed = usage(root), read_budgets(root / BUDGETS)
    for row in [*used, *(row for row in allowed if row not in used)]:
        print(f"{row[0]:<6}{row[1]:<28}{used.get(row, 0):>9,} of {allowed.get(row, 0):>9,}")
    code = [str(path) for path in tracked(root) if path.suffix == ".py" and "tests" not in path.parts]
    trees = {path: ast.parse((root / path).read_bytes()) for path in code}
    return [*sorted(budget_faults(used, allowed)), *cycle_faults(), *name_faults(trees), *word_faults(trees)]


def main(*options: str) -> int:
    """Check everything, or lower the budgets, and return the exit code."""
    try:
        if options == ("--lower",):
            read_budgets(ROOT / BUDGETS)
            text = (ROOT / BUDGETS).read_text(encoding="utf-8")
            (ROOT / BUDGETS).write_text(lowered(text, usage(ROOT)), encoding="utf-8")
            return 0
        faults = check(ROOT)
    except UnusableBudgets as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(faults) or "no row is exceeded; no import cycles, ambiguous names or refused words")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
