"""Sub-questions of a multi-hop question, from the facts or the decomposition that a dataset gives.

MuSiQue's steps refer to earlier answers by "#1" and often have the form "Carmen >> composer". StrategyQA's
steps have no answers. Both become natural questions in two forms: as a plan would ask them, where a phrase
describes the earlier answer, and with the answer filled in.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import ReasoningStep, Triple
from askance_lab.training.actions.noun_phrases import noun_phrase, reference
from askance_lab.training.actions.relations import (
    in_chain_order,
    is_same_name,
    object_description,
    questions,
    without_parentheses,
)

MAX_DESCRIPTION_WORDS = 12
"""The greatest number of words of a description. A reference such as "that city" stands for a longer one."""
_REFERENCE = re.compile(r"#(\d+)")
_RELATION = ">>"
_INVERTED = re.compile(
    r"that (?:is|are|was|were|has|have|had|can|could|will|would|may) (?:the |an? |his |her |its |[A-Z])"
)
"""Match a noun phrase that a rule made from a question with its subject after the verb."""


class BadReference(ValueError):
    """A step refers to itself, to a later step, or to a step that does not exist."""


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """A sub-question of a multi-hop question.

    Attributes:
        planned: The text before any sub-question is answered.
        resolved: The text with the earlier answers filled in.
        answer: The answer; empty if the dataset does not give one.
        topic: The subject of the sub-question, with the earlier answers filled in; empty if unknown.
    """

    planned: str
    resolved: str
    answer: str
    topic: str = ""


def sub_questions(example: Example) -> tuple[SubQuestion, ...]:
    """Return the sub-questions that lead to the answer, in order, or an empty tuple if there are none.

    Raises:
        BadReference: The steps can't be put in order.
    """
    facts = example.supporting_facts
    return from_triples(facts.triples) if facts.triples else from_steps(facts.steps)


def from_triples(triples: tuple[Triple, ...]) -> tuple[SubQuestion, ...]:
    """Return a sub-question for each fact, chain by chain."""
    ordered, steps, description = in_chain_order(triples), list[SubQuestion](), ""
    for index, fact in enumerate(ordered):
        is_led = index > 0 and is_same_name(ordered[index - 1].object, fact.subject)
        subject = description if is_led else without_parentheses(fact.subject)
        planned, resolved = questions(fact, subject)[0], questions(fact)[0]
        steps.append(SubQuestion(planned, resolved, fact.object, without_parentheses(fact.subject)))
        description = object_description(replace(fact, subject=subject))
    return tuple(steps)


def from_steps(steps: Sequence[ReasoningStep]) -> tuple[SubQuestion, ...]:
    """Return a sub-question for each step, without those that refer to answers which the dataset lacks.

    Such a step of StrategyQA usually compares or judges answers, which is the task of the summary.

    Raises:
        BadReference: A step refers to itself, to a later step, or to a step that does not exist.
    """
    answers = [step.answer.strip() for step in steps]
    descriptions, made = list[str](), list[SubQuestion]()
    for number, step in enumerate(steps, start=1):
        numbers = {int(each) for each in _REFERENCE.findall(step.question)}
        if wrong := sorted(each for each in numbers if not 0 < each < number):
            raise BadReference(f"step {number} refers to #{wrong[0]}, which is no earlier step")
        text, topic = _as_question(step.question)
        planned = _filled(text, descriptions)
        descriptions.append(_description(step.question, descriptions))
        if all(answers[each - 1] for each in numbers):
            resolved, about = (_filled(each, answers) for each in (text, topic))
            made.append(SubQuestion(planned, resolved, answers[number - 1], about))
    return tuple(made)


def _as_question(step: str) -> tuple[str, str]:
    """Return a step as a natural question that keeps its references, and its topic, which may be empty."""
    subject, arrow, relation = step.partition(_RELATION)
    if arrow:
        subject = subject.strip()
        return questions(Triple(subject, relation.strip(), ""))[0], without_parentheses(subject)
    text = " ".join(step.split()).rstrip(" .?")
    return f"{text[:1].upper()}{text[1:]}?", ""


def _description(step: str, descriptions: Sequence[str]) -> str:
    """Return a noun phrase for the answer of a step, given those for the answers of the earlier steps."""
    subject, arrow, relation = step.partition(_RELATION)
    if arrow:
        phrase = object_description(Triple(_filled(subject.strip(), descriptions), relation.strip(), ""))
    else:
        phrase = noun_phrase(_filled(_as_question(step)[0], descriptions))
    is_good = len(phrase.split()) <= MAX_DESCRIPTION_WORDS and not _INVERTED.search(phrase)
    return phrase if phrase and is_good else reference(_as_question(step)[0])


def _filled(text: str, values: Sequence[str]) -> str:
    """Return a text with a value in place of each reference."""
    text = _REFERENCE.sub(lambda match: values[int(match[1]) - 1], text)
    text = re.sub(r"\b(?:the|a|an) (the|that)\b", r"\1", text, flags=re.IGNORECASE)
    text = re.sub(r"\s+([?,.;]|['’]s\b)", r"\1", " ".join(text.split()))
    return text[:1].upper() + text[1:] if text.endswith("?") else text
