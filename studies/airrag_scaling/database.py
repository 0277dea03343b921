"""Build smaller databases: a share of the documents that keeps those that support an answer.

python -m studies.airrag_scaling.database --documents FILE --dataset NAME:FILE --share 1 0.5 0.25 --out FOLDER

FOLDER/share=SHARE/documents.jsonl    the documents of the share
FOLDER/share=SHARE/index/             their index, for `askance reproduce airrag … --index`
"""

from collections.abc import Collection, Sequence
from hashlib import sha256
from pathlib import Path

from askance.core.errors import InputError
from askance.retrieval.index.build import build_index
from askance.retrieval.index.documents import Document, read_documents
from studies.shared import parser_of, read_datasets, write_rows

_SEED = 0


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--documents", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--dataset", nargs="+", required=True, metavar="NAME:FILE", help="questions to keep")
    parser.add_argument("--share", type=float, nargs="+", required=True, help="above 0 and at most 1")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the databases")
    options = parser.parse_args(arguments)
    for share in options.share:
        if not 0 < share <= 1:
            raise InputError(f"--share {share:g}: give shares above 0 and at most 1, such as 0.25.")
    asked = [example for examples in read_datasets(options.dataset).values() for example in examples]
    supporting = {title for example in asked for title in example.supporting_titles}
    for share in options.share:
        print(build_database(options.documents, supporting, share, options.out))


def build_database(documents: Sequence[Path], supporting: Collection[str], share: float, out: Path) -> Path:
    """Build the index of a share of the documents, and return its folder.

    The draw depends on title and text alone. A smaller share is a subset of a larger one.

    Args:
        documents: Files and folders, as for `askance index`.
        supporting: The titles of the documents that are in every share.
        share: The share of the other documents, above 0 and at most 1.

    Raises:
        DocumentError: The documents can't be read, or none are in the share.
    """
    folder = out / f"share={share:.10g}"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"id": each.id, "title": each.title, "text": each.text}
        for each in read_documents(documents)
        if isinstance(each, Document) and (each.title in supporting or _place(each) < share)
    ]
    write_rows(folder / "documents.jsonl", rows)
    build_index([folder / "documents.jsonl"], folder / "index")
    return folder / "index"


def _place(document: Document) -> float:
    """Return the share from which a document is drawn."""
    digest = sha256(f"{_SEED}\n{document.title}\n{document.text}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


if __name__ == "__main__":
    main()
