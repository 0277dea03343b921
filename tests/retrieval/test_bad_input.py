"""Bad input among good files: each bad file is skipped with its reason, and everything else is indexed."""

import os
import sys
from pathlib import Path

import pytest
from tests.retrieval.hostile import docx, nested_forms, odf, page_pdf, stream, word, xlsx

from askance.retrieval.index.build import build_index
from askance.retrieval.index.reader_process import ReadingLimits

WORDS, OLD = b"quokka words", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
"""`OLD` is how files of older programs begin, and encrypted ones of newer programs."""
DOCX, PDF = docx(word("quokka words")), page_pdf(stream(b"BT /F 12 Tf (quokka) Tj ET"))
DAMAGED = "damaged, or not of the kind that its name says"
COSTLY = "needs more memory than" if sys.platform == "linux" else "takes longer than"


def locked(archive):
    """Return an archive whose directory says that its files are encrypted."""
    return archive.replace(b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1")


def sparse(path):
    path.touch()
    os.truncate(path, 2 << 30)


BAD = {
    "zero.txt": (b"", "empty (0 bytes)"),
    "blank.txt": (b" \n\t", "holds no text"),
    "encrypted.docx": (OLD, "encrypted, or in an older format; save it without a password"),
    "locked.xlsx": (locked(xlsx("")), "encrypted; remove its password first"),
    "locked.odt": (locked(odf("")), "encrypted; remove its password first"),
    "cut.pdf": (PDF[:100], "a PDF that can't be read"),
    "cut.docx": (DOCX[:-9], DAMAGED),
    "cut.jsonl": (b'{"text": "good row"}\n{"text": "a', "is no JSON"),
    "flipped.docx": (DOCX.replace(b"document.xml", b"documenu.xml"), "damaged"),
    "late.jsonl": (b'{"text": "fine"}\n' * 80_000 + b'{"text": "\0"}\n', f"byte {80_000 * 17 + 10} is NUL"),
    "words.pdf": (WORDS, "a PDF that can't be read"),
    "archive.csv": (DOCX, "binary, not text"),
    "photo.png": (b"\x89PNG", "unknown kind of file (.png)"),
    "README": (WORDS, "unknown kind of file (no extension)"),
    os.fsdecode(b"caf\xe9.txt"): (WORDS, "its name is not UTF-8"),
    "sparse.pdf": (sparse, "too large (2,147 MB; up to 256 MB are read)"),
    "sparse.csv": (sparse, "binary, not text (byte 0 is NUL)"),
    "pipe.txt": (os.mkfifo, "not a regular file"),
    "device.txt": (lambda path: path.symlink_to(os.devnull), "not a regular file"),
    "dangling.txt": (lambda path: path.symlink_to("nowhere"), "can't be read: No such file or directory"),
    "linked": (lambda path: path.symlink_to(path.parent), "a link to a folder, which is not followed"),
    "exhausts.pdf": (nested_forms(), COSTLY),
    "locked/b.txt": (WORDS, "can't be read: Permission denied"),
}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder, stat = tmp_path_factory.mktemp("bad"), Path.stat
    good = dict.fromkeys(("a.txt", "folder.txt/inner.txt", "m.txt", "z.txt"), (WORDS, ""))
    for name, (content, _) in {**BAD, **good}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        content(folder / name) if callable(content) else (folder / name).write_bytes(content)

    def refused(path, **options):  # as in a folder into which nobody may look
        if path.parent.name == "locked":
            raise PermissionError(13, "Permission denied")
        return stat(path, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "stat", refused)
        return build_index([folder], folder / "index", limits=ReadingLimits(memory=0.6))


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_skipped_with_the_reason(report, name):
    source = f"/{os.fsencode(name).decode('utf-8', 'backslashreplace')}"
    (reason,) = (each.reason for each in report.skipped if source in each.source)
    assert BAD[name][1] in reason


def test_everything_else_is_indexed(report):
    assert (report.documents, len(report.skipped)) == (5, len(BAD)), "four files and a row of cut.jsonl"
