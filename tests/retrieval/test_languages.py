"""Terms of texts, and search in other languages and scripts than English."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.retrieval.vectors import search

from askance.core.errors import BadIndex, UnknownName
from askance.core.notes import noted
from askance.core.trace import Noted, Trace
from askance.middleware.cache import CachedRetriever, CacheStore
from askance.middleware.session import Session, SessionRetriever
from askance.retrieval.bm25 import open_index
from askance.retrieval.bm25_analysis import STOP_WORDS, Analysis
from askance.retrieval.index.build import build_index
from askance.retrieval.index.index_folder import read_manifest

GERMAN, TURKISH = {"language": "german"}, {"language": "turkish"}


@pytest.mark.parametrize(
    ("options", "text", "terms"),
    [
        ({}, "The Rhine's rivers, flowing!", "rhine river flow"),
        ({}, "Rhine’s don’t don't 'quoted'", "rhine don't don't quot"),
        ({}, "Neil's o'neil's a's's 's dog's' cat's_tail", "neil o'neil a s dog cat tail"),
        ({}, "snake_case well-known 3.14 x2", "snake case well known 3 14 x2"),
        ({}, "Zürich ÉCOLE naïve Москва Zu\u0308rich \ufb01sh", "zürich école naïv москв zürich fish"),
        ({}, "1902 ١٩٠٢ ۱۹۰۲ १९०२ ๑๙๐๒ １９０２", "1902 1902 1902 1902 1902 1902"),
        ({}, "1902¹ 10⁵ km² H₂O", "1902 1 10 5 km2 h2o"),
        ({}, "AND NEAR +-:[] ... \ud800", "near"),
        ({}, "The rivers are flowing to the cities, and they will not stop.", "river flow citi stop"),
        ({}, " ".join(STOP_WORDS), ""),
        ({}, "東京都", "東 京 都 東京 京都"),
        ({}, "猫 犬", "猫 犬"),
        ({}, "海\n洋", "海 洋 海洋"),
        ({}, "ｶﾞﾗｽ", "ガ ラ ス ガラ ラス"),
        ({}, "BM25检索the rivers", "bm25 检 索 检索 river"),
        ({}, "2024年", "2024 年"),
        ({}, "한강은", "한 강 은 한강 강은"),
        ({}, "हिन्दी", "हिन्दी"),
        ({}, "Dampf\u00adschiff", "dampfschiff"),
        ({}, "أحمد احمد أَحْمَد أحـــمد إحمد", "احمد احمد احمد احمد احمد"),
        ({}, "Zürich Zurich", "zürich zurich"),
        (TURKISH, "IĞDIR Iğdır ığdır ILICA ilica", "ik ik ik ilic ilica"),
        (TURKISH, "İZMİR İzmir izmir İstanbul'da", "izmir izmir izmir istanbul"),
        ({}, "IĞDIR Iğdır İstanbul istanbul", "iğdir iğdir istanbul istanbul"),
        (GERMAN, "x" * 61, "x" * 61),
    ],
)
def test_the_terms_of_a_text(options, text, terms):
    assert Analysis(**options).terms(text) == terms.split()


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("english", "والمكتبة مكتبات", "المكتبه المكتبه"),
        ("french", "l'Été à Besançon", "ete besancon"),
        ("arabic", "the rivers نهر", "river نهر"),
        ("english", "rivers' aren't Bonn's; – “3.14” x_2 猫", "river aren't bonn 3 14 x 2 猫"),
    ],
)
def test_forms_that_have_the_same_terms(language, one, other):
    assert Analysis(language=language).terms(one) == Analysis(language=language).terms(other)


def texts_of_english_characters():
    for start in (*range(0, 0x300, 8), *range(0x2000, 0x2C00, 8)):
        characters = [chr(code) for code in range(start, start + 8)]
        yield " ".join(f"x{each}y {each} rivers{each} the{each}of" for each in characters)
        yield " ".join(f"isn't {each}'s o'{each}x {each}'" for each in characters)


def test_terms_of_english_text_do_not_depend_on_words_in_other_scripts():
    for text in texts_of_english_characters():
        assert Analysis().terms(f"{text} река") == [*Analysis().terms(text), *Analysis().terms("река")]


@given(st.text() | st.lists(st.sampled_from(["River", "the", "Bonn's", "–", "x"])).map(" ".join))
def test_a_text_has_the_terms_of_its_words(text):
    terms = Analysis().terms(text)
    assert " ".join(terms).split() == terms
    for word in text.split():
        assert set(Analysis().terms(word)) <= set(terms)


@pytest.fixture
def index_of(tmp_path, write_rows):
    def build(*texts, **options):
        rows = [(str(number), text) for number, text in enumerate(texts)]
        build_index([write_rows(tmp_path / "rows.jsonl", *rows)], tmp_path / "index", **options)
        return open_index(tmp_path / "index")

    return build


@pytest.mark.parametrize(
    ("options", "query", "text"),
    [
        # Compounds of German are found by their parts.
        (GERMAN, "Schiff", "Auf der Donau fuhren Dampfschiffe."),
        (GERMAN, "Wälder", "Das Tier lebt im Laubwald."),
        (GERMAN, "Versicherung", "Eine Haftpflichtversicherung ist Pflicht."),
        (GERMAN, "Autobahngebühr", "Die Gebühren auf der Autobahn."),
        (GERMAN, "Strasse", "Eine Straße am Ufer."),
        # A question in another script needs no option.
        ({}, "海洋里有什么哺乳动物？", "鲸鱼是生活在海洋里的哺乳动物。"),
        ({}, "大豆と塩で何を作りますか。", "大豆に塩と麹を加えて発酵させる。"),
        ({}, "바다에서 사는 동물은 무엇입니까?", "고래는 바다에 사는 포유류이다."),
        ({}, "ماذا يقدم العربي للضيف؟", "يقدم العرب القهوة للضيوف."),
        ({}, "สัตว์ในทะเล", "ปลาวาฬเป็นสัตว์เลี้ยงลูกด้วยนมในทะเล"),
        ({}, "हिमालय से क्या निकलता है?", "गंगा हिमालय से निकलती है।"),
    ],
)
def test_a_question_finds_its_text(index_of, options, query, text):
    others = "Ein Stein fiel ins Meer.", "绿茶不发酵。", "春に咲く花である。", "배추를 절인다.", "أطول أنهار"
    retriever = index_of(text, *others, "กำแพงเมืองจีน", "मोर पक्षी है।", analysis=Analysis(**options))
    assert search(retriever, query, 1)[0].passage.text == text


SENTENCES = {
    "Der Fluss ist lang und die Stadt an dem Ufer ist eine der schönsten, die es in dem Land gibt.": "german",
    "The river is long and the town on the bank is one of the oldest that there are here.": "english",
    "Bu şehir çok eski bir şehir ve nehir için de önemli olan bir yer, "
    "ama ne kadar eski, kim bilir ki.": "turkish",
    "Ufer Stadt Fluss": "english",
}


@pytest.mark.parametrize(("text", "language"), SENTENCES.items())
def test_the_language_of_a_new_index_is_detected_and_kept(index_of, text, language):
    assert index_of(text).index.manifest.analysis == Analysis(language=language)
    assert index_of(text, *[list(SENTENCES)[1]] * 2).index.manifest.analysis.language == language
    other = Analysis(language="dutch")
    with pytest.raises(BadIndex, match=f"language='{language}'.*not with.*language='dutch'.*another folder"):
        index_of(text, analysis=other)


def test_an_unknown_language_is_named_with_the_known_ones():
    with pytest.raises(UnknownName, match=r"unknown language 'germann': did you mean 'german'\?.*turkish"):
        Analysis(language="germann")


def notes_of(retriever, query):
    notes = []
    with noted(lambda name, text: notes.append((name, text))):
        search(retriever, query, 1)
    return notes


def test_a_question_in_a_script_that_the_index_lacks_is_noted_also_from_a_cache_and_traced_once(
    index_of, tmp_path
):
    retriever, query = index_of("the river", "the town"), "哪条河？"
    ((name, text),) = notes_of(retriever, query)
    assert name == "script"
    assert "Chinese (Han) in 0 of 2 passages" in text
    assert "mostly in Latin script" in text
    store = CacheStore(tmp_path / "cache.sqlite")
    cached = CachedRetriever(retriever, store)
    assert notes_of(cached, query) == notes_of(cached, query) == [(name, text)]
    for each in (retriever, cached, cached):
        assert notes_of(each, "Which river?") == []
    store.close()
    trace = Trace()
    session = SessionRetriever(retriever, Session(trace))
    for each in (query, "河"):
        asyncio.run(session.search(each, 1))
    assert [event.name for event in trace.events if isinstance(event, Noted)] == ["script"]


def test_the_manifest_counts_scripts_and_follows_changes(index_of):
    assert index_of("the river", "the 长江 river").index.manifest.scripts == {"Latin": 2, "Chinese (Han)": 1}
    retriever = index_of("the river", "река")
    assert read_manifest(retriever.index.place).scripts == {"Latin": 1, "Cyrillic": 1}


def test_the_command_line_takes_a_language_and_warns_about_scripts(run, tmp_path, write_rows):
    source, folder = write_rows(tmp_path / "rows.jsonl", ("a", "Dampfschiffe")), tmp_path / "index"
    assert run("index", source, "--out", folder, "--language", "german")[0] == 0
    code, out, err = run("search", "Schiff 船", "--index", folder)
    assert (code, "Dampfschiffe" in out) == (0, True)
    assert "Chinese (Han) in 0 of 1 passages" in " ".join(err.split())


def test_text_without_spaces_is_cut_into_passages(index_of):
    hits = search(index_of("鲸鱼生活在海洋里。" * 200), "海洋", 50)
    assert len(hits) > 5
    assert max(len(hit.passage.text) for hit in hits) <= 250
