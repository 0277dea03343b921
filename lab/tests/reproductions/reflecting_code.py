"""Shared parts of the tests of Self-RAG in the variant of its authors' code: passages and scripts."""

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
from askance.retrieval.scripted import ScriptedRetriever
from askance_lab.reproductions.selfrag import SelfragAuthors

OPEN = Question("q", "Which river flows through Pisa?")
CLOSED = Question("q", "The Arno flows through Pisa.", task="choice", options=("true", "false"))
ARNO = Passage("a", "Arno", "The Arno flows through Pisa.")
PO = Passage("p", "Po", "The Po flows through Turin.")
TIBER = Passage("t", "Tiber", "The Tiber flows through Rome.")
FOUND = (ARNO, PO, TIBER)
START = f"### Instruction:\n{OPEN.text}\n\n### Response:\n"
GOOD = UTILITIES[4]


def run(method, reply, found=FOUND[:2], question=OPEN):
    """Run a question; `reply` gets the name of a call, such as "decide", "passage.1" or "0.2.1".

    Prompts are returned by name.
    """
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
    """Return replies by the name of the call; any other reply is empty."""
    return lambda place: replies.get(place, "")


def code(**parameters):
    return SelfragAuthors(**parameters)


def asking(probability):
    """Return a draft that begins with [Retrieval], which shares all probability with [No Retrieval]."""
    beside = {RETRIEVAL: {NO_RETRIEVAL: 1 - probability}}
    return Reply(f"{RETRIEVAL}Pisa lies on it.{GOOD}", doubts={RETRIEVAL: probability}, beside=beside)


def judged(text, relevant=0.5, fully=0.5, end=GOOD):
    """Return an answer or segment with these shares of [Relevant] and [Fully supported]."""
    return Reply(
        f"{RELEVANT}{text}{FULLY_SUPPORTED}{end}",
        doubts={RELEVANT: relevant, FULLY_SUPPORTED: fully},
        beside={RELEVANT: {IRRELEVANT: 1 - relevant}, FULLY_SUPPORTED: {NO_SUPPORT: 1 - fully}},
    )


def judged_then_search(text, relevant=0.5, fully=0.5):
    """Return the same, followed by a request for another search."""
    return judged(text, relevant, fully, end=f"{RETRIEVAL}<paragraph>thrown away")


def candidates(result):
    return {event.node: event for event in result.trace.events if isinstance(event, Expanded)}


def scores(result):
    return {node: event.numbers["score"] for node, event in candidates(result).items()}


def drafts(result):
    return [e.text for e in result.trace.events if isinstance(e, Generated) and e.key[-1] == "decide"]
