"""Rows for AirRAG's actions from questions with gold decompositions and supporting paragraphs.

SAY learns the sub-questions as a plan asks them, and None for a question that needs no splitting. QT learns
the transformations of AirRAG (Feng et al. 2025, section 3): to rewrite the next sub-question with the answers
filled in, to ask a follow-up question, to step back to a more general question after passages without an
answer, and to split a question into several queries. RA learns short answers to the sub-questions, SA the
answer to the question, and DA the same without passages.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import floor

from askance.core.types import Demo, Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import UNANSWERABLE, Paragraph
from askance.methods.airrag.prompts import REFUSAL
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, is_same_query, word_set
from askance_lab.training.actions.decomposition import BadReference, SubQuestion, sub_questions
from askance_lab.training.actions.rows import NO_QUERY, ActionRow, is_well_formed
from askance_lab.training.actions.settings import ActionSettings
from askance_lab.training.reader.passages import mix_with_distractors

LeftOut = Counter[tuple[str, str]]
"""The number of questions that yielded no row of a kind, by dataset and reason."""


def gold_rows(
    name: str, examples: Sequence[Example], settings: ActionSettings, left_out: LeftOut
) -> Iterator[ActionRow]:
    """Yield the rows of a dataset. The rows of a question depend on nothing but the question and the seed.

    Args:
        name: The dataset's name, with which the id of each row begins.
        left_out: The counts to which this function adds.
    """
    for example in examples:
        rng = random.Random(f"{settings.seed} {name} {example.question.id}")
        steps = _steps(name, example, left_out)
        yield from _QuestionRows(name, example, settings, rng, steps).rows()


def _steps(name: str, example: Example, left_out: LeftOut) -> tuple[SubQuestion, ...]:
    """Return the sub-questions of a question, or nothing if they make no plan."""
    try:
        steps = sub_questions(example)
    except BadReference:
        left_out[name, "a step refers to a step that is not before it"] += 1
        return ()
    plan = "\n".join(step.planned for step in steps)
    if steps and not is_well_formed(SAY, plan):
        left_out[name, "a plan that AirRAG would not read completely"] += 1
        return ()
    if len(steps) < 2 and example.hops != 1:
        left_out[name, "no decomposition into sub-questions, so no plan and no transformation"] += 1
    return steps if len(steps) > 1 else ()


@dataclass(frozen=True, slots=True)
class _QuestionRows:
    """The rows of one question. Each method but `rows` draws one row, or None if there is none to make."""

    name: str
    example: Example
    settings: ActionSettings
    rng: random.Random
    steps: tuple[SubQuestion, ...]

    def rows(self) -> Iterator[ActionRow]:
        """Yield as many rows of each action as its share says, on average."""
        makers = {SAY: self._say, QT: self._qt, RA: self._ra, SA: self._sa, DA: self._da}
        for action, make in makers.items():
            for _ in range(floor(getattr(self.settings, action) + self.rng.random())):
                if row := make():
                    yield row

    @property
    def answered(self) -> tuple[SubQuestion, ...]:
        """The sub-questions, or nothing if one of them has no answer."""
        return self.steps if all(step.answer for step in self.steps) else ()

    @property
    def plan(self) -> str:
        """The sub-questions as a reply of SAY."""
        return "\n".join(step.planned for step in self.steps)

    def _row(
        self,
        action: str,
        kind: str,
        reply: str,
        history: Sequence[Demo] = (),
        sub_question: str = "",
        question: Question | None = None,
    ) -> ActionRow:
        id = f"{self.name}/{self.example.question.id}"
        asked = question or self.example.question
        return ActionRow(id, action, kind, asked, reply, tuple(history), sub_question)

    def _say(self) -> ActionRow | None:
        """Return a plan, or None for a question with one hop, which may be a sub-question."""
        wants_none = self.rng.random() < self.settings.none_share
        if self.example.hops == 1:
            return self._row(SAY, "none", NO_QUERY)
        if wants_none and self.answered:
            step = self.rng.choice(self.answered)
            question = Question(self.example.question.id, step.resolved)
            return self._row(SAY, "none", NO_QUERY, question=question)
        return self._row(SAY, "plan", self.plan) if self.steps else None

    def _qt(self) -> ActionRow | None:
        """Return a transformation of a drawn kind, or a follow-up question if that kind does not apply."""
        kind = self.rng.choice((self._follow_up, self._rewriting, self._step_back, self._splitting))
        if self.rng.random() < self.settings.none_share:
            kind = self._no_query
        return kind() or self._follow_up()

    def _history(self, number: int) -> list[Demo]:
        return [Demo(step.resolved, step.answer) for step in self.answered[:number]]

    def _follow_up(self) -> ActionRow | None:
        """Return the next sub-question with the answers filled in; no plan says what comes next."""
        if not self.answered:
            return None
        number = self.rng.randrange(1, len(self.answered))
        return self._row(QT, "follow-up", self.answered[number].resolved, self._history(number))

    def _rewriting(self) -> ActionRow | None:
        """Return the next sub-question of the plan with the answers filled in."""
        changed = [number for number, step in enumerate(self.answered) if step.planned != step.resolved]
        if not changed:
            return None
        number = self.rng.choice(changed)
        step = self.answered[number]
        return self._row(QT, "rewriting", step.resolved, self._history(number), step.planned)

    def _step_back(self) -> ActionRow | None:
        """Return a general question about the subject of a sub-question that no passage answered."""
        numbers = [number for number, step in enumerate(self.answered) if step.topic]
        if not numbers:
            return None
        number = self.rng.choice(numbers)
        step = self.answered[number]
        history = [*self._history(number), Demo(step.resolved, REFUSAL)]
        return self._row(QT, "step-back", f"What is known about {step.topic}?", history)

    def _splitting(self) -> ActionRow | None:
        """Return the whole plan for the question itself, which may have been searched for in vain."""
        if not self.steps:
            return None
        text = self.example.question.text
        if any(is_same_query(step.planned, text) for step in self.steps):
            return None
        if self.rng.random() < 0.5:
            return self._row(QT, "splitting", self.plan, sub_question=text)
        return self._row(QT, "splitting", self.plan, [Demo(text, REFUSAL)])

    def _no_query(self) -> ActionRow | None:
        """Return None after the last answer, or for a sub-question in which nothing is to be filled in."""
        if not self.answered:
            return None
        same = [
            number for number, step in enumerate(self.answered) if number and step.planned == step.resolved
        ]
        if same and self.rng.random() < 0.5:
            number = self.rng.choice(same)
            return self._row(QT, "none", NO_QUERY, self._history(number), self.answered[number].planned)
        return self._row(QT, "none", NO_QUERY, self._history(len(self.answered)))

    def _ra(self) -> ActionRow | None:
        paragraphs = self.example.supporting_facts.paragraphs
        asked = [
            (step.resolved, step.answer, needed) for step in self.answered if (needed := self._source(step))
        ]
        if self.steps:
            if not asked:
                return None
            text, answer, needed = self.rng.choice(asked)
        elif self.example.kind == UNANSWERABLE:
            text, answer, needed = self.example.question.text, REFUSAL, paragraphs
        else:
            text, answer = self.example.question.text, next(iter(self.example.golds), "")
            needed = self.example.supporting_facts.supporting
        if not needed or not answer.strip():
            return None
        others = [each for each in paragraphs if each not in needed]
        if answer != REFUSAL and self.rng.random() < self.settings.refused:
            needed, others = (), [each for each in others if answer.casefold() not in each.text.casefold()]
            answer = REFUSAL
        hits = mix_with_distractors(needed, others, self.settings.passage_limits, self.rng)
        if not hits or len(hits) > self.settings.passages:
            return None
        row = self._row(RA, "refusal" if answer == REFUSAL else "answer", answer, sub_question=text)
        return replace(row, hits=hits)

    def _source(self, step: SubQuestion) -> tuple[Paragraph, ...]:
        """Return the supporting paragraph that answers a sub-question, or nothing if none has the answer.

        If several have the answer, it is the one that shares most words with the sub-question.
        """
        answer, words = step.answer.casefold(), word_set(step.resolved)
        having = [each for each in self.example.supporting_facts.supporting if answer in each.text.casefold()]

        def num_shared(paragraph: Paragraph) -> tuple[int, int]:
            return len(words & word_set(paragraph.title)), len(words & word_set(paragraph.text))

        return (max(having, key=num_shared),) if having else ()

    def _sa(self) -> ActionRow | None:
        """Return a summary of all answers, half of the time with supporting passages.

        Without a decomposition, the passages have the answer, and the history says at most whether it was
        found.
        """
        if not self._is_answerable:
            return None
        supporting = self.example.supporting_facts.supporting
        gold, text = self.example.golds[0], self.example.question.text
        if self.steps and not self.answered:
            return None
        if self.answered:
            history, is_shown = self._history(len(self.answered)), self.rng.random() < 0.5
        else:
            history, is_shown = [Demo(text, self.rng.choice((gold, REFUSAL)))], True
        hits = None
        if is_shown and supporting:
            hits = mix_with_distractors(supporting, (), self.settings.passage_limits, self.rng)
            hits = hits if hits and len(hits) <= self.settings.passages else None
        if not self.answered and hits is None:
            return None
        return replace(self._row(SA, "summary", gold, history), hits=hits or ())

    def _da(self) -> ActionRow | None:
        return self._row(DA, "answer", self.example.golds[0]) if self._is_answerable else None

    @property
    def _is_answerable(self) -> bool:
        golds = self.example.golds
        return bool(golds and golds[0].strip()) and self.example.kind != UNANSWERABLE
