"""The page that shows a passage in a browser, and the files of the viewer."""

from collections.abc import Mapping
from html import escape
from importlib import import_module
from importlib.util import find_spec

from askance.core.types import Passage

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<main>
<h1>{title}</h1>
<p>{paragraphs}</p>
<p><small>Passage {id}{source}</small></p>
</main>
"""


def passage_page(passage: Passage) -> str:
    """Return a passage as an HTML page, in which the text of the passage is only text."""
    paragraphs = "</p>\n<p>".join(escape(line) for line in passage.text.splitlines() if line.strip())
    source = f", from {escape(passage.source)}" if passage.source else ""
    return _PAGE.format(
        title=escape(passage.title or passage.id), paragraphs=paragraphs, id=escape(passage.id), source=source
    )


def viewer_files() -> Mapping[str, tuple[str, bytes]]:
    """Return the content types and the contents of the viewer's files by the path at which they are offered.

    The result is empty if the viewer is not installed.
    """
    if find_spec("askance.viewer") is None:
        return {}
    files: Mapping[str, tuple[str, bytes]] = import_module("askance.viewer.page").viewer_files()
    return files
