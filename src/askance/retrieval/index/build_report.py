"""The progress of an index build, and the report at its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from askance.retrieval.index.documents import SkippedSource

_OUTCOMES = ("added", "updated", "removed", "unchanged", "duplicate")


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """The progress of a build.

    Attributes:
        source: The file being read.
        passages: The number of passages written in this run.
        encoded: The number of passages embedded in this run, out of `to_encode`. Embedding starts after all
            files are read.
    """

    source: str
    documents: int
    passages: int
    skipped: int
    encoded: int = 0
    to_encode: int = 0


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The result of a build.

    Attributes:
        documents, passages: Counts of the documents and passages in the index after the build.
        outcomes: The numbers of documents that were "added", "updated", "removed", "unchanged" (in the index
            or in the checkpoint of an interrupted build), or "duplicate" (found again in this run, with the
            same id and content).
        hidden: The files and folders that were left out because their names begin with a dot.
        encoded: The number of passages embedded in this run.
    """

    folder: Path | str
    documents: int
    passages: int
    outcomes: Mapping[str, int]
    skipped: Sequence[SkippedSource]
    hidden: Sequence[str]
    encoded: int
    seconds: float

    def __str__(self) -> str:
        counts = {name: self.outcomes.get(name, 0) for name in _OUTCOMES}
        counts |= {"skipped": len(self.skipped), "hidden": len(self.hidden), "passages encoded": self.encoded}
        changed = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        size = f"{self.passages:,} passages of {self.documents:,} documents"
        return f"{self.folder}: {size} ({changed}) in {self.seconds:.1f} s"
