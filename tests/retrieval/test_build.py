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


def version(index):
    return open_index_reader(index).version


def test_a_build_reports_what_it_did(tmp_path, write_rows, index):
    write_rows(tmp_path / "docs" / "rows.jsonl", ("a", "one"), ("b", "word " * 250))
    (tmp_path / "docs" / "zero.txt").touch()
    seen = []
    report = build_index([tmp_path / "docs"], index, progress=seen.append)
    assert (report.documents, report.passages, report.outcomes) == (2, 4, {"added": 2})
    assert [each.reason for each in report.skipped] == ["empty (0 bytes)"]
    steps = [(each.documents, each.passages, each.skipped) for each in seen]
    assert steps == [(1, 1, 0), (2, 4, 0), (2, 4, 1)]
    assert seen[0].source == str(tmp_path / "docs" / "rows.jsonl")
    assert str(report).startswith(f"{index}: 4 passages of 2 documents (2 added, 1 skipped) in ")


def test_passages_are_found_as_they_were_written(tmp_path, index, found):
    (tmp_path / "a.md").write_bytes(b"# Rivers\r\n\r\n<b>The Rhine</b> & [1](x) <|im_end|>\t{{q}}")
    build_index([tmp_path / "a.md"], index)
    assert found(index, "rhine") == {"a.md": "# Rivers\r\n\r\n<b>The Rhine</b> & [1](x) <|im_end|>\t{{q}}"}
    assert found(index, "river")


def test_a_build_that_changes_nothing_touches_nothing(build, index):
    build(("a", "one"), ("b", "two"))
    before = snapshot(index)
    assert build(("a", "one"), ("b", "two")).outcomes == {"unchanged": 2}
    assert snapshot(index) == before


def test_the_version_depends_on_nothing_but_the_documents(tmp_path, write_rows, build, index):
    build(("a", "one"), ("b", "two"))
    other = tmp_path / "other"
    build_index([write_rows(tmp_path / "2.jsonl", ("b", "two"), ("a", "one"))], other)
    assert version(index) == version(other)
    build_index([write_rows(tmp_path / "2.jsonl", ("b", "two"), ("a", "one!"))], other)
    assert version(index) != version(other)


def test_changed_new_and_removed_rows(build, index, found):
    build(("a", "word one"), ("b", "word two"), ("c", "word three"))
    report = build(("b", "word 2"), ("c", "word three"), ("d", "word four"))
    assert report.outcomes == {"added": 1, "updated": 1, "unchanged": 1, "removed": 1}
    assert (report.documents, report.passages) == (3, 3)
    assert found(index, "word") == {"b": "word 2", "c": "word three", "d": "word four"}
    assert open_index_reader(index).manifest.generation == 2


def test_a_changed_document_leaves_none_of_its_passages(tmp_path, index, found):
    for word, passages in (("old ", 350), ("new ", 120)):
        (tmp_path / "a.txt").write_text(word * passages)
        build_index([tmp_path / "a.txt"], index)
    assert found(index, "old") == {}
    assert set(found(index, "new")) == {"a.txt#1", "a.txt#2"}


def test_documents_stay_if_their_source_was_not_given_or_is_unreadable(tmp_path, index, found):
    for name in ("one/a.txt", "one/b.txt", "one/c.txt", "onemore/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"word {name}")
    build_index([tmp_path / "one", tmp_path / "onemore"], index)
    (tmp_path / "one" / "a.txt").unlink()
    (tmp_path / "one" / "c.txt").write_bytes(b"word \0")
    (tmp_path / "onemore" / "d.txt").unlink()
    report = build_index([tmp_path / "one"], index)
    assert (report.outcomes, len(report.skipped)) == ({"unchanged": 1, "removed": 1}, 1)
    assert set(found(index, "word")) == {"b.txt", "c.txt", "d.txt"}


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


def test_rows_of_one_id_keep_their_own_ids_whichever_of_them_changes(build, index, found):
    for first in ("word one", "word 1", "word I"):
        build(("x", first), ("x", "word two"), ("x", "word three"))
        assert found(index, "word") == {"x": first, "x~2": "word two", "x~3": "word three"}


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
    (tmp_path / "docs").mkdir()
    for name in ("a.png", "b.txt", "c.txt", "d.txt"):
        (tmp_path / "docs" / name).touch()
    problem = r"(?s)nothing to index in .*docs \(4 skipped\): .*a\.png: unknown kind"
    with pytest.raises(DocumentError, match=problem):
        build_index([tmp_path / "docs"], index / "deep" / "er")
    assert not index.exists()
    with pytest.raises(DocumentError, match="nothing to index in no files at all"):
        build_index([], index)
    index.mkdir()
    with pytest.raises(DocumentError):
        build_index([tmp_path / "docs"], index)
    assert list(index.iterdir()) == []


def test_a_malformed_row_stops_no_other(tmp_path, index):
    source = tmp_path / "rows.jsonl"
    source.write_text('{"id": "a", "text": "new"}\n{"id": 1\n{"id": "b", "text": "two"}\n')
    report = build_index([source], index)
    assert (report.documents, [each.source for each in report.skipped]) == (2, [f"{source}, line 2"])


def interrupt_at(number):
    def interrupt(progress):
        if progress.documents == number:
            raise KeyboardInterrupt

    return interrupt


@pytest.mark.parametrize("is_first", [True, False])
def test_ctrl_c_leaves_everything_as_it_was_and_the_next_build_works(build, index, found, is_first):
    if not is_first:
        build(("a", "word one"))
    before, rows = snapshot(index), [("a", "word 1"), ("b", "word 2"), ("c", "word 3")]
    with pytest.raises(KeyboardInterrupt):
        build(*rows, progress=interrupt_at(2))
    assert snapshot(index) == before
    assert index.exists() is not is_first
    build(*rows)
    assert found(index, "word") == dict(rows)


@pytest.mark.parametrize("is_first", [True, False])
def test_after_ctrl_c_a_build_goes_on_from_its_checkpoint(build, index, found, monkeypatch, is_first):
    if not is_first:
        build(("0", "word old"))
    monkeypatch.setattr(writer, "CHECKPOINT_PASSAGES", 3)
    rows = [(str(number), f"word {number}") for number in range(10)]
    with pytest.raises(KeyboardInterrupt):
        build(*rows, progress=interrupt_at(8))
    if is_first:
        with pytest.raises(BadIndex, match="holds no index"):
            open_index_reader(index)
    else:
        assert found(index, "word") == {"0": "word old"}
    assert build(*rows).outcomes == {"unchanged": 6, "added": 4}
    assert found(index, "word") == dict(rows)
    assert build(*rows).outcomes == {"unchanged": 10}


def test_what_vanished_since_a_checkpoint_is_removed(build, index, found, monkeypatch):
    monkeypatch.setattr(writer, "CHECKPOINT_PASSAGES", 2)
    with pytest.raises(KeyboardInterrupt):
        build(*((str(number), f"word {number}") for number in range(5)), progress=interrupt_at(5))
    build(("1", "word 1"), ("2", "word two"))
    assert found(index, "word") == {"1": "word 1", "2": "word two"}


ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "a~2"]), st.sampled_from(["one", "two", "three"])), min_size=1
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
