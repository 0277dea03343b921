"""Lessons in judging: Self-RAG's four questions, with labels that follow from what a dataset tells.

- relevance: "relevant" for a supporting paragraph, "irrelevant" for a distractor, or for one that another
  question needs;
- support: "fully" for the paragraph that tells the fact, "partially" for one that tells the first of two
  facts, "not" for another paragraph, or for a fact with another object in it;
- usefulness: 5 for the whole way to the answer, 3 for its first half, 1 for the answer to another question;
- retrieval: a search where no passage tells the next fact, going on where one at hand does, and neither where
  all facts are told.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence

from askance.core.ports import Model
from askance.core.types import Passage, Prompt
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, Triple
from askance.methods.selfrag.scoring import LABELS, judgement_prompt
from askance.training.reader.lesson import TrainingExample, reply
from askance.training.reader.passages import Showing, as_hits, fitted
from askance.training.reader.reading import reasoning
from recipes.reader.composing import told_by
from recipes.reader.relations import in_order, plain, same, statement


def relevance(
    example: Example, model: Model, showing: Showing, random_: random.Random
) -> Iterator[TrainingExample]:
    """One paragraph that the answer needs, and one that it does not."""
    for is_supporting, label in ((True, "[Relevant]"), (False, "[Irrelevant]")):
        paragraph = _one(example, showing, random_, is_supporting=is_supporting)
        if paragraph is not None:
            prompt = judgement_prompt(model, example.question, "relevance", [paragraph])
            yield _judged("relevance", example, prompt, LABELS["relevance"], label)


def support(
    example: Example, others: Sequence[Triple], model: Model, showing: Showing, random_: random.Random
) -> Iterator[TrainingExample]:
    """One sentence against one paragraph; `others` are facts of other questions, to take objects from."""
    told = [(fact, told_by(example, fact)) for fact in in_order(example.supporting_facts.triples)]
    known = [(fact, paragraph) for fact, paragraph in told if paragraph is not None]
    if not known:
        return
    at = random_.randrange(len(known))
    fact, paragraph = known[at]
    sentence, label = statement(fact), "[Fully supported]"
    case = random_.randrange(4)
    if case == 1 and len(known) > 1:
        further = known[(at + 1) % len(known)][0]
        second = re.sub(r"^The ", "the ", statement(further))
        sentence, label = f"{sentence[:-1]}, and {second}", "[Partially supported]"
    elif case == 2:
        text = paragraph.text.casefold()
        wrong = sorted({each.object for each in others if each.relation == fact.relation
                        and each.object.casefold() not in text})  # fmt: skip
        if not wrong:
            return
        sentence = statement(Triple(fact.subject, fact.relation, random_.choice(wrong)))
        label = "[No support / Contradictory]"
    passage = _shown(paragraph, showing)
    if case == 3:
        passage, label = _one(example, showing, random_, is_supporting=False), "[No support / Contradictory]"
    if passage is None or (case == 3 and _names(passage, fact)):
        return
    prompt = judgement_prompt(model, example.question, "support", [passage], "", sentence)
    yield _judged("support", example, prompt, LABELS["support"], label)


def usefulness(
    example: Example, other: Example, model: Model, random_: random.Random
) -> Iterator[TrainingExample]:
    """The right answer, half of it, or the answer to another question."""
    known, case = reasoning(example), random_.randrange(3)
    if case == 0:
        answer, label = known.text, "[Utility:5]"
    elif case == 1 and len(known.facts) > 1:
        answer, label = known.facts[0], "[Utility:3]"
    elif other.question != example.question:
        answer, label = reasoning(other).text, "[Utility:1]"
    else:
        return
    prompt = judgement_prompt(model, example.question, "utility", text=answer)
    yield _judged("usefulness", example, prompt, LABELS["utility"], label)


def retrieval(
    example: Example, model: Model, showing: Showing, random_: random.Random
) -> Iterator[TrainingExample]:
    """Whether to search before the next sentence, with the paragraphs of some of the facts at hand."""
    told = [(fact, told_by(example, fact)) for fact in in_order(example.supporting_facts.triples)]
    if len(told) < 2 or any(paragraph is None for _, paragraph in told):
        return
    at = random_.randint(0, len(told))
    so_far = " ".join(statement(fact) for fact, _ in told[:at])
    has_next = at < len(told) and random_.random() < 0.5
    paragraphs = [paragraph for _, paragraph in told[max(0, at - 1) : at + has_next] if paragraph]
    shown = [each for each in (fitted(paragraph, showing.words) for paragraph in paragraphs) if each]
    label = "[No Retrieval]"
    if at < len(told):
        is_told = any(_tells(paragraph, told[at][0]) for paragraph in shown)
        label = "[Continue to Use Evidence]" if is_told else "[Retrieval]"
    passages = [hit.passage for hit in as_hits(shown)]
    prompt = judgement_prompt(model, example.question, "retrieve", passages, so_far)
    yield _judged("retrieval", example, prompt, LABELS["retrieve"], label)


def _tells(paragraph: Paragraph, fact: Triple) -> bool:
    """Under its subject's name: that a film is American does not tell of its director."""
    return same(paragraph.title, fact.subject) and fact.object in paragraph.text


def _names(passage: Passage, fact: Triple) -> bool:
    """Whether a distractor may tell a fact after all, as one on his brother tells of a father."""
    return fact.object in passage.text and plain(fact.subject) in f"{passage.title} {passage.text}"


def _judged(
    task: str, example: Example, prompt: Prompt, words: Mapping[str, str], token: str
) -> TrainingExample:
    return reply(task, example.question.id, prompt, words[token])


def _one(
    example: Example, showing: Showing, random_: random.Random, *, is_supporting: bool
) -> Passage | None:
    paragraphs = [each for each in example.supporting_facts.paragraphs if each.is_supporting == is_supporting]
    return _shown(random_.choice(paragraphs), showing) if paragraphs else None


def _shown(paragraph: Paragraph, showing: Showing) -> Passage | None:
    """As a method would be shown it; None where its evidence does not fit."""
    kept = fitted(paragraph, showing.words)
    return Passage("", kept.title, kept.text) if kept else None
