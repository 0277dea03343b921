"""Decisions and queries of the DRAGIN authors' code, recorded once, from the words' numbers on.

`fixtures/dragin_code.jsonl`: one round each of SmolLM2-135M-Instruct in float32 under the authors' code, with
the sentence boundaries and content words that stood in for spaCy's model there.
"""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest

from askance.core.ports import Run
from askance.core.trace import Trace, WordSignal
from askance.core.types import Question
from askance.methods.common.prompts import OWN
from askance.retrieval.scripted import ScriptedRetriever
from askance.text.linguistics import Linguistics
from askance_lab.reproductions.dragin import (
    DraginAuthors,
    aggregate_over_words,
    find_trigger,
    influence,
    read_words,
    rind_scores,
)
from askance_lab.reproductions.dragin_base import AuthorsState, Trigger
from tests.tolerances import assert_near

LINES = (Path(__file__).parent / "fixtures" / "dragin_code.jsonl").read_text(encoding="utf-8").splitlines()
ROUNDS = [json.loads(line) for line in LINES]
DOUBTFUL = [row for row in ROUNDS if row["triggers"]]


def doubt_of(row, draft):
    sentences = tuple(draft[start:end] for start, end in row["sentence_spans"])
    real_words = frozenset(row.get("real_words_of_sentence", ()))
    values_of = partial(rind_scores, row["attention"], row["entropy"])
    return find_trigger(sentences, row["words"], values_of, max, row["threshold"], lambda text: real_words)


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
        assert [word.text for word in doubt.words] == row["sentence"]
        assert [int(word.is_hit) for word in doubt.words] == row["hits"]


@pytest.mark.parametrize("row", DOUBTFUL, ids=range(len(DOUBTFUL)))
def test_queries_of_all_modes(row, bundled):
    judged = zip(row["sentence"], row["hits"], strict=True)
    doubt = Trigger(row["kept"], tuple(WordSignal(word, 0.0, bool(hit)) for word, hit in judged))
    linguistics = Linguistics(
        "recorded",
        lambda text: (text[-row["last_sentence_chars"] :],),
        lambda text: [(text.index(w), text.index(w) + len(w)) for w in row["real_words_of_context"]],
    )
    run = Run({"answer": bundled}, ScriptedRetriever([]), Trace())
    so_far = AuthorsState(Question("q", row["question"]), run, OWN, text=row["text_before"])
    marker = row["space_marker"]
    queries = {
        mode: asyncio.run(
            DraginAuthors(query=mode, linguistics=linguistics, space_marker=marker).query_for(doubt, so_far)
        )
        for mode in row["queries"]
    }
    assert queries == row["queries"]


@pytest.mark.parametrize("row", ROUNDS[::4])
def test_the_bundled_model_gives_the_recorded_attention(row, bundled):
    ids = tuple(row["generated_ids"])
    words = read_words(ids, bundled.pieces(ids), row["space_marker"], after_end=True)
    each = influence(asyncio.run(bundled.attend(ids, bos=False)).weights).tolist()
    attention, _ = aggregate_over_words(words, each, [0.0] * len(ids))
    assert_near(attention, row["attention"], "thirty layers")
