"""Requests that can't be used: each gets an error in OpenAI's form that names the value and the remedy."""

import json
import socket
from contextlib import ExitStack

import pytest

from askance.serve.limits import Limits
from tests.serve.served import QUESTION, serving

USER = {"role": "user", "content": QUESTION}
IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]}
BAD = {
    "a role that nobody has": (
        {"messages": [{"role": "wizard", "content": "x"}]},
        "messages[0].role='wizard'",
    ),
    "the result of a tool": ({"messages": [USER, {"role": "tool", "content": "x"}]}, "tools are unsupported"),
    "the call of a tool": ({"messages": [USER, CALL, USER]}, "tools are unsupported"),
    "tools": ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools are unsupported"),
    "an image": ({"messages": [IMAGE]}, "'image_url' are unsupported"),
    "no messages": ({"messages": []}, "messages"),
    "no question": ({"messages": [{"role": "system", "content": "x"}]}, "must be a question"),
    "an empty question": ({"messages": [{"role": "user", "content": " "}]}, "must be a question"),
    "an answer at the end": (
        {"messages": [USER, {"role": "assistant", "content": "x"}]},
        "must be a question",
    ),
    "a message without a text": ({"messages": [{"role": "user"}]}, "messages[0].content"),
    "several answers": ({"n": 2}, "n: a question has one answer"),
    "log-probabilities": ({"logprobs": True}, "logprobs: the trace has"),
    "stop strings": ({"stop": ["\n"]}, "stop: a method decides"),
    "JSON as the form": ({"response_format": {"type": "json_object"}}, "response_format: answers are text"),
    "a temperature that is fixed": ({"temperature": 0.7}, "temperature=0.7: the method single fixes it"),
    "a top_p that is fixed": ({"top_p": 0.5}, "top_p=0.5: the method single fixes it"),
    "a temperature out of range": ({"temperature": 3}, "temperature=3: Input should"),
    "no tokens": ({"max_tokens": 0}, "max_tokens=0: Input should"),
    "an unknown field": ({"thershold": 1}, "unknown field 'thershold'"),
    "an unknown parameter": ({"askance": {"pasages": 1}}, "did you mean 'passages'"),
    "a parameter out of range": ({"askance": {"passages": -1}}, "passages=-1"),
    "a parameter of the wrong type": ({"askance": {"passages": "many"}}, "passages='many'"),
    "a parameter that is a list": ({"askance": {"passages": [1]}}, "passages=[1]"),
    "events that are no truth value": ({"askance": {"events": 1}}, "askance.events"),
    "no object": ({"askance": 5}, "askance"),
}


@pytest.mark.parametrize(("fields", "part"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("stream", [False, True])
def test_a_bad_request_is_refused_before_anything_is_asked(served, fields, part, stream):
    num_before = len(served.model.prompts)
    body = {"model": "single", "messages": [USER], "stream": stream, **fields}
    response = served.post("/v1/chat/completions", body)
    error = response.json()["error"]
    assert response.status_code == 400
    assert error["type"] == "invalid_request_error"
    assert part in error["message"]
    assert len(served.model.prompts) == num_before


@pytest.mark.parametrize(
    "name", ["gpt-4o", "askance/dragon", "os:system", "../dragin", "askance/tests.serve:X"]
)
def test_an_unknown_model_is_not_found_and_is_never_imported(served, name):
    response = served.ask(model=name)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (404, "model_not_found", None)
    assert "askance/dragin" in error["message"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"\xff", b'{"messages": "x"}', b'"x"', b"nul", b'{"messages": [1]}', b"[" * 100_000],
)
def test_malformed_json_is_refused(served, body):
    for path in ("/v1/chat/completions", "/v1/search", "/v1/documents"):
        response = served.client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert response.status_code == 400, path
        assert response.json()["error"]["message"]


def test_the_place_where_json_breaks_off_is_named(served):
    body = b'{"model": "single", "messages": ['
    response = served.client.post(
        "/v1/chat/completions", content=body, headers={"Content-Type": "application/json"}
    )
    assert (
        response.json()["error"]["message"]
        == f"the body is not valid JSON: Expecting value (after {len(body)} characters)."
    )


def test_a_lone_surrogate_is_no_question_and_breaks_no_response(served):
    body = json.dumps({"model": "single", "messages": [{"role": "user", "content": "Who is \ud800?"}]})
    response = served.client.post(
        "/v1/chat/completions", content=body, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 200
    assert "\\ud800" not in response.text
    bad = served.client.post(
        "/v1/chat/completions",
        content=body.replace("single", "\\ud800"),
        headers={"Content-Type": "application/json"},
    )
    assert bad.status_code == 404


def test_a_question_of_a_megabyte_is_too_large(served):
    response = served.ask("x" * 1_000_000)
    assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")
    long = served.ask("x " * 20_000)
    assert (long.status_code, long.json()["error"]["code"]) == (400, "question_too_long")


def test_a_body_without_a_length_is_cut_off_at_the_limit(served):
    def pieces():
        yield b'{"messages": [{"role": "user", "content": "'
        for _ in range(200):
            yield b"x" * 10_000

    response = served.client.post(
        "/v1/chat/completions", content=pieces(), headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 413


def test_what_is_no_json_by_its_type_is_refused(served):
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        response = served.client.post("/v1/search", content=b"{}", headers={"Content-Type": content_type})
        assert response.status_code == 415


@pytest.mark.parametrize("path", ["/v1/search", "/v1/documents"])
def test_bodies_that_never_end_are_given_up(sample_index, path):
    with serving(sample_index, limits=Limits(body_seconds=0.05)) as server, ExitStack() as stack:
        host, port = server.url.removeprefix("http://").split(":")
        connections = [socket.create_connection((host, int(port)), timeout=60) for _ in range(6)]
        for connection in map(stack.enter_context, connections):
            connection.sendall(
                f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
                "Content-Length: 100\r\n\r\n{".encode()
            )
        assert all(each.recv(100).startswith(b"HTTP/1.1 408") for each in connections)


@pytest.mark.parametrize(
    "path", ["/v1/nothing", "/v1/models/none", "/v1/traces/..", "/viewer/../../etc/passwd"]
)
def test_unknown_paths_are_not_found_in_the_form_of_openai(served, path):
    response = served.get(path)
    assert response.status_code == 404
    assert response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "part"),
    [({"query": "x", "k": 0}, "k"), ({"query": "x", "k": 1000}, "equal to 100"), ({"query": 5}, "query"),
     ({"query": "x" * 20_001}, "at most 20000"), ({"query": "x", "q": 1}, "q")],
)  # fmt: skip
def test_bad_searches_are_refused(served, body, part):
    response = served.post("/v1/search", body)
    assert response.status_code == 400
    assert part in response.json()["error"]["message"]


def test_a_search_without_words_finds_nothing(served):
    assert served.post("/v1/search", {"query": "…"}).json()["data"] == []


def test_a_search_in_a_script_that_the_documents_lack_says_so(served):
    found = served.post("/v1/search", {"query": "桥"}).json()
    assert found["data"] == []
    assert "Chinese (Han) in 0 of" in found["notes"][0]
    assert served.post("/v1/search", {"query": "bridge"}).json()["notes"] == []
