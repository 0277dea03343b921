"""Documents of files and folders: which are read, under which ids, and which are skipped for what reason."""

import json
import tracemalloc
from pathlib import Path

import pytest

from askance.core.errors import DocumentError
from askance.retrieval.index.documents import HIDDEN, Document, SkippedSource, read_documents


def read(*paths, **options):
    """Return the documents of some paths, and the reasons of what is skipped by its name."""
    found = list(read_documents(paths, **options))
    skipped = {Path(each.source).name: each.reason for each in found if isinstance(each, SkippedSource)}
    return [each for each in found if isinstance(each, Document)], skipped


def test_a_folder_is_read_in_order_without_hidden_files_and_each_file_once(tmp_path, monkeypatch):
    docs = tmp_path / "docs"
    for name in ("b.txt", "a.md", "sub/c.txt", "sub/.hidden.txt", ".git/d.txt", "Z.TXT", "index/e.txt"):
        (docs / name).parent.mkdir(exist_ok=True, parents=True)
        (docs / name).write_text(f"# Title of {name}\n")
    documents, skipped = read(docs, docs / "b.txt", docs / "." / "b.txt", leave_out=docs / "index")
    names = [("Z.TXT", "Z"), ("a.md", "Title of a.md"), ("b.txt", "b"), ("sub/c.txt", "c")]
    assert [(each.id, each.title) for each in documents] == names
    assert documents[3].source == str(docs / "sub/c.txt")
    assert skipped == {".git": HIDDEN, ".hidden.txt": HIDDEN}
    monkeypatch.chdir(docs)
    paths = {read(Path(given))[0][-1].path for given in ("b.txt", "./b.txt", str(docs / "b.txt"))}
    assert paths == {str(docs.resolve() / "b.txt")}, "the place is the same however a file is given"
    assert read(Path("b.txt"))[0][0].source == "b.txt"


def test_rows_become_documents(tmp_path):
    rows = [{"id": "7", "title": "T", "text": "one"}, {"text": "two"}, {"text": " "}]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    place = str(path.resolve())
    assert list(read_documents([path])) == [
        Document("7", "T", "one", str(path), place, is_row=True),
        Document("rows.jsonl:2", "", "two", str(path), place, is_row=True),
        SkippedSource(f"{path}, line 3", "the row has no text"),
    ]


def test_long_titles_and_sections_are_cut(tmp_path):
    (tmp_path / "a.md").write_text("# " + "x" * 1_001 + "\n\nSome text.\n")
    (document,), _ = read(tmp_path)
    assert document.title == document.marks[0].section == "x" * 1_000
    assert "x" * 1_001 in document.text


def test_a_link_out_of_a_folder_is_followed_on_request_only(tmp_path):
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "a.txt").write_text("inside")
    (folder / "inner.txt").symlink_to(folder / "a.txt")
    (folder / "sub" / "out.txt").symlink_to("../../secret.txt")
    (folder / "round.txt").symlink_to("round.txt")
    (tmp_path / "other").symlink_to(folder)
    for place in (folder, tmp_path / "other"):
        documents, skipped = read(place)
        assert [each.text for each in documents] == ["inside", "inside"]
        assert skipped["out.txt"] == "a link to a file outside; --follow-links reads it"
        assert "Too many levels of symbolic links" in skipped["round.txt"]
    documents, skipped = read(folder, follow_links=True)
    ids = [("a.txt", "inside"), ("inner.txt", "inside"), ("sub/out.txt", "secret")]
    assert [(each.id, each.text) for each in documents] == ids
    assert set(skipped) == {"round.txt"}
    assert [each.text for each in read(folder / "sub" / "out.txt")[0]] == ["secret"], "it was given"


def test_a_path_that_does_not_exist_is_an_error_at_once(tmp_path):
    with pytest.raises(DocumentError, match=r"no file or folder .*nowhere\.txt"):
        read_documents([tmp_path / "nowhere.txt"])


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
