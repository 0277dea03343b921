from askance.core.types import Hit, Passage
from askance.text.printable import printable, printable_record


def test_controls_go_and_everything_else_stays():
    assert printable("a\x1b[2Jb\x00\x9b\x7f\ud800") == "a�[2Jb����"
    assert printable("two\nlines\tand 😀 é 한") == "two\nlines and 😀 é 한"
    assert printable("שלום \u200f\u2067a\u2069 a\u202eb\u202dc") == "שלום \u200f\u2067a\u2069 a�b�c"


def test_records_are_cleaned_however_deep():
    hit = Hit(Passage("a", "T\x1b", "x\x07"), 1.0, 1)
    (cleaned,) = printable_record((hit,))
    assert (cleaned.passage.title, cleaned.passage.text) == ("T�", "x�")
    assert hit.passage.title == "T\x1b"
