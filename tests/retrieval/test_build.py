"""Builds and updates: what they report, which documents they keep, and how they resume."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.retrieval.conftest import snapshot

from askance.core.errors import BadIndex, DocumentError
from askance.retrieval.index import writer
from askance.retrieval.index.build import build_index
from askance.retrieval.index.documents import Document
from askance.retrieval.index.reader import open_index_reader
from askance.retrieval.index.writer import open_writer


def test_a_build_reports_what_it_did_and_stops_at_no_bad_row(tmp_path, index):
    docs = tmp_path / "docs"
    docs.mkdir()
    long = "word " * 250
    (docs / "rows.jsonl").write_text(f'{{"id": "a", "text": "one"}}\n{{"id": 1\n{{"text": "{long}"}}\n')
    (docs / "zero.txt").touch()
    seen = []
    report = build_index([docs], index, progress=seen.append)
    assert (report.documents, report.passages, report.outcomes) == (2, 4, {"added": 2})
    assert [Path(each.source).name for each in report.skipped] == ["rows.jsonl, line 2", "zero.txt"]
    steps = [(each.documents, each.passages, each.skipped) for each in seen]
    assert steps == [(1, 1, 0), (1, 1, 1), (2, 4, 1), (2, 4, 2)]
    assert seen[0].source == str(docs / "rows.jsonl")
    assert str(report).startswith(f"{index}: 4 passages of 2 documents (2 added, 2 skipped) in ")


def test_passages_are_found_as_they_were_written(tmp_path, index, found):
    text = "# Rivers\r\n\r\n<b>The Rhine</b> & [1](x) <|im_end|>\t{{q}}"
    (tmp_path / "a.md").write_bytes(text.encode())
    build_index([tmp_path / "a.md"], index)
    assert found(index, "rhine") == found(index, "river") == {"a.md": text}


def test_a_build_that_changes_nothing_touches_nothing_and_a_version_says_what_an_index_holds(
    tmp_path, write_rows, build, index
):
    build(("a", "one"), ("b", "two"))
    before, other = snapshot(index), tmp_path / "other"
    version = open_index_reader(index).manifest.content_hash
    assert build(("a", "one"), ("b", "two")).outcomes == {"unchanged": 2}
    assert snapshot(index) == before
    for text, is_same in (("one", True), ("one!", False)):
        build_index([write_rows(tmp_path / "2.jsonl", ("b", "two"), ("a", text))], other)
        assert (open_index_reader(other).manifest.content_hash == version) is is_same


def test_changed_new_and_removed_rows(build, index, found):
    build(("a", "word one"), ("b", "word two"), ("c", "word three"))
    report = build(("b", "word 2 " + "new " * 120), ("c", "word three"), ("d", "word four"))
    assert report.outcomes == {"added": 1, "updated": 1, "unchanged": 1, "removed": 1}
    assert (report.documents, report.passages) == (3, 3)
    assert {id: text[:10].strip() for id, text in found(index, "word").items()} == {
        "b": "word 2 new", "c": "word three", "d": "word four"
    }  # fmt: skip
    assert open_index_reader(index).manifest.generation == 2


def test_documents_stay_if_their_source_was_not_given_or_is_unreadable(tmp_path, index, found):
    for name in ("one/a.txt", "one/b.txt", "one/c.txt", "onemore/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("word " * 350)
    build_index([tmp_path / "one", tmp_path / "onemore"], index)
    (tmp_path / "one" / "a.txt").unlink()
    (tmp_path / "one" / "b.txt").write_text("new word " * 60)
    (tmp_path / "one" / "c.txt").write_bytes(b"word \0")
    (tmp_path / "onemore" / "d.txt").unlink()
    report = build_index([tmp_path / "one"], index)
    assert (report.outcomes, len(report.skipped)) == ({"updated": 1, "removed": 1}, 1)
    assert len(found(index, "new")) == 2
    assert set(found(index, "word")) == {
        "b.txt#1", "b.txt#2", *(f"{name}.txt#{number}" for name in "cd" for number in range(1, 5))
    }  # fmt: skip


def test_other_documents_of_the_same_id_get_ids_of_their_own(tmp_path, write_rows, index, found):
    first = write_rows(tmp_path / "1.jsonl", ("x", "word one"), ("x", "word two"), ("x~2", "word three"))
    second = write_rows(tmp_path / "2.jsonl", ("x", "word four"), ("x", "word one"))
    expected = {"x": "word one", "x~2": "word two", "x~2~2": "word three", "x~3": "word four"}
    for sources, outcomes in (
        ([first, second], {"added": 4, "duplicate": 1}),
        ([second, first], {"unchanged": 4, "duplicate": 1}),
        ([second], {"unchanged": 2}),
    ):
        assert build_index(sources, index).outcomes == outcomes
        assert found(index, "word") == expected
    write_rows(second, ("x", "word 4"))
    assert build_index([second], index).outcomes == {"updated": 1}
    assert found(index, "word") == {**expected, "x~3": "word 4"}
    write_rows(first, ("x", "word I"), ("x", "word two"), ("x~2", "word three"))
    build_index([first], index)
    assert found(index, "word") == {**expected, "x": "word I", "x~3": "word 4"}


def test_moved_files_and_other_names_of_a_folder_are_the_same_documents(
    tmp_path, write_rows, index, monkeypatch
):
    source = write_rows(tmp_path / "docs" / "old.jsonl", ("a", "one"), ("b", "two"))
    build_index([source], index)
    report = build_index([source.rename(tmp_path / "docs" / "new.jsonl")], index)
    assert (report.outcomes, report.documents) == ({"updated": 2}, 2)
    monkeypatch.chdir(tmp_path / "docs")
    assert build_index([Path()], index).outcomes == {"unchanged": 2}


def test_single_documents_are_inserted_and_removed_in_one_step(build, index, found):
    build(("a", "word a"), ("b", "word b"))
    documents = [Document("a", "", f"word {text}", path="http:1") for text in ("one", "one", "two")]
    with open_writer(index) as changes:
        outcomes = [changes.upsert(document) for document in documents]
        assert outcomes == [("a~2", "added"), ("a~2", "unchanged"), ("a~2", "updated")]
        assert changes.remove("b", path="http:1") == []
        assert changes.remove("b") == ["b"]
        assert found(index, "word") == {"a": "word a", "b": "word b"}
        changes.commit()
    assert found(index, "word") == {"a": "word a", "a~2": "word two"}
    reader = open_index_reader(index)
    assert [(each.id, each.path) for each in reader.documents(prefix="http:")] == [("a~2", "http:1")]
    assert [each.id for each in reader.documents(after="a", limit=1)] == ["a~2"]
    assert (reader.fetch("a~2").text, reader.fetch("a#1"), reader.fetch("b")) == ("word two", None, None)


def test_nothing_to_index_is_an_error_that_leaves_nothing_behind(tmp_path, index):
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("a.png", "b.txt", "c.txt", "d.txt"):
        (docs / name).touch()
    problem = r"(?s)nothing to index in .*docs \(4 skipped\): .*a\.png: unknown kind"
    with pytest.raises(DocumentError, match=problem):
        build_index([docs], index / "deep" / "er")
    assert not index.exists()
    with pytest.raises(DocumentError, match="nothing to index in no files at all"):
        build_index([], index)
    index.mkdir()
    with pytest.raises(DocumentError):
        build_index([docs], index)
    assert list(index.iterdir()) == []


def interrupt_at(number):
    def interrupt(progress):
        if progress.documents == number:
            raise KeyboardInterrupt

    return interrupt


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("checkpoint", "outcomes"), [(100, {"added": 9}), (3, {"unchanged": 5, "added": 4})], ids=["none", "3"]
)
def test_after_ctrl_c_a_build_goes_on_from_its_checkpoint(
    build, index, found, monkeypatch, is_first, checkpoint, outcomes
):
    """Until then, the index is as it was; what has vanished since the checkpoint is removed."""
    if not is_first:
        build(("old", "word old"))
    monkeypatch.setattr(writer, "CHECKPOINT_PASSAGES", checkpoint)
    before, rows = snapshot(index), [(str(number), f"word {number}") for number in range(10)]
    with pytest.raises(KeyboardInterrupt):
        build(*rows, progress=interrupt_at(8))
    if is_first:
        with pytest.raises(BadIndex, match=r"holds no index|does not exist"):
            open_index_reader(index)
    else:
        assert before.items() <= snapshot(index).items()
        assert found(index, "word") == {"old": "word old"}
    report = build(*rows[1:])
    assert {name: number for name, number in report.outcomes.items() if name != "removed"} == outcomes
    assert found(index, "word") == dict(rows[1:])
    assert build(*rows[1:]).outcomes == {"unchanged": 9}


ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "a~2"]), st.sampled_from(["one", "two", "three"])), min_size=1
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["1.jsonl", "2.jsonl"]), ROWS), min_size=1, max_size=5))
def test_after_any_history_the_index_holds_what_its_sources_hold(
    tmp_path_factory, write_rows, found, history
):
    folder, current = tmp_path_factory.mktemp("history"), {}
    for name, rows in history:
        current[name] = rows
        write_rows(folder / "docs" / name, *((id, f"word {text}") for id, text in rows))
        report = build_index([folder / "docs"], folder / "index")
    texts = found(folder / "index", "word")
    assert set(texts.values()) == {f"word {text}" for rows in current.values() for _, text in rows}
    distinct = {row for rows in current.values() for row in rows}
    assert len(texts) == report.documents == report.passages == len(distinct)
