"""Documents over HTTP: added, replaced, listed and deleted, and searchable without a restart."""

import json
import shutil
import socket
import threading
from urllib.parse import quote

import pytest

from askance.core.errors import DocumentError
from askance.models.scripted import ScriptedEncoder, ScriptedModel
from askance.retrieval.index import index_folder
from askance.retrieval.index.build import build_index
from askance.retrieval.index.documents import Document
from askance.retrieval.index.reader import open_index_reader
from askance.retrieval.index.writer import open_writer
from askance.storage.durable_files import locked_folder
from tests.serve.served import serving

IDS = [
    "zork",
    "a/b",
    "../../etc/passwd",
    "a#1",
    "50%",
    "a?b=c&d",
    "Ünïcode 京",
    "a%2Fb",
    "~x",
    "a b",
    "...",
    "id~2",
]


@pytest.fixture
def server(own_index):
    with serving(own_index) as server:
        yield server


def found(server, query):
    return [hit["passage"]["id"] for hit in server.post("/v1/search", {"query": query}).json()["data"]]


def outcomes(response):
    assert response.status_code == 200, response.text
    return [(each["id"], each["outcome"]) for each in response.json()["data"]]


@pytest.mark.parametrize("id", IDS)
def test_a_document_can_be_searched_opened_and_deleted_whatever_its_id(server, id):
    body = {"id": id, "title": "Zork", "text": "A zorkmid is money."}
    assert outcomes(server.post("/v1/documents", body)) == [(id, "added")]
    (hit,) = server.post("/v1/search", {"query": "zorkmid"}).json()["data"]
    opened = server.client.get(hit["url"])
    assert opened.json()["text"] == "A zorkmid is money."
    assert server.delete(f"/v1/documents/{quote(id, safe='')}").json()["deleted"]
    assert found(server, "zorkmid") == []
    assert server.client.get(hit["url"]).status_code == 404


def test_the_same_document_twice_is_unchanged_and_new_content_replaces_it(server):
    body = {"id": "zork", "text": "A zorkmid is money."}
    assert outcomes(server.post("/v1/documents", body)) == [("zork", "added")]
    assert outcomes(server.post("/v1/documents", body)) == [("zork", "unchanged")]
    new = {**body, "text": "A grue is a beast."}
    assert outcomes(server.post("/v1/documents", new)) == [("zork", "updated")]
    assert (found(server, "zorkmid"), found(server, "grue")) == ([], ["zork"])


def test_an_id_of_a_file_is_not_taken_away_from_it(server):
    assert outcomes(server.post("/v1/documents", {"id": "bonn.txt", "text": "Bonn had a zoo."})) == [
        ("bonn.txt~2", "added")
    ]
    assert sorted(found(server, "Bonn")) == ["bonn.txt", "bonn.txt~2"]
    again = {"id": "bonn.txt", "text": "Bonn had two zoos."}
    assert outcomes(server.post("/v1/documents", again)) == [("bonn.txt~2", "updated")]


def test_many_documents_are_added_in_one_step_or_not_at_all(server):
    good = [{"id": f"d{number}", "text": f"Zorkmid number {number}."} for number in range(20)]
    assert len(outcomes(server.post("/v1/documents", {"documents": good}))) == 20
    bad = [{"id": "e1", "text": "A grue."}, {"id": "e2", "text": " "}]
    assert server.post("/v1/documents", {"documents": bad}).status_code == 400
    assert found(server, "grue") == []


def test_documents_are_listed_page_by_page(server):
    documents = [{"id": f"d{number}", "text": "Zorkmid."} for number in range(5)]
    server.post("/v1/documents", {"documents": documents})
    listed, after = [], ""
    while True:
        page = server.client.get("/v1/documents", params={"limit": 3, "after": after}).json()
        listed += [(each["id"], each["is_own"]) for each in page["data"]]
        if not page["has_more"]:
            break
        after = listed[-1][0]
    own = [(f"d{number}", True) for number in range(5)]
    assert listed == [("bonn.txt", False), *own, ("pisa.txt", False)]


BAD = [
    {"id": "", "text": "x"}, {"id": "x"}, {"id": "x", "text": ""}, {"id": "x", "text": " \n"}, {"text": "x"},
    {"id": ".", "text": "x"}, {"id": "..", "text": "x"}, {"id": "a\n", "text": "x"}, {"id": 5, "text": "x"},
    {"id": "\0", "text": "x"}, {"id": "x" * 513, "text": "x"}, {"id": "x", "text": "x", "path": "/etc/x"},
    {"id": "\ud800", "text": "x"}, {"id": "x", "text": "\ud800"}, {"documents": []}, [],
    {"id": " ", "text": "x"}, {"documents": [{"id": "x", "text": "a"}, {"id": "x", "text": "b"}]},
]  # fmt: skip


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
def test_bad_documents_are_refused(server, body):
    response = server.client.post(
        "/v1/documents", content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 400, response.text
    assert response.json()["error"]["message"]
    assert len(server.get("/v1/documents").json()["data"]) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"id": "", "text": "x"}, "id='': String should"),
        ({"id": "x" * 600, "text": "x"}, f"id='{'x' * 79}: String should"),
        ({"id": "x"}, "text: Field required."),
        ({"id": "x", "text": "x", "path": "/etc/x"}, "path='/etc/x': Extra"),
        ({"documents": []}, "documents: List should"),
        ({"documents": [{"id": "x", "text": "x"}, {"id": "y"}]}, "documents.1.text: Field required."),
        ({"id": "x", "text": "x", "fields": {"a": [1]}}, "fields.a: use a text, a number, true or false."),
        ([], "the body: "),
    ],
)
def test_a_bad_document_is_named_by_its_place_and_value(server, body, message):
    error = server.post("/v1/documents", body).json()["error"]
    assert error["message"].startswith(message)
    assert message.startswith((f"{error['param']}:", f"{error['param']}="))


def test_an_upload_that_is_cut_in_the_middle_changes_nothing(server):
    host, port = server.url.removeprefix("http://").split(":")
    body = json.dumps({"id": "zork", "text": "A zorkmid is money."}).encode()
    head = f"POST /v1/documents HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    for num_bytes in (0, 10, len(body) - 1):
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:num_bytes])
    assert found(server, "zorkmid") == []
    assert outcomes(server.post("/v1/documents", json.loads(body))) == [("zork", "added")]


def test_documents_added_at_the_same_time_are_all_there(server):
    def add(number):
        assert server.post("/v1/documents", {"id": f"d{number}", "text": "Zorkmid."}).status_code == 200

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found(server, "zorkmid")) == ["d0", "d1", "d2", "d3"]


def test_documents_survive_a_restart_and_an_update_from_files(own_index, tmp_path):
    with serving(own_index) as server:
        server.post("/v1/documents", {"id": "zork", "text": "A zorkmid is money."})
    build_index([tmp_path / "docs"], own_index)
    with serving(own_index) as server:
        assert found(server, "zorkmid") == ["zork"]


def test_an_index_replaced_while_serving_is_searched_from_then_on(own_index, tmp_path):
    with serving(own_index) as server:
        (tmp_path / "docs" / "zork.txt").write_text("A zorkmid is money.")
        build_index([tmp_path / "docs"], own_index)
        assert found(server, "zorkmid") == ["zork.txt"]
        answer = server.answered("What is a zorkmid?")
        assert answer["askance"]["searches"] == 1


def test_an_index_removed_or_broken_while_serving_stays_in_use(own_index):
    with serving(own_index) as server:
        (own_index / "manifest.json").write_text("{")
        assert found(server, "Rhine") == ["bonn.txt"]
        shutil.rmtree(own_index)
        assert found(server, "Rhine") == ["bonn.txt"]
        response = server.post("/v1/documents", {"id": "x", "text": "x"})
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "index_failed"
        assert str(own_index) not in response.text


def test_an_index_that_another_process_writes_is_busy(own_index, server):
    with locked_folder(own_index, index_folder.LOCK):
        response = server.post("/v1/documents", {"id": "x", "text": "x"})
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert response.json()["error"]["code"] == "index_busy"
    assert server.post("/v1/documents", {"id": "x", "text": "x"}).status_code == 200


def test_documents_get_vectors_where_the_index_has_them(tmp_path, monkeypatch):
    encoder = ScriptedEncoder()
    (tmp_path / "bonn.txt").write_text("Bonn lies on the Rhine.")
    build_index([tmp_path / "bonn.txt"], tmp_path / "index", encoder=encoder)
    monkeypatch.setattr("askance.configuration.build.load_encoder", lambda spec: encoder)
    for retriever in ("bm25", "dense", "hybrid"):
        with serving(tmp_path / "index", retriever=retriever) as server:
            body = {"id": "zork", "text": f"A zorkmid is money, says {retriever}."}
            assert server.post("/v1/documents", body).status_code == 200
            assert found(server, f"zork {body['text']}")[0] == "zork"
    assert open_index_reader(tmp_path / "index", encoder=encoder).vectors.num_vectors == 2


def test_the_last_document_can_not_be_deleted(tmp_path):
    (tmp_path / "bonn.txt").write_text("Bonn lies on the Rhine.")
    build_index([tmp_path / "bonn.txt"], tmp_path / "index")
    with open_writer(tmp_path / "index") as index:
        index.upsert(Document("zork", "zork", "Zork.", path="http:"))
        index.commit()
    with open_writer(tmp_path / "index") as index:
        assert index.remove("zork", path="http:") == ["zork"]
        assert index.remove(path=str(tmp_path.resolve() / "bonn.txt")) == ["bonn.txt"]
        with pytest.raises(DocumentError, match="would be empty"):
            index.commit()
    assert open_index_reader(tmp_path / "index").manifest.documents == 2


def test_without_an_index_there_are_no_documents():
    with serving(model=ScriptedModel(), method="closed_book") as server:
        for response in (
            server.get("/v1/documents"), server.post("/v1/documents", {"id": "x", "text": "x"}),
            server.delete("/v1/documents/x"), server.post("/v1/search", {"query": "x"}),
        ):  # fmt: skip
            assert (response.status_code, response.json()["error"]["code"]) == (404, "no_index")
