"""Checksums of lines: what is damaged is found, what is cut short is known."""

import json
from itertools import product

import pytest

from askance.storage.durable_files import DamagedLine, sealed, unsealed, unsealed_lines

LINES = [json.dumps({"id": f"q{number}", "text": "Köln, Jülich"}).encode() for number in (1, 2)]
CONTENT = b"".join(sealed(line) + b"\n" for line in LINES)


def test_a_sealed_line_is_json_with_one_more_field():
    assert json.loads(sealed(LINES[0])) == {"checksum": "be52bfaf96eea4b9", **json.loads(LINES[0])}
    assert unsealed(sealed(LINES[0])) == LINES[0]


def test_a_file_that_was_cut_short_at_any_byte_has_its_whole_lines():
    for cut in range(len(CONTENT) + 1):
        num_whole = CONTENT[:cut].count(b"\n")
        found, size_bytes = unsealed_lines(CONTENT[:cut])
        assert found == LINES[:num_whole]
        assert size_bytes == sum(len(sealed(line)) + 1 for line in LINES[:num_whole])


def test_each_wrong_bit_is_found():
    for at, bit in product(range(len(CONTENT)), range(8)):
        damaged = bytearray(CONTENT)
        damaged[at] ^= 1 << bit
        with pytest.raises(DamagedLine) as caught:
            unsealed_lines(bytes(damaged))
        assert caught.value.number == 1 + CONTENT[:at].count(b"\n")
