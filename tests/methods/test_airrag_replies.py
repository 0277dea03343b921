"""Replies that the bundled models wrote to AirRAG's prompts, with what a person reads in them.

The models wrote them on sample questions; the queries were written by hand.
"""

import json
from pathlib import Path

import pytest

from askance.methods.airrag.prompts import parse_queries

FILE = Path(__file__).parent / "fixtures" / "airrag_replies.jsonl"
REPLIES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("reply", REPLIES, ids=range(len(REPLIES)))
def test_a_reply_is_read_as_a_person_reads_it(reply):
    assert list(parse_queries(reply["output"])) == reply["queries"]


def test_both_kinds_and_both_models_are_there():
    found = {(reply["kind"], reply["model"]) for reply in REPLIES}
    assert found == {(kind, model) for kind in ("say", "qt") for model in ("bundled", "bundled:base")}
    assert any(not reply["queries"] for reply in REPLIES)
    assert len(REPLIES) >= 40
