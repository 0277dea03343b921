"""The mixture: which lessons are made of which examples, and how many."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import floor
from typing import ClassVar

from askance.core.errors import InputError
from askance.core.ports import Model
from askance.core.types import Hit
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.single_hop import UNANSWERABLE
from askance.methods.common.prompts import Layout
from askance.training.reader.lesson import TrainingExample
from askance.training.reader.passages import Showing
from askance.training.reader.reading import from_memory, from_passages, on_paragraph, shown
from askance.training.reader.settings import ReaderSettings


@dataclass(frozen=True, slots=True)
class DataMix:
    """What is to be learned.

    Attributes:
        held_out: lessons of questions that no lesson to be learned is made from.
        num_examples: by dataset.
        left_out: how many examples gave no lesson, by dataset and reason.
    """

    lessons: tuple[TrainingExample, ...]
    held_out: tuple[TrainingExample, ...]
    num_examples: Mapping[str, int]
    left_out: Mapping[tuple[str, str], int]

    @property
    def num_lessons(self) -> Mapping[tuple[str, str], int]:
        """By dataset and task."""
        return Counter((lesson.id.partition("/")[0], lesson.task) for lesson in self.lessons)

    @property
    def told(self) -> tuple[tuple[str, int, int, str], ...]:
        """By dataset: its name, questions, lessons, and how many of these are of which task, in words."""
        counts, rows = sorted(self.num_lessons.items()), []
        for name, num_examples in self.num_examples.items():
            tasks = {task: count for (dataset, task), count in counts if dataset == name}
            of_which = ", ".join(f"{task} {count:,}" for task, count in tasks.items())
            rows.append((name, num_examples, sum(tasks.values()), of_which))
        return tuple(rows)

    @property
    def told_left_out(self) -> tuple[str, ...]:
        """What gave no lesson and why, in words."""
        return _reasons(self.left_out)


@dataclass(frozen=True)
class Builder:
    """Makes the lessons of one dataset's examples: answers from passages, and from memory.

    A recipe that teaches more is a subclass. It overrides `of_paragraphs` and `of_chains`, and reads shares
    of its own from a subclass of `ReaderSettings`.

    Attributes:
        settings_class: what the shares are read from.
        takes_steps: whether it makes lessons of examples that tell a decomposition and nothing else.
        model: tells by its capabilities whether the prompts are raw or chat.
        left_out: counts the examples that gave no lesson, by dataset and reason.
        name: the dataset's.
    """

    settings_class: ClassVar[type[ReaderSettings]] = ReaderSettings
    takes_steps: ClassVar[bool] = False

    model: Model
    settings: ReaderSettings
    random_: random.Random
    left_out: Counter[tuple[str, str]]
    name: str

    def lessons(self, examples: Sequence[Example]) -> Iterator[TrainingExample]:
        """All lessons of these examples, with the dataset's name before their ids."""
        why = {example.question.id: _useless(example, self.takes_steps) for example in examples}
        self.left_out.update((self.name, reason) for reason in why.values() if reason)
        useful = [example for example in examples if not why[example.question.id]]
        single = [example for example in useful if is_on_one_paragraph(example)]
        several = [example for example in useful if not is_on_one_paragraph(example)]
        for lesson in (*self.of_paragraphs(single), *self.of_chains(several)):
            yield replace(lesson, id=f"{self.name}/{lesson.id}")

    def of_paragraphs(self, examples: Sequence[Example]) -> Iterator[TrainingExample]:
        """Lessons of examples that are asked of one paragraph each; those on the same one stay together."""
        for group in grouped_by_paragraph(examples):
            for _ in range(self.times(self.settings.paragraph)):
                yield from self.reading_a_paragraph(group)

    def of_chains(self, examples: Sequence[Example]) -> Iterator[TrainingExample]:
        """Lessons of all other examples."""
        for example in examples:
            yield from self.answering(example)

    def reading_a_paragraph(self, group: Sequence[Example]) -> Iterator[TrainingExample]:
        """All questions on one paragraph."""
        words = self.settings.passage_words
        yield from on_paragraph(group, words, self.model, self.layout(), self.random_)

    def answering(self, example: Example) -> Iterator[TrainingExample]:
        """The answer from passages, and from memory."""
        for _ in range(self.times(self.settings.reading)):
            layout, hits = self.layout(), shown(example, self.showing, self.random_)
            if hits is None:
                if example.supporting_facts.supporting:
                    words = self.settings.passage_words
                    self.left_out[self.name, f"evidence longer than passage_words={words}"] += 1
                break
            yield from from_passages(example, hits, self.model, layout, self.random_)
            yield from self.on_the_same_passages(example, hits, layout)
        for _ in range(self.times(self.settings.memory)):
            yield from from_memory(example, self.model, self.layout(), self.random_)

    def on_the_same_passages(
        self, example: Example, hits: Sequence[Hit], layout: Layout
    ) -> Iterator[TrainingExample]:
        """More questions over the passages that `example` was shown; none unless a recipe has some."""
        return iter(())

    @property
    def showing(self) -> Showing:
        """How passages are shown."""
        return Showing(self.settings.passage_words, self.settings.passages)

    def layout(self) -> Layout:
        """The layout of the next prompt, drawn by the share of chat."""
        takes = self.model.capabilities
        is_chat = "chat" in takes and ("raw" not in takes or self.random_.random() < self.settings.chat)
        return "chat" if is_chat else "raw"

    def times(self, share: float) -> int:
        """How often to make a lesson of one example, so that the mean over many is the share."""
        return floor(share + self.random_.random())


def mixture(
    examples_by_dataset: Mapping[str, Sequence[Example]],
    model: Model,
    settings: ReaderSettings,
    builder: type[Builder] = Builder,
) -> DataMix:
    """Lessons of all examples, in an order that depends on the settings' seed alone.

    A share of each dataset's examples, chosen by their ids, is held out.

    Args:
        model: tells by its capabilities whether the prompts are raw or chat.

    Raises:
        InputError: no example has supporting facts that anything can be learned from.
    """
    seed, share = settings.seed, settings.held_out
    learned: list[TrainingExample] = []
    kept: list[TrainingExample] = []
    left_out: Counter[tuple[str, str]] = Counter()
    for name, examples in examples_by_dataset.items():
        is_held = {example.question.id: _is_held_out(name, example, share) for example in examples}
        for part, found in ((False, learned), (True, kept)):
            chosen = [example for example in examples if is_held[example.question.id] == part]
            random_ = random.Random(f"{seed} {name} {part}")
            found += builder(model, settings, random_, left_out, name).lessons(chosen)
    if not learned:
        raise InputError(_nothing(left_out, len(kept)))
    random.Random(f"{seed} order").shuffle(learned)
    num_examples = {name: len(each) for name, each in examples_by_dataset.items()}
    return DataMix(tuple(learned), tuple(kept), num_examples, left_out)


def is_on_one_paragraph(example: Example) -> bool:
    """Whether a question is asked of one paragraph alone, which holds its answer or is known not to."""
    paragraphs = example.supporting_facts.paragraphs
    is_told = bool(example.supporting_facts.supporting) or example.kind == UNANSWERABLE
    return example.hops == 1 and len(paragraphs) == 1 and is_told


def grouped_by_paragraph(examples: Sequence[Example]) -> list[list[Example]]:
    """Examples on the same paragraph together, in the order of their first question."""
    groups: dict[tuple[str, str], list[Example]] = {}
    for example in examples:
        paragraph = example.supporting_facts.paragraphs[0]
        groups.setdefault((paragraph.title, paragraph.text), []).append(example)
    return list(groups.values())


def _is_held_out(name: str, example: Example, share: float) -> bool:
    # By the paragraph, where questions share one: what is held out must not have been read.
    unit = (
        example.supporting_facts.paragraphs[0].text if is_on_one_paragraph(example) else example.question.id
    )
    digest = blake2b(f"{name} {unit}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64 < share


def _useless(example: Example, takes_steps: bool) -> str:
    """Why nothing can be learned from an example, or nothing."""
    supporting_facts = example.supporting_facts
    if not (
        supporting_facts.supporting
        or supporting_facts.facts
        or (example.kind == UNANSWERABLE and supporting_facts.paragraphs)
    ):
        if not supporting_facts.steps:
            return "no supporting paragraphs, facts or steps"
        return "" if takes_steps else "steps, but no supporting paragraphs or facts"
    return "" if example.golds and example.golds[0].strip() else "no answer"


def _reasons(left_out: Mapping[tuple[str, str], int]) -> tuple[str, ...]:
    """How many examples of which dataset were left out, and why, in words."""
    return tuple(f"{count:,} of {name}: {reason}" for (name, reason), count in sorted(left_out.items()))


def _nothing(left_out: Mapping[tuple[str, str], int], num_held_out: int) -> str:
    held_out = (f"all {num_held_out:,} lessons are held out",) if num_held_out else ()
    why = "; ".join((*_reasons(left_out), *held_out)) or "the shares draw no lesson"
    return (
        f"the datasets hold nothing to learn from ({why}). Name files "
        'in their authors\' own layout, add "paragraphs" with "evidence" to your own rows, or change what '
        "leaves them out with --set: passage_words, held_out, or the shares."
    )
