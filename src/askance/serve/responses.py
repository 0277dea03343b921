"""The forms of responses: strict JSON, errors as OpenAI describes them, and the page of a passage."""

from html import escape
from typing import Any

from pydantic import BaseModel
from starlette.responses import JSONResponse

from askance.core.safe_text import json_line
from askance.core.types import Passage


class Json(JSONResponse):
    """A response in JSON that every parser accepts, from records that may contain dataclasses."""

    def render(self, content: Any) -> bytes:
        return json_line(content).encode()


class Error(BaseModel):
    """An error: what is wrong, and what to do about it."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The body of a response with an error."""

    error: Error


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
