"""Filtered searches find exactly what filtering the ranking of the whole index would find."""

import json
import random
import sqlite3
from functools import cache

import pytest
from tests.retrieval.conftest import matches, rows_file
from tests.retrieval.vectors import search

from askance.core.errors import DocumentError, FilterError, RetrieverFailure, UnknownName
from askance.core.types import Passage
from askance.middleware.cache import CachedRetriever, CacheStore
from askance.models.scripted import ScriptedEncoder
from askance.retrieval.bm25 import open_index
from askance.retrieval.dense import CONSTANT, open_dense, open_hybrid
from askance.retrieval.filters import filtered_retriever, parse_filter
from askance.retrieval.index import lexical
from askance.retrieval.index.build import build_index
from askance.retrieval.index.document_table import DocumentTable
from askance.retrieval.index.index_folder import read_manifest
from askance.retrieval.index.writer import open_writer
from askance.retrieval.langchain import LangchainRetriever
from askance.retrieval.reranking import RerankedRetriever
from askance.text.fusion import fuse_hits

ENCODER = ScriptedEncoder()
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


SEEDED = random.Random(5)
ROWS = [row(number, SEEDED) for number in range(300)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """An index with vectors that was updated: of the first build, a third was replaced and some removed."""
    folder = tmp_path_factory.mktemp("filtered")
    for built in ([{**each, "year": 1, "kind": "old"} for each in ROWS], ROWS[:100], ROWS):
        build_index([rows_file(folder / "rows.jsonl", *built)], folder / "index", encoder=ENCODER)
    return folder / "index"


@pytest.fixture(scope="module", params=["bm25", "dense"])
def retriever(request, filled):
    return open_index(filled) if request.param == "bm25" else open_dense(filled, ENCODER)


def expressions(seeded):
    def expression(depth):
        shape = seeded.random() if depth else 0
        if shape < 0.4:
            return seeded.choice(ATOMS)
        if shape < 0.55:
            return f"not ({expression(depth - 1)})"
        return f"({expression(depth - 1)}) {seeded.choice(('and', 'or'))} ({expression(depth - 1)})"

    return [*ATOMS, *(expression(3) for _ in range(40))]


@cache
def ranking(retriever, query):
    return search(retriever, query, 10_000)


def found(retriever, query, k=50):
    hits = search(retriever, query, k)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    return [(hit.passage.id, hit.score) for hit in hits]


@pytest.mark.parametrize("num_hits", [None, -(10**9), 0, 10**9])
def test_random_filters_find_what_filtering_the_whole_ranking_finds(retriever, monkeypatch, num_hits):
    """Neither engine, by which few or many documents are filtered, changes a hit."""
    if num_hits is not None:
        monkeypatch.setattr(lexical, "_MIN_HITS_FILTERED", num_hits)
    queries, sizes, is_partial = ("garden river", "castle", "tower tower city"), (1, 5, 40), False
    for number, text in enumerate(expressions(random.Random(1 if num_hits is None else 2))):
        query, k, where = queries[number % 3], sizes[number % 3], parse_filter(text)
        passing = {row["id"] for row in ROWS if matches(where, row)}
        hits = [hit for hit in ranking(retriever, query) if hit.passage.id.partition("#")[0] in passing]
        expected = [(hit.passage.id, hit.score) for hit in hits[:k]]
        assert found(filtered_retriever(retriever, text), query, k) == expected, text
        is_partial |= 0 < len(expected) < k
    assert is_partial, "some filters leave fewer than k"


def test_a_hybrid_search_fuses_the_filtered_rankings(filled):
    hybrid, where = open_hybrid(filled, ENCODER), "year >= 2010 and kind = 'odd'"
    hits = [search(filtered_retriever(each, where), "garden", 100) for each in (hybrid.first, hybrid.second)]
    assert search(filtered_retriever(hybrid, where), "garden", 7) == fuse_hits(hits, CONSTANT)[:7]


def test_excluded_passages_are_left_out_and_repeated_filters_apply_together(retriever):
    filtered = filtered_retriever(retriever, "year >= 2010 and kind = 'odd'")
    first, *others = search(filtered, "garden river", 4)
    rest = search(filtered, "garden river", 3, exclude=frozenset([first.passage.id]))
    assert [hit.passage for hit in rest] == [hit.passage for hit in others]
    twice = filtered_retriever(filtered_retriever(retriever, "year >= 2010"), "kind = 'odd'")
    assert found(twice, "garden river") == found(filtered, "garden river") != []


def test_names_fingerprints_and_caches_tell_filters_apart(retriever, tmp_path):
    texts = ('kind = "odd"', 'kind = "rare"', "mixed = 1", 'mixed = "1"', "mixed = 1 or year > 0")
    filtered = [filtered_retriever(retriever, text) for text in texts]
    assert [each.name for each in filtered] == [f"{retriever.name} where {text}" for text in texts]
    assert len({retriever.fingerprint, *(each.fingerprint for each in filtered)}) == 6
    expected = [found(each, "garden river", 3) for each in filtered]
    store = CacheStore(tmp_path / "cache.sqlite")
    cached = [filtered_retriever(CachedRetriever(retriever, store), text) for text in texts]
    assert [found(each, "garden river", 3) for each in cached * 2] == expected * 2
    passage = Passage("p", "t", "x", fields={"record": "Hit", "array": "AAAA", "pairs": "x", "shape": 3})
    store.keep(b"1", (passage,))
    assert store.find(b"1") == [passage], "a field may have any name"
    store.close()


def test_wrong_filters_and_retrievers_that_can_not_filter_are_refused(filled):
    class Plain:
        name, fingerprint = "plain", ""

    can_not = r"can't apply the filter year = 1: leave the filter out"
    for opened, text, exception, problem in (
        (open_index(filled), "yeer = 1", UnknownName, "did you mean 'year'"),
        (open_index(filled), "year = '2000'", FilterError, "its values are numbers"),
        (Plain(), "year = 1", FilterError, can_not),
        (LangchainRetriever(None), "year = 1", FilterError, can_not),
        (RerankedRetriever(Plain(), Plain()), "year = 1", FilterError, can_not),
    ):
        with pytest.raises(exception, match=problem):
            filtered_retriever(opened, text)


def test_properties_of_files_and_columns_are_fields_if_they_can_be(tmp_path, index):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "Note.TXT").write_text("A city.")
    (docs / "table.tsv").write_text("id\ttext\tyear\tcode\n1\ta city\t2020\t007\n2\tcity\t\tx\n")
    left_out = {"list": [1], "none": None, "blank": " ", "long": "x" * 1001, "ok": 10**400}
    text = json.dumps({"id": "3", "text": "city", **left_out})
    (docs / "a.jsonl").write_text(text.replace('"list"', '"nan": NaN, "infinite": Infinity, "list"'))
    build_index([docs], index)
    opened = open_index(index)
    assert set(opened.fields) == {"title", "source", "path", "type", "date", "year", "code"}
    for text, ids in (
        ("type = 'txt' and title = 'Note'", {"Note.TXT"}),
        (f"path = '{docs.resolve()}/table.tsv'", {"1", "2"}),
        ("year >= 2020", {"1"}),
        ("code = '007'", {"1"}),
        ("date >= '2020-01-01' and date < '3000'", {"Note.TXT", "1", "2", "3"}),
    ):
        assert {id for id, _ in found(filtered_retriever(opened, text), "city")} == ids
    (tmp_path / "half.jsonl").write_text('{"text": "city", "note": "\\ud800"}')
    with pytest.raises(DocumentError, match=r"half\.jsonl, line 1, field note: holds half of a character"):
        build_index([tmp_path / "half.jsonl"], tmp_path / "other")


def test_large_numbers_are_compared_exactly_and_a_changed_field_forgets_its_value(build, index):
    for value in (2**70 + 1, "unknown"):
        report = build({"id": "1", "text": "city", "n": value}, {"id": "2", "text": "city"})
        hits = search(filtered_retriever(open_index(index), f"n = {json.dumps(value)}"), "city")
        assert [hit.passage.fields for hit in hits] == [{"n": value}]
        if value != "unknown":
            assert not search(filtered_retriever(open_index(index), f"n = {value - 1}"), "city")
    assert report.outcomes == {"updated": 1, "unchanged": 1}
    assert read_manifest(index).fields["n"] == ("text",)


def test_documents_are_removed_by_id_and_by_filter(build, index):
    build(*({"id": f"{n}", "text": "city", "n": n} for n in range(6)), encoder=ENCODER)
    with open_writer(index, encoder=ENCODER) as writer:
        assert [writer.remove("4"), writer.remove("9")] == [["4"], []]
        assert writer.remove("2", where=parse_filter("n = 3")) == []
        assert writer.remove(where=parse_filter("n < 2")) == ["0", "1"]
        writer.commit()
    for opened in (open_index(index), open_dense(index, ENCODER)):
        assert {id for id, _ in found(opened, "city")} == {"2", "3", "5"}
        assert {id for id, _ in found(filtered_retriever(opened, "n >= 3"), "city")} == {"3", "5"}
    with open_writer(index, encoder=ENCODER) as writer:
        writer.remove(where=parse_filter("n >= 0"))
        with pytest.raises(DocumentError, match="would be empty"):
            writer.commit()


def test_a_table_that_can_not_be_read_is_a_retriever_failure(filled, monkeypatch):
    def broken(*given):
        raise sqlite3.DatabaseError("bad table")

    filtered = filtered_retriever(open_index(filled), "type = 'jsonl'")
    monkeypatch.setattr(DocumentTable, "select", broken)
    with pytest.raises(RetrieverFailure, match="could not be searched for 'city': bad table"):
        search(filtered, "city")
