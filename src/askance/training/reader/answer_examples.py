"""Training examples of answering: from passages, from memory, and continuing an answer already started.

They use the prompts of `closed_book`, `single`, FLARE and DRAGIN. These methods show passages that support
all of the answer, part of it, or none of it. They ask for the whole answer, or for the continuation of text
that they have kept; DRAGIN cuts that text mid-sentence, right before the uncertain token. Only AirRAG's RA
prompt allows a refusal, so it is used for questions that their paragraph does not answer.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from askance.core.ports import Model
from askance.core.types import Hit, Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph
from askance.evaluation.datasets.single_hop import UNANSWERABLE
from askance.methods.airrag.prompt_template import READER, REFUSAL
from askance.methods.airrag.prompts import PromptBuilder
from askance.methods.common.prompts import PLAIN, Layout, answer_prompt
from askance.text.answers import sentences
from askance.training.reader.passages import PassageLimits, as_hits, mix_with_distractors, shortened
from askance.training.reader.training_example import TrainingExample, reply_example

CONTINUATION_SHARE = 0.5
"""The share of answers that also give an example of continuing a partly written answer."""
MISSING_PASSAGE_SHARE = 0.2
"""Among examples with several supporting passages, the share from which one of them is removed."""
REFUSAL_PROMPT_SHARE = 0.7
"""The share of paragraphs whose questions use the prompt that allows a refusal."""
MAX_EVIDENCE_WORDS = 30
"""The most words of evidence per hop that a target states; with more, the target is the answer alone."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The sentences that lead to an answer, and the short answer.

    Attributes:
        facts: The facts in order; empty if the answer is read off directly.
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

    Its facts are those that the dataset states, or else the sentences that it marks as evidence.
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
    """Yield an example of answering from the passages, and sometimes one of continuing such an answer."""
    reasoning = gold_reasoning(example)
    yield reasoned_answer(task, example.question, reasoning, hits, model, layout)
    if reasoning.facts and rng.random() < CONTINUATION_SHARE:
        split = _split(reasoning, rng)
        yield reasoned_answer("going_on", example.question, reasoning, hits, model, layout, split)


def from_memory(
    example: Example, model: Model, layout: Layout, rng: random.Random
) -> Iterator[TrainingExample]:
    """Yield examples of answering without passages, as in the drafts that DRAGIN and FLARE inspect."""
    if gold_reasoning(example).facts:
        yield from from_passages(example, (), model, layout, rng, "memory")


def conclusion_example(example: Example, model: Model, layout: Layout) -> Iterator[TrainingExample]:
    """Yield an example of continuing an answer that lacks only the last fact and the conclusion."""
    reasoning = gold_reasoning(example)
    if len(reasoning.facts) > 1:
        split = " ".join(reasoning.facts[:-1]), f"{reasoning.facts[-1]} {reasoning.conclusion}"
        yield reasoned_answer("going_on", example.question, reasoning, (), model, layout, split)


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
        split: The part of the reasoning that is already written, and the rest, which becomes the target; None
            if nothing is written yet.
    """
    written, rest = split or ("", reasoning.text)
    start = f" {written}" if written and layout == "raw" else written
    prompt = answer_prompt(model, question, hits, start, layout, PLAIN)
    # A space separates the target from the text before it; a chat turn starts without one.
    target = rest if layout == "chat" and not written else f" {rest}"
    return TrainingExample(task, question.id, prompt, target, reasoning.stated_answer)


def paragraph_answers(
    group: Sequence[Example], max_words: int, model: Model, layout: Layout, rng: random.Random
) -> Iterator[TrainingExample]:
    """Yield examples of all questions on one paragraph; either all prompts allow a refusal, or none does."""
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
    """Return an example of AirRAG's RA action, whose target is a short answer or the refusal."""
    prompt = PromptBuilder(model, Question("", question), READER).ra(hits, question)
    return reply_example("single_hop", id, prompt, answer)


def draw_passages(example: Example, limits: PassageLimits, rng: random.Random) -> tuple[Hit, ...] | None:
    """Return the supporting passages mixed with distractors, or None if there are none or they do not fit.

    Sometimes one of several supporting passages is missing, and the target still states its content as if
    from memory. The model thus learns to be uncertain about facts that its passages lack, instead of copying
    the likeliest word from them.
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
    """Split the reasoning in two, after a sentence or after a word within one."""
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
