"""Decisions and queries of the DRAGIN authors' code, recorded once, from the words' numbers on.

`fixtures/dragin_code.jsonl`: one round each of SmolLM2-135M-Instruct in float32 under the authors' code, with
the sentence boundaries and content words that stood in for spaCy's model there.
"""

import asyncio
import json
from pathlib import Path

import pytest

from askance.reproductions.rind_qfs import (
    Asking,
    Doubt,
    Weighed,
    first_doubt,
    formulate,
    influence,
    read_words,
    weigh,
)
from askance.text.linguistics import Linguistics
from tests.tolerances import assert_near

LINES = (Path(__file__).parent / "fixtures" / "dragin_code.jsonl").read_text(encoding="utf-8").splitlines()
ROUNDS = [json.loads(line) for line in LINES]
DOUBTFUL = [row for row in ROUNDS if row["triggers"]]


def doubt_of(row, draft):
    sentences = tuple(draft[start:end] for start, end in row["sentence_spans"])
    real_words = frozenset(row.get("real_words_of_sentence", ()))
    linguistics = Linguistics("recorded", lambda text: sentences, lambda text: real_words)
    weighed = Weighed(tuple(row["words"]), tuple(row["attention"]), tuple(row["entropy"]))
    return first_doubt(draft, weighed, row["threshold"], linguistics, real_words_only=True)


def test_the_recording_is_there():
    assert (len(ROUNDS), len(DOUBTFUL)) == (22, 18)


@pytest.mark.parametrize("row", ROUNDS, ids=range(len(ROUNDS)))
def test_words_decision_kept_prefix_and_hits(row, bundled):
    ids = tuple(row["generated_ids"])
    words = read_words(ids, bundled.pieces(ids), row["space_marker"], after_end=True)
    assert [word.text for word in words] == row["words"]
    doubt = doubt_of(row, bundled.decode(ids))
    assert (doubt is not None) == row["triggers"]
    if doubt is not None:
        assert doubt.kept == row["kept"]
        assert list(doubt.words) == row["sentence"]
        assert list(map(int, doubt.hits)) == row["hits"]


@pytest.mark.parametrize("row", DOUBTFUL, ids=range(len(DOUBTFUL)))
def test_queries_of_all_modes(row, bundled):
    hits = tuple(map(bool, row["hits"]))
    doubt = Doubt(row["kept"], tuple(row["sentence"]), (0.0,) * len(hits), hits)
    linguistics = Linguistics(
        "recorded",
        lambda text: (text[-row["last_sentence_chars"] :],),
        lambda text: frozenset(row["real_words_of_context"]),
    )
    asking = Asking(row["question"], row["text_before"], doubt, linguistics, row["space_marker"], 25)
    queries = {mode: asyncio.run(formulate(mode, asking, bundled)) for mode in row["queries"]}
    assert queries == row["queries"]


@pytest.mark.parametrize("row", ROUNDS, ids=range(len(ROUNDS)))
def test_the_bundled_model_gives_the_recorded_attention(row, bundled):
    ids = tuple(row["generated_ids"])
    words = read_words(ids, bundled.pieces(ids), row["space_marker"], after_end=True)
    each = influence(asyncio.run(bundled.attend(ids, bos=False)).weights).tolist()
    attention = weigh(words, each, [0.0] * len(ids)).attention
    assert_near(attention, row["attention"], "thirty layers")
