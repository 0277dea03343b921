"""The data mix: how many training examples of each task are made from the questions of a dataset."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import ClassVar

from askance.core.errors import InputError
from askance.core.ports import Model
from askance.core.types import Hit
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import UNANSWERABLE
from askance.methods.common.prompts import Layout
from askance_lab.training.held_out import is_held_out_unit
from askance_lab.training.reader.answer_examples import (
    draw_passages,
    from_memory,
    from_passages,
    paragraph_answers,
)
from askance_lab.training.reader.passages import PassageLimits
from askance_lab.training.reader.settings import ReaderSettings
from askance_lab.training.reader.training_example import TrainingExample


@dataclass(frozen=True, slots=True)
class DataMix:
    """The training examples of one run.

    Attributes:
        held_out: The examples made from held-out questions, none of which `training` uses.
        left_out: The number of questions that yielded no example, by dataset and reason.
    """

    training: tuple[TrainingExample, ...]
    held_out: tuple[TrainingExample, ...]
    num_questions: Mapping[str, int]
    left_out: Mapping[tuple[str, str], int]

    @property
    def num_by_task(self) -> Mapping[tuple[str, str], int]:
        """The number of training examples, by dataset and task."""
        return Counter((example.id.partition("/")[0], example.task) for example in self.training)

    @property
    def counts_by_dataset(self) -> tuple[tuple[str, int, int, str], ...]:
        """Each dataset's name, number of questions, number of examples, and examples per task as a string."""
        counts, rows = sorted(self.num_by_task.items()), []
        for name, num_questions in self.num_questions.items():
            tasks = {task: count for (dataset, task), count in counts if dataset == name}
            by_task = ", ".join(f"{task} {count:,}" for task, count in tasks.items())
            rows.append((name, num_questions, sum(tasks.values()), by_task))
        return tuple(rows)

    @property
    def left_out_reasons(self) -> tuple[str, ...]:
        """Messages that say how many questions were left out, and why."""
        return _reasons(self.left_out)


@dataclass(frozen=True)
class ExampleBuilder:
    """A builder that makes training examples from one dataset: answers from passages and from memory.

    A recipe that makes more kinds of examples defines a subclass, which overrides `from_paragraphs` and
    `from_chains`. It also defines a subclass of `ReaderSettings`, which says how many examples of each kind
    are made per question.

    Attributes:
        settings_class: The class of the settings, which say how many examples of each kind are made.
        takes_decompositions: Whether the builder uses questions that have a decomposition but no supporting
            facts.
        model: The model to be trained. Its capabilities determine whether prompts are raw or chat prompts.
        left_out: The number of questions that yielded no example, by dataset and reason. The builder adds to
            these counts.
    """

    settings_class: ClassVar[type[ReaderSettings]] = ReaderSettings
    takes_decompositions: ClassVar[bool] = False

    model: Model
    settings: ReaderSettings
    rng: random.Random
    left_out: Counter[tuple[str, str]]
    name: str

    def training_examples(self, examples: Sequence[Example]) -> Iterator[TrainingExample]:
        """Yield all training examples, each id prefixed with the dataset's name."""
        reasons = {example.question.id: _unusable(example, self.takes_decompositions) for example in examples}
        self.left_out.update((self.name, reason) for reason in reasons.values() if reason)
        usable = [example for example in examples if not reasons[example.question.id]]
        single = [example for example in usable if is_on_one_paragraph(example)]
        others = [example for example in usable if not is_on_one_paragraph(example)]
        for training_example in (*self.from_paragraphs(single), *self.from_chains(others)):
            yield replace(training_example, id=f"{self.name}/{training_example.id}")

    def from_paragraphs(self, examples: Sequence[Example]) -> Iterator[TrainingExample]:
        """Yield examples from questions that are each about a single paragraph, grouped by paragraph."""
        for group in grouped_by_paragraph(examples):
            for _ in range(self.draw_count(self.settings.paragraph)):
                yield from self.paragraph_examples(group)

    def from_chains(self, examples: Sequence[Example]) -> Iterator[TrainingExample]:
        """Yield examples from questions that are not about a single paragraph."""
        for example in examples:
            yield from self.answer_examples(example)

    def paragraph_examples(self, group: Sequence[Example]) -> Iterator[TrainingExample]:
        """Yield examples from all questions about one paragraph."""
        max_words = self.settings.passage_words
        yield from paragraph_answers(group, max_words, self.model, self.draw_layout(), self.rng)

    def answer_examples(self, example: Example) -> Iterator[TrainingExample]:
        """Yield examples that answer one question from passages and from memory."""
        for _ in range(self.draw_count(self.settings.reading)):
            layout, hits = self.draw_layout(), draw_passages(example, self.passage_limits, self.rng)
            if hits is None:
                if example.supporting_facts.supporting:
                    words = self.settings.passage_words
                    self.left_out[self.name, f"evidence longer than passage_words={words}"] += 1
                break
            yield from from_passages(example, hits, self.model, layout, self.rng)
            yield from self.more_on_passages(example, hits, layout)
        for _ in range(self.draw_count(self.settings.memory)):
            yield from from_memory(example, self.model, self.draw_layout(), self.rng)

    def more_on_passages(
        self, example: Example, hits: Sequence[Hit], layout: Layout
    ) -> Iterator[TrainingExample]:
        """Yield further examples with the same passages: none, unless a recipe overrides this method."""
        return iter(())

    @property
    def passage_limits(self) -> PassageLimits:
        """The limits on the passages of an example."""
        return PassageLimits(self.settings.passage_words, self.settings.passages)

    def draw_layout(self) -> Layout:
        """Draw the layout of the next prompt, raw or chat.

        If the model takes both, the setting `chat` is the probability of a chat prompt.
        """
        capabilities = self.model.capabilities
        is_chat = "chat" in capabilities and (
            "raw" not in capabilities or self.rng.random() < self.settings.chat
        )
        return "chat" if is_chat else "raw"

    def draw_count(self, share: float) -> int:
        """Draw the number of examples to make from one question: an integer whose mean is `share`."""
        return floor(share + self.rng.random())


def build_data_mix(
    examples_by_dataset: Mapping[str, Sequence[Example]],
    model: Model,
    settings: ReaderSettings,
    builder: type[ExampleBuilder] = ExampleBuilder,
) -> DataMix:
    """Build the training examples of all datasets, in an order that depends on the seed in the settings.

    The setting `held_out` is the fraction of each dataset's questions that is held out. A hash of the
    question's id decides whether a question is held out. If the question is about a single paragraph, a hash
    of the paragraph's text decides instead.

    Args:
        model: The model to be trained. Its capabilities determine whether prompts are raw or chat prompts.

    Raises:
        InputError: No question has supporting facts to learn from.
    """
    seed, share = settings.seed, settings.held_out
    training: list[TrainingExample] = []
    held_out: list[TrainingExample] = []
    left_out: Counter[tuple[str, str]] = Counter()
    for name, examples in examples_by_dataset.items():
        held = {example.question.id: is_held_out(name, example, share) for example in examples}
        for part, destination in ((False, training), (True, held_out)):
            chosen = [example for example in examples if held[example.question.id] == part]
            rng = random.Random(f"{seed} {name} {part}")
            destination += builder(model, settings, rng, left_out, name).training_examples(chosen)
    if not training:
        raise InputError(_no_examples_message(left_out, len(held_out)))
    random.Random(f"{seed} order").shuffle(training)
    num_questions = {name: len(examples) for name, examples in examples_by_dataset.items()}
    return DataMix(tuple(training), tuple(held_out), num_questions, left_out)


def is_on_one_paragraph(example: Example) -> bool:
    """Return whether an example asks a single-hop question about one paragraph.

    The dataset must also say whether that paragraph contains the answer.
    """
    paragraphs = example.supporting_facts.paragraphs
    is_labelled = bool(example.supporting_facts.supporting) or example.kind == UNANSWERABLE
    return example.hops == 1 and len(paragraphs) == 1 and is_labelled


def grouped_by_paragraph(examples: Sequence[Example]) -> list[list[Example]]:
    """Return the questions grouped by paragraph, in the order of the first question of each group."""
    groups: dict[tuple[str, str], list[Example]] = {}
    for example in examples:
        paragraph = example.supporting_facts.paragraphs[0]
        groups.setdefault((paragraph.title, paragraph.text), []).append(example)
    return list(groups.values())


def is_held_out(name: str, example: Example, share: float) -> bool:
    """Return whether a question is held out from training, if this share of a dataset's questions is.

    Questions on a shared paragraph are held out together: a held-out paragraph must not be trained on.
    """
    unit = (
        example.supporting_facts.paragraphs[0].text if is_on_one_paragraph(example) else example.question.id
    )
    return is_held_out_unit(f"{name} {unit}", share)


def _unusable(example: Example, takes_decompositions: bool) -> str:
    """Return the reason why a question can't yield a training example, or an empty string if it can."""
    supporting_facts = example.supporting_facts
    if not (
        supporting_facts.supporting
        or supporting_facts.facts
        or (example.kind == UNANSWERABLE and supporting_facts.paragraphs)
    ):
        if not supporting_facts.steps:
            return "no supporting paragraphs, facts or steps"
        return "" if takes_decompositions else "steps, but no supporting paragraphs or facts"
    return "" if example.golds and example.golds[0].strip() else "no answer"


def _reasons(left_out: Mapping[tuple[str, str], int]) -> tuple[str, ...]:
    return tuple(f"{count:,} of {name}: {reason}" for (name, reason), count in sorted(left_out.items()))


def _no_examples_message(left_out: Mapping[tuple[str, str], int], num_held_out: int) -> str:
    held_out = (f"all {num_held_out:,} examples are held out",) if num_held_out else ()
    reasons = "; ".join((*_reasons(left_out), *held_out)) or "the shares draw no example"
    return (
        f"the datasets hold nothing to learn from ({reasons}). Name files in their authors' own layout, "
        'add "paragraphs" with "evidence" to your own rows, or change what leaves them out with --set: '
        "passage_words, held_out, or the shares."
    )
