"""The page that shows a passage in a browser."""

from html import escape

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
    source = f", from {escape(passage.location)}" if passage.location else ""
    return _PAGE.format(
        title=escape(passage.title or passage.id), paragraphs=paragraphs, id=escape(passage.id), source=source
    )
