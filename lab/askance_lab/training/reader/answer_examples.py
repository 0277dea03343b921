"""Training examples that answer from passages or from memory, or continue a partly written answer.

The examples use the prompts of `closed_book`, `single`, FLARE and DRAGIN. These methods show passages that
support all of the answer, part of it, or none of it. They ask for the whole answer, or for the continuation
of text that they have kept. DRAGIN cuts the kept text mid-sentence, right before the uncertain token. Only
AirRAG's RA prompt allows a refusal, so every question that its paragraph does not answer uses that prompt.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from askance.core.ports import Model
from askance.core.types import Hit, Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import UNANSWERABLE, Paragraph
from askance.methods.airrag.prompts import READER, REFUSAL, PromptBuilder
from askance.methods.common.prompts import PLAIN, Layout, answer_prompt
from askance.text.answers import sentences
from askance_lab.training.reader.passages import PassageLimits, as_hits, mix_with_distractors, shortened
from askance_lab.training.reader.training_example import TrainingExample, reply_example

CONTINUATION_SHARE = 0.5
"""The fraction of answers from which a second example is made that continues the partly written answer."""
MISSING_PASSAGE_SHARE = 0.2
"""The fraction of examples with several supporting passages in which one of these passages is removed."""
REFUSAL_PROMPT_SHARE = 0.7
"""The fraction of paragraphs whose questions use the prompt that allows a refusal."""
MAX_EVIDENCE_WORDS = 30
"""The greatest number of evidence words per hop. If there are more, the target states only the answer."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The sentences that lead to an answer, and the short answer.

    Attributes:
        facts: The facts in order; empty if the answer is stated without them.
    """

    facts: tuple[str, ...]
    answer: str

    @property
    def conclusion(self) -> str:
        """The last sentence, which states the answer."""
        return f"So the answer is{self.stated_answer}"

    @property
    def stated_answer(self) -> str:
        """The answer at the end of the conclusion, with a leading space and a full stop."""
        return f" {self.answer.removesuffix('.')}."

    @property
    def sentences(self) -> tuple[str, ...]:
        """The facts and the conclusion."""
        return (*self.facts, self.conclusion)

    @property
    def text(self) -> str:
        """The facts and the conclusion, joined into the text that a model writes."""
        return " ".join(self.sentences)


def gold_reasoning(example: Example) -> Reasoning:
    """Return the reasoning that leads to the first gold answer.

    The facts are those that the dataset states. If it states none, the sentences marked as evidence are used.
    """
    facts = tuple(map(_as_closed_sentence, example.supporting_facts.facts)) or _evidence(example)
    return Reasoning(facts, example.golds[0])


def from_passages(
    example: Example,
    hits: Sequence[Hit],
    model: Model,
    layout: Layout,
    rng: random.Random,
    task: str = "reading",
) -> Iterator[TrainingExample]:
    """Yield an example that answers from the passages, and sometimes one that continues a partial answer."""
    reasoning = gold_reasoning(example)
    yield reasoned_answer(task, example.question, reasoning, hits, model, layout)
    if reasoning.facts and rng.random() < CONTINUATION_SHARE:
        split = _split(reasoning, rng)
        yield reasoned_answer("going_on", example.question, reasoning, hits, model, layout, split)


def from_memory(
    example: Example, model: Model, layout: Layout, rng: random.Random
) -> Iterator[TrainingExample]:
    """Yield examples that answer without passages, like the drafts that DRAGIN and FLARE inspect."""
    if gold_reasoning(example).facts:
        yield from from_passages(example, (), model, layout, rng, "memory")


def reasoned_answer(
    task: str,
    question: Question,
    reasoning: Reasoning,
    hits: Sequence[Hit],
    model: Model,
    layout: Layout,
    split: tuple[str, str] | None = None,
) -> TrainingExample:
    """Return an example whose target is the reasoning that leads to the answer.

    Args:
        split: The part of the reasoning that the prompt already contains, and the remaining part, which
            becomes the target. If None, the whole reasoning becomes the target.
    """
    written, rest = split or ("", reasoning.text)
    start = f" {written}" if written and layout == "raw" else written
    prompt = answer_prompt(model, question, hits, start, layout, PLAIN)
    # A space separates the target from the text before it. A chat turn starts without a space.
    target = rest if layout == "chat" and not written else f" {rest}"
    return TrainingExample(task, question.id, prompt, target, reasoning.stated_answer)


def paragraph_answers(
    group: Sequence[Example], max_words: int, model: Model, layout: Layout, rng: random.Random
) -> Iterator[TrainingExample]:
    """Yield examples for all questions about one paragraph.

    A random draw decides whether all of these prompts allow a refusal, or none of them. If none of them
    does, the questions that the paragraph does not answer are left out.
    """
    may_refuse = rng.random() < REFUSAL_PROMPT_SHARE
    for example in group:
        paragraph = shortened(example.supporting_facts.paragraphs[0], max_words)
        if paragraph is None:
            continue
        hits, is_answerable = as_hits([paragraph]), example.kind != UNANSWERABLE
        if is_answerable and not may_refuse:
            question = Question(example.question.id, example.question.text)
            yield reasoned_answer("single_hop", question, gold_reasoning(example), hits, model, layout)
        elif may_refuse:
            answer = example.golds[0] if is_answerable else REFUSAL
            yield retrieval_answer(example.question.id, example.question.text, answer, hits, model)


def retrieval_answer(
    id: str, question: str, answer: str, hits: Sequence[Hit], model: Model
) -> TrainingExample:
    """Return an example of AirRAG's RA action, with a short answer or the refusal as its target."""
    prompt = PromptBuilder(model, Question("", question), READER).ra(hits, question)
    return reply_example("single_hop", id, prompt, answer)


def draw_passages(example: Example, limits: PassageLimits, rng: random.Random) -> tuple[Hit, ...] | None:
    """Return the supporting passages of a question, mixed with distractors.

    The result is None if there are no supporting passages, or if their evidence does not fit. Sometimes one
    of several supporting passages is removed, but the target still states its content as if from memory. The
    model thus learns to be uncertain about facts that the passages lack, instead of copying the likeliest
    word from the passages.
    """
    supporting_facts = example.supporting_facts
    if supporting_facts.facts and not supporting_facts.paragraphs:
        facts = [Paragraph("", fact) for fact in supporting_facts.facts]
        rng.shuffle(facts)
        return as_hits(facts)
    needed = list(supporting_facts.supporting)
    if not needed:
        return None
    if len(needed) > 1 and rng.random() < MISSING_PASSAGE_SHARE:
        needed.remove(rng.choice(needed))
    others = [paragraph for paragraph in supporting_facts.paragraphs if not paragraph.is_supporting]
    return mix_with_distractors(needed, others, limits, rng)


def _split(reasoning: Reasoning, rng: random.Random) -> tuple[str, str]:
    """Split the reasoning into two parts, either between two sentences or within a sentence."""
    index = rng.randrange(len(reasoning.facts))
    before, sentence = reasoning.sentences[:index], reasoning.sentences[index]
    words = sentence.split(" ")
    num_kept = rng.randint(1, len(words)) if rng.random() < 0.5 else len(words)
    written = " ".join((*before, *words[:num_kept]))
    return written, " ".join((*words[num_kept:], *reasoning.sentences[index + 1 :]))


def _evidence(example: Example) -> tuple[str, ...]:
    evidence = [
        _as_closed_sentence(sentence)
        for paragraph in example.supporting_facts.supporting
        for text in paragraph.evidence_texts
        for sentence in sentences(text)
    ]
    num_words = sum(len(sentence.split()) for sentence in evidence)
    return tuple(evidence) if num_words <= MAX_EVIDENCE_WORDS * max(1, example.hops or 1) else ()


def _as_closed_sentence(sentence: str) -> str:
    sentence = " ".join(sentence.split())
    return sentence if sentence[-1:] in tuple(".!?\"'") else f"{sentence}."
