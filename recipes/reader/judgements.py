"""Training examples of judgements: Self-RAG's four questions, with labels that follow from a dataset's facts.

- relevance: "relevant" for a supporting paragraph, "irrelevant" for a distractor;
- support: "fully" for the paragraph that states the fact, "partially" for a paragraph that states only the
  first of two facts, "not" for a distractor and for a fact whose object was made wrong;
- usefulness: 5 for the whole reasoning that leads to the answer, 3 for the first fact of this reasoning, 1
  for the answer to another question;
- retrieval: a search if no passage shown states the next fact, further use of the evidence if a passage
  states it, and no retrieval if all facts are already written.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence

from askance.core.ports import Model
from askance.core.types import Passage, Prompt
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, Triple
from askance.methods.selfrag.scoring import LABELS, judgement_prompt
from askance_lab.training.actions.relations import in_chain_order, is_same_name, without_parentheses
from askance_lab.training.reader.answer_examples import gold_reasoning
from askance_lab.training.reader.passages import PassageLimits, as_hits, shortened
from askance_lab.training.reader.training_example import TrainingExample, reply_example
from recipes.reader.composed_questions import supporting_paragraph
from recipes.reader.statements import as_sentence


def relevance(
    example: Example, model: Model, limits: PassageLimits, rng: random.Random
) -> Iterator[TrainingExample]:
    """Yield judgements of a supporting paragraph and of a distractor."""
    for is_supporting, label in ((True, "[Relevant]"), (False, "[Irrelevant]")):
        passage = _draw_passage(example, limits, rng, is_supporting=is_supporting)
        if passage is not None:
            prompt = judgement_prompt(model, example.question, "relevance", [passage])
            yield _judgement("relevance", example, prompt, LABELS["relevance"], label)


def support(
    example: Example, other_facts: Sequence[Triple], model: Model, limits: PassageLimits, rng: random.Random
) -> Iterator[TrainingExample]:
    """Yield a judgement of whether a paragraph supports a sentence.

    Args:
        other_facts: The facts of other questions, whose objects are used to make wrong facts.
    """
    stated = [
        (fact, paragraph) for fact, paragraph in _facts_with_paragraphs(example) if paragraph is not None
    ]
    if not stated:
        return
    index = rng.randrange(len(stated))
    fact, paragraph = stated[index]
    sentence, label = as_sentence(fact), "[Fully supported]"
    case = rng.randrange(4)
    if case == 1 and len(stated) > 1:
        other_fact = stated[(index + 1) % len(stated)][0]
        second = re.sub(r"^The ", "the ", as_sentence(other_fact))
        sentence, label = f"{sentence[:-1]}, and {second}", "[Partially supported]"
    elif case == 2:
        text = paragraph.text.casefold()
        wrong = {other.object for other in other_facts if other.relation == fact.relation}
        wrong_objects = sorted(object for object in wrong if object.casefold() not in text)
        if not wrong_objects:
            return
        sentence = as_sentence(Triple(fact.subject, fact.relation, rng.choice(wrong_objects)))
        label = "[No support / Contradictory]"
    passage = _as_passage(paragraph, limits)
    if case == 3:
        label = "[No support / Contradictory]"
        passage = _draw_passage(example, limits, rng, is_supporting=False)
    if passage is None or (case == 3 and _may_state(passage, fact)):
        return
    prompt = judgement_prompt(model, example.question, "support", [passage], "", sentence)
    yield _judgement("support", example, prompt, LABELS["support"], label)


def usefulness(
    example: Example, other: Example, model: Model, rng: random.Random
) -> Iterator[TrainingExample]:
    """Yield a judgement of how useful an answer is.

    The answer is the whole reasoning, only its first fact, or the answer to another question.
    """
    reasoning, case = gold_reasoning(example), rng.randrange(3)
    if case == 0:
        answer, label = reasoning.text, "[Utility:5]"
    elif case == 1 and len(reasoning.facts) > 1:
        answer, label = reasoning.facts[0], "[Utility:3]"
    elif other.question != example.question:
        answer, label = gold_reasoning(other).text, "[Utility:1]"
    else:
        return
    prompt = judgement_prompt(model, example.question, "utility", text=answer)
    yield _judgement("usefulness", example, prompt, LABELS["utility"], label)


def retrieval(
    example: Example, model: Model, limits: PassageLimits, rng: random.Random
) -> Iterator[TrainingExample]:
    """Yield a judgement of whether to search before the next sentence, given some of the paragraphs."""
    facts = _facts_with_paragraphs(example)
    if len(facts) < 2 or any(paragraph is None for _, paragraph in facts):
        return
    num_written = rng.randint(0, len(facts))
    written = " ".join(as_sentence(fact) for fact, _ in facts[:num_written])
    shows_next = num_written < len(facts) and rng.random() < 0.5
    paragraphs = [paragraph for _, paragraph in facts[max(0, num_written - 1) : num_written + shows_next]]
    short = [shortened(paragraph, limits.max_words) for paragraph in paragraphs if paragraph]
    shown = [paragraph for paragraph in short if paragraph]
    label = "[No Retrieval]"
    if num_written < len(facts):
        is_stated = any(_states(paragraph, facts[num_written][0]) for paragraph in shown)
        label = "[Continue to Use Evidence]" if is_stated else "[Retrieval]"
    passages = [hit.passage for hit in as_hits(shown)]
    prompt = judgement_prompt(model, example.question, "retrieve", passages, written)
    yield _judgement("retrieval", example, prompt, LABELS["retrieve"], label)


def _facts_with_paragraphs(example: Example) -> list[tuple[Triple, Paragraph | None]]:
    facts = in_chain_order(example.supporting_facts.triples)
    return [(fact, supporting_paragraph(example, fact)) for fact in facts]


def _states(paragraph: Paragraph, fact: Triple) -> bool:
    """Return whether a paragraph has the fact's subject as its title and contains the fact's object.

    The title matters: a paragraph that calls a film American does not state its director's nationality.
    """
    return is_same_name(paragraph.title, fact.subject) and fact.object in paragraph.text


def _may_state(passage: Passage, fact: Triple) -> bool:
    """Return whether a distractor may state a fact.

    For example, the article about a man's brother may name their father.
    """
    subject = without_parentheses(fact.subject)
    return fact.object in passage.text and subject in f"{passage.title} {passage.text}"


def _judgement(
    task: str, example: Example, prompt: Prompt, words: Mapping[str, str], token: str
) -> TrainingExample:
    return reply_example(task, example.question.id, prompt, words[token])


def _draw_passage(
    example: Example, limits: PassageLimits, rng: random.Random, *, is_supporting: bool
) -> Passage | None:
    paragraphs = [
        paragraph
        for paragraph in example.supporting_facts.paragraphs
        if paragraph.is_supporting == is_supporting
    ]
    return _as_passage(rng.choice(paragraphs), limits) if paragraphs else None


def _as_passage(paragraph: Paragraph, limits: PassageLimits) -> Passage | None:
    """Return the paragraph as a passage that a method would show, or None if its evidence does not fit."""
    short = shortened(paragraph, limits.max_words)
    return Passage("", short.title, short.text) if short else None
