"""The command that indexes documents, and deletes them from an index."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from askance.cli.options import NumberOption, SpecOption
from askance.configuration.build import encoder_to_build_with, load_encoder
from askance.core.errors import InputError
from askance.retrieval.filters import check_filter, parse_filter
from askance.sample import CORPUS, SAMPLE
from askance.terminal.console import err, out, print_plain
from askance.terminal.progress import IndexProgress

if TYPE_CHECKING:
    from askance.retrieval.index.build_report import BuildReport

_MOST_HIDDEN = 10
"""The number of hidden files that are named."""
_ENCODED_PER_MINUTE = 1_000
"""The number of passages that two cores encode in about a minute. Up to so many get vectors unasked."""


def index(
    docs: Annotated[list[str] | None, typer.Argument()] = None,
    index: Annotated[str, typer.Option("--out")] = "index",
    encoder: SpecOption = None,
    language: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    chunk_words: NumberOption = None,
    overlap: NumberOption = None,
    follow_links: Annotated[bool, typer.Option("--follow-links")] = False,
    file_seconds: Annotated[float, typer.Option(metavar="N")] = 60,
    file_memory: Annotated[float, typer.Option(metavar="GB")] = 4,
    delete: Annotated[list[str] | None, typer.Option(metavar="ID")] = None,
    delete_where: Annotated[str | None, typer.Option(metavar="FILTER")] = None,
) -> None:
    """Split documents into passages and index them. If the index exists, only changes are added.

    Files that can't be read are listed with the reason. The exit code is 1 if nothing was indexed. With
    --delete or --delete-where, documents are deleted from the index instead, and no DOCS are given.

    Args:
        docs: Files or folders with documents: text, Markdown, source code, HTML, PDF, Office and OpenDocument
            files, RTF, EPUB, mail, tables and JSON, also gzipped; @sample is the sample corpus.
        index: The folder or URL of the index, which is created or updated.
        encoder: Also store vectors, for --retriever dense and hybrid: bundled, hf:NAME or hf:DIRECTORY; none
            stores none. By default, new passages get the vectors that the index has already, and English
            documents of at most 1,000 passages those of bundled.
        language: The language of words in Latin script, such as german. By default it is detected when the
            index is new. Chinese, Japanese, Korean and Arabic text needs no option.
        chunk_words: The number of words of a passage, at most (100). Passages end with sentences where
            possible. An index keeps the number that it was built with.
        overlap: The number of words at the end of a passage that the next one repeats (0).
        follow_links: Also read files outside the folders of DOCS that symbolic links lead to.
        file_seconds: Skip a file if reading it has no result for so many seconds.
        file_memory: Skip a file if reading it needs more gigabytes of memory.
        delete: Delete the document with this id; may be repeated.
        delete_where: Delete the documents whose fields pass this filter, such as 'source = "old.pdf"'.

    Examples:
        askance index notes/ papers.pdf --out my-index --encoder bundled
        askance index --out my-index --delete-where 'date < "2020"'
    """
    from askance.retrieval.bm25_analysis import Analysis  # only this command needs these
    from askance.retrieval.index.build import build_index
    from askance.retrieval.index.passages import Chunking
    from askance.retrieval.index.reader_process import ReadingLimits

    if delete or delete_where is not None:
        _delete(index, docs or [], delete or [], delete_where)
        return
    if not docs:
        raise InputError("no documents are named: name files or folders, for example notes/ or @sample.")
    sources = [CORPUS if doc == SAMPLE else Path(doc) for doc in docs]
    sizes = {"words": chunk_words, "overlap": overlap}
    given = {name: number for name, number in sizes.items() if number is not None}
    chunking = Chunking(**given) if given else None
    loaded = encoder_to_build_with(index, encoder)
    with IndexProgress(err) as progress:
        report = build_index(
            sources,
            index,
            analysis=None if language is None else Analysis(language=language),
            encoder=loaded,
            chunking=chunking,
            follow_links=follow_links,
            limits=ReadingLimits(file_seconds, file_memory),
            progress=progress,
        )
        if encoder is None and loaded is None:
            report = _with_vectors(report, progress)
    for skipped in report.skipped:
        print_plain(err, f"skipped {skipped.source}: {skipped.reason}", "yellow")
    if report.hidden:
        first, more = ", ".join(report.hidden[:_MOST_HIDDEN]), len(report.hidden) - _MOST_HIDDEN
        print_plain(err, f"left out, since hidden: {first}{f' and {more:,} more' * (more > 0)}", "yellow")
    print_plain(out, report)


def _with_vectors(report: "BuildReport", progress: IndexProgress) -> "BuildReport":
    """Add the vectors of the bundled encoder to an index that was just built, if they take a minute or less.

    The index is complete without them, also if this is interrupted. A line says why there are none.
    """
    from askance.retrieval.index.reader import collection_of

    collection = collection_of(report.folder)
    manifest = collection.manifest()
    others = max((count for name, count in manifest.scripts.items() if name != "Latin"), default=0)
    if manifest.analysis.language != "english" or 2 * others > manifest.passages:
        return report  # the encoder knows English alone
    if manifest.passages > _ENCODED_PER_MINUTE:
        minutes = manifest.passages / _ENCODED_PER_MINUTE
        more = f"they take about {minutes:,.0f} minutes on two cores: add --encoder bundled to make them."
    else:
        started = time.perf_counter()
        try:
            encoder = load_encoder("bundled")
        except InputError as error:
            more = str(error)
        else:
            with collection.writer(encoder=encoder, progress=progress) as writer:
                writer.commit()
            seconds = report.seconds + time.perf_counter() - started
            return replace(report, encoded=writer.num_encoded, seconds=seconds)
    print_plain(err, f"the index has words and no vectors, which find other words, too; {more}", "yellow")
    return report


def _delete(index: str, docs: list[str], ids: list[str], where: str | None) -> None:
    from askance.retrieval.index.reader import collection_of

    if docs:
        raise InputError(f"{docs[0]} is given together with --delete: index and delete in two commands.")
    collection = collection_of(index)
    with collection.writer(encoder=encoder_to_build_with(index, None)) as writer:
        unknown = [id for id in ids if not writer.remove(id)]
        if where is not None:
            parsed = parse_filter(where)
            check_filter(parsed, collection.manifest().fields)
            writer.remove(where=parsed)
        writer.commit()
    for id in unknown:
        print_plain(err, f"there is no document {id!r} in {index}", "yellow")
    print_plain(out, f"{index}: {writer.outcomes['removed']:,} documents deleted")
