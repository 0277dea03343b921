"""The route /retrieve, as the clients of Search-R1's retrieval server use it."""

import asyncio

import pytest

from askance.configuration.build import open_retriever
from tests.serve.served import KEY, OTHER_KEY, serving

BERGMAN = "Where was Ingmar Bergman born?"


def test_each_query_has_its_passages_with_or_without_scores(served):
    response = served.post(
        "/retrieve", {"queries": [BERGMAN, "?", "Uppsala"], "topk": 2, "return_scores": True}
    )
    first, none, last = response.json()["result"]
    assert ([len(first), none, len(last)], response.status_code) == ([2, [], 2], 200)
    hits = served.post("/v1/search", {"query": BERGMAN, "k": 2}).json()["data"]
    assert [(each["document"]["id"], each["score"]) for each in first] == [
        (hit["passage"]["id"], hit["score"]) for hit in hits
    ]
    title, _, text = first[0]["document"]["contents"].partition("\n")
    assert (title, text) == (f'"{hits[0]["passage"]["title"]}"', hits[0]["passage"]["text"])
    unscored = served.post("/retrieve", {"queries": [BERGMAN]}).json()["result"]
    assert [each["id"] for each in unscored[0][:2]] == [each["document"]["id"] for each in first]
    assert len(unscored[0]) == 3


def test_askance_finds_there_what_it_finds_in_the_index(served, sample_index):
    with_title = served.post("/v1/search", {"query": BERGMAN, "k": 5}).json()["data"]
    there = open_retriever(None, f"retrieve:{served.url}/retrieve")
    hits = asyncio.run(there.search(BERGMAN, 5))
    here = asyncio.run(open_retriever(sample_index, "bm25").search(BERGMAN, 5))
    parts = [
        [(h.passage.id, h.passage.title, h.passage.text, h.score) for h in each] for each in (hits, here)
    ]
    assert parts[0] == parts[1]
    assert len(hits) == len(with_title) == 5


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "queries: Field required"),
        ({"queries": BERGMAN}, "queries='Where was"),
        ({"queries": [7]}, "queries.0=7"),
        ({"queries": ["x" * 20_001]}, "queries.0"),
        ({"queries": ["x"] * 513}, "queries"),
        ({"queries": ["x"], "topk": 0}, "topk=0"),
        ({"queries": ["x"], "topk": 101}, "topk=101"),
    ],
)
def test_requests_that_can_not_be_used(served, body, message):
    response = served.post("/retrieve", body)
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]


def test_it_needs_an_index_and_a_key_and_keeps_to_the_documents_of_the_key(own_index):
    body = {"queries": ["zorkmid"]}
    with serving(method="closed_book") as server:
        response = server.post("/retrieve", body)
        assert (response.status_code, "start it with --index" in response.text) == (404, True)
    with serving(own_index, keys=[KEY, OTHER_KEY]) as server:
        assert server.post("/retrieve", body).status_code == 401
        server.post("/v1/documents", {"id": "z", "text": "One zorkmid is dear."}, KEY)
        found = [server.post("/retrieve", body, key).json()["result"] for key in (KEY, OTHER_KEY)]
    assert [[each["id"] for each in of_key[0]] for of_key in found] == [["z"], []]
