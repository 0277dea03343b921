"""A question, a passage and a run on scripted models, for the tests of the DRAGIN authors' methods."""

import asyncio

from askance.core.trace import Trace
from askance.core.types import Passage, Question
from askance.methods.common.prompts import PromptTemplate
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance_lab.reproductions.baselines import (
    ClosedBookAuthors,
    FixedLengthAuthors,
    FixedSentenceAuthors,
    FlareToken,
    SingleAuthors,
)
from askance_lab.reproductions.dragin import DraginAuthors
from tests.asking import ask

QUESTION = Question("q", "Which river flows through Pisa?")
ARNO = Passage("a", "Arno", "The Arno flows\nthrough Pisa.")
BARE = PromptTemplate(demos=(), instruction="Go on.")
CASE = "Question: Which river flows through Pisa?\nAnswer:"
BLOCK = "Context:\n[1] The Arno flows through Pisa.\nGo on.\n"
METHODS = (
    ClosedBookAuthors,
    SingleAuthors,
    FixedLengthAuthors,
    FixedSentenceAuthors,
    FlareToken,
    DraginAuthors,
)


def run(method, replies, *, found=(ARNO,), question=QUESTION, heard=None, **abilities):
    """Return the result, the model, which keeps its prompts, and the retriever, which keeps its queries."""
    model, retriever = ScriptedModel(replies, **abilities), ScriptedRetriever(list(found))
    trace = Trace(None if heard is None else heard.append)
    result = asyncio.run(ask(question, method, {"answer": model}, retriever, trace=trace))
    assert result.trace.committed.strip() == result.answer.text.strip()
    assert result.usage.searches == len(retriever.queries)
    return result, model, retriever
