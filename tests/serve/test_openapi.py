"""The OpenAPI document and the pages agree with the code; no request made up from it breaks the server."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance.serve.documents import _MAX_AT_ONCE
from askance.serve.limits import PASSAGES, QUESTION_CHARACTERS, Limits
from tests.serve.served import serving

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "serve.md").read_text(encoding="utf-8")
SECURITY = (DOCS / "security.md").read_text(encoding="utf-8")

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system", "tool", ""])},
                          optional={"content": JSON}),
    max_size=3,
)  # fmt: skip
CHAT = st.fixed_dictionaries(
    {},
    optional={
        "messages": MESSAGES | JSON,
        "model": st.sampled_from(["single", "askance/closed_book", "x", ""]) | JSON,
        "stream": st.booleans() | JSON,
        "askance": st.dictionaries(st.sampled_from(["passages", "prompts", "events", "x"]), JSON) | JSON,
        **dict.fromkeys(("max_tokens", "temperature", "top_p", "seed", "n", "stop", "tools", "user"), JSON),
    },
)
BODIES = {
    "/v1/chat/completions": CHAT | JSON,
    "/v1/search": JSON | st.fixed_dictionaries({"query": JSON}, optional={"k": st.integers() | JSON}),
    "/retrieve": JSON | st.fixed_dictionaries({"queries": st.lists(st.text(max_size=9)) | JSON}),
    "/v1/documents": JSON | st.fixed_dictionaries({"id": JSON, "text": JSON}),
}


@pytest.mark.parametrize("path", BODIES)
def test_made_up_bodies_are_answered_or_refused_in_the_form_of_openai(served, path):
    @settings(max_examples=40, derandomize=True)
    @given(BODIES[path])
    def ask(body):
        response = served.post(path, body)
        assert response.status_code < 500, (body, response.text)
        if response.status_code >= 400:
            assert response.json()["error"]["message"]

    ask()


@settings(max_examples=40, derandomize=True)
@given(st.text(max_size=40), st.sampled_from(["passages", "traces", "models", "documents"]))
def test_made_up_ids_are_not_found(served, id, kind):
    response = served.client.get(f"/v1/{kind}/{quote(id, safe='')}")
    assert response.status_code in (200, 404, 405)


def test_the_document_describes_every_route_of_the_page_and_its_errors(served):
    paths = served.get("/openapi.json").json()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert set(re.findall(r"^\| `((?:GET|POST|DELETE) \S+)` \|", PAGE, flags=re.MULTILINE)) == routes
    for operation in (operation for path in paths.values() for operation in path.values()):
        assert operation["summary"]
        assert operation["description"]
        assert {"200", "4XX", "5XX"} <= operation["responses"].keys()


def test_schemathesis_finds_no_error_of_the_server(own_index):
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    names = "not_a_server_error status_code_conformance content_type_conformance response_schema_conformance"
    checks = [getattr(schemathesis.checks, name) for name in names.split()]
    with serving(own_index) as server:
        schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
        for result in schema.get_all_operations():
            operation = result.ok()

            @settings(max_examples=8, derandomize=True, database=None)
            @given(operation.as_strategy())
            def ask(case):
                case.call_and_validate(checks=checks)

            ask()


def test_the_page_has_the_limits_of_the_code():
    limits = Limits()
    rows = dict(re.findall(r"^\| ([^|]+?) \| (\S+(?: s| MB)?) \|", PAGE, flags=re.MULTILINE))
    expected = {
        "questions that wait (`--waiting`)": str(limits.waiting),
        "characters of a conversation": f"{QUESTION_CHARACTERS:,}",
        "size of a request": f"{limits.request_bytes // 10**6} MB",
        "size of a request with documents": f"{limits.document_bytes // 10**6} MB",
        "documents in one request": f"{_MAX_AT_ONCE:,}",
        "time until the headers of a request have arrived": f"{limits.head_seconds:g} s",
        "time until the body of a request has arrived": f"{limits.body_seconds:g} s",
        "time until a client has read an event of a stream": f"{limits.send_seconds:g} s",
        "passages of a search": str(PASSAGES),
        "traces kept in memory": str(limits.traces),
        "events of all kept traces": f"{limits.trace_events:,}",
        "open connections": f"{limits.connections:,}",
        "open connections of an address (of IPv6: a /64 network)": str(limits.connections_per_address),
    }
    assert expected.items() <= rows.items()


def test_every_promise_of_the_security_page_names_a_file_of_tests_that_there_is():
    rows = re.findall(r"^\| .+ \| (`test_.+`) \|$", SECURITY, flags=re.MULTILINE)
    assert len(rows) == 11
    for file in re.findall(r"`(\w+\.py)`", " ".join(rows)):
        assert (Path(__file__).parent / file).exists(), file
