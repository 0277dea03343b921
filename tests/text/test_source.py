"""The source of an answer: the passages that say it, or memory with the model's own probability."""

import math

import pytest

from askance.core.answers import Answer, Citation
from askance.core.trace import Generated, Searched, Trace, TracedToken
from askance.core.types import Hit, Passage
from askance.text.support import source_of

LUCCA = Passage("p", "Giacomo Puccini", "Puccini was born in\nLucca.")
TEXT = "He was Italian. So the answer is Lucca."
PIECES = {"He was Italian.": 0.9, " So the answer is": 0.9, " Luc": 0.25, "ca": 0.64, ".": 0.9}


def cited(passage_number, sentence, text=TEXT):
    start = text.index(sentence)
    return Citation(passage_number, LUCCA, start, start + len(sentence))


FACT, STATED = cited(3, "He was Italian."), cited(1, "So the answer is Lucca.")
ANSWER = Answer(TEXT, "Lucca")


def traced(prompt="Where?", pieces=PIECES, text=TEXT, hits=(LUCCA,), ruling="", role="answer"):
    trace = Trace()
    trace.add(Searched, query="Where?", k=3, hits=tuple(Hit(each, 1.0, 1) for each in hits))
    tokens = [TracedToken(piece, p and math.log(p)) for piece, p in pieces.items()]
    counts = {"prompt_tokens": 1, "generated_tokens": 1, "reused_tokens": 0}
    trace.add(
        Generated, role=role, key=("answer",), prompt=prompt, text=text, finish="end", tokens=tokens, **counts
    )
    for outcome in ruling.split():
        trace.decide("source" if outcome in ("memory", "passages") else "choose", outcome, "a guard")
    return trace.events


SHOWN = f"Context: [1] {LUCCA.title}: {' '.join(LUCCA.text.split())} Where?"
FROM_TITLE = "from “Giacomo Puccini”"


@pytest.mark.parametrize(
    ("answer", "events", "source"),
    [
        (Answer(TEXT, "Lucca", (STATED, FACT)), traced(), "from [1] [3]"),
        (Answer(TEXT, "", (FACT,)), traced(), "from [3]"),
        # The sentence with the short answer cites nothing.
        (Answer(TEXT, "Lucca", (FACT,)), traced(), "from memory, 0.40"),
        (Answer(f"{TEXT} So, no.", "no", (FACT,)), traced(), "from [3]"),  # a comparison
        (ANSWER, traced(SHOWN), FROM_TITLE),
        (ANSWER, traced(SHOWN, hits=()), "from memory, 0.40"),
        (Answer(TEXT, "Pisa"), traced(SHOWN), "from memory, 0.65"),  # of the text: no token of Pisa is known
        (Answer("It is no.", "no"), traced("No.", hits=[Passage("n", "No", "No.")]), "from memory"),
        # 0.4 is the root of 0.25 * 0.64, and of the text (0.9 ** 3 * 0.16) ** (1 / 5).
        (ANSWER, traced(), "from memory, 0.40"),
        (Answer(TEXT), traced(), "from memory, 0.65"),
        (ANSWER, traced(pieces=PIECES | {".": None}), "from memory, 0.40"),
        (ANSWER, traced(pieces=PIECES | {"ca": None}), "from memory"),
        (Answer(TEXT, "Lucca", agreement=0.75), traced(pieces={}), "from memory, 0.75"),
        (ANSWER, traced(text="Another text about Lucca."), "from memory"),
        (ANSWER, traced(role="reward"), "from memory"),
        # A decision of the method rules.
        (Answer(TEXT, "Lucca", (STATED,)), traced(SHOWN, ruling="memory"), "from memory, 0.40"),
        (Answer(TEXT, "Lucca", (FACT,)), traced(ruling="passages"), "from [3]"),
        (ANSWER, traced(SHOWN, ruling="passages"), FROM_TITLE),
        (ANSWER, traced(ruling="passages"), "from passages"),
        (Answer(TEXT, "Lucca", (STATED,)), traced(ruling="memory Lucca"), "from [1]"),  # chosen among members
        (Answer(TEXT, "Lucca", abstained="no passage supports it"), traced(), ""),
        (Answer(" "), traced(), ""),
    ],
)  # fmt: skip
def test_an_answer_is_from_the_passages_that_say_it_or_from_memory(answer, events, source):
    assert source_of(answer, events) == source
