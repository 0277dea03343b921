"""Collections in PostgreSQL: crashes, wrong settings, replicas, and what the command line says of them."""

import asyncio
import random
import threading
import time

import pytest
from tests.contracts.collection_contract import ENCODER, ids, upserted
from tests.contracts.retriever_contract import PASSAGES, RetrieverContract
from tests.retrieval.conftest import rows_file
from tests.retrieval.postgres import PASSWORD

from askance.core.errors import BadIndex, IndexBusy, RetrieverFailure
from askance.core.notes import noted
from askance.retrieval import ann
from askance.retrieval.bm25 import open_index
from askance.retrieval.dense import open_dense, open_hybrid
from askance.retrieval.index.build import build_index
from askance.retrieval.index.documents import Document
from askance.retrieval.index.reader import collection_of

pytest.importorskip("psycopg")
CRASHES = 4


def sql(postgres, statement):
    import psycopg

    with psycopg.connect(postgres.url("").partition("?")[0], autocommit=True) as connection:
        return connection.execute(statement)


class TestRetrieversOverPostgres(RetrieverContract):
    @pytest.fixture(params=[open_index, open_dense, open_hybrid])
    def retriever(self, request, postgres, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        rows = [{"id": each.id, "title": each.title, "text": each.text} for each in PASSAGES]
        rows_file(tmp_path / "rivers.jsonl", *rows)
        place = postgres.url("rivers")
        build_index([(tmp_path / "rivers.jsonl").relative_to(tmp_path)], place, encoder=ENCODER)
        return request.param(place, *[ENCODER] * (request.param is not open_index))


def test_an_hnsw_index_finds_the_nearest(postgres, monkeypatch):
    monkeypatch.setattr(ann, "EXACT_ROWS", 50)
    place = postgres.url("main", options="-c%20jit=off")
    documents = [Document(f"{at:03}", "", f"river number {at} of {at % 7}") for at in range(300)]
    upserted(place, *documents, encoder=ENCODER)
    assert sql(postgres, "SELECT indexdef FROM pg_indexes WHERE indexname = 'near'").rowcount == 1
    for at in (0, 7, 299):
        hits = asyncio.run(open_dense(place, ENCODER).search(documents[at].text, 100))
        assert hits[0].passage.id == f"{at:03}"
        assert len(hits) == 100


def test_after_a_crash_no_document_that_was_committed_is_missing(postgres):
    """The server is killed at moments of writing; each time, the documents are counted again."""
    place, seeded, acknowledged, notes = postgres.url("crash"), random.Random(3), [], []
    upserted(place, Document("first", "", "river first"))
    for crash in range(CRASHES):
        stop = threading.Event()

        def write(crash=crash, stop=stop):
            number = 0
            while not stop.is_set():
                id = f"d{crash}x{number}"
                try:
                    upserted(place, Document(id, "", f"river {id}"), Document("same", "", f"town {id}"))
                except BadIndex:
                    return
                acknowledged.append(id)
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        time.sleep(seeded.uniform(0.05, 0.4))
        postgres.kill()
        stop.set()
        writer.join()
        postgres.start()
        with noted(lambda name, text: notes.append(text)):
            found = {*ids(place, "river", 10_000)}
        assert {"first", *acknowledged} <= found
        listed = {entry.id for entry in collection_of(place).reader().documents()}
        assert listed == {*found, "same"} - (set() if acknowledged else {"same"})
        assert collection_of(place).manifest().documents == len(listed)
    assert acknowledged
    assert any("lacked passages after a crash; it was rebuilt" in text for text in notes)


def test_an_open_retriever_goes_on_after_a_restart_and_says_when_the_server_is_away(postgres):
    place = postgres.url("restarted")
    upserted(place, Document("a", "", "river"))
    opened = open_index(place)
    assert len(asyncio.run(opened.search("river", 3))) == 1
    postgres.stop()
    try:
        with pytest.raises(RetrieverFailure, match="could not be searched for 'river'"):
            asyncio.run(opened.search("river", 3))
        with pytest.raises(BadIndex, match="see that the server runs"):
            open_index(place)
    finally:
        postgres.start()
    assert len(asyncio.run(opened.search("river", 3))) == 1


def test_a_collection_of_another_schema_version_or_that_is_gone_is_refused(postgres):
    place = postgres.url("old")
    upserted(place, Document("a", "", "river"))
    opened = open_index(place)
    change = """UPDATE askance_old.main_state SET content = regexp_replace(content, '"schema_version": [^,]*',
        '"schema_version": {}') WHERE number = 2"""
    for version in ("0", "2", "null"):
        sql(postgres, change.format(version))
        for act in (open_index, lambda place: upserted(place, Document("b", "", "river"))):
            with pytest.raises(BadIndex, match=r"schema version .*, and this askance reads 1"):
                act(place)
    sql(postgres, "DROP SCHEMA askance_old CASCADE")
    with pytest.raises(RetrieverFailure, match="does not exist"):
        asyncio.run(opened.search("river", 3))
    with pytest.raises(BadIndex, match="the database has no index"):
        open_index(place)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql://me:hidden@127.0.0.1/x?collection=c", "holds a password"),
        ("postgresql://me@127.0.0.1/x?collection=c&password=hidden", "holds a password"),
        ("postgresql://me@127.0.0.1/x", "names no collection"),
        ("postgresql://me@127.0.0.1/x?collection=Big%20one", "names no collection"),
        ("postgres://me@127.0.0.1:1/x?collection=c", "can't be read .*see that the server runs"),
        ("mysql://me:hidden@127.0.0.1/x", "mysql:// is no place of an index"),
    ],
)
def test_a_url_that_can_not_be_used_is_refused_and_no_password_is_shown(url, problem):
    with pytest.raises(BadIndex, match=problem) as raised:
        open_index(url)
    assert "hidden" not in str(raised.value)


def test_a_wrong_password_and_another_writer_have_messages_of_their_own(postgres, monkeypatch):
    place = postgres.url("locked")
    upserted(place, Document("a", "", "river"))
    monkeypatch.setattr("askance.retrieval.index.postgres.LOCK_SECONDS", 0.1)
    with collection_of(place).writer(), pytest.raises(IndexBusy, match="try again"):
        upserted(place, Document("b", "", "river"))
    with pytest.raises(BadIndex, match=r"searched with k1=1\.2 and b=0\.75"):
        asyncio.run(open_index(place, k1=2).search("river", 1))
    monkeypatch.setenv("PGPASSWORD", f"{PASSWORD}-wrong")
    with pytest.raises(BadIndex, match=r"password authentication failed.*PGPASSWORD or ~/\.pgpass") as raised:
        open_index(place)
    assert PASSWORD not in str(raised.value)


def test_commands_take_the_url_of_a_collection(postgres, run, tmp_path):
    rows_file(tmp_path / "rows.jsonl", ("a", "Bonn lies on the Rhine."), ("b", "Pisa lies on the Arno."))
    place = postgres.url("commands", sslmode="disable")
    code, out, err = run("index", tmp_path / "rows.jsonl", "--out", place, "--encoder", "none")
    assert (code, "2 passages of 2 documents (2 added)" in out) == (0, True), err
    code, out, err = run("search", "Where is Bonn?", "--index", place, "-k", "1")
    assert (code, "Rhine" in out) == (0, True), err
    code, out, err = run("index", "--out", place, "--delete", "a")
    assert (code, "1 documents deleted" in out) == (0, True), err
    code, out, err = run("search", "Bonn", "--index", place.replace("commands", "others"))
    assert (code, "the database has no index" in err) == (2, True), err
    assert PASSWORD not in out + err


def test_two_servers_share_uploads(postgres):
    pytest.importorskip("fastapi")
    from tests.serve.served import serving

    place = postgres.url("shared")
    upserted(place, Document("bonn", "", "Bonn lies on the Rhine."))
    with serving(place) as one, serving(place) as other:
        added = one.post("/v1/documents", {"id": "zork", "text": "A zorkmid is money."})
        assert added.status_code == 200, added.text
        assert other.found("zorkmid") == ["zork"]
        assert other.delete("/v1/documents/zork").json()["deleted"]
        assert one.found("zorkmid") == []
