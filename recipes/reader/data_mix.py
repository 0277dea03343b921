"""The recipe's data mix.

The recipe adds two kinds of examples to those of `askance train reader`: examples for the prompts of AirRAG
and Self-RAG, and examples for questions that are composed from the datasets' own questions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor
from typing import ClassVar

from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Model
from askance.core.types import Hit
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Triple
from askance.methods.common.prompts import Layout
from askance_lab.training.reader.answer_examples import gold_reasoning, reasoned_answer
from askance_lab.training.reader.data_mix import ExampleBuilder, grouped_by_paragraph
from askance_lab.training.reader.settings import ReaderSettings
from askance_lab.training.reader.training_example import TrainingExample
from recipes.reader import judgements
from recipes.reader.bridge_questions import bridge_questions
from recipes.reader.composed_questions import comparisons, part_examples, with_sentences
from recipes.reader.decomposition import following_up_examples, splitting_examples, summing_up_examples
from recipes.reader.lead_paragraphs import lead_records


@checked_dataclass()
class RecipeSettings(ReaderSettings):
    """The settings of a training run with the recipe.

    If a description begins with "share:", the value is the mean number of examples per question of a dataset.
    """

    owner: ClassVar[str] = "python -m recipes.reader"

    compared: float = parameter(0.25, "share: comparisons of two records", at_least=0)
    deciding: float = parameter(1.5, "share: conclusions of comparisons, with their facts given", at_least=0)
    bridged: float = parameter(
        1.0, "share: bridge questions, made from two of which one names the other's answer", at_least=0
    )
    splitting: float = parameter(0.3, "share: decompositions into sub-questions", at_least=0)
    following_up: float = parameter(0.5, "share: the next sub-question, given answers", at_least=0)
    summing_up: float = parameter(0.3, "share: the answer from answered sub-questions", at_least=0)
    judging: float = parameter(0.4, "share: each of four judgements", at_least=0)


@dataclass(frozen=True)
class RecipeBuilder(ExampleBuilder):
    """A builder that makes the recipe's training examples from one dataset."""

    settings_class: ClassVar[type[ReaderSettings]] = RecipeSettings
    takes_decompositions: ClassVar[bool] = True

    settings: RecipeSettings

    def from_paragraphs(self, examples: Sequence[Example]) -> Iterator[TrainingExample]:
        shares, rng = self.settings, self.rng
        for group in grouped_by_paragraph(examples):
            for _ in range(self.draw_count(shares.paragraph)):
                yield from self.paragraph_examples(group)
            for _ in range(self.draw_count(shares.splitting)):
                yield from splitting_examples(rng.choice(group), self.model)
        for example in bridge_questions(
            [example for example in examples if example.supporting_facts.supporting], rng
        ):
            for _ in range(self.draw_count(shares.bridged)):
                yield from self.answer_examples(example)

    def from_chains(self, examples: Sequence[Example]) -> Iterator[TrainingExample]:
        shares, rng = self.settings, self.rng
        examples = [with_sentences(example) for example in examples]
        facts = [fact for example in examples for fact in example.supporting_facts.triples]
        num_chained = sum(bool(example.supporting_facts.triples) for example in examples)
        compared = (*examples, *lead_records(examples, rng))
        composed = comparisons(compared, floor(num_chained * shares.compared), rng)
        for example in (*examples, *composed):
            yield from self.answer_examples(example)
            yield from self._decomposition_examples(example)
        for example in comparisons(compared, floor(num_chained * shares.deciding), rng):
            yield from conclusion_example(example, self.model, self.draw_layout())
        for example in examples:
            for _ in range(self.draw_count(shares.judging) if example.supporting_facts.paragraphs else 0):
                yield from self._judgement_examples(example, rng.choice(examples), facts)

    def more_on_passages(
        self, example: Example, hits: Sequence[Hit], layout: Layout
    ) -> Iterator[TrainingExample]:
        return part_examples(example, hits, self.model, layout, self.rng)

    def _decomposition_examples(self, example: Example) -> Iterator[TrainingExample]:
        shares = self.settings
        for _ in range(self.draw_count(shares.splitting)):
            yield from splitting_examples(example, self.model)
        for _ in range(self.draw_count(shares.following_up)):
            yield from following_up_examples(example, self.model, self.rng)
        for _ in range(self.draw_count(shares.summing_up)):
            yield from summing_up_examples(example, self.model, self.passage_limits, self.rng)

    def _judgement_examples(
        self, example: Example, other: Example, facts: Sequence[Triple]
    ) -> Iterator[TrainingExample]:
        yield from judgements.relevance(example, self.model, self.passage_limits, self.rng)
        yield from judgements.support(example, facts, self.model, self.passage_limits, self.rng)
        yield from judgements.usefulness(example, other, self.model, self.rng)
        yield from judgements.retrieval(example, self.model, self.passage_limits, self.rng)


def conclusion_example(example: Example, model: Model, layout: Layout) -> Iterator[TrainingExample]:
    """Yield an example in which only the last fact and the conclusion of an answer remain to be written."""
    reasoning = gold_reasoning(example)
    if len(reasoning.facts) > 1:
        split = " ".join(reasoning.facts[:-1]), f"{reasoning.facts[-1]} {reasoning.conclusion}"
        yield reasoned_answer("going_on", example.question, reasoning, (), model, layout, split)
