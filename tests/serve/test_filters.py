"""Filters of requests and of keys: no request finds, opens, lists or deletes what its key must not see."""

import json

import pytest

from askance.core.errors import InputError
from askance.retrieval.filters import parse_filter
from askance.retrieval.index.build import build_index
from askance.serve.security import read_keys
from tests.serve.served import KEY, OTHER_KEY, serving

FREE_KEY = "key-without-any-filter"
AROUND = [
    "team = 'blue'",
    "team != 'red' or team = 'red' or n >= 0",
    "not (team = 'red' and team != 'red')",
    "n >= 0) or (n >= 0",
    "'' or true",
    "team = \"red' or team = 'blue\"",
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teams")
    rows = [
        {"id": f"{team}{n}", "text": "Ingmar Bergman was born in Uppsala.", "team": team, "n": n}
        for team in ("red", "blue")
        for n in range(3)
    ]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    build_index([folder / "rows.jsonl"], folder / "index")
    return folder / "index"


@pytest.fixture
def server(index):
    filters = {KEY: parse_filter("team = 'red'"), OTHER_KEY: parse_filter("team = 'blue'")}
    with serving(index, keys=[KEY, OTHER_KEY, FREE_KEY], filters=filters) as server:
        yield server


def found(server, key, query="Bergman", **fields):
    return set(server.found(query, key, **fields))


def listed(server, key):
    """The ids of the documents on two pages."""
    first = server.get("/v1/documents?limit=2", key).json()["data"]
    rest = server.get(f"/v1/documents?after={first[-1]['id']}", key).json()["data"]
    return [each["id"] for each in (*first, *rest)]


def test_a_search_is_filtered_by_the_request_and_by_the_key(server):
    assert found(server, KEY) == {"red0", "red1", "red2"}
    assert found(server, KEY, where="n >= 1") == {"red1", "red2"}
    assert found(server, FREE_KEY, where="n = 1") == {"red1", "blue1"}
    assert len(found(server, FREE_KEY)) == 6


@pytest.mark.parametrize("where", AROUND)
def test_no_filter_of_a_request_widens_that_of_the_key(server, where):
    response = server.post("/v1/search", {"query": "Bergman", "k": 10, "where": where}, KEY)
    answer = server.ask(key=KEY, askance={"where": where})
    assert {response.status_code, answer.status_code} <= {200, 400}
    assert "blue" not in json.dumps([response.json().get("data"), answer.json().get("choices")])


def test_a_chat_is_filtered_and_its_trace_names_the_filter(server):
    trace = server.trace_of(server.answered(key=KEY, askance={"where": "n = 1"}), KEY)
    assert trace[0].retriever.endswith('where team = "red" and n = 1')
    (search,) = [event for event in trace if event.type == "search"]
    assert [hit.passage.id for hit in search.hits] == ["red1"]


def test_passages_and_documents_of_others_are_neither_opened_nor_listed(server):
    assert server.get("/v1/passages/red1", KEY).status_code == 200
    assert server.get("/v1/passages/blue1", KEY).status_code == 404
    assert server.get("/v1/passages/blue1", OTHER_KEY).status_code == 200
    assert listed(server, KEY) == ["red0", "red1", "red2"]
    assert len(listed(server, FREE_KEY)) == 6


def test_wrong_filters_are_answered_with_400_and_the_place(server):
    for where, message in (("n >> 1", "character 4"), ("m = 1", "unknown field 'm'"), ("n = '1'", "numbers")):
        response = server.post("/v1/search", {"query": "Bergman", "where": where}, KEY)
        assert (response.status_code, message in response.text) == (400, True)
        assert server.ask(key=KEY, askance={"where": where}).status_code == 400
    assert server.ask(key=KEY, askance={"where": 3}).status_code == 400


def test_documents_over_http_have_fields_and_are_deleted_by_filter(own_index):
    with serving(own_index, keys=[KEY, OTHER_KEY]) as server:
        fields = [{"n": n, "even": n % 2 == 0} for n in range(4)]
        documents = [{"id": f"d{n}", "text": "zorkmid", "fields": fields[n]} for n in range(4)]
        assert server.post("/v1/documents", {"documents": documents}, KEY).status_code == 200
        assert server.post("/v1/documents", {**documents[0], "id": "other"}, OTHER_KEY).status_code == 200
        body = {"query": "zorkmid", "where": "even = true"}
        hits = server.post("/v1/search", body, KEY).json()["data"]
        assert {hit["passage"]["id"] for hit in hits} == {"d0", "d2"}
        assert hits[0]["passage"]["fields"]["even"] is True
        deleted = server.delete("/v1/documents?where=n < 2", KEY).json()["data"]
        assert {each["id"] for each in deleted} == {"d0", "d1"}
        assert found(server, KEY, query="zorkmid") == {"d2", "d3"}
        assert found(server, OTHER_KEY, query="zorkmid") == {"other"}
        assert server.delete("/v1/documents?where=type = 'txt'", KEY).json()["data"] == []
        assert server.delete("/v1/documents?where=m = 1", KEY).status_code == 400
        assert server.delete("/v1/documents", KEY).status_code == 400


def test_a_key_deletes_only_documents_that_its_filter_lets_it_see(own_index):
    documents = [{"id": f"d{n}", "text": "zorkmid", "fields": {"n": n}} for n in (1, 2)]
    with serving(own_index, keys=[KEY]) as server:
        server.post("/v1/documents", {"documents": documents}, KEY)
    with serving(own_index, keys=[KEY], filters={KEY: parse_filter("n = 1")}) as server:
        assert server.delete("/v1/documents/d2", KEY).status_code == 404
        deleted = server.delete("/v1/documents?where=n >= 0", KEY).json()["data"]
        assert [each["id"] for each in deleted] == ["d1"]
        assert server.get("/v1/passages/d2", KEY).status_code == 404
        assert found(server, KEY, query="zorkmid") == set()
    with serving(own_index, keys=[KEY]) as server:
        assert found(server, KEY, query="zorkmid") == {"d2"}


def test_the_filter_of_the_configuration_applies_to_every_key(index):
    filters = {KEY: parse_filter("team = 'red'")}
    with serving(index, keys=[KEY, FREE_KEY], filters=filters, where="n < 2") as server:
        assert found(server, KEY) == {"red0", "red1"}
        assert found(server, FREE_KEY) == {"red0", "red1", "blue0", "blue1"}
        assert server.get("/v1/passages/red2", FREE_KEY).status_code == 404


def test_a_filter_of_a_key_that_does_not_fit_the_index_stops_the_start(index):
    for of, where, message in (
        (index, "taem = 'red'", "did you mean 'team'"),
        (None, "n = 1", "has no index"),
    ):
        server = serving(of, keys=[KEY], filters={KEY: parse_filter(where)})
        with pytest.raises(InputError, match=message), server:
            pass


def test_keys_with_filters_are_read_from_the_environment():
    environment = {"ALL": FREE_KEY, "RED": f" {KEY}, {OTHER_KEY} ,"}
    keys = read_keys(["ALL", "RED where team = 'red' and n > 1"], environment)
    filters = [keys.filters.get(keys.owner_of(f"Bearer {key}")) for key in (FREE_KEY, KEY, OTHER_KEY)]
    assert filters == [None, *[parse_filter("team = 'red' and n > 1")] * 2]


@pytest.mark.parametrize(
    ("names", "message"),
    [(["RED", "RED where n = 1"], "given twice"), (["RED where n = "], "expected a value"),
     (["RED where "], "the filter is empty"), (["NONE"], "NONE holds no API key"),
     (["SHORT"], "key 2 has 5 characters")],
)  # fmt: skip
def test_wrong_keys_are_named(names, message):
    with pytest.raises(InputError, match=message):
        read_keys(names, {"RED": KEY, "NONE": " , ", "SHORT": f"{KEY},short"})
