"""Search in other languages and scripts than English."""

import asyncio
import json

import pytest

from askance.core.errors import BadIndex, UnknownName
from askance.core.notes import noted
from askance.core.trace import Noted, Trace
from askance.middleware.cache import CachedRetriever, CacheStore
from askance.middleware.session import Session, SessionRetriever
from askance.retrieval.bm25 import open_index
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index.build import build_index
from askance.retrieval.index.index_folder import read_manifest

DOCUMENTS = {
    "chinese": {
        "鲸": "鲸鱼是生活在海洋里的哺乳动物。",
        "茶": "绿茶不发酵，红茶完全发酵。",
        "长城": "长城防御游牧民族。",
    },
    "japanese": {
        "味噌": "大豆に塩と麹を加えて発酵させる。",
        "桜": "春に咲く花である。",
        "温泉": "猿が湯に入る。",
    },
    "korean": {
        "고래": "고래는 바다에 사는 포유류이다.",
        "김치": "배추를 소금에 절인다.",
        "한강": "한강은 서울을 지난다.",
    },
    "arabic": {
        "القهوة": "يقدم العرب القهوة للضيوف.",
        "النيل": "أطول أنهار أفريقيا.",
        "المكتبة": "احترقت الكتب.",
    },
    "thai": {
        "ปลาวาฬ": "ปลาวาฬเป็นสัตว์เลี้ยงลูกด้วยนมในทะเล",
        "ชา": "ชาเขียวไม่ผ่านการหมัก",
        "กำแพง": "กำแพงเมืองจีนยาวมาก",
    },
    "hindi": {
        "गंगा": "गंगा हिमालय से निकलती है।",
        "चाय": "चाय की पत्तियाँ सुखाई जाती हैं।",
        "मोर": "मोर राष्ट्रीय पक्षी है।",
    },
}


@pytest.fixture
def index_of(tmp_path, write_rows):
    def build(*texts, **options):
        rows = [(str(number), text) for number, text in enumerate(texts)]
        build_index([write_rows(tmp_path / "rows.jsonl", *rows)], tmp_path / "index", **options)
        return open_index(tmp_path / "index")

    return build


def best(retriever, query):
    """Return the text of the best passage for a query; empty if none is found."""
    hits = asyncio.run(retriever.search(query, 1))
    return hits[0].passage.text if hits else ""


@pytest.mark.parametrize(
    ("language", "question", "title"),
    [
        ("chinese", "海洋里有什么哺乳动物？", "鲸"),
        ("chinese", "鲸", "鲸"),
        ("japanese", "大豆と塩で何を作りますか。", "味噌"),
        ("korean", "바다에서 사는 동물은 무엇입니까?", "고래"),
        ("korean", "서울의 강", "한강"),
        ("arabic", "ماذا يقدم العربي للضيف؟", "القهوة"),
        ("arabic", "ما اطول نهر في افريقيا", "النيل"),
        ("thai", "สัตว์ในทะเล", "ปลาวาฬ"),
        ("hindi", "हिमालय से क्या निकलता है?", "गंगा"),
    ],
)
def test_a_question_finds_its_document_without_an_option(index_of, language, question, title):
    documents = DOCUMENTS[language]
    assert best(index_of(*documents.values()), question) == documents[title]


@pytest.mark.parametrize("language", DOCUMENTS)
def test_index_and_query_have_the_same_terms_for_any_excerpt(language):
    analysis = Analysis(stop_words=False)
    for text in DOCUMENTS[language].values():
        whole = analysis.terms(text)
        assert whole
        for word in text.split():
            assert set(analysis.terms(word)) <= set(whole)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("東京都", ["東", "京", "都", "東京", "京都"]),
        ("猫", ["猫"]),
        ("猫 犬", ["猫", "犬"]),
        ("海\n洋", ["海", "洋", "海洋"]),
        ("ｶﾞﾗｽ", ["ガ", "ラ", "ス", "ガラ", "ラス"]),
        ("BM25检索the rivers", ["bm25", "检", "索", "检索", "river"]),
        ("2024年", ["2024", "年"]),
        ("한강은", ["한", "강", "은", "한강", "강은"]),
        ("हिन्दी", ["हिन्दी"]),
        ("Dampf\u00adschiff", ["dampfschiff"]),
    ],
)
def test_terms_of_scripts_and_their_mixtures(text, terms):
    assert Analysis().terms(text) == terms


def test_arabic_letters_and_vowel_signs_do_not_matter():
    written = ["أحمد", "احمد", "أَحْمَد", "أحـــمد", "إحمد"]
    assert {tuple(Analysis().terms(word)) for word in written} == {("احمد",)}
    assert Analysis().terms("والمكتبة") == Analysis().terms("مكتبات") == Analysis().terms("المكتبه")


def test_turkish_lower_case_keeps_the_two_letters_i_apart():
    turkish = Analysis(stemming=False, language="turkish")
    assert turkish.terms("IĞDIR Iğdır ığdır") == ["ığdır"] * 3
    assert turkish.terms("İZMİR İzmir izmir") == ["izmir"] * 3
    assert turkish.terms("ILICA") != turkish.terms("ilica")
    assert turkish.terms("İstanbul'da") == ["istanbul"]


def test_turkish_names_are_found_in_an_english_index():
    assert Analysis(stemming=False).terms("IĞDIR Iğdır İstanbul istanbul") == ["iğdir"] * 2 + ["istanbul"] * 2


def test_accents_do_not_matter_in_other_languages_than_english():
    french = Analysis(language="french")
    assert french.terms("l'Été à Besançon") == french.terms("ete besancon")
    assert Analysis().terms("Zürich") != Analysis().terms("Zurich")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Schiff", "Auf der Donau fuhren Dampfschiffe."),
        ("Wälder", "Das Tier lebt im Laubwald."),
        ("Versicherung", "Eine Haftpflichtversicherung ist Pflicht."),
        ("Autobahngebühr", "Die Gebühren auf der Autobahn."),
        ("Strasse", "Eine Straße am Ufer."),
    ],
)
def test_german_compounds_are_found_by_their_parts(index_of, query, text):
    others = "Ein Stein fiel ins Meer.", "Der Hund bellt."
    retriever = index_of(text, *others, analysis=Analysis(language="german"))
    assert best(retriever, query) == text


GERMAN = "Der Fluss ist lang und die Stadt an dem Ufer ist eine der schönsten, die es in dem Land gibt."
ENGLISH = "The river is long and the town on the bank is one of the oldest that there are in the country."
TURKISH = "Bu şehir çok eski bir şehir ve nehir için de önemli olan bir yer, ama ne kadar eski, kim bilir ki."


@pytest.mark.parametrize(
    ("text", "language"),
    [(GERMAN, "german"), (ENGLISH, "english"), (TURKISH, "turkish"), ("Ufer Stadt Fluss", "english")],
)
def test_the_language_of_a_new_index_is_detected_and_kept(index_of, text, language):
    assert index_of(text).index.manifest.analysis == Analysis(language=language)
    assert index_of(text, ENGLISH, ENGLISH).index.manifest.analysis.language == language


def test_another_language_than_that_of_the_index_is_refused(index_of):
    index_of(GERMAN)
    with pytest.raises(BadIndex, match=r"language='german'.*not with.*language='dutch'.*another folder"):
        index_of(GERMAN, analysis=Analysis(language="dutch"))


def test_an_unknown_language_is_named_with_the_known_ones():
    with pytest.raises(UnknownName, match=r"unknown language 'germann': did you mean 'german'\?.*turkish"):
        Analysis(language="germann")


def notes_of(retriever, query):
    found = []
    with noted(lambda name, text: found.append((name, text))):
        asyncio.run(retriever.search(query, 1))
    return found


def test_a_question_in_a_script_that_the_index_lacks_is_noted(index_of):
    retriever = index_of("the river", "the town")
    assert notes_of(retriever, "Which river?") == []
    ((name, text),) = notes_of(retriever, "哪条河？")
    assert name == "script"
    assert "Chinese (Han) in 0 of 2 passages" in text
    assert "mostly in Latin script" in text


def test_a_cached_search_has_the_note_of_the_first(index_of, tmp_path):
    store = CacheStore(tmp_path / "cache.sqlite")
    cached, query = CachedRetriever(index_of("the river"), store), "哪条河？"
    first = notes_of(cached, query)
    assert [name for name, _ in first] == ["script"]
    assert notes_of(cached, query) == first
    assert notes_of(cached, "Which river?") == notes_of(cached, "Which river?") == []
    store.close()


def test_the_note_is_traced_once_for_a_question_with_several_searches(index_of):
    trace = Trace()
    retriever = SessionRetriever(index_of("the river"), Session(trace))
    for query in ("哪条河？", "河"):
        asyncio.run(retriever.search(query, 1))
    assert [event.name for event in trace.events if isinstance(event, Noted)] == ["script"]


def test_the_manifest_counts_scripts_and_follows_changes(index_of):
    assert index_of("the river", "the 长江 river").index.manifest.scripts == {"Latin": 2, "Chinese (Han)": 1}
    retriever = index_of("the river", "река")
    assert read_manifest(retriever.index.folder).scripts == {"Latin": 1, "Cyrillic": 1}


def test_the_command_line_takes_a_language_and_warns_about_scripts(run, tmp_path, write_rows):
    source, folder = write_rows(tmp_path / "rows.jsonl", ("a", "Dampfschiffe")), tmp_path / "index"
    assert run("index", source, "--out", folder, "--language", "german")[0] == 0
    assert json.loads((folder / "manifest.json").read_text())["analysis"]["language"] == "german"
    code, out, err = run("search", "Schiff 船", "--index", folder)
    assert code == 0
    assert "Dampfschiffe" in out
    assert "Chinese (Han) in 0 of 1 passages" in " ".join(err.split())
    code, _, err = run("index", source, "--out", tmp_path / "other", "--language", "germann")
    assert code == 2
    assert "did you mean 'german'?" in " ".join(err.split())


def test_text_without_spaces_is_cut_into_passages(index_of):
    retriever = index_of("鲸鱼生活在海洋里。" * 200)
    hits = asyncio.run(retriever.search("海洋", 50))
    assert len(hits) > 5
    assert max(len(hit.passage.text) for hit in hits) <= 250


def test_english_words_have_the_same_terms_beside_other_scripts():
    text = "The rivers' banks aren't Bonn's; naïve – “3.14” x_2"
    assert Analysis().terms(f"{text} 猫") == [*Analysis().terms(text), "猫"]


def test_latin_words_of_an_arabic_index_are_english():
    assert Analysis(language="arabic").terms("the rivers نهر") == Analysis().terms("the rivers نهر")


def test_long_runs_of_letters_have_no_parts():
    assert Analysis(language="german").terms("x" * 61) == ["x" * 61]
