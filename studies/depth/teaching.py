"""Teach a model to answer questions about the made world: AirRAG's actions, IterDRAG's lines, and reading.

All examples are about a second world, which shares parts of names with the first one but no entity. Their
passages are those that a search in its documents finds.
"""

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from askance.configuration.build import open_retriever
from askance.core.ports import Model, Retriever
from askance.core.types import Demo, Hit, Question
from askance.methods.airrag.prompts import REFUSAL
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, unique_hits
from askance.methods.iterdrag import FINAL, FOLLOW_UP, INTERMEDIATE, Iterdrag
from askance_lab.training.actions.rows import NO_QUERY, ActionRow
from askance_lab.training.reader.data_mix import DataMix, build_data_mix
from askance_lab.training.reader.save import model_card
from askance_lab.training.reader.settings import ReaderSettings
from askance_lab.training.reader.train_reader import load_base, train_language_model
from askance_lab.training.reader.training_example import TrainingExample
from studies.depth.world import Size, draw_chains, question
from studies.known_unknown.questions import Chain
from studies.known_unknown.teaching import TeachingBuilder, reading_exercises
from studies.known_unknown.world import World
from studies.shared import show_step

PASSAGES = 2
"""The number of passages of a search, in teaching and in the runs."""
SETTINGS = ReaderSettings(
    precision="bfloat16",
    learning_rate=5e-4,
    held_out=0.0,
    chat=0.0,
    memory=0.0,
    rows_per_step=1,
    row_tokens=768,
    checkpoint_minutes=2,
)
UNKNOWN = "I do not know."
"""The direct answer that is taught, since nothing about this world can be known by heart."""
FOLLOW_UPS, IN_VAIN, WITH_PASSAGES, DIRECT, ITERDRAG = 0.5, 0.2, 0.4, 0.2, 0.35
"""The share of steps with a follow-up question, and of chains with a split after a search in vain, a summary
that shows passages, a direct answer, and lines of IterDRAG."""
MAX_SUMMARY_HOPS = 3
"""Summaries of longer chains show no passages, which would make the longest examples of all."""
_NOUNS = {"person": "person", "place": "town", "organisation": "organisation"}
_NUM_VARIANTS = 4


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a chain.

    Attributes:
        planned: The sub-question before the one before it is answered, such as "Where was that person born?".
        resolved: The sub-question with the name filled in.
        hits: The passages that a search for `resolved` finds.
    """

    planned: str
    resolved: str
    answer: str
    subject: str
    hits: tuple[Hit, ...]

    @property
    def known(self) -> Demo:
        """The step as a line of the history."""
        return Demo(self.resolved, self.answer)


@dataclass(frozen=True, slots=True)
class Lesson:
    """A question with its steps, from which examples are drawn."""

    id: str
    question: Question
    steps: tuple[Step, ...]
    hits: tuple[Hit, ...]
    rng: random.Random

    def rows(self) -> Iterator[ActionRow]:
        """Yield the examples of AirRAG's actions, in the order in which a path takes them."""
        steps, history = self.steps, tuple(step.known for step in self.steps)
        plan = "\n".join(step.planned for step in steps) if len(steps) > 1 else NO_QUERY
        yield self._row(SAY, "none" if plan == NO_QUERY else "plan", plan)
        if plan != NO_QUERY:
            yield self._row(QT, "none", NO_QUERY, sub_question=steps[0].planned)
            if self.rng.random() < IN_VAIN:
                yield self._row(QT, "splitting", plan, (Demo(self.question.text, REFUSAL),))
        for number in range(1, len(steps)):
            resolved = steps[number].resolved
            yield self._row(QT, "rewriting", resolved, history[:number], steps[number].planned)
            if self.rng.random() < FOLLOW_UPS:
                yield self._row(QT, "follow-up", resolved, history[:number])
        yield self._row(QT, "none", NO_QUERY, history)
        yield self._answer(self.rng.choice(steps))
        has_passages = len(steps) <= MAX_SUMMARY_HOPS and self.rng.random() < WITH_PASSAGES
        found = unique_hits(sorted((hit for step in steps for hit in step.hits), key=lambda hit: hit.rank))
        yield self._row(SA, "summary", steps[-1].answer, history, hits=found if has_passages else ())
        if self.rng.random() < DIRECT:
            yield self._row(DA, "unknown", UNKNOWN)

    def _answer(self, step: Step) -> ActionRow:
        """Return an answer to a sub-question, or a refusal if no passage has it."""
        is_found = any(hit.passage.title == step.subject for hit in step.hits)
        kind, reply = ("answer", step.answer) if is_found else ("refusal", REFUSAL)
        return self._row(RA, kind, reply, sub_question=step.resolved, hits=step.hits)

    def _row(
        self,
        action: str,
        kind: str,
        reply: str,
        history: tuple[Demo, ...] = (),
        sub_question: str = "",
        hits: tuple[Hit, ...] = (),
    ) -> ActionRow:
        return ActionRow(self.id, action, kind, self.question, reply, history, sub_question, hits)

    def iterdrag(self, model: Model) -> TrainingExample:
        """Return an example of IterDRAG's lines up to a drawn step, with the passages found so far."""
        stage = self.rng.randint(1, len(self.steps))
        hits = unique_hits(
            hit for found in (self.hits, *(step.hits for step in self.steps[:stage])) for hit in found[::-1]
        )
        lines = [f"{FOLLOW_UP} {step.resolved}\n{INTERMEDIATE} {step.answer}" for step in self.steps[:stage]]
        if stage == len(self.steps):
            lines.append(f"{FINAL} {self.steps[-1].answer}")
        return TrainingExample(
            "iterdrag", self.id, Iterdrag().prompt(model, self.question, hits, ""), "\n".join(lines)
        )


async def lessons(world: World, size: Size, retriever: Retriever) -> list[Lesson]:
    """Return a lesson for each chain that is taught."""
    found = list[Lesson]()
    for hops, count in size.taught.items():
        for number, chain in enumerate(draw_chains(world, hops, count, world.seed), start=1):
            rng = random.Random(f"{world.seed} lesson {hops} {number}")
            asked = question(world, chain, f"{hops}-{number}", rng.randrange(_NUM_VARIANTS)).question
            steps = await _steps(chain, retriever)
            hits = await retriever.search(asked.text, PASSAGES)
            found.append(Lesson(f"made/{asked.id}", asked, steps, hits, rng))
    return found


async def _steps(chain: Chain, retriever: Retriever) -> tuple[Step, ...]:
    """Return the steps of a chain, in words that no two steps share, as AirRAG drops a repeated query."""
    steps, subject = list[Step](), ""
    for fact in chain:
        before = {step.planned for step in steps}
        variant = next(each for each in range(_NUM_VARIANTS) if fact.question(each, subject) not in before)
        resolved = fact.question(variant)
        hits = await retriever.search(resolved, PASSAGES)
        steps.append(Step(fact.question(variant, subject), resolved, fact.object, fact.subject, hits))
        subject = f"that {_NOUNS.get(fact.relation.object, '')}"
    return tuple(steps)


def data_mix(world: World, size: Size, taught: Sequence[Lesson], model: Model) -> DataMix:
    """Return all examples in a random order."""
    exercises = reading_exercises(world, size.reading, world.seed)
    reading = build_data_mix({"reading": exercises}, model, SETTINGS, TeachingBuilder)
    examples = [row.example(model) for lesson in taught for row in lesson.rows()]
    examples += [lesson.iterdrag(model) for lesson in taught if lesson.rng.random() < ITERDRAG]
    examples += reading.training
    random.Random(f"{world.seed} order").shuffle(examples)
    return DataMix(tuple(examples), (), {"made": len(taught), "reading": len(exercises)}, {})


def teach(out: Path, size: Size, world: World) -> None:
    """Train a model, or resume an interrupted training, into ``OUT/reader``.

    Args:
        world: The second world, whose index is in ``OUT/teaching``.
    """
    if (out / "reader").exists():
        return
    taught = asyncio.run(lessons(world, size, open_retriever(out / "teaching" / "index", "bm25", None)))
    train_language_model(
        partial(data_mix, world, size, taught),
        load_base("bundled"),
        SETTINGS,
        out / "reader",
        show_step,
        lambda report: None,
        model_card,
        is_dry_run=False,
    )
