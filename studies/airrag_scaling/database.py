"""Smaller databases: a part of the documents that keeps those that support an answer.

OUT/databases/share=SHARE/documents.jsonl    the documents of the part
OUT/databases/share=SHARE/index/             their index
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from askance.configuration.evaluation import read_dataset
from askance.configuration.grid import Grid
from askance.evaluation.datasets import Example
from askance.evaluation.run.experiment import select_examples
from askance.retrieval.index.build import build_index
from askance.retrieval.index.documents import Document, read_documents
from studies.airrag_scaling.settings import shown
from studies.shared import write_rows

Examples = Mapping[str, Sequence[Example]]
_SEED = 0


def build_database(documents: Sequence[Path], examples: Examples, share: float, out: Path) -> Path:
    """Build the index of a share of the documents, and return its folder.

    The draw depends on title and text alone. A smaller share is a subset of a larger one.

    Args:
        documents: Files and folders, as for `askance index`.
        examples: The questions by dataset, whose supporting documents are in every share.
        share: The share of the other documents, above 0 and at most 1.

    Raises:
        DocumentError: The documents can't be read, or none are in the share.
    """
    supporting = {title for each in examples.values() for one in each for title in one.supporting_titles}
    folder = out / "databases" / f"share={shown(share)}"
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


def examples_of(grid: Grid) -> Examples:
    """Return the questions of each dataset of a grid.

    Raises:
        InputError: A dataset or a selection of questions can't be read.
    """
    found: dict[str, tuple[Example, ...]] = {}
    for name, experiment in grid.experiments().items():
        dataset = name.split("/")[0]
        if dataset not in found:
            examples = read_dataset(experiment.dataset, experiment.limit)
            chosen = select_examples(experiment.dataset, examples, experiment.sample, experiment.ids)
            found[dataset] = tuple(chosen.values())
    return found
