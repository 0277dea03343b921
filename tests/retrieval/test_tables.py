"""CSV and JSON files, and the encodings of text files."""

import json

import pytest

from askance.retrieval.index import formats
from askance.retrieval.index.formats import UnreadableFile, content, encodings
from askance.retrieval.index.formats import rows as rows_reader

TEXTS = {
    "cp1252": "Le château a été détruit, où l'élève naïf reçoit ses leçons d'été.",
    "iso8859-15": "Die Straße nach Zürich ist schön und führt über große Brücken.",
    "cp1250": "Zażółć gęślą jaźń, łódź i źrebię są tu.",
    "iso8859-2": "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "cp1251": "Москва является столицей России и крупнейшим городом страны.",
    "koi8-r": "Москва является столицей России и крупнейшим городом страны.",
    "cp1253": "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας.",
    "cp1254": "İstanbul'da yaşayan şair güzel şiirler yazdı, çok ağladı.",
    "shift_jis": "東京は日本の首都であり、世界最大の都市の一つです。",
    "gb18030": "北京是中华人民共和国的首都,也是全国的政治中心。",
    "big5": "台北是中華民國的首都,也是政治與經濟中心。",
    "euc_kr": "서울은 대한민국의 수도이자 최대 도시이다.",
    "cp1256": "القاهرة هي عاصمة جمهورية مصر العربية وأكبر مدنها.",
    "cp1257": "Žąsys ir gervės išskrido, o ąžuolai dar žaliavo prie ežero.",
    "mac_roman": "Die Straße nach Zürich ist schön und führt über große Brücken.",
    "utf-16": "Zürich",
    "utf-16-le": "Zürich",
    "utf-16-be": "Zürich",
    "utf-8-sig": "Zürich",
}


def rows(path):
    return list(formats.read_file(path))


@pytest.mark.parametrize("encoding", TEXTS)
def test_text_in_any_common_encoding_is_read(tmp_path, encoding):
    (tmp_path / "a.txt").write_bytes(TEXTS[encoding].encode(encoding))
    assert [row.text for row in rows(tmp_path / "a.txt")] == [TEXTS[encoding]]


@pytest.mark.parametrize(
    "text",
    ["He wouldn’t. “It’s late,” said Ann.", "The toll is £9.", "The toll is €9…", "It is 9°C and 5 m² wide.",
     "The lock – the oldest – is closed.", "The lock Zwölf is open.", "• one\n• two", "©2024, §5, ½ µm ±3"],
)  # fmt: skip
def test_english_text_of_windows_is_read_although_no_letters_decide(tmp_path, text):
    (tmp_path / "a.txt").write_bytes(text.encode("cp1252"))
    assert [row.text for row in rows(tmp_path / "a.txt")] == [text]


GERMAN = "Der Wächter heißt Jörg und öffnet früh die Tür."


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (GERMAN.encode()[:-3], GERMAN[:-3] + "\ufffd"),
        (GERMAN.encode() + b"\xff", GERMAN + "\ufffd"),
        (GERMAN.encode() * 9 + b"J\xf6rg", GERMAN * 9 + "J\ufffdrg"),
    ],
)
def test_utf8_with_few_wrong_bytes_stays_utf8(tmp_path, content, text):
    (tmp_path / "a.txt").write_bytes(content)
    assert [row.text for row in rows(tmp_path / "a.txt")] == [text]
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbftext\n" + content)
    assert [row.text for row in rows(tmp_path / "a.csv")] == [text]


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("cp1251", "Привет"), ("koi8-r", "Привет"), ("shift_jis", "東京"), ("gb18030", "北京"),
     ("cp1253", "Αθήνα"), ("cp850", "Die Straße nach Zürich ist schön")],
)  # fmt: skip
def test_a_text_that_is_too_short_to_recognise_its_encoding_is_skipped(tmp_path, encoding, text):
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    with pytest.raises(UnreadableFile, match="neither UTF-8 nor another encoding"):
        rows(tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("declared", "text", "encoding"),
    [("koi8-r", "Привет", "koi8-r"), ("windows-1251", "Привет", "utf-8"), ("iso-8859-1", "“9 €”", "cp1252"),
     ("gb2312", "北京", "gb18030"), ("punycode", "Zwölf", "cp1252"), ("unknown", "Zwölf", "cp1252")],
)  # fmt: skip
def test_the_encoding_that_a_page_declares_is_used_unless_it_is_utf8(tmp_path, declared, text, encoding):
    (tmp_path / "a.html").write_bytes(f"<meta charset={declared}><p>{text}".encode(encoding))
    assert [row.text for row in rows(tmp_path / "a.html")] == [text]


def test_a_late_character_decides_the_encoding_of_a_file_of_rows(tmp_path):
    (tmp_path / "a.csv").write_bytes(
        b"name,town\n" + b"Ada,Bonn\n" * 200_000 + "Bob,Zürich\n".encode("latin-1")
    )
    assert rows(tmp_path / "a.csv")[-1].text == "name: Bob; town: Zürich"


def test_a_row_repeats_the_names_of_its_columns(tmp_path):
    (tmp_path / "a.csv").write_bytes('Stadt;Fluss\nK\xf6ln;"Rhein; und\nmehr"\n;\nBonn;\n'.encode("latin-1"))
    found = rows(tmp_path / "a.csv")
    assert [(row.title, row.text, row.line) for row in found] == [
        ("a", "Stadt: Köln; Fluss: Rhein; und mehr", 3),
        ("a", "Stadt: Bonn", 5),
    ]
    assert [row.marks[0].section for row in found] == ["row 3", "row 5"]


def test_a_csv_file_with_texts_is_read_like_json_lines(tmp_path):
    (tmp_path / "a.csv").write_text('id,title,text\n7,Bonn,"Bonn, a city"\n')
    (row,) = rows(tmp_path / "a.csv")
    assert (row.id, row.title, row.text, row.line) == ("7", "Bonn", "Bonn, a city", 2)


def test_a_table_without_header_is_one_text(tmp_path):
    (tmp_path / "a.csv").write_text("1,2\n3,4\n")
    (row,) = rows(tmp_path / "a.csv")
    assert (row.text, row.line) == ("1 | 2\n3 | 4", 0)


def test_a_row_of_long_texts_is_no_header(tmp_path):
    """Each row would repeat them."""
    for length, texts in ((1_000, ["a" * 1_000 + ": 1; b: 2"]), (1_001, ["a" * 1_001 + " | b\n1 | 2"])):
        (tmp_path / "a.csv").write_text("a" * length + ",b\n1,2\n")
        assert [row.text for row in rows(tmp_path / "a.csv")] == texts


def test_a_table_of_a_million_columns_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(b";".join([b"\xfc"] * 1_000_000))
    with pytest.raises(UnreadableFile, match="1,000,000 columns; up to 16,384"):
        rows(tmp_path / "a.csv")


TABLES = {
    "a first cell or column without name": (
        ",Quarter one,Quarter two\nDvina,410,455\nVilna,,120\n",
        ["Dvina; Quarter one: 410; Quarter two: 455", "Vilna; Quarter two: 120"],
    ),
    "a column without name between others": ("name,,town\nAda,x,Bonn\n", ["name: Ada; x; town: Bonn"]),
    "numbers above columns": (",2023,2024\nDvina,410,\n", [" | 2023 | 2024\nDvina | 410"]),
    "a single row": ("Vault,Antwerp\n", ["Vault | Antwerp"]),
    "only a header with a text": ("id,text\n", ["id | text"]),
    "cells with nothing but a number": (
        "name,seats,full\nAda,0,FALSE\n",
        ["name: Ada; seats: 0; full: FALSE"],
    ),
    "missing values as words": (
        "name,flag\nNone,NaN\nNA,null\n",
        ["name: None; flag: NaN", "name: NA; flag: null"],
    ),
    "rows longer and shorter than the header": (
        "name,town\nAda,Bonn,more\nBo\n",
        ["name: Ada; town: Bonn; more", "name: Bo"],
    ),
    "a mark at the beginning and a comma in a name": (
        '\ufeff"last, first",age\r\n"Doe, Jane",30\r\n',
        ["last, first: Doe, Jane; age: 30"],
    ),
    "old line ends": (
        'name,town\r"Ada","Bonn"\r"Bo","Ulm"\r',
        ["name: Ada; town: Bonn", "name: Bo; town: Ulm"],
    ),
    "a quote that is never closed": (
        'name,size\nBig pipe,"5 inches\nRod,2\nBar,"a ""b"""\n',
        ["name: Big pipe; size: 5 inches", "name: Rod; size: 2", 'name: Bar; size: a "b"'],
    ),
    "text after a quote": (
        'name,note\nAda,"so" she said\nBo,x\n',
        ["name: Ada; note: so she said", "name: Bo; note: x"],
    ),
}


@pytest.mark.parametrize("kind", TABLES)
def test_no_cell_of_a_table_moves_or_is_lost(tmp_path, kind):
    content, texts = TABLES[kind]
    (tmp_path / "a.csv").write_bytes(content.encode())
    assert [row.text for row in rows(tmp_path / "a.csv")] == texts


def test_json_is_read_by_what_it_holds(tmp_path):
    def read(value):
        (tmp_path / "a.json").write_text(value if isinstance(value, str) else json.dumps(value))
        return [(row.title, row.text, row.line) for row in rows(tmp_path / "a.json") if row.text]

    assert read([{"id": "7", "text": "one"}, {"text": "two"}]) == [("", "one", 1), ("", "two", 2)]
    assert read([{"name": "Ada", "age": 36}, {"name": "Bob"}]) == [
        ("Ada", "name: Ada; age: 36", 1), ("Bob", "name: Bob", 2)
    ]  # fmt: skip
    assert read({"title": "T", "a": {"b": [1, {"c": None}, "x"]}}) == [
        ("T", "title: T\na.b.1: 1\na.b.3: x", 0)
    ]
    assert read('{"text": "one"}\n{"text": "two"}\n') == [("", "one", 1), ("", "two", 2)]
    for bad in ('{"a": ', "[" * 100_000):
        with pytest.raises(UnreadableFile, match="JSON"):
            read(bad)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([{f"key {number}": 1} for number in range(10_000)], "10,000 different keys in 10,000 objects"),
        ({"a" * 100: [1] * 20}, "more than 1,000 characters of text"),
    ],
)
def test_json_that_would_become_far_longer_is_refused(tmp_path, monkeypatch, value, reason):
    monkeypatch.setattr(content, "MAX_TEXT_CHARACTERS", 1_000)
    (tmp_path / "a.json").write_text(json.dumps(value))
    with pytest.raises(UnreadableFile, match=reason):
        rows(tmp_path / "a.json")


def test_json_that_is_nested_too_deep_for_its_lines_is_refused(tmp_path, monkeypatch):
    value = 7
    for _ in range(5_000):
        value = [value]
    monkeypatch.setattr(rows_reader.json, "loads", lambda _: value)  # which permits more in some versions
    (tmp_path / "a.json").write_text("[")
    with pytest.raises(UnreadableFile, match="JSON that can't be read"):
        rows(tmp_path / "a.json")


def test_files_beyond_the_bounds_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(encodings, "MAX_LINE_BYTES", 100)
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "long " * 50}))
    with pytest.raises(UnreadableFile, match="a line has more than 100 bytes"):
        rows(tmp_path / "a.jsonl")
    monkeypatch.setattr(content, "MAX_TEXT_CHARACTERS", 100)
    (tmp_path / "a.csv").write_text("1,2\n" * 50)
    with pytest.raises(UnreadableFile, match="more than 100 characters"):
        rows(tmp_path / "a.csv")


def test_a_gzipped_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    import gzip

    monkeypatch.setattr(encodings, "MAX_UNCHECKED_BYTES", 1_000_000)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b" \n" * 2_000_000))
    with pytest.raises(UnreadableFile, match="unpacks to more than 250 times its size"):
        rows(tmp_path / "a.jsonl.gz")
