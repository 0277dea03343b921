"""Build or update an index: read documents, index and embed passages, and touch only what changed."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from pathlib import Path

from askance.core.ports import Encoder
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index.build_report import BuildProgress, BuildReport
from askance.retrieval.index.documents import Document, SkippedSource, read_documents
from askance.retrieval.index.passages import Chunking
from askance.retrieval.index.reader import collection_of
from askance.retrieval.index.reader_process import ReadingLimits
from askance.text.words import detect_language

_SAMPLED_DOCUMENTS, _SAMPLED_CHARACTERS = 100, 2_000


def build_index(
    sources: Sequence[Path],
    out: str | Path,
    *,
    analysis: Analysis | None = None,
    encoder: Encoder | None = None,
    chunking: Chunking | None = None,
    follow_links: bool = False,
    limits: ReadingLimits = ReadingLimits(),
    progress: Callable[[BuildProgress], None] | None = None,
) -> BuildReport:
    """Build the index `out`, a folder or a URL, from files and folders, or update an existing index there.

    Documents are matched with those in the index as follows:

    - A document with the same id and content as one in the index is the same document, even if it is found in
      another file. The index keeps it unchanged. Only if the first file no longer exists, the index records
      the other file as its source.
    - A document with the same id and file as one in the index, but different content, replaces the old
      document.
    - Any other document is new. If its id is taken (by another file, or by an earlier row of the same file),
      it gets the id "ID~2", "ID~3" and so on, so that nothing is overwritten.
    - A document that is no longer found is removed if its file is in `sources` or in a folder of `sources`.
      Documents of other files stay, as do the documents of a file that is skipped this time.

    The old index stays in use until the new one is complete, even if the build is interrupted. Every 100,000
    passages and every 5,000 vectors the build writes a checkpoint, from which the next build can resume.

    Args:
        analysis: The text analysis. By default it is that of the existing index or, for a new index, the
            analysis of the language that the first documents are in (see `text.words.detect_language`).
        encoder: Embeds each passage that has no vector yet. An index with vectors can only be updated with
            the encoder that made them.
        chunking: How documents are split into passages; None takes the chunking of the index, or the default.
        follow_links: Follow links in the folders of `sources` to files outside them. Otherwise these files
            are skipped. If an earlier build read them, their documents are removed from the index.
        limits: What reading one file may take. A file that takes more is skipped.
        progress: Called after every document, and while passages are embedded.

    Raises:
        DocumentError: A source does not exist. The index is unchanged.
        NothingIndexed: `sources` hold nothing to index. The index is unchanged.
        BadIndex: `out` is not an index, can't be written, is being written by another process, is damaged or
            newer than this version, or was built with another analysis, chunking or encoder.
        ModelFailure: The encoder failed. The index is unchanged, but the next build uses the vectors made so
            far.
    """
    started = time.perf_counter()
    collection = collection_of(out)
    folder = collection.place if isinstance(collection.place, Path) else None
    reading = read_documents(sources, leave_out=folder, follow_links=follow_links, limits=limits)
    with closing(reading):
        documents: Iterator[Document | SkippedSource] = reading
        if analysis is None and collection.state() is None:
            first = list(islice(reading, _SAMPLED_DOCUMENTS))
            texts = (each.text[:_SAMPLED_CHARACTERS] for each in first if isinstance(each, Document))
            analysis, documents = Analysis(language=detect_language(texts)), chain(first, reading)
        with collection.writer(
            analysis=analysis, encoder=encoder, chunking=chunking, progress=progress
        ) as writer:
            writer.sync(documents, sources)
            manifest = writer.commit()
    return BuildReport(
        collection.place,
        manifest.documents,
        manifest.passages,
        writer.outcomes,
        writer.skipped,
        writer.hidden,
        writer.num_encoded,
        time.perf_counter() - started,
    )
