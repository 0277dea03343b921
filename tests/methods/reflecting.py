"""Shared parts of the Self-RAG tests: a question, scripted models with reflection tokens, and slow sums."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from askance.core.trace import Expanded
from askance.core.types import Passage, Question
from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.segment_writer import NativeWriter, SegmentWriter
from askance.methods.selfrag.tokens import (
    ALL_TOKENS,
    FULLY_SUPPORTED,
    IRRELEVANT,
    NO_SUPPORT,
    PARTIALLY_SUPPORTED,
    RELEVANT,
    Distribution,
)
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.asking import ask

QUESTION = Question("q", "Which river flows through Pisa?")
BARE = "### Instruction:\nWhich river flows through Pisa?\n\n### Response:\n"
ARNO = Passage("a", "Arno", "The Arno flows through Pisa.")
PO = Passage("p", "Po", "The Po flows through Turin.")
TIBER = Passage("t", "Tiber", "The Tiber flows through Rome.")
IN_ARNO, IN_PO, IN_TIBER = (f"{each.text}</paragraph>" for each in (ARNO, PO, TIBER))
"""How a prompt ends after which the model writes with that passage."""


def found(passage: Passage) -> str:
    """Return a passage as it is laid out in a prompt."""
    return f"[Retrieval]<paragraph>{passage.title}\n{passage.text}</paragraph>"


def said(text: str, *distributions: dict[str, float], ends: bool = True, sureness: float = 0.99) -> Reply:
    """Return a reply whose tokens have these probabilities, each distribution where one of its names is
    written.
    """
    doubts, beside = {}, {}
    for probs in distributions:
        written = next(name for name in probs if name in text)
        doubts[written] = probs[written]
        beside[written] = {name: value for name, value in probs.items() if name != written}
    return Reply(text, doubts, sureness, ends, beside=beside)


def relevant(share: float, text: str, *more: dict[str, float], ends: bool = True) -> Reply:
    """Return a reply to a passage whose relevance is `share`."""
    token = RELEVANT if share >= 0.5 else IRRELEVANT
    return said(token + text, {RELEVANT: share, IRRELEVANT: 1 - share}, *more, ends=ends)


def supported(fully: float, partially: float, unsupported: float) -> dict[str, float]:
    return {FULLY_SUPPORTED: fully, PARTIALLY_SUPPORTED: partially, NO_SUPPORT: unsupported}


def by_ending(table: dict[str, Any]):
    """Return replies by how the prompt ends; the longest matching ending wins."""

    def reply(prompt, key):
        endings = [ending for ending in table if prompt.endswith(ending)]
        assert endings, f"no reply to {prompt[-90:]!r}"
        return table[max(endings, key=len)]

    return reply


def native(replies, **settings) -> ScriptedModel:
    """Return a model with reflection tokens."""
    replies = by_ending(replies) if isinstance(replies, dict) else replies
    return ScriptedModel(replies, control=ALL_TOKENS, name="native", **settings)


def run(method, models, passages=(ARNO, PO), question=QUESTION, trace=None):
    """Return the result, the models' prompts and the queries."""
    models = models if isinstance(models, dict) else {"answer": models}
    known = isinstance(passages, (dict, Exception))
    retriever = ScriptedRetriever(passages if known else list(passages))
    result = asyncio.run(ask(question, method, models, retriever, trace=trace))
    searched = sum(event.outcome == "search" for event in result.trace.decisions)
    assert result.usage.searches == len(retriever.queries) == searched
    assert result.trace.committed.strip() == result.answer.text
    return result, models["answer"].prompts, retriever.queries


def tried(result) -> dict[str, Expanded]:
    """Return the candidates tried, by name."""
    return {event.node: event for event in result.trace.events if isinstance(event, Expanded)}


def cited(answer) -> list[tuple[int, str, str]]:
    return [(each.number, each.passage.id, answer.text[each.start : each.end]) for each in answer.citations]


@dataclass(frozen=True)
class Judged:
    """Self-RAG with the test's own scorer, over a native or prompted writer."""

    selfrag: Selfrag
    scorer: "ScriptedScorer"
    over_tokens: bool = False

    @property
    def needs(self):
        return self.selfrag.needs

    async def answer(self, question, run):
        return await self.selfrag.answer_with(self.writer(question, run), question, run)

    def writer(self, question, run):
        method, judge = self.selfrag, self.scorer.judge
        if self.over_tokens:
            return NativeWriter(method, question, run, judge, method.head(question, run))
        return SegmentWriter(method, question, run, judge)


@dataclass(frozen=True, slots=True)
class ScriptedScorer:
    """Judgements by rule: each function takes what it judges; passages are given by their text."""

    retrieves: Callable[[str], Distribution] = lambda so_far: {}
    relevances: Callable[[str], Distribution] = lambda passage: {}
    supports: Callable[[str, str], Distribution] = lambda sentence, passage: {}
    utilities: Callable[[str], Distribution] = lambda answer: {}

    async def judge(self, group, hit, so_far, said, *, key):
        if group == "retrieve":
            return self.retrieves(so_far)
        if group == "utility":
            return self.utilities(said)
        passage = hit.passage.text
        return self.relevances(passage) if group == "relevance" else self.supports(said, passage)
