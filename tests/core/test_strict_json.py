"""JSON that readers stricter than Python take, too."""

import json
import math

from pydantic_core import from_json

from askance.core.safe_text import json_line


def test_numbers_without_end_are_texts():
    assert json_line({"a": [math.inf, -math.inf], "b": (math.nan, 1.5)}) == (
        '{"a": ["Infinity", "-Infinity"], "b": ["NaN", 1.5]}'
    )


def test_half_a_character_is_replaced_and_two_halves_are_one():
    line = json_line({"a": "x\ud800y", "b": "\ud83d\ude00", "ö\udfff": 1})
    assert from_json(line.encode()) == {"a": "x\ufffdy", "b": "😀", "ö\ufffd": 1}
    assert json.loads(line) == from_json(line)


def test_nothing_in_a_line_is_a_command_or_an_end_of_it():
    controls = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))}
    reordering = {chr(code) for code in (*range(0x2028, 0x202F), *range(0x2066, 0x206A))}
    said = {f"k{character}": character * 2 for character in sorted(controls | reordering)}
    line = json_line(said)
    assert json.loads(line) == from_json(line) == said
    assert not (controls | reordering) & {*line}
    assert len(line.splitlines()) == 1
