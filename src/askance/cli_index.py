"""The commands that make an index of documents, and search it."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from askance.cli_options import JsonFlag
from askance.cli_settings import with_settings
from askance.config_sources import Sourced
from askance.core.errors import InputError
from askance.core.ports import Needs
from askance.core.strict_json import json_line
from askance.loading import check_has_index, check_is_used, encoder_to_build_with
from askance.sample import CORPUS, SAMPLE
from askance.serve.console import err, out
from askance.text.printable import printable, printable_record


def index(
    docs: Annotated[
        list[str],
        typer.Argument(
            help=f"Files or folders: .txt .md .html .pdf .jsonl .tsv; {SAMPLE} is the sample corpus."
        ),
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder of the index; made, or brought up to date.")],
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Make vectors, too, for --retriever dense and hybrid: bundled, hf:NAME or hf:DIRECTORY. An "
            "index that has vectors gets those of new passages without this.",
        ),
    ] = None,
    follow_links: Annotated[
        bool,
        typer.Option("--follow-links", help="Read what links to files lead to outside the folders of DOCS."),
    ] = False,
) -> None:
    """Cut documents into passages and index them. Run again, it adds only what changed."""
    from askance.retrieval.build import build_index
    from askance.serve.progress import IndexProgress

    sources = [CORPUS if doc == SAMPLE else Path(doc) for doc in docs]
    encodes = encoder_to_build_with(folder, encoder)
    with IndexProgress(err) as progress:
        report = build_index(sources, folder, encoder=encodes, follow_links=follow_links, progress=progress)
    for skipped in report.skipped:
        told = printable(f"skipped {skipped.source}: {skipped.reason}")
        err.print(told, style="yellow", markup=False, soft_wrap=True)
    out.print(printable(str(report)), markup=False, soft_wrap=True)


@with_settings("index", "retriever", "encoder")
def search(
    query: Annotated[str, typer.Argument(help="Words to look for.")],
    sourced: Sourced,
    k: Annotated[int, typer.Option("-k", min=1, help="Most passages to show.")] = 3,
    as_json: JsonFlag = False,
) -> None:
    """Search an index."""
    config = sourced.without_unused(Needs(retriever=True))
    check_has_index(config.index, config.retriever)
    check_is_used(config.encoder, retriever=config.retriever, is_needed=False)
    searched = config.open_retriever(config.open_encoder())
    if searched is None:
        raise InputError("there is nothing to search: name an index with --index DIR.")
    hits = asyncio.run(searched.search(query, k))
    if as_json:
        print(json_line({"query": query, "hits": [dataclasses.asdict(hit) for hit in hits]}))
        return
    for hit in printable_record(hits):
        head = Text().append(f"{hit.rank}. ", style="dim").append(hit.passage.title, style="bold")
        score = f"{hit.score:.2f}" if config.retriever == "bm25" else f"{hit.score:.4f}"
        out.print(head.append(f" {score}  {hit.passage.source}", style="dim"), soft_wrap=True)
        out.print(Text(f"   {hit.passage.text}"), soft_wrap=not out.is_terminal)
    if not hits:
        out.print("nothing found")
