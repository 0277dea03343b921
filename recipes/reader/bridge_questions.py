"""Bridge questions: two-hop questions made from two single-hop ones, one of which names the other's answer.

"Who composed Carmen?" (Georges Bizet) and "Where did Georges Bizet die?" make "Where did the one who composed
Carmen die?". 2WikiMultihopQA's chains cover only a few relations of a knowledge base, whereas bridge
questions are about any topic, as in MuSiQue (Trivedi et al., 2022). MuSiQue's questions were composed by
hand, whereas rules compose the questions here. A question that no rule can turn into a noun phrase is left
out.
"""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, SupportingFacts
from askance.text.answers import sentences
from askance_lab.training.actions.noun_phrases import noun_phrase

MAX_PER_BRIDGE = 5
"""The most bridge questions per linking entity, since half of an article's questions may name its subject."""
NUM_DISTRACTORS = 4
"""The greatest number of distractors that are added to the paragraphs of the two questions."""
MAX_FACT_WORDS = 30
"""The greatest number of words in a sentence that serves as the second fact. Longer ones are left out."""

_AFTER_NAME = (
    r"(?='s\b|[,?.]|$| (?:is|are|was|were|has|had|have|did|do|does|can|could|will|would|may|in|into|to|of|on|"
    r"from|for|at|by|and|or|as|with|without|before|after|during|because|when|while|about|against|become|begin|"
    r"meet|use|try|want|think|believe|say|make|take|get|come|go|lose|win|die|live|start|end|lead|rule|own|"
    r"face)\b)"
)
"""The text that may follow a complete name. In "Newtonian physics", "Newtonian" is not a complete name."""


def bridge_questions(examples: Sequence[Example], rng: random.Random) -> tuple[Example, ...]:
    """Return all bridge questions in random order, each with its two paragraphs and distractors.

    Args:
        examples: Single-hop questions with an answer, each about one paragraph.
    """
    pool = [example.supporting_facts.paragraphs[0] for example in examples]
    made: list[tuple[str, Example]] = []
    used_ids: set[str] = set()
    for name, leads in sorted(_by_answer(examples).items()):
        pairs = [
            (lead, example)
            for example in examples
            for lead in leads
            if _names(example, name) and _is_independent(lead, example)
        ]
        rng.shuffle(pairs)
        for lead, example in pairs[: 3 * MAX_PER_BRIDGE]:
            num_with_name = sum(name == bridge for bridge, _ in made)
            if example.question.id in used_ids or num_with_name == MAX_PER_BRIDGE:
                continue
            used_ids.add(example.question.id)
            made.append((name, _record(lead, example, name, pool, rng)))
    records = [record for _, record in made]
    rng.shuffle(records)
    return tuple(records)


def _by_answer(examples: Sequence[Example]) -> dict[str, list[Example]]:
    """Return the questions that a rule turns into a noun phrase and whose answer is a name, by answer."""
    leads: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        name = example.golds[0].strip()
        if re.fullmatch(r"(?:the )?[A-Z][^\d,.()]{3,40}", name) and noun_phrase(example.question.text):
            leads[name].append(example)
    return leads


def _names(example: Example, name: str) -> bool:
    """Return whether the question contains the name, and not only as part of a longer name."""
    if name not in example.question.text:
        return False
    match = re.search(rf"(?<![\w-]){re.escape(name)}{_AFTER_NAME}", example.question.text)
    return match is not None and not re.search(r"[A-Z][\w'-]*\s$", example.question.text[1 : match.start()])


def _is_independent(lead: Example, example: Example) -> bool:
    """Return whether neither question gives away the answer to the other question."""
    first, second = lead.golds[0].casefold(), example.golds[0].casefold()
    return first not in second and second not in lead.question.text.casefold()


def _record(
    lead: Example, example: Example, name: str, pool: Sequence[Paragraph], rng: random.Random
) -> Example:
    phrase = noun_phrase(lead.question.text)
    text = re.sub(rf"(?:\b[Tt]he )?{re.escape(name)}", lambda _: phrase, example.question.text, count=1)
    needed = _merged(lead.supporting_facts.paragraphs[0], example.supporting_facts.paragraphs[0])
    others = rng.sample(pool, min(len(pool), 2 * NUM_DISTRACTORS))
    distractors = {
        other.text: Paragraph(other.title, other.text) for other in others if name not in other.text
    }
    for paragraph in needed:
        distractors.pop(paragraph.text, None)
    supporting_facts = SupportingFacts(
        (*needed, *list(distractors.values())[:NUM_DISTRACTORS]),
        facts=(f"{_capitalised(phrase)} is {name}.", *_evidence(example)),
    )
    id = f"{lead.question.id}+{example.question.id}"
    return Example(Question(id, _capitalised(text)), example.golds, supporting_facts=supporting_facts, hops=2)


def _merged(one: Paragraph, other: Paragraph) -> tuple[Paragraph, ...]:
    if one.text != other.text:
        return one, other
    return (Paragraph(one.title, one.text, tuple(sorted({*one.evidence, *other.evidence}))),)


def _evidence(example: Example) -> Iterator[str]:
    """Yield the short evidence sentences that contain the answer."""
    for part in example.supporting_facts.paragraphs[0].evidence_texts:
        for sentence in sentences(part):
            if len(sentence.split()) <= MAX_FACT_WORDS and example.golds[0] in sentence:
                yield " ".join(sentence.split())


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
