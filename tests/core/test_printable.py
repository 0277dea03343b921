import pytest

from askance.core.safe_text import printable, printable_record
from askance.core.types import Hit, Passage


def test_controls_go_and_everything_else_stays():
    assert printable("a\x1b[2Jb\x00\x9b\x7f\ud800") == "a�[2Jb����"
    assert printable("two\nlines\tand 😀 é 한") == "two\nlines and 😀 é 한"
    assert printable("שלום \u200f a\u202eb\u202dc\u2028d\x85") == "שלום \u200f a�b�c�d�"


@pytest.mark.parametrize("code", [*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
def test_nothing_reorders_a_line(code):
    assert printable(f"a{chr(code)}b") == "a�b"


def test_keys_are_texts_too():
    assert printable_record({"a\x1b[2J": {"b\x9b": 1}, 2: "\u2067"}) == {"a�[2J": {"b�": 1}, 2: "�"}


def test_records_are_cleaned_however_deep():
    hit = Hit(Passage("a", "T\x1b", "x\x07"), 1.0, 1)
    (cleaned,) = printable_record((hit,))
    assert (cleaned.passage.title, cleaned.passage.text) == ("T�", "x�")
    assert hit.passage.title == "T\x1b"
