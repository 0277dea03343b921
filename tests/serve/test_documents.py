"""Documents over HTTP: added, replaced, listed and deleted, and searchable without a restart."""

import json
import shutil
import threading
from urllib.parse import quote

import pytest

from askance.core.errors import BadIndex
from askance.models.scripted import ScriptedEncoder, ScriptedModel
from askance.retrieval.index import index_folder
from askance.retrieval.index.build import build_index
from askance.retrieval.index.reader import open_index_reader
from askance.storage.durable_files import locked_folder
from tests.serve.served import error_of, post_head, serving

IDS = [
    "zork", "a/b", "../../etc/passwd", "a#1", "50%", "a?b=c&d", "Ünïcode 京", "a%2Fb", "~x", "a b", "...",
    "id~2",
]  # fmt: skip
ZORK = {"id": "zork", "text": "A zorkmid is money."}


@pytest.fixture
def server(own_index):
    with serving(own_index) as server:
        yield server


def add(server, body):
    """The id and the outcome of each document of an upload."""
    response = server.post("/v1/documents", body)
    assert response.status_code == 200, response.text
    return [(each["id"], each["outcome"]) for each in response.json()["data"]]


def test_a_document_can_be_searched_opened_and_deleted_whatever_its_id(server):
    documents = [{"id": id, "title": id, "text": f"Zorkmid {at}word."} for at, id in enumerate(IDS)]
    assert add(server, {"documents": documents}) == [(id, "added") for id in IDS]
    for at, id in enumerate(IDS):
        (hit,) = server.post("/v1/search", {"query": f"{at}word"}).json()["data"]
        assert server.client.get(hit["url"]).json()["text"] == f"Zorkmid {at}word."
        assert server.delete(f"/v1/documents/{quote(id, safe='')}").json()["deleted"]
        assert server.client.get(hit["url"]).status_code == 404
    assert server.found("zorkmid") == []


def test_an_upload_adds_leaves_or_replaces_and_takes_no_id_from_a_file(server):
    assert add(server, ZORK) == [("zork", "added")]
    assert add(server, ZORK) == [("zork", "unchanged")]
    assert add(server, {**ZORK, "text": "A grue is a beast."}) == [("zork", "updated")]
    assert (server.found("zorkmid"), server.found("grue")) == ([], ["zork"])
    assert add(server, {"id": "bonn.txt", "text": "Bonn had a zoo."}) == [("bonn.txt~2", "added")]
    assert sorted(server.found("Bonn")) == ["bonn.txt", "bonn.txt~2"]
    assert add(server, {"id": "bonn.txt", "text": "Bonn had two zoos."}) == [("bonn.txt~2", "updated")]
    assert server.delete("/v1/documents/bonn.txt").status_code == 404


def test_documents_are_listed_page_by_page(server):
    add(server, {"documents": [{"id": f"d{number}", "text": "Zorkmid."} for number in range(5)]})
    listed, after, has_more = [], "", True
    while has_more:
        page = server.client.get("/v1/documents", params={"limit": 3, "after": after}).json()
        listed += [(each["id"], each["is_own"]) for each in page["data"]]
        after, has_more = listed[-1][0], page["has_more"]
    assert listed == [("bonn.txt", False), *((f"d{n}", True) for n in range(5)), ("pisa.txt", False)]


FIRST = {"id": "x", "text": "x"}
BAD = [
    ({"id": "", "text": "x"}, "id='': String should"),
    ({"id": "x" * 600, "text": "x"}, f"id='{'x' * 79}: String should"),
    ({"id": "x"}, "text: Field required."),
    ({"id": "x", "text": "x", "path": "/etc/x"}, "path='/etc/x': Extra"),
    ({"documents": []}, "documents: List should"),
    ({"documents": [FIRST, {"id": "y"}]}, "documents.1.text: Field required."),
    ({"id": "x", "text": "x", "fields": {"a": [1]}}, "fields.a: use a text, a number, true or false."),
    ([], "the body: "),
    *(({**FIRST, "text": text}, "") for text in ("", " \n", "\ud800")),
    *(({**FIRST, "id": id}, "") for id in (".", "..", "a\n", 5, "\0", "\ud800", " ", "x" * 513)),
    *(({**FIRST, "fields": fields}, "")
      for fields in ({"n": None}, {"n": "x" * 1001}, {" ": 1}, {"a`b": 1}, {"n": 10**400})),
    ({"text": "x"}, ""),
    ({"documents": [FIRST, {"id": "x", "text": "y"}]}, ""),
    ({"documents": [FIRST, {"id": "y", "text": " "}]}, ""),
]  # fmt: skip
"""An upload, and the beginning of the message that names the place and the value."""


def test_a_bad_document_is_named_and_nothing_of_its_upload_is_added(server):
    for body, message in BAD:
        response = server.post("/v1/documents", body)
        error = response.json()["error"]
        assert response.status_code == 400, body
        assert error["message"]
        assert error["message"].startswith(message), body
        assert not message or message.startswith((f"{error['param']}:", f"{error['param']}="))
    assert len(server.get("/v1/documents").json()["data"]) == 2


def test_an_upload_that_is_cut_in_the_middle_changes_nothing(server):
    body = json.dumps(ZORK).encode()
    for num_bytes in (0, 10, len(body) - 1):
        server.connection(post_head("/v1/documents", len(body)) + body[:num_bytes]).close()
    assert server.found("zorkmid") == []
    assert add(server, ZORK) == [("zork", "added")]


def test_documents_added_at_the_same_time_are_all_there(server):
    documents = [{"id": f"d{number}", "text": "Zorkmid."} for number in range(4)]
    threads = [threading.Thread(target=add, args=(server, document)) for document in documents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(server.found("zorkmid")) == ["d0", "d1", "d2", "d3"]


def test_an_index_replaced_while_serving_is_searched_with_the_documents_added_before(own_index, tmp_path):
    with serving(own_index) as server:
        add(server, ZORK)
        (tmp_path / "docs" / "grue.txt").write_text("A grue is a beast.")
        build_index([tmp_path / "docs"], own_index)
        assert (server.found("grue"), server.found("zorkmid")) == (["grue.txt"], ["zork"])
        assert server.answered("What is a grue?")["askance"]["searches"] == 1
    with serving(own_index) as server:
        assert server.found("zorkmid") == ["zork"]


def test_an_index_removed_or_broken_while_serving_stays_in_use(own_index):
    with serving(own_index) as server:
        (own_index / "manifest.json").write_text("{")
        assert server.found("Rhine") == ["bonn.txt"]
        shutil.rmtree(own_index)
        assert server.found("Rhine") == ["bonn.txt"]
        response = server.post("/v1/documents", ZORK)
    assert error_of(response) == (503, "index_failed")
    assert str(own_index) not in response.text


def test_an_index_with_damaged_documents_is_not_served(own_index):
    (database,) = own_index.glob("generation-*/documents.sqlite")
    database.unlink()
    database.write_bytes(b"no database at all")
    with (
        pytest.raises(BadIndex, match=r"the documents of the index .* can't be read .*delete the index"),
        serving(own_index),
    ):
        pytest.fail("the server has started")


def test_an_index_that_another_process_writes_is_busy(own_index, server):
    with locked_folder(own_index, index_folder.LOCK):
        response = server.post("/v1/documents", ZORK)
    assert (*error_of(response), response.headers["Retry-After"]) == (503, "index_busy", "1")
    assert add(server, ZORK) == [("zork", "added")]


def test_documents_get_vectors_where_the_index_has_them(tmp_path, monkeypatch):
    encoder = ScriptedEncoder()
    (tmp_path / "bonn.txt").write_text("Bonn lies on the Rhine.")
    build_index([tmp_path / "bonn.txt"], tmp_path / "index", encoder=encoder)
    monkeypatch.setattr("askance.configuration.build.load_encoder", lambda spec: encoder)
    for retriever in ("bm25", "dense", "hybrid"):
        with serving(tmp_path / "index", retriever=retriever) as server:
            body = {"id": "zork", "text": f"A zorkmid is money, says {retriever}."}
            add(server, body)
            assert server.found(f"zork {body['text']}")[0] == "zork"
    assert open_index_reader(tmp_path / "index", encoder=encoder).vectors.num_vectors == 2


def test_without_an_index_there_are_no_documents():
    with serving(model=ScriptedModel(), method="closed_book") as server:
        for response in (
            server.get("/v1/documents"), server.post("/v1/documents", ZORK),
            server.delete("/v1/documents/x"), server.post("/v1/search", {"query": "x"}),
        ):  # fmt: skip
            assert error_of(response) == (404, "no_index")
