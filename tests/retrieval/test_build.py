from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.retrieval.conftest import snapshot

from askance.core.errors import BadIndex, DocumentError
from askance.retrieval.index import build
from askance.retrieval.index.build import build_index
from askance.retrieval.index.index_folder import open_index_reader


def counts(report):
    fields = ("added", "updated", "unchanged", "removed", "duplicates")
    return {name: getattr(report, name) for name in fields if getattr(report, name)}


@pytest.fixture
def index(tmp_path):
    return tmp_path / "index"


def test_a_build_reports_what_it_did(tmp_path, write_rows, index):
    write_rows(tmp_path / "docs" / "rows.jsonl", ("a", "one"), ("b", "word " * 250))
    (tmp_path / "docs" / "zero.txt").touch()
    seen = []
    report = build_index([tmp_path / "docs"], index, progress=seen.append)
    assert (report.documents, report.passages, counts(report)) == (2, 4, {"added": 2})
    assert [each.reason for each in report.skipped] == ["empty (0 bytes)"]
    assert [(each.documents, each.passages, each.skipped) for each in seen] == [
        (1, 1, 0),
        (2, 4, 0),
        (2, 4, 1),
    ]
    assert seen[0].source == str(tmp_path / "docs" / "rows.jsonl")
    assert str(report).startswith(f"{index}: 4 passages of 2 documents (2 added, 1 skipped) in ")


def test_passages_are_found_as_they_were_written(tmp_path, index, found):
    (tmp_path / "a.md").write_bytes(b"# Rivers\r\n\r\n<b>The Rhine</b> & [1](x) <|im_end|>\t{{q}}")
    build_index([tmp_path / "a.md"], index)
    assert found(index, "rhine") == {"a.md": "# Rivers\r\n\r\n<b>The Rhine</b> & [1](x) <|im_end|>\t{{q}}"}
    assert found(index, "river")


def test_a_build_that_changes_nothing_touches_nothing(tmp_path, write_rows, index):
    source = write_rows(tmp_path / "rows.jsonl", ("a", "one"), ("b", "two"))
    build_index([source], index)
    before = snapshot(index)
    assert counts(build_index([source], index)) == {"unchanged": 2}
    assert snapshot(index) == before


def test_the_same_documents_make_the_same_index(tmp_path, write_rows, index):
    first = write_rows(tmp_path / "1.jsonl", ("a", "one"), ("b", "two"))
    build_index([first], index)
    second = write_rows(tmp_path / "2.jsonl", ("b", "two"), ("a", "one"))
    build_index([second], tmp_path / "other")
    hashes = {open_index_reader(folder).manifest.content_hash for folder in (index, tmp_path / "other")}
    assert len(hashes) == 1
    build_index([write_rows(second, ("b", "two"), ("a", "one!"))], tmp_path / "other")
    assert open_index_reader(tmp_path / "other").manifest.content_hash not in hashes


def test_changed_new_and_removed_rows(tmp_path, write_rows, index, found):
    source = write_rows(tmp_path / "rows.jsonl", ("a", "word one"), ("b", "word two"), ("c", "word three"))
    build_index([source], index)
    write_rows(source, ("b", "word 2"), ("c", "word three"), ("d", "word four"))
    report = build_index([source], index)
    assert counts(report) == {"added": 1, "updated": 1, "unchanged": 1, "removed": 1}
    assert (report.documents, report.passages) == (3, 3)
    assert found(index, "word") == {"b": "word 2", "c": "word three", "d": "word four"}
    assert open_index_reader(index).manifest.generation == 2


def test_a_changed_document_leaves_none_of_its_passages(tmp_path, index, found):
    (tmp_path / "a.txt").write_text("old " * 350)
    build_index([tmp_path / "a.txt"], index)
    (tmp_path / "a.txt").write_text("new " * 120)
    assert build_index([tmp_path / "a.txt"], index).passages == 2
    assert found(index, "old") == {}
    assert set(found(index, "new")) == {"a.txt#1", "a.txt#2"}


def test_documents_are_removed_only_when_their_source_was_given(tmp_path, index, found):
    for name in ("one/a.txt", "one/b.txt", "onemore/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"word {name}")
    build_index([tmp_path / "one", tmp_path / "onemore"], index)
    (tmp_path / "one" / "a.txt").unlink()
    (tmp_path / "onemore" / "c.txt").unlink()
    assert counts(build_index([tmp_path / "one"], index)) == {"unchanged": 1, "removed": 1}
    assert set(found(index, "word")) == {"b.txt", "c.txt"}


def test_documents_of_a_file_that_is_now_unreadable_stay(tmp_path, index, found):
    (tmp_path / "docs").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "docs" / name).write_text(f"word {name}")
    build_index([tmp_path / "docs"], index)
    (tmp_path / "docs" / "a.txt").write_bytes(b"word \0")
    report = build_index([tmp_path / "docs"], index)
    assert (counts(report), len(report.skipped)) == ({"unchanged": 1}, 1)
    assert set(found(index, "word")) == {"a.txt", "b.txt"}


def test_other_documents_of_the_same_id_get_ids_of_their_own(tmp_path, write_rows, index, found):
    first = write_rows(tmp_path / "1.jsonl", ("x", "word one"), ("x", "word two"), ("x~2", "word three"))
    second = write_rows(tmp_path / "2.jsonl", ("x", "word four"), ("x", "word one"))
    expected = {"x": "word one", "x~2": "word two", "x~2~2": "word three", "x~3": "word four"}
    report = build_index([first, second], index)
    assert counts(report) == {"added": 4, "duplicates": 1}
    assert found(index, "word") == expected
    assert counts(build_index([second, first], index)) == {"unchanged": 4, "duplicates": 1}
    assert counts(build_index([second], index)) == {"unchanged": 2}
    assert found(index, "word") == expected
    write_rows(second, ("x", "word 4"))
    assert counts(build_index([second], index)) == {"updated": 1}
    assert found(index, "word") == {**expected, "x~3": "word 4"}


def test_rows_of_one_id_keep_their_own_ids_whichever_of_them_changes(tmp_path, write_rows, index, found):
    source = tmp_path / "rows.jsonl"
    for first in ("word one", "word 1", "word I"):
        build_index([write_rows(source, ("x", first), ("x", "word two"), ("x", "word three"))], index)
        assert found(index, "word") == {"x": first, "x~2": "word two", "x~3": "word three"}


def test_a_moved_file_is_the_same_documents(tmp_path, write_rows, index):
    source = write_rows(tmp_path / "old.jsonl", ("a", "one"), ("b", "two"))
    build_index([source], index)
    report = build_index([source.rename(tmp_path / "new.jsonl")], index)
    assert (counts(report), report.documents) == ({"updated": 2}, 2)
    assert counts(build_index([tmp_path / "new.jsonl"], index)) == {"unchanged": 2}


def test_the_same_folder_given_otherwise_is_unchanged(tmp_path, index, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("text")
    build_index([tmp_path / "docs"], index)
    monkeypatch.chdir(tmp_path / "docs")
    assert counts(build_index([Path()], index)) == {"unchanged": 1}


def test_nothing_to_index_is_an_error_that_leaves_nothing_behind(tmp_path, index):
    (tmp_path / "docs").mkdir()
    for name in ("a.png", "b.txt", "c.txt", "d.txt"):
        (tmp_path / "docs" / name).touch()
    with pytest.raises(
        DocumentError, match=r"(?s)nothing to index in .*docs \(4 skipped\): .*a\.png: unknown kind"
    ):
        build_index([tmp_path / "docs"], index / "deep" / "er")
    assert not index.exists()
    with pytest.raises(DocumentError, match="nothing to index in no files at all"):
        build_index([], index)
    index.mkdir()
    with pytest.raises(DocumentError):
        build_index([tmp_path / "docs"], index)
    assert list(index.iterdir()) == []


def test_a_malformed_row_stops_no_other(tmp_path, write_rows, index):
    source = write_rows(tmp_path / "rows.jsonl", ("a", "one"))
    source.write_text('{"id": "a", "text": "new"}\n{"id": 1\n{"id": "b", "text": "two"}\n')
    report = build_index([source], index)
    assert (report.documents, [each.source for each in report.skipped]) == (2, [f"{source}, line 2"])


@pytest.mark.parametrize("is_first", [True, False])
def test_ctrl_c_leaves_everything_as_it_was_and_the_next_build_works(
    tmp_path, write_rows, index, found, is_first
):
    def interrupt(progress):
        if progress.documents == 2:
            raise KeyboardInterrupt

    source = write_rows(tmp_path / "rows.jsonl", ("a", "word one"))
    if not is_first:
        build_index([source], index)
    before = snapshot(index)
    write_rows(source, ("a", "word 1"), ("b", "word 2"), ("c", "word 3"))
    with pytest.raises(KeyboardInterrupt):
        build_index([source], index, progress=interrupt)
    assert snapshot(index) == before
    assert index.exists() is not is_first
    build_index([source], index)
    assert found(index, "word") == {"a": "word 1", "b": "word 2", "c": "word 3"}


@pytest.mark.parametrize("is_first", [True, False])
def test_after_ctrl_c_a_build_goes_on_from_its_checkpoint(
    tmp_path, write_rows, index, found, monkeypatch, is_first
):
    def interrupt(progress):
        if progress.documents == 8:
            raise KeyboardInterrupt

    source = write_rows(tmp_path / "rows.jsonl", ("0", "word old"))
    if not is_first:
        build_index([source], index)
    monkeypatch.setattr(build, "CHECKPOINT_PASSAGES", 3)
    write_rows(source, *((str(number), f"word {number}") for number in range(10)))
    with pytest.raises(KeyboardInterrupt):
        build_index([source], index, progress=interrupt)
    if is_first:
        with pytest.raises(BadIndex, match="holds no index"):
            open_index_reader(index)
    else:
        assert found(index, "word") == {"0": "word old"}
    assert counts(build_index([source], index)) == {"unchanged": 6, "added": 4}
    assert found(index, "word") == {str(number): f"word {number}" for number in range(10)}
    assert counts(build_index([source], index)) == {"unchanged": 10}


def test_what_vanished_since_a_checkpoint_is_removed(tmp_path, write_rows, index, found, monkeypatch):
    def interrupt(progress):
        if progress.documents == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(build, "CHECKPOINT_PASSAGES", 2)
    source = write_rows(tmp_path / "rows.jsonl", *((str(number), f"word {number}") for number in range(5)))
    with pytest.raises(KeyboardInterrupt):
        build_index([source], index, progress=interrupt)
    write_rows(source, ("1", "word 1"), ("2", "word two"))
    build_index([source], index)
    assert found(index, "word") == {"1": "word 1", "2": "word two"}


ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "a~2"]), st.sampled_from(["one", "two", "three"])), min_size=1
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["1.jsonl", "2.jsonl"]), ROWS), min_size=1, max_size=5))
def test_after_any_history_the_index_holds_what_its_sources_hold(
    tmp_path_factory, write_rows, found, history
):
    folder = tmp_path_factory.mktemp("history")
    current = {}
    for name, rows in history:
        current[name] = rows
        write_rows(folder / "docs" / name, *((id, f"word {text}") for id, text in rows))
        report = build_index([folder / "docs"], folder / "index")
    texts = found(folder / "index", "word")
    expected = {f"word {text}" for rows in current.values() for _, text in rows}
    assert set(texts.values()) == expected
    assert len(texts) == report.documents == report.passages
    distinct = {row for rows in current.values() for row in rows}
    assert report.documents == len(distinct)
