"""The file formats of documents: a reader for each, by file extension.

A reader yields rows one by one. Files of rows may have any number of them; all other files are one row each,
with marks for its pages and sections, and are read as a whole up to a size. Any of them may be gzipped.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from askance.core.records import PARQUET
from askance.retrieval.index.formats.content import Rows, UnreadableFile, check_size
from askance.retrieval.index.formats.encodings import GZIPPED, blocks_of
from askance.retrieval.index.formats.plain import TEXT_READERS
from askance.retrieval.index.formats.rows import read_json, read_jsonl, read_parquet
from askance.retrieval.index.formats.tables import read_table


def _format(module: str) -> Any:
    """Import the module of a format. Most take long to import, and few are needed to read one folder."""
    return import_module(f"{__name__}.{module}")


READERS: Mapping[str, Callable[[Path], Rows]] = {
    ".pdf": lambda path: _format("pdf").read_pdf(path),
    **dict.fromkeys((".docx", ".docm", ".dotx"), lambda path: _format("office").read_docx(path)),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx"), lambda path: _format("office").read_pptx(path)),
    **dict.fromkeys((".xlsx", ".xlsm"), lambda path: _format("excel").read_xlsx(path)),
    ".xls": lambda path: _format("excel").read_xls(path),
    **dict.fromkeys((".odt", ".odp"), lambda path: _format("opendocument").read_odt(path)),
    ".ods": lambda path: _format("opendocument").read_ods(path),
    ".rtf": lambda path: _format("rtf").read_rtf(path),
    ".epub": lambda path: _format("epub").read_epub(path),
    **dict.fromkeys((".html", ".htm", ".xhtml"), lambda path: _format("html").read_html(path)),
    ".eml": lambda path: _format("mail").read_mail(path, read_file),
    ".msg": lambda path: _format("mail").read_msg(path, read_file),
    **dict.fromkeys((".jsonl", ".ndjson"), read_jsonl),
    ".json": read_json,
    PARQUET: read_parquet,
    **dict.fromkeys((".csv", ".tsv"), read_table),
    **TEXT_READERS,
}
_STREAMED = (".jsonl", ".ndjson", ".csv", ".tsv")
"""Formats that are unpacked row by row."""


def extension(path: Path) -> str:
    """Return the extension of a file in lower case, without the .gz of a gzipped file."""
    name = Path(path.stem) if path.suffix.lower() == GZIPPED else path
    return name.suffix.lower()


def read_file(path: Path) -> Rows:
    """Yield the rows of a file in one of the formats of `READERS`, which may be gzipped.

    Raises:
        UnreadableFile: The format is unknown, or the content does not match the name.
        OSError: The file can't be read.
    """
    reader = READERS.get(extension(path))
    if reader is None:
        raise UnreadableFile(f"unknown kind of file ({path.suffix or 'no extension'})")
    if path.suffix.lower() != GZIPPED or extension(path) in _STREAMED:
        yield from reader(path)
        return
    with TemporaryDirectory(prefix="askance-unpacked-") as folder:
        unpacked = Path(folder, path.stem)
        _unpack(path, unpacked)
        yield from reader(unpacked)


def _unpack(path: Path, to: Path) -> None:
    check_size(path.stat().st_size)
    num_bytes = 0
    with to.open("wb") as file:
        for block in blocks_of(path):
            num_bytes += len(block)
            check_size(num_bytes)
            file.write(block)
