"""Indexes that askance did not build: faiss files with their passages, and servers with /retrieve."""

import asyncio
import json
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from tests.contracts.retriever_contract import PASSAGES, QUERY, RetrieverContract
from tests.retrieval.conftest import rows_file
from tests.retrieval.vectors import FixedEncoder, search
from tests.tolerances import near

from askance.configuration.build import open_retriever
from askance.configuration.settings import EngineConfig
from askance.configuration.trust import runs_code
from askance.core.errors import BadIndex, InputError, MissingExtra, ModelFailure, RetrieverFailure
from askance.models.scripted import ScriptedEncoder
from askance.retrieval import existing
from askance.retrieval.scripted import ScriptedRetriever

faiss = pytest.importorskip("faiss", reason="needs the extra dense")
pytest.importorskip("httpx2", reason="needs the extra remote")

ENCODER = ScriptedEncoder()
ROWS = [{"id": f"p{at}", "title": f"title{at}", "text": f"word{at} of many"} for at in range(60)]


def record(passage):
    return {"id": passage.id, "title": passage.title, "text": passage.text, "source": passage.source}


@pytest.fixture
def faiss_file(tmp_path):
    """Return a function that writes a faiss file and its passages, and returns the specification."""

    def write(rows, kind="Flat", metric=faiss.METRIC_INNER_PRODUCT, lines=None):
        lines = rows if lines is None else lines
        passages = rows_file(tmp_path / "passages.jsonl", *lines)
        texts = [f"{row.get('title', '')} {row.get('text') or row['contents']}".strip() for row in rows]
        vectors = asyncio.run(ENCODER.embed(texts, "passage"))
        index = faiss.index_factory(vectors.shape[1], kind, metric)
        index.train(vectors)
        index.add(vectors)
        faiss.write_index(index, str(tmp_path / "file.faiss"))
        return f"faiss:{tmp_path / 'file.faiss'}?passages={passages}"

    return write


def opened(spec, encoder=ENCODER):
    return open_retriever(None, spec, encoder)


class TestFaiss(RetrieverContract):
    @pytest.fixture(params=["Flat", "IVF1,SQ8", "HNSW4"])
    def retriever(self, request, faiss_file):
        return opened(faiss_file([record(each) for each in PASSAGES], request.param))


@pytest.mark.parametrize("metric", [faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2])
@pytest.mark.parametrize("kind", ["Flat", "IVF40,Flat", "HNSW8"])
def test_scores_are_inner_products_whatever_the_index_computes(faiss_file, kind, metric):
    spec = faiss_file(ROWS, kind, metric)
    retriever = opened(spec)
    assert (retriever.name, retriever.fingerprint) == (opened(spec).name, opened(spec).fingerprint)
    (hit,) = search(retriever, "title7 word7 of many", 1)
    assert (hit.passage.id, hit.passage.title, hit.passage.text) == ("p7", "title7", "word7 of many")
    assert hit.score == near(1.0, "unit vector", "float32")


def test_passages_in_the_form_of_search_r1(faiss_file):
    rows = [{"contents": f'"Title {number}"\nword{number} of\nmany'} for number in range(9)]
    rows[4] = {"_id": 4, "contents": "word4 alone"}
    retriever = opened(faiss_file(rows))
    (hit,) = search(retriever, "Title 7 word7", 1)
    assert (hit.passage.id, hit.passage.title, hit.passage.text) == ("7", "Title 7", "word7 of\nmany")
    assert hit.passage.source.endswith("passages.jsonl")
    assert search(retriever, "word4 alone", 1)[0].passage.text == "word4 alone"


OTHER = [{"id": "x", "text": f"other{number}"} for number in range(60)]
SHIFTED = [*ROWS[1:], ROWS[0]]


@pytest.mark.parametrize(
    ("lines", "encoder", "message"),
    [
        (ROWS[:59], ENCODER, r"60 vectors, and .*passages.jsonl has 59 lines: name the passages"),
        ([*ROWS, ROWS[0]], ENCODER, "has 61 lines"),
        ([], ENCODER, r"passages .*passages.jsonl can't be read"),
        (SHIFTED, ENCODER, "finds 0 of 8 passages of .*by their own text: name the encoder.* in the order"),
        (OTHER, ENCODER, "finds 0 of 8 passages"),
        (ROWS, FixedEncoder(np.eye(16)[0]), "finds . of 8 passages"),
        (ROWS, ScriptedEncoder(8), "has 16 dimensions, and the encoder scripted 8: name the encoder"),
    ],
)
def test_passages_or_an_encoder_that_do_not_belong_to_the_vectors(faiss_file, lines, encoder, message):
    spec = faiss_file(ROWS, lines=lines)
    with pytest.raises(BadIndex, match=message):
        search(opened(spec, encoder), "word7", 1)


@pytest.mark.parametrize("damaged", [b"", b"no faiss file " * 9, None, "directory", "short"])
def test_files_that_faiss_can_not_read(faiss_file, tmp_path, damaged):
    spec, path = faiss_file(ROWS), tmp_path / "file.faiss"
    content = path.read_bytes()
    path.unlink()
    if damaged == "directory":
        path.mkdir()
    elif damaged is not None:
        path.write_bytes(content[:-99] if damaged == "short" else damaged)
    with pytest.raises(BadIndex, match=r"the faiss file .*file.faiss or its passages .* can't be read \("):
        opened(spec)


def test_a_line_that_is_no_passage_fails_the_search_that_finds_it(faiss_file):
    lines = [*ROWS[:30], {"id": "x", "text": 7}, *ROWS[31:]]
    retriever = opened(faiss_file(ROWS, lines=lines))
    with pytest.raises(RetrieverFailure, match=r"passages.jsonl, line 31: , field text: not a str.* 7"):
        search(retriever, "title30 word30 of many", 1)
    assert search(retriever, "title7 word7 of many", 1)[0].passage.id == "p7"


def test_specifications(faiss_file, monkeypatch):
    spec = faiss_file(ROWS)
    with pytest.raises(InputError, match=r"names no passages: write faiss:x\?passages=FILE.jsonl"):
        opened("faiss:x")
    with pytest.raises(InputError, match="retriever 'faiss' names no"):
        opened("faiss")
    EngineConfig(retriever=spec, encoder="scripted")
    assert not runs_code("retriever", spec)
    with pytest.raises(RetrieverFailure, match="no memory"):
        search(opened(spec, FixedEncoder(ModelFailure("no memory"))), "word", 1)
    monkeypatch.setattr(existing, "is_installed", lambda: False)
    with pytest.raises(MissingExtra, match=r"needs the package 'faiss-cpu'.*\[dense\]"):
        opened(spec)


@contextmanager
def retrieval_server(answer):
    """A server on loopback that answers with the text, bytes or value that `answer` returns for a body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, content = answer(body)
            content = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with suppress(OSError):  # the client may have left
                self.wfile.write(content)

        def log_message(self, *given):
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 64

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"retrieve:http://127.0.0.1:{server.server_port}/retrieve"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def from_script(body):
    """Answer as Search-R1's server does, from the passages of the contract."""
    retriever, found = ScriptedRetriever(PASSAGES), []
    for query in body["queries"]:
        hits = search(retriever, query, body["topk"])
        found.append([{"document": record(hit.passage), "score": hit.score} for hit in hits])
    return 200, {"result": found}


class TestRetrieve(RetrieverContract):
    @pytest.fixture
    def retriever(self):
        with retrieval_server(from_script) as spec:
            yield opened(spec, None)


def document(id, score=None):
    row = {"id": id, "contents": f'"T"\ntext {id}'}
    return row if score is None else {"document": row, "score": score}


@pytest.mark.parametrize(
    ("rows", "hits"),
    [
        ([document(1, 0.5), document(2, 0.25)], [("1", 0.5), ("2", 0.25)]),
        ([document(1), document(2)], [("1", 1), ("2", 1 / 2)]),
        ([document(1, 0.5), document(2)], [("1", 1), ("2", 1 / 2)]),
        ([document(1, 0.1), document(2, 0.7)], [("1", 1), ("2", 1 / 2)]),
        ([document(number, -number) for number in range(9)], [("0", 0), ("1", -1)]),
        ([], []),
    ],
)
def test_hits_keep_the_order_and_the_scores_of_the_server(rows, hits):
    with retrieval_server(lambda body: (200, {"result": [rows]})) as spec:
        found = search(opened(spec, None), QUERY, 2)
    assert [(hit.passage.id, hit.score) for hit in found] == hits
    assert all((hit.passage.title, hit.passage.text) == ("T", f"text {hit.passage.id}") for hit in found)


def test_a_passage_without_an_id_gets_one_by_its_content():
    rows = [{"document": {"contents": "one"}}, {"document": {"contents": "two"}}]
    with retrieval_server(lambda body: (200, {"result": [rows]})) as spec:
        first, again = (search(opened(spec, None), QUERY, 2) for _ in range(2))
    assert first == again
    assert len({hit.passage.id for hit in first}) == 2


HTML = b"<!DOCTYPE html><title>Welcome</title>"


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (200, HTML, r"no JSON, but b'<!DOCTYPE html><title>Welcome"),
        (404, HTML, "404"),
        (302, b"", "302"),
        (200, {"result": []}, r"not enough values|expected 1"),
        (200, {"result": [[], []]}, "too many values"),
        (200, {"results": [[]]}, "field result: missing"),
        (200, {"result": [[document(1, "best")]]}, "result.0.0.score: not a finite number, found 'best'"),
        (200, {"result": [[{"document": {"id": 1}}]]}, "document.text: missing"),
        (200, {"result": [[7]]}, "field result.0.0: not an object"),
        (200, [1], "not an object"),
        (200, b"[" * 100_000, r"recursion|no JSON"),
        (200, b" " * 300_000, "an answer of more than"),
    ],
)
def test_answers_that_do_not_keep_to_the_protocol(monkeypatch, status, content, message):
    monkeypatch.setattr(existing, "MAX_REPLY_BYTES", 200_000)
    with retrieval_server(lambda body: (status, content)) as spec:
        retriever = opened(spec, None)
        with pytest.raises(RetrieverFailure, match=message):
            search(retriever, QUERY, 2)


def test_a_server_that_is_slow_or_gone(monkeypatch):
    monkeypatch.setattr(existing, "TIMEOUT_SECONDS", 0.2)
    with retrieval_server(lambda body: time.sleep(1) or (200, {})) as spec:
        retriever = opened(spec, None)
        with pytest.raises(RetrieverFailure, match=r"no answer within 0.2 s\): check that the server runs"):
            search(retriever, QUERY, 2)
    monkeypatch.undo()
    with pytest.raises(RetrieverFailure, match=r"searched for 'Which river .*onnect.*check that the server"):
        search(retriever, QUERY, 2)


@pytest.mark.parametrize(
    "url", ["", "host:80/retrieve", "ftp://h/", "http://", "http://me:x@h/", "http://h/@x"]
)
def test_what_is_no_url(url):
    with pytest.raises(InputError, match=r"has no URL without a password|names no"):
        opened(f"retrieve:{url}", None)


def test_httpx_is_missing(monkeypatch):
    monkeypatch.setattr(existing, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"needs the package 'httpx2'.*\[remote\]"):
        opened("retrieve:http://host/retrieve", None)
