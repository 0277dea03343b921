"""FActScore: the fraction of an answer's facts that are true.

Min et al. 2023, "FActScore: Fine-grained Atomic Evaluation of Factual Precision in Long Form Text
Generation" (arXiv 2305.14251). A judge model splits each sentence into atomic facts. For each fact, passages
are retrieved from an index, and the model judges from them whether the fact is true. The score of an answer
is the fraction of its facts that are true. An answer with fewer than gamma facts is penalised as in the
authors' code: its score is multiplied by exp(1 − gamma / facts).

A refusal or an empty answer has no score. `responded` is the fraction of answers that are neither.

Deviations from the paper and its code:
- the prompts are askance's own, with one example for splitting; one model splits and judges, where the paper
  uses InstructGPT and ChatGPT;
- the query is the topic followed by the fact, and the whole index is searched, not only the topic's article;
- a fact counts as unsupported if no passage is found (the model is not called), or if the model gives no
  verdict;
- a sentence in which the model finds no facts counts as one fact;
- a repeated fact counts once;
- refusals are recognised by their first words (`facts.toml`); the authors' code lists phrases for each model.
"""

import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from askance.core.answers import Answer
from askance.core.ports import Model, Retriever
from askance.core.types import Chat, GenerateRequest, Hit, Prompt, Raw, Sampling, Span, Turn, untrusted
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
    """Return a judge of facts.

    Args:
        spec: The specification of the judge model, as the user gave it.
        passages: The number of passages to retrieve for each fact.
        in_flight: The number of answers that are judged at the same time.
    """
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
    """A judge that checks facts against retrieved passages.

    Attributes:
        passages: The number of passages to retrieve for each fact.
    """

    model: Model
    retriever: Retriever
    passages: int = 5

    async def find(self, id: str, topic: str, answer: Answer) -> tuple[JudgeFinding, ...]:
        """Return the facts of an answer about a topic, each with its verdict.

        A refusal and an empty answer have no facts.

        Raises:
            PromptTooLong: A sentence, or a fact with a single passage, does not fit the model's window.
        """
        facts: dict[str, str] = {}
        statements = () if is_refusal(answer.text) else sentences(unmarked(answer.text))
        for number, sentence in enumerate(statements, start=1):
            for fact in await self._split(id, number, topic, sentence):
                facts.setdefault(fact.casefold(), fact)
        verdicts = [
            await self._is_true(id, number, topic, fact)
            for number, fact in enumerate(facts.values(), start=1)
        ]
        return tuple(map(JudgeFinding, facts.values(), verdicts))

    async def _split(self, id: str, number: int, topic: str, sentence: str) -> tuple[str, ...]:
        if not any(character.isalnum() for character in sentence):
            return ()
        fields = (*_field("Topic", topic), Span("\n"), *_field("Sentence", sentence))
        prompt = _prompt(self.model, _TEXTS["split"], fields, "Facts:")
        sampling = Sampling(MOST_SPLIT_TOKENS, stop=("\nSentence:", "\nTopic:"))
        return facts_in(await self._generate(prompt, sampling, id, "split", number)) or (sentence,)

    async def _is_true(self, id: str, number: int, topic: str, fact: str) -> bool:
        hits = await self.retriever.search(f"{topic} {fact}", self.passages)
        if not hits:
            return False
        prompt = await self._judging_prompt(topic, fact, hits)
        sampling = Sampling(MOST_VERDICT_TOKENS, stop=("\n\n",))
        return says_true(await self._generate(prompt, sampling, id, "judge", number))

    async def _generate(self, prompt: Prompt, sampling: Sampling, *key: str | int) -> str:
        (generated,) = await self.model.generate(GenerateRequest(prompt, sampling, key=("facts", *key)))
        return generated.text

    async def _judging_prompt(self, topic: str, fact: str, hits: Sequence[Hit]) -> Prompt:
        """Return the prompt with as many of the best passages as fit the model's window."""
        for num_passages in range(len(hits), 0, -1):
            context = (*_field("Topic", topic), Span("\n"), *numbered_passages(hits[:num_passages]))
            fields = (*context, *_field("Statement", fact))
            prompt = _prompt(self.model, _TEXTS["judge"], fields, "Verdict:")
            if await self.model.count(prompt) + MOST_VERDICT_TOKENS <= self.model.context_tokens:
                break
        return prompt


def fact_scores(findings: Sequence[JudgeFinding], gamma: float = 10) -> dict[str, float | None]:
    """Return the scores of one answer.

    If the answer states no facts, all scores except `responded` are None.

    Args:
        gamma: The number of facts below which an answer gets a penalty; 0 means no penalty.

    In this example, two of three facts are true. With 10 facts or more, `factscore` would equal
    `supported_facts`:

    >>> facts = {"Ada was born.": True, "Ada sang.": False, "Ada died.": True}
    >>> findings = [JudgeFinding(fact, is_true) for fact, is_true in facts.items()]
    >>> {name: round(score, 3) for name, score in fact_scores(findings).items()}
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
    """Return the facts that a model listed, without the text around the list.

    >>> facts_in("- Ada was born.")
    ('Ada was born.',)
    """
    return tuple(" ".join(found.split()) for found in _BULLET.findall(written))


def says_true(written: str) -> bool:
    """Return whether the first verdict in a model's text is positive, or False if there is no verdict.

    >>> says_true("The statement is true."), says_true("Not true: …"), says_true("Well.")
    (True, False, False)
    """
    verdict = _VERDICT.search(written)
    return verdict is not None and bool(verdict["yes"]) and not verdict["denied"]


def is_refusal(text: str) -> bool:
    """Return whether a text begins with a known phrase of refusal."""
    return _REFUSAL.match(text.strip()) is not None


def _prompt(model: Model, instruction: str, fields: tuple[Span, ...], cue: str) -> Prompt:
    if "chat" in model.capabilities:
        return Chat((Turn("user", (Span(f"{instruction}\n\n"), *fields)),))
    return Raw((Span(f"{instruction}\n\n"), *fields, Span(f"\n{cue}")))


def _field(label: str, text: str) -> tuple[Span, ...]:
    return (Span(f"{label}: "), untrusted(" ".join(text.split())))
