"""Compare the words that askance and pandoc read of the same files, by format.

    python -m benchmarks.pandoc_differences [FOLDER ...]

The files are the single constructs of tests/retrieval/constructs.txt, those that the programs of
benchmarks.foreign_files write, as far as these are installed, and those of further folders. Text files whose
markup askance keeps as it is are left out. Neither reader is right by definition: a person has to look.

pandoc comes with the package pypandoc_binary, or from the PATH.
"""

import argparse
import re
import shutil
import subprocess
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table
from tests.retrieval.constructs import constructs, document_of

from askance.core.errors import InputError
from askance.retrieval.index.formats import read_file
from askance.retrieval.index.formats.content import DocumentRow, UnreadableFile
from benchmarks.foreign_files import make_files

FORMATS = ("docx", "odt", "pptx", "epub", "html", "rtf", "xlsx", "csv", "ipynb")
_HEAD = ("format", "files", "askance's words in pandoc", "pandoc's in askance", "files that differ most")
_SHOWN_FILES, _SHOWN_WORDS = 8, 6


@dataclass(frozen=True, slots=True)
class Compared:
    """A file with the words that each of the two readers has."""

    name: str
    ours: frozenset[str]
    pandocs: frozenset[str]

    def __str__(self) -> str:
        sides = (("pandoc lacks", self.ours - self.pandocs), ("askance lacks", self.pandocs - self.ours))
        lacks = [f"{side} {' '.join(sorted(words)[:_SHOWN_WORDS])}" for side, words in sides if words]
        return f"{self.name}: {'; '.join(lacks)}"


def pandoc_path() -> str:
    """Return the path of pandoc.

    Raises:
        InputError: It is not installed.
    """
    try:
        return str(import_module("pypandoc").get_pandoc_path())
    except (ImportError, OSError):
        path = shutil.which("pandoc")
    if path is None:
        raise InputError("pandoc is missing: pip install pypandoc_binary, or put pandoc on the PATH.")
    return path


def compare(path: Path, pandoc: str) -> Compared:
    """Read a file in both ways. A file that a reader refuses has no words, nor do titles outside the text."""
    try:
        rows = [row for row in read_file(path) if isinstance(row, DocumentRow)]
    except UnreadableFile:
        rows = []
    ours, titles = _words("\n".join(row.text for row in rows)), _words("\n".join(row.title for row in rows))
    command = [pandoc, "--sandbox", "--wrap=none", f"--from={path.suffix[1:]}", "--to=plain", str(path)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    return Compared(path.name, ours, _words(done.stdout.decode()) - (titles - ours))


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))


def write_files(folder: Path) -> None:
    """Write the constructs and the files of other programs."""
    for number, each in enumerate(constructs()):
        if each.suffix in FORMATS:
            name = re.sub(r"\W+", " ", each.name)
            (folder / f"{number} {name}.{each.suffix}").write_bytes(document_of(each.suffix, each.source))
    for made in make_files(folder):
        if isinstance(made, str):
            print("not made:", made)


def row(suffix: str, compared: Sequence[Compared]) -> Iterator[str]:
    """Yield the cells of a format for the table."""
    common = sum(len(each.ours & each.pandocs) for each in compared)
    yield from (suffix, str(len(compared)))
    yield f"{common / max(1, sum(len(each.ours) for each in compared)):.1%}"
    yield f"{common / max(1, sum(len(each.pandocs) for each in compared)):.1%}"
    worst = sorted(compared, key=lambda each: len(each.pandocs - each.ours), reverse=True)
    yield "\n".join(str(each) for each in worst[:_SHOWN_FILES] if each.ours != each.pandocs)


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, help="further files to read")
    with TemporaryDirectory() as folder:
        folders, pandoc = [Path(folder), *parser.parse_args(arguments).folders], pandoc_path()
        write_files(Path(folder))
        by_format = defaultdict[str, list[Compared]](list)
        for path in (path for each in folders for path in sorted(each.rglob("*")) if path.is_file()):
            if path.suffix[1:] in FORMATS:
                by_format[path.suffix[1:]].append(compare(path, pandoc))
        table = Table(*_HEAD, box=None, header_style="bold")
        for suffix, compared in by_format.items():
            table.add_row(*row(suffix, compared))
        Console(width=200).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
