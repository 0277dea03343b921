"""Decisions of the DRAGIN authors' own classes on two tiny Llamas, which lie here: all is computed anew.

`dragin_tiny/models`: a Llama with a SentencePiece tokenizer and BOS (spm), one with a byte-level tokenizer
and no BOS (bpe); float32, trained for some minutes on made-up text. `traces_NAME.json.gz`: an excerpt of what
oneal2000/DRAGIN (commit 4d71efc) decided with them, by greedy decoding on a CPU: facts alone. Each run of
each class and query formulation is there with a question or two, those first that have an end token in a text
or a query, queries of more than 64 tokens, or fewer than three passages. Searches are played back, since
passages of equal scores may stand in any order; `linguistics` is what the stand-in for spaCy's model found in
each text that is read. `python -m benchmarks.replay_reference FOLDER` does the same on all of a recording.
"""

import asyncio
from pathlib import Path

import pytest
from benchmarks.replay_reference import ask_anew, read_recordings

from askance.core.ports import Run
from askance.core.trace import Trace, WordSignal
from askance.core.types import Question
from askance.methods.common.prompts import OWN
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.text.linguistics import Linguistics
from askance_lab.reproductions.dragin import DraginAuthors, read_words
from askance_lab.reproductions.dragin_base import AuthorsState, Trigger

FOLDER = Path(__file__).parent / "dragin_tiny"
RECORDINGS = {recording.name: recording for recording in read_recordings(FOLDER)}
RUNS = [
    pytest.param(name, run, id=f"{name}-{number}-{run['name']}")
    for name, recording in RECORDINGS.items()
    for number, run in enumerate(recording.record["runs"])
]
ENDS = {"spm": "</s>", "bpe": "<|im_end|>"}


@pytest.fixture(scope="module")
def tiny():
    from askance.models.hf import load_hf

    return {
        name: load_hf(str(FOLDER / "models" / name), device="cpu", dtype="float32", display_name=name)
        for name in RECORDINGS
    }


def linguistics_of(recording):
    """Looks up what was found in a text; another text is one that the authors' code did not read."""
    found = recording.record["linguistics"]
    return Linguistics(
        "recorded",
        lambda text: tuple(found["sentences"][text]),
        lambda text: [(text.index(word), text.index(word) + len(word)) for word in found["real_words"][text]],
        lambda text: tuple(map(tuple, found["entities"][text])),
    )


def entries(name, kind):
    for run in RECORDINGS[name].record["runs"]:
        for result in run["results"]:
            yield from (entry for entry in result["rounds"] if entry["kind"] == kind)


@pytest.mark.parametrize("name", ENDS)
def test_the_excerpt_has_what_is_easily_got_wrong(name):
    searches = list(entries(name, "retrieve"))
    settings = [run["settings"] for run in RECORDINGS[name].record["runs"]]
    assert {each["method"] for each in settings} == {
        "dragin", "attn_prob", "token", "entity", "fix-length-retrieval", "fix-sentence-retrieval",
        "single-retrieval", "non-retrieval",
    }  # fmt: skip
    assert {each["query_formulation"] for each in settings} == {
        "real_words", "current", "current_wo_wrong", "forward_all", "last_sentence", "last_n_tokens",
        "direct",
    }  # fmt: skip
    assert any(search["query_tokens"] > 64 for search in searches)
    assert any(ENDS[name] in search["query"] for search in searches)
    doubts = [entry for entry in entries(name, "decision") if entry["hallucination"]]
    assert any(ENDS[name] in doubt["text_before"] for doubt in doubts)
    assert any(doubt.get("hit") and not any(doubt["hit"]) for doubt in doubts)
    assert any(None in search["scores"] for search in searches)


@pytest.mark.parametrize(("name", "run"), RUNS)
def test_all_is_as_recorded(name, run, tiny):
    """Prompts, generated ids, decisions, kept texts, words, hits, values, queries, searches, final texts."""
    recording = RECORDINGS[name]
    for result in run["results"]:
        differences = ask_anew(recording, run, result, tiny[name], linguistics_of(recording))
        assert differences.found == {}, result["qid"]


QUERIES = [
    "",
    " ",
    "Who?",
    "  two spaces  inside  and around ",
    "END",
    "So it is.END Question: Who?END",
    "Answer:END",
    "ENDEND  What END",
    "born?\nAnswer:\n\nQuestion",
    "José Ōe — 夜の川 🙂 naïve",
    "▁was ▁born Ġon ĠMay",
    "1 9 , 8 9",
    "Wanda M. Silva " * 12 + "ENDSo",
    "é" * 70 + "END",
]


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("query", QUERIES)
def test_queries_are_cut_as_transformers_cuts_them(name, query, tiny):
    """On the left, then decoded without special tokens."""
    from transformers import AutoTokenizer

    text = query.replace("END", ENDS[name])
    tokenizer = AutoTokenizer.from_pretrained(FOLDER / "models" / name, truncation_side="left")
    ids = tokenizer(text, truncation=True, max_length=64, add_special_tokens=False)["input_ids"]
    (end,) = tiny[name]._vocabulary.end_ids
    retriever = ScriptedRetriever([])
    run = Run({"answer": tiny[name]}, retriever, Trace())
    so_far = AuthorsState(Question("q", "?"), run, OWN, control={ENDS[name]: end})
    asyncio.run(so_far.search_for(text, "", 3, 64))
    assert retriever.queries == [tokenizer.decode(ids, skip_special_tokens=True)]


def test_the_query_current_keeps_an_empty_word():
    words = tuple(WordSignal(text, 0.0, False) for text in ("", "Bonn"))
    run = Run({"answer": ScriptedModel()}, ScriptedRetriever([]), Trace())
    state = AuthorsState(Question("q", "?"), run, OWN)
    assert asyncio.run(DraginAuthors(query="current").query_for(Trigger("", words), state)) == " Bonn"


@pytest.mark.parametrize(
    ("draft", "query"),
    [
        ("The river", "The river"),
        (" The river", "The river"),  # the space belongs to the first word
        ("  The  river", " The  river"),  # a space alone is an empty word
        ("The river ", "The river "),
        (" ", ""),
        ("The \n river", "The Ċ river"),  # a line break belongs to the word before it
        ("A, B", "A , B"),  # the comma has the id of Llama 2's line break, which begins a word
    ],
)
def test_white_space_of_the_query_current_on_a_byte_level_tokenizer(draft, query, tiny):
    """By hand: Ġ begins a word, and spaces join the words, empty ones too."""
    model = tiny["bpe"]
    ids = model.tokenize(draft, at_start=True)
    words = read_words(ids, model.pieces(ids), "Ġ", after_end=True)
    signals = tuple(WordSignal(word.text, 0.0, False) for word in words)
    retriever = ScriptedRetriever([])
    state = AuthorsState(Question("q", "?"), Run({"answer": model}, retriever, Trace()), OWN)
    found = asyncio.run(DraginAuthors(query="current").query_for(Trigger("", signals), state))
    asyncio.run(state.search_for(found, "", 3, 64))
    assert [found, *retriever.queries] == [query, query]
