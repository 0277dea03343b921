"""The file formats of documents: a reader for each, by file extension.

A reader yields rows one by one. Files of rows may have any number of them; all other files are one row each,
with marks for its pages and sections, and are read as a whole up to a size. Any of them may be gzipped.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from askance.core.records import PARQUET
from askance.retrieval.index.formats.content import Rows, UnreadableFile, check_size
from askance.retrieval.index.formats.encodings import GZIPPED, blocks_of
from askance.retrieval.index.formats.epub import read_epub
from askance.retrieval.index.formats.excel import read_xls, read_xlsx
from askance.retrieval.index.formats.html import read_html
from askance.retrieval.index.formats.mail import read_mail, read_msg
from askance.retrieval.index.formats.office import read_docx, read_pptx
from askance.retrieval.index.formats.opendocument import read_ods, read_odt
from askance.retrieval.index.formats.pdf import read_pdf
from askance.retrieval.index.formats.plain import TEXT_READERS
from askance.retrieval.index.formats.rows import read_json, read_jsonl, read_parquet
from askance.retrieval.index.formats.rtf import read_rtf
from askance.retrieval.index.formats.tables import read_table

READERS: Mapping[str, Callable[[Path], Rows]] = {
    ".pdf": read_pdf,
    **dict.fromkeys((".docx", ".docm", ".dotx"), read_docx),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx"), read_pptx),
    **dict.fromkeys((".xlsx", ".xlsm"), read_xlsx),
    ".xls": read_xls,
    **dict.fromkeys((".odt", ".odp"), read_odt),
    ".ods": read_ods,
    ".rtf": read_rtf,
    ".epub": read_epub,
    **dict.fromkeys((".html", ".htm", ".xhtml"), read_html),
    ".eml": lambda path: read_mail(path, read_file),
    ".msg": lambda path: read_msg(path, read_file),
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
