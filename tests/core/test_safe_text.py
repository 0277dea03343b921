"""Text that may be printed, and JSON that readers stricter than Python take, too."""

import json
import math

from pydantic_core import from_json

from askance.core.safe_text import json_line, printable, printable_record
from askance.core.types import Hit, Passage

CONTROLS = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))}
REORDERING = {chr(code) for code in (*range(0x2028, 0x202F), *range(0x2066, 0x206A))}


def test_controls_and_what_reorders_a_line_go_and_everything_else_stays():
    assert printable("a\x1b[2Jb\x00\x9b\x7f\ud800") == "a�[2Jb����"
    assert printable("two\nlines\tand 😀 é 한 שלום \u200f") == "two\nlines and 😀 é 한 שלום \u200f"
    harmful = (CONTROLS | REORDERING) - {*"\t\n\u202f"}
    assert {printable(f"a{each}b") for each in harmful} == {"a�b"}


def test_records_are_cleaned_however_deep_keys_included():
    hit = Hit(Passage("a", "T\x1b", "x\x07"), 1.0, 1)
    (cleaned,) = printable_record((hit,))
    assert (cleaned.passage.title, cleaned.passage.text) == ("T�", "x�")
    assert hit.passage.title == "T\x1b"
    assert printable_record({"a\x1b[2J": {"b\x9b": 1}, 2: "\u2067"}) == {"a�[2J": {"b�": 1}, 2: "�"}


def test_numbers_without_end_and_halves_of_characters_are_texts():
    assert json_line({"a": [math.inf, -math.inf], "b": (math.nan, 1.5)}) == (
        '{"a": ["Infinity", "-Infinity"], "b": ["NaN", 1.5]}'
    )
    line = json_line({"a": "x\ud800y", "b": "\ud83d\ude00", "ö\udfff": 1})
    assert from_json(line.encode()) == json.loads(line) == {"a": "x\ufffdy", "b": "😀", "ö\ufffd": 1}


def test_nothing_in_a_line_is_a_command_or_an_end_of_it():
    record = {f"k{character}": character * 2 for character in sorted(CONTROLS | REORDERING)}
    line = json_line(record)
    assert json.loads(line) == from_json(line) == record
    assert not (CONTROLS | REORDERING) & {*line}
    assert len(line.splitlines()) == 1
