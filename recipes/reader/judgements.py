"""Training examples in judging: Self-RAG's four questions, with labels that follow from what a dataset tells.

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
from askance.evaluation.datasets.grounds import Paragraph, Triple
from askance.methods.selfrag.judging import LABELS, judgement_prompt
from askance.training.reader.answer_examples import gold_reasoning
from askance.training.reader.passages import PassageLimits, as_hits, shortened
from askance.training.reader.training_example import TrainingExample, reply_example
from recipes.reader.composed_questions import supporting_paragraph
from recipes.reader.relations import as_sentence, in_chain_order, is_same_name, without_parentheses


def relevance(
    example: Example, model: Model, passage_limits: PassageLimits, rng: random.Random
) -> Iterator[TrainingExample]:
    """One paragraph that the answer needs, and one that it does not."""
    for is_supporting, label in ((True, "[Relevant]"), (False, "[Irrelevant]")):
        paragraph = _one(example, passage_limits, rng, is_supporting=is_supporting)
        if paragraph is not None:
            prompt = judgement_prompt(model, example.question, "relevance", [paragraph])
            yield _judged("relevance", example, prompt, LABELS["relevance"], label)


def support(
    example: Example,
    others: Sequence[Triple],
    model: Model,
    passage_limits: PassageLimits,
    rng: random.Random,
) -> Iterator[TrainingExample]:
    """One sentence against one paragraph; `others` are facts of other questions, to take objects from."""
    told = [(fact, supporting_paragraph(example, fact)) for fact in in_chain_order(example.grounds.triples)]
    known = [(fact, paragraph) for fact, paragraph in told if paragraph is not None]
    if not known:
        return
    at = rng.randrange(len(known))
    fact, paragraph = known[at]
    sentence, label = as_sentence(fact), "[Fully supported]"
    case = rng.randrange(4)
    if case == 1 and len(known) > 1:
        further = known[(at + 1) % len(known)][0]
        second = re.sub(r"^The ", "the ", as_sentence(further))
        sentence, label = f"{sentence[:-1]}, and {second}", "[Partially supported]"
    elif case == 2:
        text = paragraph.text.casefold()
        wrong = sorted({each.object for each in others if each.relation == fact.relation
                        and each.object.casefold() not in text})  # fmt: skip
        if not wrong:
            return
        sentence = as_sentence(Triple(fact.subject, fact.relation, rng.choice(wrong)))
        label = "[No support / Contradictory]"
    passage = _shown(paragraph, passage_limits)
    if case == 3:
        passage, label = (
            _one(example, passage_limits, rng, is_supporting=False),
            "[No support / Contradictory]",
        )
    if passage is None or (case == 3 and _names(passage, fact)):
        return
    prompt = judgement_prompt(model, example.question, "support", [passage], "", sentence)
    yield _judged("support", example, prompt, LABELS["support"], label)


def usefulness(
    example: Example, other: Example, model: Model, rng: random.Random
) -> Iterator[TrainingExample]:
    """The right answer, half of it, or the answer to another question."""
    known, case = gold_reasoning(example), rng.randrange(3)
    if case == 0:
        answer, label = known.text, "[Utility:5]"
    elif case == 1 and len(known.facts) > 1:
        answer, label = known.facts[0], "[Utility:3]"
    elif other.question != example.question:
        answer, label = gold_reasoning(other).text, "[Utility:1]"
    else:
        return
    prompt = judgement_prompt(model, example.question, "utility", said=answer)
    yield _judged("usefulness", example, prompt, LABELS["utility"], label)


def retrieval(
    example: Example, model: Model, passage_limits: PassageLimits, rng: random.Random
) -> Iterator[TrainingExample]:
    """Whether to search before the next sentence, with the paragraphs of some of the facts at hand."""
    told = [(fact, supporting_paragraph(example, fact)) for fact in in_chain_order(example.grounds.triples)]
    if len(told) < 2 or any(paragraph is None for _, paragraph in told):
        return
    at = rng.randint(0, len(told))
    so_far = " ".join(as_sentence(fact) for fact, _ in told[:at])
    has_next = at < len(told) and rng.random() < 0.5
    paragraphs = [paragraph for _, paragraph in told[max(0, at - 1) : at + has_next] if paragraph]
    draw_passages = [
        each for each in (shortened(paragraph, passage_limits.max_words) for paragraph in paragraphs) if each
    ]
    label = "[No Retrieval]"
    if at < len(told):
        is_told = any(_tells(paragraph, told[at][0]) for paragraph in draw_passages)
        label = "[Continue to Use Evidence]" if is_told else "[Retrieval]"
    passages = [hit.passage for hit in as_hits(draw_passages)]
    prompt = judgement_prompt(model, example.question, "retrieve", passages, so_far)
    yield _judged("retrieval", example, prompt, LABELS["retrieve"], label)


def _tells(paragraph: Paragraph, fact: Triple) -> bool:
    """Under its subject's name: that a film is American does not tell of its director."""
    return is_same_name(paragraph.title, fact.subject) and fact.object in paragraph.text


def _names(passage: Passage, fact: Triple) -> bool:
    """Whether a distractor may tell a fact after all, as one on his brother tells of a father."""
    return (
        fact.object in passage.text and without_parentheses(fact.subject) in f"{passage.title} {passage.text}"
    )


def _judged(
    task: str, example: Example, prompt: Prompt, words: Mapping[str, str], token: str
) -> TrainingExample:
    return reply_example(task, example.question.id, prompt, words[token])


def _one(
    example: Example, passage_limits: PassageLimits, rng: random.Random, *, is_supporting: bool
) -> Passage | None:
    paragraphs = [each for each in example.grounds.paragraphs if each.is_supporting == is_supporting]
    return _shown(rng.choice(paragraphs), passage_limits) if paragraphs else None


def _shown(paragraph: Paragraph, passage_limits: PassageLimits) -> Passage | None:
    """As a method would be shown it; None where its evidence does not fit."""
    kept = shortened(paragraph, passage_limits.max_words)
    return Passage("", kept.title, kept.text) if kept else None
