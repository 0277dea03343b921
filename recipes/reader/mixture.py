"""The recipe: the lessons of `askance train reader`, those of AirRAG's and Self-RAG's prompts, and lessons on
questions that are made of the datasets' own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor
from typing import ClassVar

from askance.core.parameters import parameter
from askance.core.types import Hit
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Triple
from askance.methods.common.prompts import Layout
from askance.training.reader.lesson import TrainingExample
from askance.training.reader.mixture import Builder, grouped_by_paragraph
from askance.training.reader.reading import to_the_end
from askance.training.reader.settings import ReaderSettings
from recipes.reader import judging
from recipes.reader.bridging import bridged
from recipes.reader.composing import comparisons, on_parts, worded
from recipes.reader.openings import opened
from recipes.reader.splitting import following_up, splitting, summing_up


@dataclass(frozen=True, slots=True)
class RecipeSettings(ReaderSettings):
    """The settings of a training with the recipe's lessons; shares are lessons per example."""

    owner: ClassVar[str] = "python -m recipes.reader"

    compared: float = parameter(0.25, "share: comparisons made of two records", at_least=0)
    deciding: float = parameter(1.5, "share: ends of such comparisons, facts given", at_least=0)
    bridged: float = parameter(
        1.0, "share: questions made of two, one of which names the other's answer", at_least=0
    )
    splitting: float = parameter(0.3, "share: questions taken apart", at_least=0)
    following_up: float = parameter(0.5, "share: the next question, given answers", at_least=0)
    summing_up: float = parameter(0.3, "share: the answer out of answers", at_least=0)
    judging: float = parameter(0.4, "share: each of four judgements", at_least=0)


@dataclass(frozen=True)
class RecipeBuilder(Builder):
    """Makes the lessons of one dataset's examples."""

    settings_class: ClassVar[type[ReaderSettings]] = RecipeSettings
    takes_steps: ClassVar[bool] = True

    settings: RecipeSettings

    def of_paragraphs(self, examples: Sequence[Example]) -> Iterator[TrainingExample]:
        shares, choose = self.settings, self.random_
        for group in grouped_by_paragraph(examples):
            for _ in range(self.times(shares.paragraph)):
                yield from self.reading_a_paragraph(group)
            for _ in range(self.times(shares.splitting)):
                yield from splitting(choose.choice(group), self.model)
        for example in bridged([each for each in examples if each.supporting_facts.supporting], choose):
            for _ in range(self.times(shares.bridged)):
                yield from self.answering(example)

    def of_chains(self, examples: Sequence[Example]) -> Iterator[TrainingExample]:
        shares, choose = self.settings, self.random_
        examples = [worded(example) for example in examples]
        facts = [fact for example in examples for fact in example.supporting_facts.triples]
        num_chained = sum(bool(example.supporting_facts.triples) for example in examples)
        compared = (*examples, *opened(examples, choose))
        composed = comparisons(compared, floor(num_chained * shares.compared), choose)
        for example in (*examples, *composed):
            yield from self.answering(example)
            yield from self._planning(example)
        for example in comparisons(compared, floor(num_chained * shares.deciding), choose):
            yield from to_the_end(example, self.model, self.layout())
        for example in (each for each in examples if each.supporting_facts.paragraphs):
            for _ in range(self.times(shares.judging)):
                yield from self._judging(example, choose.choice(examples), facts)

    def on_the_same_passages(
        self, example: Example, hits: Sequence[Hit], layout: Layout
    ) -> Iterator[TrainingExample]:
        return on_parts(example, hits, self.model, layout, self.random_)

    def _planning(self, example: Example) -> Iterator[TrainingExample]:
        shares = self.settings
        for _ in range(self.times(shares.splitting)):
            yield from splitting(example, self.model)
        for _ in range(self.times(shares.following_up)):
            yield from following_up(example, self.model, self.random_)
        for _ in range(self.times(shares.summing_up)):
            yield from summing_up(example, self.model, self.showing, self.random_)

    def _judging(
        self, example: Example, other: Example, facts: Sequence[Triple]
    ) -> Iterator[TrainingExample]:
        yield from judging.relevance(example, self.model, self.showing, self.random_)
        yield from judging.support(example, facts, self.model, self.showing, self.random_)
        yield from judging.usefulness(example, other, self.model, self.random_)
        yield from judging.retrieval(example, self.model, self.showing, self.random_)
