"""What the tests of Self-RAG in the reading of its authors' code share: passages and scripts."""

import asyncio

from askance.ask import ask
from askance.core.trace import Expanded, Generated
from askance.core.types import Passage, Question
from askance.methods.selfrag.tokens import (
    ALL_TOKENS,
    FULLY_SUPPORTED,
    IRRELEVANT,
    NO_RETRIEVAL,
    NO_SUPPORT,
    RELEVANT,
    RETRIEVAL,
    UTILITIES,
)
from askance.models.scripted import Reply, ScriptedModel
from askance.reproductions.selfrag import SelfragAuthors
from askance.retrieval.scripted import ScriptedRetriever

OPEN = Question("q", "Which river flows through Pisa?")
CLOSED = Question("q", "The Arno flows through Pisa.", task="choice", options=("true", "false"))
ARNO = Passage("a", "Arno", "The Arno flows through Pisa.")
PO = Passage("p", "Po", "The Po flows through Turin.")
TIBER = Passage("t", "Tiber", "The Tiber flows through Rome.")
FOUND = (ARNO, PO, TIBER)
START = f"### Instruction:\n{OPEN.text}\n\n### Response:\n"
GOOD = UTILITIES[4]


def run(method, reply, found=FOUND[:2], question=OPEN):
    """`reply` gets a call's place, such as "decide", "passage.1" or "0.2.1"; prompts are given by place."""
    prompts = {}

    def script(prompt, key):
        place = ".".join(map(str, key[2:])).removeprefix("segment.")
        prompts[place] = prompt.removeprefix(START)
        return reply(place)

    model, retriever = ScriptedModel(script, control=ALL_TOKENS), ScriptedRetriever(list(found))
    result = asyncio.run(ask(question, method, {"answer": model}, retriever))
    assert result.trace.committed == result.answer.text
    return result, prompts, retriever.queries


def by(replies):
    """Replies by place; others are empty."""
    return lambda place: replies.get(place, "")


def code(**parameters):
    return SelfragAuthors(**parameters)


def asking(probability):
    """A draft that begins with [Retrieval], which shares all probability with [No Retrieval]."""
    beside = {RETRIEVAL: {NO_RETRIEVAL: 1 - probability}}
    return Reply(f"{RETRIEVAL}Pisa lies on it.{GOOD}", doubts={RETRIEVAL: probability}, beside=beside)


def judged(text, relevant=0.5, fully=0.5, end=GOOD):
    """An answer or segment with these shares of [Relevant] and [Fully supported]."""
    return Reply(
        f"{RELEVANT}{text}{FULLY_SUPPORTED}{end}",
        doubts={RELEVANT: relevant, FULLY_SUPPORTED: fully},
        beside={RELEVANT: {IRRELEVANT: 1 - relevant}, FULLY_SUPPORTED: {NO_SUPPORT: 1 - fully}},
    )


def retrieve_probs(text, relevant=0.5, fully=0.5):
    """The same, and then another search is asked for."""
    return judged(text, relevant, fully, end=f"{RETRIEVAL}<paragraph>thrown away")


def candidates(result):
    return {event.node: event for event in result.trace.events if isinstance(event, Expanded)}


def scores(result):
    return {node: event.numbers["score"] for node, event in candidates(result).items()}


def drafts(result):
    return [e.text for e in result.trace.events if isinstance(e, Generated) and e.key[-1] == "decide"]
