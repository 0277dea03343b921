"""Lessons in answering: from passages, from memory, and going on from what is written already.

These are the prompts of `closed_book`, `single`, FLARE and DRAGIN. A method shows passages that hold all of
the answer, a part of it, or nothing; it asks for the whole answer, or for the rest behind a text that it
keeps, which DRAGIN cuts in mid-sentence, right before the word in doubt. AirRAG's RA is the one prompt that
may refuse, and so the one for questions that their paragraph does not answer.
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
from askance.training.reader.lesson import TrainingExample, reply
from askance.training.reader.passages import Showing, among_distractors, as_hits, fitted

GOING_ON = 0.5
"""Share of the answers that are gone on with as well, from somewhere within them."""
PARTLY_SHOWN = 0.2
"""Share of the readings with several supporting passages that lack one of them."""
MAY_REFUSE = 0.7
"""Share of the paragraphs whose questions are put to the prompt that may refuse."""
LONGEST_EVIDENCE_WORDS = 30
"""A longer sentence of a passage is not written out: the answer then stands alone."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Sentences that lead to an answer.

    Attributes:
        facts: in order; none where the answer is read off directly.
        answer: the short answer.
    """

    facts: tuple[str, ...]
    answer: str

    @property
    def conclusion(self) -> str:
        """The last sentence."""
        return f"So the answer is{self.stated}"

    @property
    def stated(self) -> str:
        """What it ends in: the answer, with a blank and a full stop."""
        return f" {self.answer.removesuffix('.')}."

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it."""
        return (*self.facts, self.conclusion)

    @property
    def text(self) -> str:
        """All of it, as a method writes it."""
        return " ".join(self.sentences)


def reasoning(example: Example) -> Reasoning:
    """The way to the first gold answer: the plain facts that the dataset tells, else the sentences of its
    paragraphs that support the answer.
    """
    facts = tuple(map(_closed, example.supporting_facts.facts)) or _evidence(example)
    return Reasoning(facts, example.golds[0])


def from_passages(
    example: Example,
    hits: Sequence[Hit],
    model: Model,
    layout: Layout,
    random_: random.Random,
    task: str = "reading",
) -> Iterator[TrainingExample]:
    """The whole answer, and going on from a part of it, over the same passages."""
    known = reasoning(example)
    yield worked_answer(task, example.question, known, hits, model, layout)
    if known.facts and random_.random() < GOING_ON:
        parted = _parted(known, random_)
        yield worked_answer("going_on", example.question, known, hits, model, layout, parted)


def from_memory(
    example: Example, model: Model, layout: Layout, random_: random.Random
) -> Iterator[TrainingExample]:
    """The draft that DRAGIN and FLARE inspect, and going on from a part of it."""
    if reasoning(example).facts:
        yield from from_passages(example, (), model, layout, random_, "memory")


def to_the_end(example: Example, model: Model, layout: Layout) -> Iterator[TrainingExample]:
    """Going on behind all facts but the last one: what follows from them."""
    known = reasoning(example)
    if len(known.facts) > 1:
        parted = " ".join(known.facts[:-1]), f"{known.facts[-1]} {known.conclusion}"
        yield worked_answer("going_on", example.question, known, (), model, layout, parted)


def worked_answer(
    task: str,
    question: Question,
    known: Reasoning,
    hits: Sequence[Hit],
    model: Model,
    layout: Layout,
    parted: tuple[str, str] | None = None,
) -> TrainingExample:
    """A question with the way to its answer.

    Args:
        parted: that way in two, of which the first part is written already; without it, nothing is.
    """
    so_far, rest = parted or ("", known.text)
    begun = f" {so_far}" if so_far and layout == "raw" else so_far
    prompt = answer_prompt(model, question, hits, begun, layout, PLAIN)
    # A blank separates the target from what it follows; a chat turn begins without one.
    target = rest if layout == "chat" and not so_far else f" {rest}"
    return TrainingExample(task, question.id, prompt, target, known.stated)


def on_paragraph(
    group: Sequence[Example], words: int, model: Model, layout: Layout, random_: random.Random
) -> Iterator[TrainingExample]:
    """All questions of one paragraph to the prompt that may refuse, or all to the one that always answers."""
    may_refuse = random_.random() < MAY_REFUSE
    for example in group:
        paragraph = fitted(example.supporting_facts.paragraphs[0], words)
        if paragraph is None:
            continue
        hits, is_answered = as_hits([paragraph]), example.kind != UNANSWERABLE
        if is_answered and not may_refuse:
            asked = Question(example.question.id, example.question.text)
            yield worked_answer("single_hop", asked, reasoning(example), hits, model, layout)
        elif may_refuse:
            answer = example.golds[0] if is_answered else REFUSAL
            yield retrieval_answer(example.question.id, example.question.text, answer, hits, model)


def retrieval_answer(
    id: str, question: str, answer: str, hits: Sequence[Hit], model: Model
) -> TrainingExample:
    """RA with a known answer."""
    prompt = PromptBuilder(model, Question("", question), READER).ra(hits, question)
    return reply("single_hop", id, prompt, answer)


def grouped_by_paragraph(examples: Sequence[Example]) -> list[list[Example]]:
    """Examples on the same paragraph together, in the order of their first question."""
    groups: dict[tuple[str, str], list[Example]] = {}
    for example in examples:
        paragraph = example.supporting_facts.paragraphs[0]
        groups.setdefault((paragraph.title, paragraph.text), []).append(example)
    return list(groups.values())


def shown(example: Example, showing: Showing, random_: random.Random) -> tuple[Hit, ...] | None:
    """What supports the answer among distractors; None where there is nothing, or it does not fit.

    Now and then one of several supporting passages is missing. What it says is then answered as from memory,
    so that the model is unsure where its passages are silent, rather than taking the next best word from
    them.
    """
    supporting_facts = example.supporting_facts
    if supporting_facts.facts and not supporting_facts.paragraphs:
        facts = [Paragraph("", fact) for fact in supporting_facts.facts]
        random_.shuffle(facts)
        return as_hits(facts)
    needed = list(supporting_facts.supporting)
    if not needed:
        return None
    if len(needed) > 1 and random_.random() < PARTLY_SHOWN:
        needed.remove(random_.choice(needed))
    others = [paragraph for paragraph in supporting_facts.paragraphs if not paragraph.is_supporting]
    return among_distractors(needed, others, showing, random_)


def _parted(known: Reasoning, random_: random.Random) -> tuple[str, str]:
    """The answer in two: behind some of its sentences, or within one, at a word."""
    at = random_.randrange(len(known.facts))
    before, sentence, after = known.sentences[:at], known.sentences[at], known.sentences[at + 1 :]
    words = sentence.split(" ")
    cut = random_.randint(1, len(words)) if random_.random() < 0.5 else len(words)
    so_far = " ".join((*before, *words[:cut]))
    return so_far, " ".join((*words[cut:], *after))


def _evidence(example: Example) -> tuple[str, ...]:
    told = [
        _closed(sentence)
        for paragraph in example.supporting_facts.supporting
        for part in paragraph.evidence_texts
        for sentence in sentences(part)
    ]
    num_words = sum(len(sentence.split()) for sentence in told)
    return tuple(told) if num_words <= LONGEST_EVIDENCE_WORDS * max(1, example.hops or 1) else ()


def _closed(sentence: str) -> str:
    sentence = " ".join(sentence.split())
    return sentence if sentence[-1:] in tuple(".!?\"'") else f"{sentence}."
