"""Checksums of lines: what is damaged is found, what is old or cut short is known."""

import json
from itertools import product

import pytest

from askance.storage.durable_files import DamagedLine, sealed, unsealed, unsealed_lines

LINES = [json.dumps({"id": f"q{number}", "text": "Köln, Jülich"}).encode() for number in (1, 2)]
CONTENT = b"".join(sealed(line) + b"\n" for line in LINES)
OLD = b'{"id": '


def test_a_sealed_line_is_json_with_one_more_field():
    assert json.loads(sealed(LINES[0])) == {"checksum": "be52bfaf96eea4b9", **json.loads(LINES[0])}
    assert unsealed(sealed(LINES[0]), old=OLD) == LINES[0]


def test_an_old_line_is_given_as_it_is():
    assert unsealed(LINES[0], old=OLD) == LINES[0]
    assert unsealed_lines(LINES[0] + b"\n" + CONTENT, old=OLD)[0] == [LINES[0], *LINES]


def test_a_file_that_was_cut_short_at_any_byte_has_its_whole_lines():
    for cut in range(len(CONTENT) + 1):
        num_whole = CONTENT[:cut].count(b"\n")
        found, size_bytes = unsealed_lines(CONTENT[:cut], old=OLD)
        assert found == LINES[:num_whole]
        assert size_bytes == sum(len(sealed(line)) + 1 for line in LINES[:num_whole])


def test_each_wrong_bit_is_found():
    for at, bit in product(range(len(CONTENT)), range(8)):
        damaged = bytearray(CONTENT)
        damaged[at] ^= 1 << bit
        with pytest.raises(DamagedLine) as caught:
            unsealed_lines(bytes(damaged), old=OLD)
        assert caught.value.number == 1 + CONTENT[:at].count(b"\n")
