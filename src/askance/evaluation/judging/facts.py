"""How much of what an answer says is true: FActScore.

Min et al. 2023, "FActScore: Fine-grained Atomic Evaluation of Factual Precision in Long Form Text
Generation" (arXiv 2305.14251). A model takes each sentence apart into single facts; each fact is searched for
in an index, and the model judges it by the passages found. The score of an answer is the share of its facts
that are true, times exp(1 − gamma / facts) where it has fewer than gamma: the penalty of the authors' code.

An answer that refuses, or says nothing, has no score; how many do answer is told apart (`responded`).

Deviations from paper and code:
- the prompts are our own, with one example for taking apart, and one model does both (InstructGPT and ChatGPT
  there);
- passages are searched for with topic and fact together in the whole index, not in the topic's article alone;
- a fact for which nothing is found is not supported, and the model is not asked; neither is one on which it
  gives no verdict;
- a sentence of which the model names no facts is one fact itself;
- a fact that is told twice counts once;
- refusals are known by how they begin (`facts.toml`); the code has lists of phrases for each model.
"""

import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from askance.core.ports import Model, Retriever
from askance.core.types import (
    Answer,
    Chat,
    GenerateRequest,
    Hit,
    Prompt,
    Raw,
    Sampling,
    Span,
    Turn,
    untrusted,
)
from askance.evaluation.judging.judge_run import AnswerJudge, JudgeFinding
from askance.methods.common.prompts import numbered_passages
from askance.text.answers import sentences
from askance.text.support import unmarked

MOST_SPLIT_TOKENS, MOST_VERDICT_TOKENS = 256, 16
_BULLET = re.compile(r"^[ \t]*(?:[-*•–]|\d{1,2}[.)])[ \t]+(\S.*)$", re.MULTILINE)
_VERDICT = re.compile(
    r"\b(?P<denied>not[ \t]+)?(?:(?P<yes>true|supported)|(?P<no>false|unsupported))\b", re.I
)
_TEXTS = tomllib.loads(Path(__file__).with_name("facts.toml").read_text(encoding="utf-8"))
_REFUSAL = re.compile("|".join(_TEXTS["refusals"]), re.IGNORECASE)


def fact_judge(
    model: Model, retriever: Retriever, spec: str, *, passages: int = 5, gamma: float = 10, in_flight: int = 1
) -> AnswerJudge:
    """What judges facts; `spec` is how the model was named, and for `gamma` see `fact_scores`."""
    identity = {
        "judge": spec,
        "model": model.name,
        "index content": retriever.fingerprint,
        "passages": str(passages),
    }
    facts = FactJudge(model, retriever, passages)
    return AnswerJudge("facts", identity, facts.find, partial(fact_scores, gamma=gamma), in_flight)


@dataclass(frozen=True, slots=True)
class FactJudge:
    """What judges facts.

    Attributes:
        passages: how many are searched for to judge one fact by.
    """

    model: Model
    retriever: Retriever
    passages: int = 5

    async def find(self, id: str, topic: str, answer: Answer) -> tuple[JudgeFinding, ...]:
        """The facts of an answer on a topic, each with its verdict; none where it refuses or is empty.

        Raises:
            PromptTooLong: a sentence, or a fact with a single passage, does not fit the model's window.
        """
        facts: dict[str, str] = {}
        told = () if is_refusal(answer.text) else sentences(unmarked(answer.text))
        for number, sentence in enumerate(told, start=1):
            for fact in await self._taken_apart(id, number, topic, sentence):
                facts.setdefault(fact.casefold(), fact)
        verdicts = [
            await self._is_true(id, number, topic, fact)
            for number, fact in enumerate(facts.values(), start=1)
        ]
        return tuple(map(JudgeFinding, facts.values(), verdicts))

    async def _taken_apart(self, id: str, number: int, topic: str, sentence: str) -> tuple[str, ...]:
        if not any(character.isalnum() for character in sentence):
            return ()
        asked = (*_field("Topic", topic), Span("\n"), *_field("Sentence", sentence))
        prompt = _prompt(self.model, _TEXTS["split"], asked, "Facts:")
        sampling = Sampling(MOST_SPLIT_TOKENS, stop=("\nSentence:", "\nTopic:"))
        return facts_in(await self._written(prompt, sampling, id, "split", number)) or (sentence,)

    async def _is_true(self, id: str, number: int, topic: str, fact: str) -> bool:
        hits = await self.retriever.search(f"{topic} {fact}", self.passages)
        if not hits:
            return False
        prompt = self._judging_prompt(topic, fact, hits)
        sampling = Sampling(MOST_VERDICT_TOKENS, stop=("\n\n",))
        return says_true(await self._written(prompt, sampling, id, "judge", number))

    async def _written(self, prompt: Prompt, sampling: Sampling, *key: str | int) -> str:
        (written,) = await self.model.generate(GenerateRequest(prompt, sampling, key=("facts", *key)))
        return written.text

    def _judging_prompt(self, topic: str, fact: str, hits: Sequence[Hit]) -> Prompt:
        """With as many of the passages, best first, as the model's window takes."""
        for num_passages in range(len(hits), 0, -1):
            about = (*_field("Topic", topic), Span("\n"), *numbered_passages(hits[:num_passages]))
            asked = (*about, *_field("Statement", fact))
            prompt = _prompt(self.model, _TEXTS["judge"], asked, "Verdict:")
            if self.model.count(prompt) + MOST_VERDICT_TOKENS <= self.model.context_tokens:
                break
        return prompt


def fact_scores(findings: Sequence[JudgeFinding], gamma: float = 10) -> dict[str, float | None]:
    """Of one answer; the scores are None where it tells no facts.

    Args:
        gamma: answers of fewer facts are marked down; 0 marks none down.

    Two facts of three are true; with 10 facts or more that would be the score:

    >>> born, sang = JudgeFinding("Ada was born.", True), JudgeFinding("Ada sang.", False)
    >>> found = [born, sang, JudgeFinding("Ada died.", True)]
    >>> {name: round(score, 3) for name, score in fact_scores(found).items()}
    {'factscore': 0.065, 'supported_facts': 0.667, 'facts': 3.0, 'responded': 1.0}
    """
    if not findings:
        return {"factscore": None, "supported_facts": None, "facts": None, "responded": 0.0}
    num_facts = len(findings)
    share = sum(each.is_supported for each in findings) / num_facts
    penalty = math.exp(1 - gamma / num_facts) if num_facts < gamma else 1.0
    return {
        "factscore": share * penalty,
        "supported_facts": share,
        "facts": float(num_facts),
        "responded": 1.0,
    }


def facts_in(written: str) -> tuple[str, ...]:
    """The facts that a model listed, whatever it wrote around the list.

    >>> facts_in("- Ada was born.")
    ('Ada was born.',)
    """
    return tuple(" ".join(found.split()) for found in _BULLET.findall(written))


def says_true(written: str) -> bool:
    """The first verdict in what a model wrote; without one it is false.

    >>> says_true("The statement is true."), says_true("Not true: …"), says_true("Well.")
    (True, False, False)
    """
    verdict = _VERDICT.search(written)
    return verdict is not None and bool(verdict["yes"]) and not verdict["denied"]


def is_refusal(text: str) -> bool:
    """Whether a text begins as those do that answer nothing."""
    return _REFUSAL.match(text.strip()) is not None


def _prompt(model: Model, instruction: str, asked: tuple[Span, ...], cue: str) -> Prompt:
    if "chat" in model.capabilities:
        return Chat((Turn("user", (Span(f"{instruction}\n\n"), *asked)),))
    return Raw((Span(f"{instruction}\n\n"), *asked, Span(f"\n{cue}")))


def _field(label: str, text: str) -> tuple[Span, ...]:
    return (Span(f"{label}: "), untrusted(" ".join(text.split())))
