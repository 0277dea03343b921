"""Requests that are made up from the OpenAPI document: none of them is an error of the server."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serve.served import serving

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
        "askance": st.dictionaries(st.sampled_from(["passages", "l_max", "prompts", "events", "x"]), JSON)
        | JSON,
        **dict.fromkeys(("max_tokens", "temperature", "top_p", "seed", "n", "stop", "tools", "user"), JSON),
    },
)
BODIES = {
    "/v1/chat/completions": CHAT | JSON,
    "/v1/search": st.fixed_dictionaries({"query": st.text() | JSON}, optional={"k": st.integers() | JSON})
    | JSON,
    "/v1/documents": st.fixed_dictionaries({"id": st.text() | JSON, "text": JSON}) | JSON,
}


@pytest.mark.parametrize("path", BODIES)
def test_made_up_bodies_are_answered_or_refused_in_the_form_of_openai(served, path):
    @settings(max_examples=40, derandomize=True)
    @given(BODIES[path])
    def ask(body):
        content = json.dumps(body).encode()
        response = served.client.post(path, content=content, headers={"Content-Type": "application/json"})
        assert response.status_code < 500, (body, response.text)
        if response.status_code >= 400:
            assert response.json()["error"]["message"]

    ask()


@settings(max_examples=40, derandomize=True)
@given(st.text(max_size=40), st.sampled_from(["passages", "traces", "models", "documents"]))
def test_made_up_ids_are_not_found(served, id, kind):
    from urllib.parse import quote

    response = served.client.get(f"/v1/{kind}/{quote(id, safe='')}")
    assert response.status_code in (200, 404, 405)


def test_the_document_describes_every_route_and_its_errors(served):
    document = served.get("/openapi.json").json()
    assert {
        "/v1/chat/completions", "/v1/models", "/v1/models/{id}", "/v1/search", "/v1/documents",
        "/v1/documents/{id}", "/v1/passages/{id}", "/v1/traces/{id}", "/healthz", "/readyz", "/metrics",
    } == document["paths"].keys()  # fmt: skip
    for path in document["paths"].values():
        for operation in path.values():
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

            @settings(max_examples=15, derandomize=True, database=None)
            @given(operation.as_strategy())
            def ask(case):
                case.call_and_validate(checks=checks)

            ask()
