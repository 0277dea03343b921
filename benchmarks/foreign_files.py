"""Count how many files of other programs askance reads well: their text, titles, authors and places.

    python -m benchmarks.foreign_files [--out DIR]

Each program that is installed writes its files, with made-up words in headings, paragraphs, lists, cells and
notes. The script indexes the folder of these files and searches for each word. A word is kept if the passage
that is found comes from the file and contains the word. A title, an author and a place (page, section, sheet
or row) are right if that passage shows them. The place of a note is not checked.

The programs are no dependencies of askance. A file is not made if its program is missing or fails, and the
script says so.
Libraries: pip install pypandoc_binary python-docx python-pptx openpyxl XlsxWriter pandas odfpy EbookLib
reportlab fpdf2 weasyprint docutils. Programs on the PATH: soffice (LibreOffice) and chromium.

The exit code is 1 if a word of a file is lost.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from askance.core.ports import Retriever
from askance.core.types import Passage
from askance.retrieval.bm25 import open_index
from askance.retrieval.index.build import build_index
from benchmarks.foreign_content import Content, Fact, made_up_words
from benchmarks.foreign_programs import PROGRAMS, NotInstalled

_HEAD = ("file", "program", "words", "titles", "authors", "places", "lost or wrong")


@dataclass(frozen=True, slots=True)
class Made:
    """A file that a program wrote, with what it has to show.

    Attributes:
        program: The name and the version of the program.
    """

    path: Path
    program: str
    facts: tuple[Fact, ...]


def make_files(folder: Path) -> Iterator[Made | str]:
    """Write the files of all programs, and yield each file, or why files of a program are not made."""
    words = made_up_words()
    for program, make, extensions in PROGRAMS:
        try:
            name = f"{program.name} {program.version()}"
        except Exception as error:
            yield f"{program.name} ({extensions}): {_reason(error)}"
            continue
        for extension in extensions.split():
            path = folder / f"by-{program.name.replace(' ', '-')}.{extension}"
            content = Content(f"{program.name} {extension}", words)
            try:
                make(path, content)
            except Exception as error:  # each library has its own errors
                path.unlink(missing_ok=True)
                yield f"{path.name}: {_reason(error)}"
            else:
                yield Made(path, name, tuple(content.facts))


def _reason(error: Exception) -> str:
    """Return why a program did not make a file, in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, NotInstalled) else f"{type(error).__name__}: {text}"


def found(retriever: Retriever, made: Made) -> Mapping[Fact, Passage]:
    """Return the passages of a file that contain its words."""
    passages = dict[Fact, Passage]()
    for fact in made.facts:
        for hit in asyncio.run(retriever.search(fact.word, 5)):
            if hit.passage.source == str(made.path) and fact.word in hit.passage.text:
                passages.setdefault(fact, hit.passage)
    return passages


def row(made: Made, passages: Mapping[Fact, Passage]) -> tuple[str, ...]:
    """Return the row of a file for the table: counts, and the first thing that is lost or wrong."""
    wrong = [f"no {fact.word}" for fact in made.facts if fact not in passages]
    shares = [f"{len(passages)}/{len(made.facts)}"]
    for what in ("title", "author", "place"):
        asked = {fact: expected for fact in made.facts if (expected := _expected(fact)[what])}
        shown = {fact: _shown(passages[fact])[what] for fact in asked if fact in passages}
        failed = [each for fact, each in shown.items() if not set(asked[fact]) <= set(each)]
        wrong += [f"{what} {', '.join(each)!r}" for each in failed]
        shares.append(f"{len(shown) - len(failed)}/{len(asked)}")
    return made.path.name, made.program, *shares, "; ".join(dict.fromkeys(wrong))


def _expected(fact: Fact) -> Mapping[str, tuple[str, ...]]:
    return {"title": (fact.title,), "author": (fact.author,), "place": fact.places}


def _shown(passage: Passage) -> Mapping[str, tuple[str, ...]]:
    author, page = str(passage.fields.get("author", "")), f"p. {passage.page}" if passage.page else ""
    return {"title": (passage.title,), "author": (author,), "place": (page, passage.section)}


def measure(folder: Path) -> int:
    """Make the files in FOLDER/files, index them, print the table, and return the exit code."""
    files, notes = folder / "files", list[str]()
    files.mkdir(parents=True)
    made = list[Made]()
    for each in make_files(files):
        if isinstance(each, Made):
            made.append(each)
        else:
            notes.append(f"not made: {each}")
    report = build_index([files], folder / "index")
    notes += [f"skipped: {skipped.source}: {skipped.reason}" for skipped in report.skipped]
    retriever = open_index(folder / "index")
    table, num_read, num_right = Table(*_HEAD, box=None, header_style="bold"), 0, 0
    for each in made:
        passages = found(retriever, each)
        cells = row(each, passages)
        num_read += len(passages) == len(each.facts)
        num_right += not cells[-1]
        table.add_row(*cells)
    Console(width=200).print(table)
    print(*notes, sep="\n")
    print(f"{num_read} of {len(made)} files read; {num_right} with all titles, authors and places")
    return int(num_read < len(made))


def main(arguments: list[str] | None = None) -> int:
    """Measure in a temporary folder, or in a new one that is kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the files and their index in this new folder")
    out: Path | None = parser.parse_args(arguments).out
    if out is not None:
        return measure(out)
    with TemporaryDirectory() as folder:
        return measure(Path(folder))


if __name__ == "__main__":
    sys.exit(main())
