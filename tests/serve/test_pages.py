"""The pages about the server agree with the code."""

import re
from pathlib import Path

from askance.serve.documents import _MAX_AT_ONCE
from askance.serve.limits import PASSAGES, QUESTION_CHARACTERS, Limits

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "serve.md").read_text(encoding="utf-8")
SECURITY = (DOCS / "security.md").read_text(encoding="utf-8")


def test_the_page_lists_every_route(served):
    paths = served.get("/openapi.json").json()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert set(re.findall(r"^\| `((?:GET|POST|DELETE) \S+)` \|", PAGE, flags=re.MULTILINE)) == routes


def test_the_page_has_the_limits_of_the_code():
    limits, rows = (
        Limits(),
        dict(re.findall(r"^\| ([^|]+?) \| (\S+(?: s| MB)?) \|", PAGE, flags=re.MULTILINE)),
    )
    assert rows["questions that wait (`--waiting`)"] == str(limits.waiting)
    assert rows["characters of a conversation"] == f"{QUESTION_CHARACTERS:,}"
    assert rows["size of a request"] == f"{limits.request_bytes // 10**6} MB"
    assert rows["size of a request with documents"] == f"{limits.document_bytes // 10**6} MB"
    assert rows["documents in one request"] == f"{_MAX_AT_ONCE:,}"
    assert rows["time until the headers of a request have arrived"] == f"{limits.head_seconds:g} s"
    assert rows["time until the body of a request has arrived"] == f"{limits.body_seconds:g} s"
    assert rows["time until a client has read an event of a stream"] == f"{limits.send_seconds:g} s"
    assert rows["passages of a search"] == str(PASSAGES)
    assert rows["traces kept in memory"] == str(limits.traces)
    assert rows["events of all kept traces"] == f"{limits.trace_events:,}"
    assert rows["open connections"] == f"{limits.connections:,}"


def test_every_promise_names_a_file_of_tests_that_there_is():
    rows = re.findall(r"^\| .+ \| (`test_.+`) \|$", SECURITY, flags=re.MULTILINE)
    assert len(rows) == 11
    for file in {file for row in rows for file in re.findall(r"`(\w+\.py)`", row)}:
        assert (Path(__file__).parent / file).exists(), file


def test_the_viewer_is_served_with_its_types(own_index, monkeypatch):
    from tests.serve.served import serving

    files = {"/": ("text/html; charset=utf-8", b"<!doctype html>"), "/viewer/a.js": ("text/javascript", b"1")}
    monkeypatch.setattr("askance.serve.app.viewer_files", lambda: files)
    with serving(own_index, keys=("a key that is long enough",)) as server:
        page, script = server.get("/"), server.get("/viewer/a.js")
        assert (page.headers["content-type"], page.content) == files["/"]
        assert script.headers["content-type"].startswith("text/javascript")
        assert server.get("/viewer/b.js").status_code == 404
