"""What every implementation of the port `Collection` promises.

Subclass `CollectionContract` and give it a `new_place` fixture, which returns a function that returns the
places of collections that do not exist yet.
"""

import asyncio
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.retrieval.conftest import matches, rows_file
from tests.retrieval.test_filters import FILTERS
from tests.retrieval.test_updates import WHERE, drawn

from askance.core.errors import BadIndex, DocumentError, IndexBusy
from askance.core.filters import Compound, FieldComparison
from askance.models.scripted import ScriptedEncoder
from askance.retrieval.bm25 import open_index
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.dense import open_dense
from askance.retrieval.filters import parse_filter
from askance.retrieval.index.build import build_index
from askance.retrieval.index.documents import Document
from askance.retrieval.index.passages import Chunking
from askance.retrieval.index.reader import collection_of
from askance.sample import CORPUS

ENCODER = ScriptedEncoder()
TEXTS = {
    "7": "Η θάλασσα είναι 7 μίλια μακριά, vitamin B12 helps.",
    "8": "The ship HMS-8 sailed 1,852 metres in 1912; don't zx it.",
    "9": "長江は中国の川である。",
    "10": "Der Donaudampfschifffahrtskapitän wohnt in Zürich.",
    "11": "Ёж живёт в лесу у реки.",
    "12": f"{'x' * 3000} is a long word, e-mail me@example.org C++ x² ﬁsh",
    "13": "zx zxa zxzx ?!",
    "14": "…",
}
QUERIES = [
    "Where did the scriptwriter of The Third Man die?", "river bridge 1934", "ferry timetable in winter",
    "vitamin B12", "1912", "HMS-8 metres", "θάλασσα", "長江 川", "Kapitän der Donau in Zürich", "ёж",
    "x" * 3000, "river river river bridge", "zx", "zxzx zxa", "me@example.org", "fish x2",
]  # fmt: skip
VALUES = [
    0, 1, -1, 1.5, 2**53, 2**53 + 1, float(2**53), 10**30, 10**30 + 1, 1e30, -0.0, "", "true", "1", "京",
    "\uffff", "\U0001f600", "a\0b", "a\"'`\\", "x" * 1000, "x" * 999, True, False,
]  # fmt: skip
FIELDS = [{"a": value, "b": VALUES[at // 2]} for at, value in enumerate(VALUES)] + [{"b": "京"}, {}]


def upserted(place, *documents, **options):
    """Commit documents to a collection, and return their ids and outcomes."""
    with collection_of(place).writer(analysis=Analysis(), **options) as writer:
        outcomes = [writer.upsert(document) for document in documents]
        writer.commit()
    return outcomes


def ids(place, query, k=1000):
    return [hit.passage.id for hit in asyncio.run(open_index(place).search(query, k))]


class CollectionContract:
    """The promises."""

    @pytest.fixture(scope="class")
    @classmethod
    def written(cls, new_place, tmp_path_factory):
        """A collection, and a folder, of the sample corpus and of texts in many scripts."""
        folder = tmp_path_factory.mktemp("texts")
        rows = rows_file(folder / "rows.jsonl", *TEXTS.items())
        places = new_place(), folder / "index"
        for place in places:
            build_index([CORPUS, rows], place, analysis=Analysis(), encoder=ENCODER)
        return places

    @pytest.fixture(scope="class")
    @classmethod
    def fielded(cls, new_place):
        place = new_place()
        upserted(place, *(Document(f"{at}", "", "a river", fields=each) for at, each in enumerate(FIELDS)))
        return collection_of(place).reader()

    def test_bm25_agrees_with_the_folder_on_the_first_ten(self, written):
        agreed = compared = 0
        for query in QUERIES:
            best, ranked = (asyncio.run(open_index(place).search(query, 1000)) for place in written)
            assert len(best) == len(ranked), query
            worst = ranked[:10][-1:] and ranked[:10][-1].score
            good = {hit.passage.id for hit in ranked if hit.score >= worst}
            agreed += sum(hit.passage.id in good for hit in best[:10])
            compared += len(best[:10])
        assert agreed >= 0.99 * compared > 50

    def test_the_manifests_and_the_nearest_passages_are_those_of_the_folder(self, written):
        manifests = [collection_of(place).manifest() for place in written]
        for name in ("documents", "passages", "content_hash", "scripts", "fields", "encoder", "generation"):
            assert len({str(getattr(manifest, name)) for manifest in manifests}) == 1, name
        assert len({open_index(place).fingerprint for place in written}) == 1
        for query in QUERIES:
            found = [asyncio.run(open_dense(place, ENCODER).search(query, 1)) for place in written]
            assert len({tuple(hit.passage for hit in hits) for hits in found}) == 1

    @settings(suppress_health_check=[HealthCheck.differing_executors])
    @given(where=FILTERS, values=st.lists(st.sampled_from(VALUES), min_size=1, max_size=3))
    def test_a_filter_has_its_documented_meaning(self, fielded, where, values):
        names = FieldComparison("a", "in", tuple(values))
        order = FieldComparison("b", "<=", (values[0],)) if not isinstance(values[0], bool) else names
        for each in (where, names, order, Compound("or", (where, Compound("not", (order,))))):
            expected = {f"{at}" for at, fields in enumerate(FIELDS) if matches(each, fields)}
            assert {entry.id for entry in fielded.documents(where=each)} == expected, each
            hits = asyncio.run(fielded.search_terms(["river"], 1000, where=each))
            assert {hit.passage.id for hit in hits} == expected

    def test_after_any_updates_it_holds_what_a_new_one_would_hold(self, new_place):
        seeded, held, place = random.Random(7), {}, new_place()
        for number in range(8):
            analysis, used = None if number else Analysis(), ENCODER if number > 3 else None
            with collection_of(place).writer(analysis=analysis, encoder=used) as writer:
                for _ in range(seeded.randrange(1, 9)):
                    document = drawn(seeded)
                    id, _ = writer.upsert(document)
                    held[id] = document
                if len(held) > 5:
                    for id in seeded.sample(sorted(held), 2):
                        assert writer.remove(id) == [id]
                        del held[id]
                writer.commit()
        fresh = new_place()
        upserted(fresh, *held.values(), encoder=ENCODER)
        manifests = [collection_of(each).manifest() for each in (place, fresh)]
        for name in ("documents", "passages", "content_hash", "scripts", "fields"):
            assert len({str(getattr(manifest, name)) for manifest in manifests}) == 1, name
        readers = [collection_of(each).reader(ENCODER) for each in (place, fresh)]
        for where in map(parse_filter, WHERE):
            found = [[entry.id for entry in each.documents(where=where)] for each in readers]
            assert found[0] == found[1]
        for id, document in held.items():
            texts = [passage.text for passage in readers[0].passages_of(id).values()]
            assert any(text.startswith(document.text[:5]) for text in texts)
        assert {*ids(place, "river")} == {*ids(fresh, "river")}
        for query in ("a river", "河"):
            near = [asyncio.run(open_dense(each, ENCODER).search(query, 1)) for each in (place, fresh)]
            assert near[0][0].passage == near[1][0].passage

    def test_a_build_adds_updates_moves_and_removes(self, new_place, tmp_path):
        place, rows = new_place(), tmp_path / "rows.jsonl"
        for held, outcomes in (
            ({"a": "a river", "b": "a town"}, {"added": 2}),
            ({"a": "a river", "b": "a city", "c": "a hill"}, {"unchanged": 1, "updated": 1, "added": 1}),
            ({"c": "a hill"}, {"unchanged": 1, "removed": 2}),
        ):
            report = build_index([rows_file(rows, *held.items())], place, chunking=Chunking())
            assert report.outcomes == outcomes
            assert {*ids(place, " ".join(held.values()))} == {*held}
        moved = rows.rename(tmp_path / "moved.jsonl")
        assert build_index([moved], place).outcomes == {"updated": 1}
        assert [entry.path for entry in collection_of(place).reader().documents()] == [str(moved)]
        state = collection_of(place).state()
        assert build_index([moved], place).outcomes == {"unchanged": 1}
        assert collection_of(place).state() == state

    def test_a_second_client_sees_a_commit_and_nothing_before_it(self, new_place):
        place = new_place()
        other = collection_of(place)
        assert other.state() is None
        upserted(place, Document("a", "", "river"))
        first, opened = other.state(), open_index(place)
        with other.writer() as writer:
            writer.upsert(Document("b", "", "river"))
            assert (other.state(), ids(place, "river")) == (first, ["a"])
            writer.commit()
        assert other.state() != first
        assert ids(place, "river") == ["a", "b"]
        assert [hit.passage.id for hit in asyncio.run(opened.search("river", 9))] == ["a"], (
            "it stays as it was"
        )
        assert [entry.id for entry in opened.index.documents()] == ["a"]
        assert opened.index.fetch("b") is None

    def test_what_is_not_committed_is_gone(self, new_place):
        place = new_place()
        with collection_of(place).writer(analysis=Analysis()) as writer:
            writer.upsert(Document("a", "", "river"))
        assert collection_of(place).state() is None
        upserted(place, Document("a", "", "river"))
        with collection_of(place).writer() as writer:
            writer.remove("a")
            with pytest.raises(DocumentError, match="would be empty"):
                writer.commit()
            writer.upsert(Document("b", "", "river"))
        assert ids(place, "river") == ["a"]

    def test_one_process_writes_at_a_time(self, new_place, impatient):
        place = new_place()
        upserted(place, Document("a", "", "river"))
        with collection_of(place).writer() as writer:
            with pytest.raises(IndexBusy, match="being written by another process"):
                upserted(place, Document("b", "", "river"))
            writer.upsert(Document("c", "", "river"))
            writer.commit()
        assert ids(place, "river") == ["a", "c"]

    def test_any_ids_paths_titles_and_long_fields_can_be_stored(self, new_place):
        place, long = new_place(), "ü" * 500
        names = ["a/b", "京", "a'b\"`\\", "%s $1 ?1 main.", long, "\U0001f600", "nul\0"]
        documents = [
            Document(name, name, f"word{at}", name, f"/{name * 6}", fields={name.replace("`", ""): name})
            for at, name in enumerate(names)
        ]
        assert [outcome for _, outcome in upserted(place, *documents)] == ["added"] * len(names)
        assert [outcome for _, outcome in upserted(place, *documents)] == ["unchanged"] * len(names)
        reader = collection_of(place).reader()
        for at, name in enumerate(names):
            assert reader.fetch(name).text == f"word{at}"
            assert reader.fetch(name).fields == {name.replace("`", ""): name}
            assert ids(place, f"word{at}") == [name]
            where = FieldComparison(name.replace("`", ""), "=", (name,))
            assert [entry.number for entry in reader.documents(where=where)] == [at + 1]
            assert reader.fetch(name, where).id == name
            assert reader.fetch(name, Compound("not", (where,))) is None
        listed = [entry.id for entry in reader.documents()]
        assert [entry.id for entry in reader.documents(after=listed[3], limit=2)] == listed[4:6]
        assert [entry.id for entry in reader.documents(prefix="/a'b")] == ["a'b\"`\\"]

    def test_another_analysis_chunking_or_encoder_is_refused(self, new_place):
        place, other = new_place(), ScriptedEncoder(dimensions=8)
        with pytest.raises(BadIndex, match=r"no index|does not exist"):
            open_index(place)
        upserted(place, Document("a", "", "river"))
        with pytest.raises(BadIndex, match="has no vectors"):
            open_dense(place, ENCODER)
        upserted(place, encoder=ENCODER)
        changed = {"analysis": Analysis(language="german")}, {"chunking": Chunking(50)}, {"encoder": other}
        for options in ({"encoder": None}, *changed):
            with pytest.raises(BadIndex, match="was built with"):
                collection_of(place).writer(**{"encoder": ENCODER, **options}).__enter__()
        with pytest.raises(BadIndex, match="was built with"):
            open_dense(place, other)
