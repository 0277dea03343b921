"""The pages as self-contained files, and the viewer's files for a server."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files

from askance.core.safe_text import json_line, printable
from askance.core.trace import AnyEvent, Asked
from askance.storage.trace_file import event_record
from askance.terminal.trace_view import TERMS

_WEB = files("askance.viewer") / "web"
_MAIN = "app.js"
_TYPES = {"css": "text/css", "html": "text/html", "js": "text/javascript"}
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(?P<file>\w+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function |class |const )", re.MULTILINE)


def viewer_files() -> Mapping[str, tuple[str, bytes]]:
    """Return the content type and the content of each file by the path at which a server offers it.

    The page is at "/", and the files that it loads are at "/viewer/…".
    """
    served = {
        f"/viewer/{name}": (f"{_TYPES[name.rpartition('.')[2]]}; charset=utf-8", text.encode())
        for name, text in _texts().items()
    }
    return {"/": served.pop("/viewer/index.html"), **served}


def standalone_page(traces: Sequence[Sequence[AnyEvent]], names: Sequence[str] = ()) -> str:
    """Return the HTML of one file that shows traces and loads nothing from elsewhere.

    Texts of the traces are data of the page, never markup, and its Content-Security-Policy allows no script
    but its own.

    Args:
        traces: The events of one trace, or of two, which are shown side by side.
        names: The names of the traces, if there are two.
    """
    records = [
        {"name": names[index] if index < len(names) else "", "events": [*map(event_record, events)]}
        for index, events in enumerate(traces)
    ]
    asked = [event.text for events in traces for event in events if isinstance(event, Asked)]
    return html_page(" ".join(asked[0].split())[:120] if asked else "askance", "traces", records)


def html_page(title: str, id: str, records: object) -> str:
    """Return the HTML of a file with the viewer and the data that it shows.

    Args:
        id: The id of the element that holds the data: "traces" or "run".
        records: The data, for `json_line`.
    """
    style, script = style_sheet(_texts()["viewer.css"]), _bundle()
    embedded = json_line(records).replace("<", "\\u003c")  # so that it can't end the script element
    body = (
        f'<main id="app"><h1>{escape(printable(title))}</h1><p>Reading the trace…</p></main>\n'
        f'<script type="application/json" id="{id}">{embedded}</script>\n'
        f'<script type="module">{script}</script>\n'
    )
    sources = f"script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:"
    return html_document(title, style, body, sources)


def html_document(title: str, style: str, body: str, sources: str) -> str:
    """Return the HTML of a self-contained file.

    Args:
        body: The content, as HTML.
        sources: The directives of the Content-Security-Policy for what the file contains. Everything else is
            forbidden.
    """
    policy = f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(printable(title))}</title>\n"
        f'<link rel="icon" href="data:,">\n<style>{style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n'
    )


def style_sheet(own: str) -> str:
    """Return a style sheet that begins with the one that all pages share."""
    return _texts()["base.css"] + own


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


@cache
def _texts() -> dict[str, str]:
    """Return the viewer's files by name, with the meanings of the terms of a trace as `legend.js`."""
    made = f"export const LEGEND = {json.dumps(TERMS, ensure_ascii=False)};\n"
    found = {file.name: file.read_text(encoding="utf-8") for file in _WEB.iterdir()}
    return {**found, "legend.js": made}


@cache
def _bundle() -> str:
    """Return all modules as one, each after the modules that it imports.

    This only joins files, so no two modules may define the same name.
    """
    texts, ordered = _texts(), list[str]()

    def add(name: str) -> None:
        for needed in _IMPORT.finditer(texts[name]):
            add(needed["file"])
        if name not in ordered:
            ordered.append(name)

    add(_MAIN)
    return "".join(_EXPORT.sub("", _IMPORT.sub("", texts[name])) for name in ordered)
