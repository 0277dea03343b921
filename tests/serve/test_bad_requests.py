"""Requests that can't be used: each gets an error in OpenAI's form that names the value and the remedy."""

from contextlib import ExitStack

import pytest

from askance.serve.limits import Limits
from tests.serve.served import QUESTION, chunks_of, error_of, post_head, serving

CHAT, SEARCH, DOCUMENTS = "/v1/chat/completions", "/v1/search", "/v1/documents"
USER = {"role": "user", "content": QUESTION}
IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]}
TOOL = {"type": "function", "function": {"name": "f"}}
UNUSED = {
    "stop": (["\n"], "stop: a method decides where its answer ends"),
    "temperature": (0.7, "temperature=0.7: the method single fixes it"),
    "top_p": (0.5, "top_p=0.5: the method single fixes it"),
    "presence_penalty": (0.1, "presence_penalty: it is unsupported"),
    "tools": ([TOOL], "tools: this server calls no tools"),
    "user": ("u", "user: it says nothing about the answer"),
    "metadata": ({"a": "b"}, "metadata: it says nothing about the answer"),
}
USED = {"tool_choice": "auto", "parallel_tool_calls": True, "store": False, "service_tier": "auto", "seed": 1,
        "response_format": {"type": "text"}, "n": 1, "logprobs": False, "stop": [], "user": None,
        "presence_penalty": 0, "temperature": 0, "top_p": 1, "max_completion_tokens": 50}  # fmt: skip
BAD_CHATS = [
    ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role='wizard'"),
    ({"messages": [USER, {"role": "tool", "content": "x"}]}, "calls no tools"),
    ({"messages": [USER, CALL, USER]}, "calls no tools"),
    ({"tools": [TOOL], "tool_choice": "required"}, "tool_choice: this server calls no tools"),
    ({"tools": [TOOL], "tool_choice": TOOL}, "tool_choice: this server calls no tools"),
    ({"tools": {}}, "tools={}: Input should be a valid list"),
    ({"tools": ["f"]}, "tools=['f']: Input should be a valid dictionary"),
    ({"user": 5}, "user=5: Input should be a valid string"),
    ({"store": "yes"}, "store='yes': Input should be a valid boolean"),
    ({"presence_penalty": "1"}, "presence_penalty='1': Input should be a valid number"),
    ({"stop": 5}, "stop=5: Input should be a valid string"),
    ({"messages": [IMAGE]}, "'image_url' are unsupported"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "system", "content": "x"}]}, "must be a question"),
    ({"messages": [{"role": "user", "content": " "}]}, "must be a question"),
    ({"messages": [USER, {"role": "assistant", "content": "x"}]}, "must be a question"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"n": 2}, "n: a question has one answer"),
    ({"logprobs": True}, "logprobs: the trace has"),
    ({"response_format": {"type": "json_object"}}, "response_format: answers are text"),
    ({"temperature": 3}, "temperature=3: Input should"),
    ({"max_tokens": 0}, "max_tokens=0: Input should"),
    ({"thershold": 1}, "unknown field 'thershold'"),
    ({"askance": {"pasages": 1}}, "did you mean 'passages'"),
    ({"askance": {"passages": -1}}, "passages=-1"),
    ({"askance": {"passages": "many"}}, "passages='many'"),
    ({"askance": {"passages": [1]}}, "passages=[1]"),
    ({"askance": {"events": 1}}, "askance.events"),
    ({"askance": 5}, "askance"),
]
BAD_SEARCHES = [
    ({"query": "x", "k": 0}, "k"),
    ({"query": "x", "k": 1000}, "equal to 100"),
    ({"query": 5}, "query"),
    ({"query": "x" * 20_001}, "at most 20000"),
    ({"query": "x", "q": 1}, "q"),
]
MALFORMED = (b"", b"[]", b"\xff", b'{"messages": "x"}', b'"x"', b"nul", b'{"messages": [1]}', b"[" * 10**5)
BAD = [
    *((CHAT, {"messages": [USER], "stream": stream, **fields}, part)
      for fields, part in BAD_CHATS for stream in (False, True)),
    *((SEARCH, body, part) for body, part in BAD_SEARCHES),
    *((path, body, "")
      for path in (CHAT, SEARCH, DOCUMENTS)
      for body in MALFORMED),
    (CHAT, b'{"messages": [', "the body is not valid JSON: Expecting value (after 14 characters)."),
]  # fmt: skip
"""The path, the body, and a part of the message, which names the value and its place."""


@pytest.mark.parametrize(("path", "body", "part"), BAD, ids=range(len(BAD)))
def test_a_bad_request_is_refused_before_anything_is_asked(served, path, body, part):
    num_before = len(served.model.prompts)
    response = served.post(path, body)
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (400, "invalid_request_error")
    assert error["message"]
    assert part in error["message"]
    assert len(served.model.prompts) == num_before


def test_fields_without_an_effect_are_listed_or_refused_if_the_server_is_strict(served, sample_index):
    fields = {name: value for name, (value, _) in UNUSED.items()}
    reasons = sorted(why for _, why in UNUSED.values())
    assert sorted(served.answered(**USED | fields)["askance"]["ignored"]) == reasons
    (*_, last) = chunks_of(served.ask(stream=True, **USED | fields).text)
    assert sorted(last["askance"]["ignored"]) == reasons
    assert served.answered(**USED)["askance"]["ignored"] == []
    with serving(sample_index, strict_parameters=True) as strict:
        for name, value in fields.items():
            response = strict.ask(**{name: value})
            assert (response.status_code, response.json()["error"]["param"]) == (400, name)
        assert strict.ask(**USED).status_code == 200


@pytest.mark.parametrize(
    "name", ["gpt-4o", "askance/dragon", "os:system", "../dragin", "askance/tests.serve:X", "\ud800"]
)
def test_an_unknown_model_is_not_found_and_is_never_imported(served, name):
    response = served.post(CHAT, {"model": name, "messages": [USER]})
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (404, "model_not_found", None)
    assert "askance/dragin" in error["message"]


def test_a_lone_surrogate_breaks_no_response(served):
    response = served.post(CHAT, {"model": "single", "messages": [{"role": "user", "content": "\ud800?"}]})
    assert (response.status_code, "\\ud800" in response.text) == (200, False)


def test_the_size_of_a_request_is_limited_with_and_without_a_length(served):
    def pieces():
        yield b'{"messages": [{"role": "user", "content": "'
        for _ in range(200):
            yield b"x" * 10_000

    unmeasured = served.client.post(CHAT, content=pieces(), headers={"Content-Type": "application/json"})
    assert error_of(unmeasured) == error_of(served.ask("x" * 1_000_000)) == (413, "too_large")
    assert error_of(served.ask("x " * 20_000)) == (400, "question_too_long")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_of_another_type_is_refused(served, content_type):
    response = served.client.post(SEARCH, content=b"{}", headers={"Content-Type": content_type})
    assert response.status_code == 415


def test_a_body_that_never_ends_is_given_up(sample_index):
    with serving(sample_index, limits=Limits(body_seconds=0.05)) as server, ExitStack() as stack:
        for connection in [
            server.connection(post_head(path, 100) + b"{") for path in (SEARCH, DOCUMENTS) * 3
        ]:
            assert stack.enter_context(connection).recv(100).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "path", ["/v1/nothing", "/v1/models/none", "/v1/traces/..", "/viewer/../../etc/passwd"]
)
def test_an_unknown_path_is_not_found_in_the_form_of_openai(served, path):
    response = served.get(path)
    assert response.status_code == 404
    assert response.json()["error"]["message"]


def test_a_search_without_hits_says_why_where_the_documents_lack_its_script(served):
    def searched(query):
        return served.post(SEARCH, {"query": query}).json()

    assert searched("…")["data"] == []
    chinese = searched("桥")
    assert chinese["data"] == []
    assert "Chinese (Han) in 0 of" in chinese["notes"][0]
    assert searched("bridge")["notes"] == []
