import json
import tracemalloc
from pathlib import Path

import pytest

from askance.core.errors import DocumentError
from askance.retrieval.index.documents import HIDDEN, Document, SkippedSource, read_documents


def read(*paths, **options):
    found = list(read_documents(paths, **options))
    documents = [each for each in found if isinstance(each, Document)]
    return documents, {
        Path(each.source).name: each.reason for each in found if isinstance(each, SkippedSource)
    }


def test_a_folder_is_read_in_order_without_hidden_files(tmp_path):
    for name in ("b.txt", "a.md", "sub/c.txt", "sub/.hidden.txt", ".git/d.txt", "Z.TXT"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"# Title of {name}\n")
    documents, skipped = read(tmp_path)
    assert [(each.id, each.title) for each in documents] == [
        ("Z.TXT", "Z"),
        ("a.md", "Title of a.md"),
        ("b.txt", "b"),
        ("sub/c.txt", "c"),
    ]
    assert documents[3].source == str(tmp_path / "sub/c.txt")
    assert skipped == {".git": HIDDEN, ".hidden.txt": HIDDEN}


def test_rows_become_documents(tmp_path):
    rows = [{"id": "7", "title": "T", "text": "one"}, {"text": "two"}, {"text": " "}]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    found = list(read_documents([path]))
    place = str(path.resolve())
    assert found == [
        Document("7", "T", "one", str(path), place, is_row=True),
        Document("rows.jsonl:2", "", "two", str(path), place, is_row=True),
        SkippedSource(f"{path}, line 3", "the row has no text"),
    ]


def test_long_titles_and_sections_are_cut(tmp_path):
    (tmp_path / "a.md").write_text("# " + "x" * 1_001 + "\n\nSome text.\n")
    (document,), _ = read(tmp_path)
    assert document.title == document.marks[0].section == "x" * 1_000
    assert "x" * 1_001 in document.text


@pytest.fixture
def linked(tmp_path):
    """Return a folder with links to a file inside it and to one outside."""
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "a.txt").write_text("inside")
    (folder / "inner.txt").symlink_to(folder / "a.txt")
    (folder / "sub" / "out.txt").symlink_to("../../secret.txt")
    (folder / "out.jsonl").symlink_to(folder / "sub" / "out.txt")
    (folder / "round.txt").symlink_to("round.txt")
    return folder


def test_a_link_out_of_a_folder_is_followed_on_request_only(linked):
    documents, skipped = read(linked)
    assert [each.text for each in documents] == ["inside", "inside"]
    reason = "a link to a file outside; --follow-links reads it"
    assert (skipped["out.txt"], skipped["out.jsonl"]) == (reason, reason)
    assert "Too many levels of symbolic links" in skipped["round.txt"]
    (linked / "out.jsonl").unlink()
    documents, skipped = read(linked, follow_links=True)
    assert [(each.id, each.text) for each in documents] == [
        ("a.txt", "inside"), ("inner.txt", "inside"), ("sub/out.txt", "secret")
    ]  # fmt: skip
    assert set(skipped) == {"round.txt"}


def test_links_that_are_given_are_read(linked, tmp_path):
    (tmp_path / "other").symlink_to(linked)
    assert [each.text for each in read(linked / "sub" / "out.txt")[0]] == ["secret"]
    assert [each.text for each in read(tmp_path / "other")[0]] == ["inside", "inside"]


def test_a_path_that_does_not_exist_is_an_error_at_once(tmp_path):
    with pytest.raises(DocumentError, match=r"no file or folder .*nowhere\.txt"):
        read_documents([tmp_path / "nowhere.txt"])


def test_a_file_reached_twice_is_read_once_and_the_index_itself_never(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "b.txt").write_text("b")
    documents, _ = read(tmp_path, tmp_path / "a.txt", tmp_path / "." / "a.txt", leave_out=tmp_path / "index")
    assert [each.id for each in documents] == ["a.txt"]


def test_the_place_is_the_same_however_a_file_is_given(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("a")
    monkeypatch.chdir(tmp_path)
    paths = {read(Path(given))[0][0].path for given in ("a.txt", "./a.txt", str(tmp_path), ".")}
    assert paths == {str(tmp_path.resolve() / "a.txt")}
    assert read(Path("a.txt"))[0][0].source == "a.txt"


def test_reading_many_rows_takes_bounded_memory(tmp_path):
    with (tmp_path / "rows.jsonl").open("w") as file:
        file.writelines(json.dumps({"text": f"{number} " * 500}) + "\n" for number in range(3_000))
    tracemalloc.start()
    assert sum(1 for _ in read_documents([tmp_path])) == 3_000
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 6_000_000


def test_one_name_in_two_unicode_forms(tmp_path):
    """Both files are read, under the id in the composed form, and either form of the name finds a file."""
    composed, decomposed = "Z\u00fcrich.txt", "Zu\u0308rich.txt"
    (tmp_path / decomposed).write_text("one")
    assert [each.text for each in read(tmp_path / composed)[0]] == ["one"]
    (tmp_path / composed).write_text("two")
    documents, _ = read(tmp_path)
    assert [(each.id, each.text) for each in documents] == [(composed, "one"), (composed, "two")]
    assert documents[0].path != documents[1].path
