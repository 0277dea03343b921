"""Filtered searches find exactly what filtering the ranking of the whole index would find."""

import asyncio
import json
import random

import pytest
from tests.retrieval.vectors import search

from askance.core.errors import DocumentError, FilterError, RetrieverFailure, UnknownName
from askance.core.filters import matches, parse_filter
from askance.core.ports import filtered_retriever
from askance.core.types import Passage
from askance.middleware.cache import CachedRetriever, CacheStore
from askance.models.scripted import ScriptedEncoder
from askance.retrieval.bm25 import open_index
from askance.retrieval.dense import open_dense, open_hybrid
from askance.retrieval.index import lexical
from askance.retrieval.index.build import FilteredRemoval, Removal, build_index, change_documents
from askance.retrieval.index.index_folder import read_manifest
from askance.retrieval.langchain import LangchainRetriever
from askance.retrieval.reranking import RerankedRetriever
from askance.retrieval.scripted import ScriptedRetriever
from askance.text.fusion import fuse_hits

NUM_DOCUMENTS = 300
RANKINGS = {}
"""The whole ranking of each retriever and query."""
WORDS = "river city bridge tower market harbour castle garden".split()
ATOMS = [
    *(f"year {sign} {year}" for sign in ("=", "!=", "<", "<=", ">", ">=") for year in (1995, 2001.5, 2010)),
    "kind = 'common'", "kind = 'rare'", "kind != 'rare'", "kind in ('rare', 'odd')", "kind < 'd'",
    "number >= 290", "number in (3, 5, 7)", "checked = true", "checked != false", "mixed = 1", "mixed = '1'",
    "mixed > 'a'", "title < 'T2'", "year = 3000",
]  # fmt: skip


def row(number, random):
    text = " ".join(random.choices(WORDS, weights=range(1, len(WORDS) + 1), k=random.choice((12, 220))))
    kind = random.choices(("common", "odd", "rare"), (90, 9, 1))[0]
    fields = {"year": 1990 + number % 30, "kind": kind, "number": number, "checked": number % 7 == 0}
    if number % 5 == 0:
        fields["mixed"] = random.choice((1, "1", "b", 2.5))
    if number % 11 == 0:
        del fields["year"]
    return {"id": f"d{number}", "title": f"T{number}", "text": text, **fields}


@pytest.fixture(scope="module")
def rows():
    seeded = random.Random(5)
    return [row(number, seeded) for number in range(NUM_DOCUMENTS)]


@pytest.fixture(scope="module")
def index(rows, tmp_path_factory):
    """An index with vectors that was updated: of the first build, a third was replaced and some removed."""
    folder = tmp_path_factory.mktemp("filtered")
    file = folder / "rows.jsonl"
    for built in ([{**each, "year": 1, "kind": "old"} for each in rows] + rows[:9], rows[:100], rows):
        file.write_text(
            "".join(json.dumps(each) + "\n" for each in {row["id"]: row for row in built}.values())
        )
        build_index([file], folder / "index", encoder=ScriptedEncoder())
    return folder / "index"


def expressions(seed):
    seeded = random.Random(seed)

    def expression(depth):
        shape = seeded.random() if depth else 0
        if shape < 0.4:
            return seeded.choice(ATOMS)
        if shape < 0.55:
            return f"not ({expression(depth - 1)})"
        return f"({expression(depth - 1)}) {seeded.choice(('and', 'or'))} ({expression(depth - 1)})"

    return [*ATOMS, *(expression(3) for _ in range(60))]


def by_brute_force(retriever, rows, query, text, k):
    """Filter the whole ranking of the retriever."""
    key = retriever.name, query
    if key not in RANKINGS:
        RANKINGS[key] = search(retriever, query, 10_000)
    where = parse_filter(text)
    passing = {row["id"] for row in rows if matches(where, row)}
    hits = [hit for hit in RANKINGS[key] if hit.passage.id.partition("#")[0] in passing]
    return [(hit.passage.id, hit.score) for hit in hits[:k]]


def found(retriever, query, k):
    hits = search(retriever, query, k)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    return [(hit.passage.id, hit.score) for hit in hits]


@pytest.mark.parametrize("open_retriever", [open_index, lambda path: open_dense(path, ScriptedEncoder())])
def test_random_filters_find_what_filtering_the_whole_ranking_finds(index, rows, open_retriever):
    retriever, num_partial = open_retriever(index), 0
    for number, text in enumerate(expressions(1)):
        k, query = (1, 5, 40)[number % 3], ("garden river", "castle", "tower tower city")[number % 3]
        expected = by_brute_force(retriever, rows, query, text, k)
        assert found(filtered_retriever(retriever, text), query, k) == expected, text
        num_partial += 0 < len(expected) < k
    assert num_partial


@pytest.mark.parametrize(("share", "values"), [(0.0, 256), (1.1, 256), (1.1, 0), (0.25, 0)])
def test_the_engine_of_a_filter_does_not_change_the_hits(index, rows, monkeypatch, share, values):
    monkeypatch.setattr(lexical, "_MANY_SELECTED", share)
    monkeypatch.setattr(lexical, "_MAX_VALUES", values)
    retriever = open_index(index)
    for text in expressions(2)[:: 1 if share else 2]:
        expected = by_brute_force(retriever, rows, "garden river", text, 5)
        assert found(filtered_retriever(retriever, text), "garden river", 5) == expected, text


def test_a_hybrid_search_fuses_the_filtered_rankings(index):
    hybrid = open_hybrid(index, ScriptedEncoder())
    where = "year >= 2010 and kind = 'odd'"
    hits = [search(filtered_retriever(each, where), "garden", 100) for each in (hybrid.first, hybrid.second)]
    assert search(filtered_retriever(hybrid, where), "garden", 7) == fuse_hits(hits)[:7]


def test_excluded_passages_are_left_out_of_a_filtered_search(index):
    retriever = filtered_retriever(open_index(index), "kind = 'odd'")
    first, *others = search(retriever, "garden river", 4)
    left = search(retriever, "garden river", 3, exclude=frozenset([first.passage.id]))
    assert [hit.passage for hit in left] == [hit.passage for hit in others]


def test_repeated_filters_apply_together(index):
    once = filtered_retriever(open_index(index), "year >= 2010 and kind = 'odd'")
    twice = filtered_retriever(filtered_retriever(open_index(index), "year >= 2010"), "kind = 'odd'")
    assert found(twice, "garden river", 50) == found(once, "garden river", 50) != []


def test_the_name_and_the_fingerprint_contain_the_filter(index):
    for retriever in (open_index(index), open_dense(index, ScriptedEncoder())):
        filtered = filtered_retriever(retriever, "kind='odd'")
        assert filtered.name == f'{retriever.name} where kind = "odd"'
        assert filtered.fingerprint != retriever.fingerprint
        assert filtered.fingerprint != filtered_retriever(retriever, "kind = 'rare'").fingerprint


def test_a_cache_keeps_searches_with_different_filters_apart(index, tmp_path):
    store = CacheStore(tmp_path / "cache.sqlite")
    cached = CachedRetriever(open_index(index), store)
    results = {}
    for _ in range(2):
        for text in ("kind = 'odd'", "kind = 'rare'", "mixed = 1", "mixed = '1'"):
            hits = search(filtered_retriever(cached, text), "garden river", 3)
            assert hits == search(filtered_retriever(open_index(index), text), "garden river", 3)
            results[text] = tuple(hit.passage.id for hit in hits)
    assert len(set(results.values())) == 4
    store.close()


def test_a_cache_keeps_fields_whatever_their_names(tmp_path):
    fields = {"record": "Hit", "array": "AAAA", "pairs": "x", "shape": 3}
    store = CacheStore(tmp_path / "cache.sqlite")
    store.keep(b"1", (Passage("p", "t", "x", fields=fields),))
    assert store.find(b"1") == [Passage("p", "t", "x", fields=fields)]
    store.close()


def test_wrong_filters_are_refused_before_anything_is_searched(index):
    retriever = open_index(index)
    with pytest.raises(UnknownName, match="did you mean 'year'"):
        filtered_retriever(retriever, "yeer = 1")
    with pytest.raises(FilterError, match="its values are numbers"):
        filtered_retriever(retriever, "year = '2000'")


def test_a_retriever_that_can_not_filter_is_refused():
    class Plain:
        name, fingerprint = "plain", ""

    for retriever in (Plain(), LangchainRetriever(None), RerankedRetriever(Plain(), Plain())):
        with pytest.raises(FilterError, match="can't apply the filter year = 1: leave the filter out"):
            filtered_retriever(retriever, "year = 1")


def test_the_scripted_retriever_filters_its_passages():
    passages = [Passage(f"p{year}", "T", "x", source="a.txt", fields={"year": year}) for year in range(9)]
    retriever = filtered_retriever(ScriptedRetriever(passages), "year >= 5 and source = 'a.txt'")
    assert [hit.passage.id for hit in asyncio.run(retriever.search("q", 3))] == ["p5", "p6", "p7"]
    with pytest.raises(UnknownName):
        filtered_retriever(ScriptedRetriever(passages), "month = 5")


def test_properties_of_files_are_fields(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "Note.TXT").write_text("A city.")
    (tmp_path / "docs" / "table.tsv").write_text("id\ttext\tyear\tcode\n1\ta city\t2020\t007\n2\tcity\t\tx\n")
    build_index([tmp_path / "docs"], tmp_path / "index")
    retriever = open_index(tmp_path / "index")
    assert set(retriever.fields) == {"title", "source", "path", "type", "date", "year", "code"}

    def ids(where):
        return {hit.passage.id for hit in search(filtered_retriever(retriever, where), "city")}

    assert ids("type = 'txt' and title = 'Note'") == {"Note.TXT"}
    assert ids(f"path = '{tmp_path.resolve()}/docs/table.tsv'") == {"1", "2"}
    assert ids("year >= 2020") == {"1"}
    assert ids("code = '007'") == {"1"}
    assert ids("date >= '2020-01-01' and date < '3000'") == {"Note.TXT", "1", "2"}


def test_columns_that_can_not_be_fields_are_left_out(tmp_path):
    row = {
        "id": "1",
        "text": "city",
        "list": [1],
        "none": None,
        "blank": " ",
        "long": "x" * 1001,
        "ok": 10**400,
    }
    text = json.dumps(row).replace('"list"', '"nan": NaN, "infinite": Infinity, "list"')
    (tmp_path / "rows.jsonl").write_text(text)
    build_index([tmp_path / "rows.jsonl"], tmp_path / "index")
    assert set(open_index(tmp_path / "index").fields) == {"source", "path", "type", "date"}
    (tmp_path / "half.jsonl").write_text('{"text": "city", "note": "\\ud800"}')
    with pytest.raises(DocumentError, match=r"half\.jsonl, line 1, field note: holds half of a character"):
        build_index([tmp_path / "half.jsonl"], tmp_path / "other")


def test_a_changed_field_replaces_the_document_and_forgets_the_old_value(tmp_path):
    file = tmp_path / "rows.jsonl"
    for year in (2019, "unknown"):
        other = {"id": "2", "text": "city"}
        file.write_text("\n".join(map(json.dumps, [{"id": "1", "text": "city", "year": year}, other])))
        report = build_index([file], tmp_path / "index")
    assert (report.updated, report.unchanged) == (1, 1)
    assert read_manifest(tmp_path / "index").fields["year"] == ("text",)
    retriever = filtered_retriever(open_index(tmp_path / "index"), "year = 'unknown'")
    assert [hit.passage.fields for hit in search(retriever, "city")] == [{"year": "unknown"}]


def test_documents_are_removed_by_id_and_by_filter(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps({"id": f"{n}", "text": "city", "n": n}) for n in range(6)))
    build_index([file], tmp_path / "index", encoder=ScriptedEncoder())
    changes = [Removal("4"), Removal("9"), FilteredRemoval(parse_filter("n < 2"))]
    outcomes = change_documents(tmp_path / "index", changes, encoder=ScriptedEncoder())
    assert outcomes == [("4", "removed"), ("9", "unknown"), ("0", "removed"), ("1", "removed")]
    for retriever in (open_index(tmp_path / "index"), open_dense(tmp_path / "index", ScriptedEncoder())):
        assert {hit.passage.id for hit in search(retriever, "city")} == {"2", "3", "5"}
        assert {hit.passage.id for hit in search(filtered_retriever(retriever, "n >= 3"), "city")} == {
            "3",
            "5",
        }
    with pytest.raises(DocumentError, match="would be empty"):
        change_documents(
            tmp_path / "index", [FilteredRemoval(parse_filter("n >= 0"))], encoder=ScriptedEncoder()
        )


def test_a_table_that_can_not_be_read_is_a_retriever_failure(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("A city.")
    build_index([tmp_path / "a.txt"], tmp_path / "index")
    retriever = filtered_retriever(open_index(tmp_path / "index"), "type = 'txt'")
    monkeypatch.setattr("askance.retrieval.index.field_columns.DocumentTable.values_of", broken)
    with pytest.raises(RetrieverFailure, match="the fields of the index can't be read: bad table"):
        search(retriever, "city")


def broken(*given):
    raise ValueError("bad table")
