"""The mixture: which lessons are made of which examples, and how many."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import floor

from askance.core.errors import InputError
from askance.core.ports import Model
from askance.eval.datasets import Example
from askance.eval.datasets.grounds import Paragraph, Triple
from askance.eval.datasets.squad2 import UNANSWERABLE
from askance.methods.prompts import Layout
from askance.train.reader import judging
from askance.train.reader.bridging import bridged
from askance.train.reader.composing import comparisons
from askance.train.reader.lesson import Lesson
from askance.train.reader.openings import opened
from askance.train.reader.passages import Showing
from askance.train.reader.reading import from_memory, from_passages, shown, to_the_end
from askance.train.reader.single_hop import grouped_by_paragraph, on_paragraph, on_parts
from askance.train.reader.splitting import following_up, splitting, summing_up


@dataclass(frozen=True, slots=True)
class Shares:
    """Lessons per example; 0.3 is three examples in ten, 2 is two different ones of each.

    Attributes:
        reading: from passages, and going on from there. Each time with other distractors in another order.
        memory: the same without passages.
        compared: comparisons made of two records, for each record with facts of a knowledge base.
        deciding: the ends of more such comparisons: which date is the earlier, and so the answer.
        chat: of the lessons in reading and memory, the share in the chat layout.
        paragraph: for paragraphs that stand alone, with questions of one hop: the share that is used, with
            all its questions.
        bridged: of the questions that two questions of one hop make.
        splitting, following_up, summing_up, judging: as their modules say; judging for each of four kinds.
        relevance: further judgements of relevance, against paragraphs that are as long.
    """

    reading: float
    memory: float
    compared: float
    deciding: float
    chat: float
    paragraph: float
    bridged: float
    splitting: float
    following_up: float
    summing_up: float
    judging: float
    relevance: float


@dataclass(frozen=True, slots=True)
class Mixture:
    """What is to be learned.

    Attributes:
        held_out: lessons of questions that no lesson to be learned is made from.
        num_examples: by dataset.
        left_out: how many examples gave no lesson, by dataset and reason.
    """

    lessons: tuple[Lesson, ...]
    held_out: tuple[Lesson, ...]
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
        return reasons(self.left_out)


def mixture(
    examples_by_dataset: Mapping[str, Sequence[Example]],
    model: Model,
    shares: Shares,
    *,
    seed: int = 0,
    showing: Showing = Showing(),
    held_out: float = 0.02,
) -> Mixture:
    """Lessons of all examples, in an order that depends on `seed` alone.

    Args:
        model: tells by its capabilities whether the prompts are raw or chat.
        held_out: share of each dataset's examples, chosen by their ids.

    Raises:
        InputError: no example has grounds that anything can be learned from.
    """
    learned: list[Lesson] = []
    kept: list[Lesson] = []
    left_out: Counter[tuple[str, str]] = Counter()
    for name, examples in examples_by_dataset.items():
        is_held = {example.question.id: _is_held_out(name, example, held_out) for example in examples}
        for part, found in ((False, learned), (True, kept)):
            chosen = [example for example in examples if is_held[example.question.id] == part]
            builder = _Builder(model, shares, showing, random.Random(f"{seed} {name} {part}"), left_out, name)
            found += builder.lessons(chosen)
    if not learned:
        raise InputError(_nothing(left_out, len(kept)))
    random.Random(f"{seed} order").shuffle(learned)
    return Mixture(
        tuple(learned), tuple(kept), {name: len(each) for name, each in examples_by_dataset.items()}, left_out
    )


def reasons(left_out: Mapping[tuple[str, str], int]) -> tuple[str, ...]:
    """How many examples of which dataset were left out, and why, in words."""
    return tuple(f"{count:,} of {name}: {reason}" for (name, reason), count in sorted(left_out.items()))


def _nothing(left_out: Mapping[tuple[str, str], int], num_held_out: int) -> str:
    held_out = (f"all {num_held_out:,} lessons are held out",) if num_held_out else ()
    why = "; ".join((*reasons(left_out), *held_out)) or "the shares draw no lesson"
    return (
        f"the datasets hold nothing to learn from ({why}). Name files "
        'in their authors\' own layout, add "paragraphs" with "evidence" to your own rows, or change what '
        "leaves them out with --set: passage_words, held_out, or the shares."
    )


def _is_held_out(name: str, example: Example, share: float) -> bool:
    # By the paragraph, where questions share one: what is held out must not have been read.
    unit = example.grounds.paragraphs[0].text if _is_on_one_paragraph(example) else example.question.id
    digest = blake2b(f"{name} {unit}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64 < share


def _is_on_one_paragraph(example: Example) -> bool:
    """Not so where that stands among distractors, or is one."""
    paragraphs = example.grounds.paragraphs
    is_told = bool(example.grounds.supporting) or example.kind == UNANSWERABLE
    return example.hops == 1 and len(paragraphs) == 1 and is_told


@dataclass(frozen=True, slots=True)
class _Builder:
    """All builders over the examples of one dataset."""

    model: Model
    shares: Shares
    showing: Showing
    random_: random.Random
    left_out: Counter[tuple[str, str]]
    name: str

    def lessons(self, examples: Sequence[Example]) -> Iterator[Lesson]:
        why = {example.question.id: _useless(example) for example in examples}
        self.left_out.update((self.name, reason) for reason in why.values() if reason)
        useful = [example for example in examples if not why[example.question.id]]
        single = [example for example in useful if _is_on_one_paragraph(example)]
        several = [example for example in useful if not _is_on_one_paragraph(example)]
        for lesson in (*self._of_paragraphs(single), *self._of_chains(several)):
            yield replace(lesson, id=f"{self.name}/{lesson.id}")

    def _of_paragraphs(self, examples: Sequence[Example]) -> Iterator[Lesson]:
        words, choose = self.showing.words, self.random_
        for group in grouped_by_paragraph(examples):
            for _ in range(self._times(self.shares.paragraph)):
                yield from on_paragraph(group, words, self.model, self._layout(), choose)
            for _ in range(self._times(self.shares.splitting)):
                yield from splitting(choose.choice(group), self.model)
        for example in bridged([each for each in examples if each.grounds.supporting], choose):
            for _ in range(self._times(self.shares.bridged)):
                yield from self._answering(example)
        yield from self._told_apart(examples)

    def _of_chains(self, examples: Sequence[Example]) -> Iterator[Lesson]:
        facts = [fact for example in examples for fact in example.grounds.triples]
        num_chained = sum(bool(example.grounds.triples) for example in examples)
        compared = (*examples, *opened(examples, self.random_))
        composed = comparisons(compared, floor(num_chained * self.shares.compared), self.random_)
        for example in (*examples, *composed):
            yield from self._answering(example)
            yield from self._planning(example)
        for example in comparisons(compared, floor(num_chained * self.shares.deciding), self.random_):
            yield from to_the_end(example, self.model, self._layout())
        for example in (each for each in examples if each.grounds.paragraphs):
            for _ in range(self._times(self.shares.judging)):
                yield from self._judging(example, self.random_.choice(examples), facts)
        yield from self._told_apart(examples)

    def _answering(self, example: Example) -> Iterator[Lesson]:
        for _ in range(self._times(self.shares.reading)):
            layout, hits = self._layout(), shown(example, self.showing, self.random_)
            if hits is None:
                if example.grounds.supporting:
                    self.left_out[self.name, f"evidence longer than passage_words={self.showing.words}"] += 1
                break
            yield from from_passages(example, hits, self.model, layout, self.random_)
            yield from on_parts(example, hits, self.model, layout, self.random_)
        for _ in range(self._times(self.shares.memory)):
            yield from from_memory(example, self.model, self._layout(), self.random_)

    def _planning(self, example: Example) -> Iterator[Lesson]:
        for _ in range(self._times(self.shares.splitting)):
            yield from splitting(example, self.model)
        for _ in range(self._times(self.shares.following_up)):
            yield from following_up(example, self.model, self.random_)
        for _ in range(self._times(self.shares.summing_up)):
            yield from summing_up(example, self.model, self.showing, self.random_)

    def _judging(self, example: Example, other: Example, facts: Sequence[Triple]) -> Iterator[Lesson]:
        yield from judging.relevance(example, self.model, self.showing, self.random_)
        yield from judging.support(example, facts, self.model, self.showing, self.random_)
        yield from judging.usefulness(example, other, self.model, self.random_)
        yield from judging.retrieval(example, self.model, self.showing, self.random_)

    def _told_apart(self, examples: Sequence[Example]) -> Iterator[Lesson]:
        """Each question's distractors, or what other questions need, where it can be on the same subject."""
        by_title = dict[str, dict[str, Paragraph]]()
        for example in examples:
            for paragraph in example.grounds.supporting:
                by_title.setdefault(_subject(example, paragraph), {})[paragraph.text] = paragraph
        for example in (each for each in examples if each.grounds.supporting):
            own = {each.text for each in example.grounds.paragraphs}
            for _ in range(self._times(self.shares.relevance)):
                subject = _subject(example, self.random_.choice(example.grounds.supporting))
                needed = [each for text, each in by_title[subject].items() if text not in own]
                distractors = [each for each in example.grounds.paragraphs if not each.is_supporting]
                others = (
                    needed if needed and (not distractors or self.random_.random() < 0.5) else distractors
                )
                yield from judging.relevance_told_apart(
                    example, others, self.model, self.showing, self.random_
                )

    def _layout(self) -> Layout:
        takes = self.model.capabilities
        is_chat = "chat" in takes and ("raw" not in takes or self.random_.random() < self.shares.chat)
        return "chat" if is_chat else "raw"

    def _times(self, share: float) -> int:
        return floor(share + self.random_.random())


def _subject(example: Example, paragraph: Paragraph) -> str:
    """What paragraphs that are told apart have in common: an article, where each question is on one of its
    paragraphs; otherwise no more than being needed.
    """
    return paragraph.title if _is_on_one_paragraph(example) else ""


def _useless(example: Example) -> str:
    """Why nothing can be learned from an example, or nothing."""
    grounds = example.grounds
    if not (grounds.supporting or grounds.facts or (example.kind == UNANSWERABLE and grounds.paragraphs)):
        return "no supporting paragraphs, facts or steps" if not grounds.steps else ""
    return "" if example.golds and example.golds[0].strip() else "no answer"
