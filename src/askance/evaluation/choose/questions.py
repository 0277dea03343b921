"""Questions written from the user's documents by a model, each of which is checked.

The model sees a passage and writes a question with a short answer. The question is kept if

- it has the form that was asked for, and makes sense without the passage;
- the answer stands in the passage, and neither in the question nor as the title;
- the question has content words beyond the title, and resembles no earlier question;
- the model gives the same answer back if it reads the passage; and
- for a passage that is held out: no passage that can be found holds the answer.

Every passage that was tried has a line in a file, so that the work can be interrupted. The questions that are
kept become a dataset of the kind ``jsonl`` (see `evaluation.datasets.own`).
"""

import asyncio
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from askance.ask import Engine
from askance.core.errors import LimitReached, PromptTooLong
from askance.core.ports import Model, Retriever
from askance.core.safe_text import json_line
from askance.core.types import GenerateRequest, Passage, Prompt, Question, Sampling, Span, untrusted
from askance.evaluation.choose.passages import PassageChoice
from askance.evaluation.datasets.example import NO_ANSWER, UNANSWERABLE
from askance.evaluation.metrics.answers import f1
from askance.evaluation.run.dataset_retriever import DatasetRetriever
from askance.evaluation.run.result_file import open_results, work_through
from askance.methods.common.prompts import chat_turns, in_layout, passage_text
from askance.text.answers import short_answer
from askance.text.linguistics import content_words
from askance.text.words import NOT_SPACED

UNANSWERABLE_EVERY = 4
"""Every fourth question is unanswerable, as long as there are any."""
_TRIES = 5
"""The number of passages to try for each question that is wanted, at most."""
_MOST_TOKENS, _MOST_ANSWER_CHARACTERS, _LEAST_QUESTION_WORDS = 80, 80, 2
_SAME_ANSWER, _SAME_QUESTION, _NUM_HITS = 0.5, 0.8, 10
_WRITING = tomllib.loads(Path(__file__).with_name("writing.toml").read_text(encoding="utf-8"))
_FORM = re.compile(r"\s*(?:Question:)?\s*(?P<question>[^\n]+)\n\s*Answer:\s*(?P<answer>[^\n]+)")
_OF_THE_PASSAGE = re.compile(r"\b(?:this|the)\s+(?:passage|text|document|article|paragraph)\b", re.IGNORECASE)
_LETTER = rf"[^\W{NOT_SPACED}]"
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class WrittenQuestion:
    """A question that was written from a passage.

    Attributes:
        rejected: The reason why the question is not kept; empty if it is.
    """

    passage: str
    question: str = ""
    answer: str = ""
    rejected: str = ""


_WRITTEN = TypeAdapter(WrittenQuestion)


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """The questions that were kept, and the counts of all others.

    Attributes:
        answerable, unanswerable: The questions with their passages.
        num_written: The number of passages that were tried.
        rejected: The number of rejected questions by reason.
    """

    answerable: tuple[tuple[WrittenQuestion, Passage], ...]
    unanswerable: tuple[tuple[WrittenQuestion, Passage], ...]
    num_written: int
    rejected: Counter[str]

    def __str__(self) -> str:
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.rejected.most_common())
        kept = f"{len(self.answerable)} answerable and {len(self.unanswerable)} unanswerable questions kept"
        return f"{kept} of {self.num_written} written" + (f" (rejected: {reasons})" if reasons else "")

    @property
    def text(self) -> str:
        """The content of the dataset's file, in which unanswerable questions are spread evenly."""
        rows, unanswerable = (
            [_row(f"{kind}-{number}", kind, *pair) for number, pair in enumerate(pairs, start=1)]
            for kind, pairs in (("answerable", self.answerable), (UNANSWERABLE, self.unanswerable))
        )
        for number, row in enumerate(unanswerable, start=1):
            rows.insert(UNANSWERABLE_EVERY * number - 1, row)
        return "".join(f"{json_line(row)}\n" for row in rows)


@dataclass(frozen=True, slots=True)
class QuestionWriter:
    """A model that writes questions, and what its questions are checked with.

    Attributes:
        reader: The engine that answers from a passage; its method searches once.
        retriever: The retriever over the documents that are not held out.
    """

    model: Model
    reader: Engine
    retriever: Retriever

    async def write(self, passage: Passage, *, is_held_out: bool) -> WrittenQuestion:
        """Write a question from a passage, and check it.

        Raises:
            AskanceError: A call failed.
        """
        request = GenerateRequest(
            _prompt(self.model, passage),
            Sampling(_MOST_TOKENS, stop=("\n\n", "\nPassage:")),
            key=("write", passage.id),
        )
        try:
            (generated,) = await self.model.generate(request)
            written = parse_question(generated.text, passage)
            return written if written.rejected else await self._checked(written, passage, is_held_out)
        except PromptTooLong:
            return WrittenQuestion(passage.id, rejected="with a passage beyond the model's context window")

    async def _checked(
        self, written: WrittenQuestion, passage: Passage, is_held_out: bool
    ) -> WrittenQuestion:
        if is_held_out:
            hits = await self.retriever.search(written.question, _NUM_HITS)
            if any(contains(hit.passage.text, written.answer) for hit in hits):
                return replace(written, rejected="answered by a document that is not held out")
        gold = DatasetRetriever([(passage.title, passage.text)])
        short = ""
        with suppress(LimitReached):
            result = await self.reader.answer(Question(passage.id, written.question), retriever=gold)
            short = result.answer.short
        is_same = contains(short, written.answer) or f1(short, [written.answer]) >= _SAME_ANSWER
        return written if is_same else replace(written, rejected="not answered alike from the passage")


def parse_question(text: str, passage: Passage) -> WrittenQuestion:
    """Return the question that a model wrote from a passage, after the checks that need no call."""
    match = _FORM.match(text)
    if match is None:
        return WrittenQuestion(passage.id, rejected="without a question and an answer")
    question = match["question"].strip()
    stated = short_answer(match["answer"], Question(passage.id, question))  # at the end of a sentence
    answer = stated or match["answer"].strip().rstrip(".")
    return WrittenQuestion(passage.id, question, answer, _flaw(question, answer, passage))


def _flaw(question: str, answer: str, passage: Passage) -> str:
    words = content_words(question)
    if len(words) < _LEAST_QUESTION_WORDS or _OF_THE_PASSAGE.search(question):
        return "unclear without the passage"
    if not contains(passage.text, answer):
        return "with an answer that is not in the passage"
    if len(answer) > _MOST_ANSWER_CHARACTERS:
        return "with a long answer"
    if contains(question, answer) or content_words(answer) <= content_words(passage.title) != frozenset():
        return "with the answer in the question or the title"
    if words <= content_words(passage.title):
        return "with no word beyond the title"
    return ""


def contains(text: str, part: str) -> bool:
    """Return whether whole words of a text are `part`, regardless of case and white space.

    >>> contains("It was built in  May 1871.", "may 1871"), contains("It has 18710 steps.", "1871")
    (True, False)
    """
    folded, wanted = (_SPACE.sub(" ", each).strip().casefold() for each in (text, part))
    pattern = rf"(?<!{_LETTER}){re.escape(wanted)}(?!{_LETTER})"
    return bool(wanted) and re.search(pattern, folded) is not None


def _prompt(model: Model, passage: Passage) -> Prompt:
    instruction, examples, text = _WRITING["instruction"], _WRITING["examples"], passage_text(passage)
    pairs = [
        (f"Passage: {each['passage']}", f"Question: {each['question']}\nAnswer: {each['answer']}")
        for each in examples
    ]
    worked = "".join(f"{shown}\n{written}\n\n" for shown, written in pairs)
    parts = (Span(f"{instruction}\n\n{worked}Passage: "), untrusted(text), Span("\nQuestion:"))
    examples_of_chat = [((Span(shown),), written) for shown, written in pairs]
    turns = chat_turns(instruction, examples_of_chat, (Span("Passage: "), untrusted(text)))
    # Models that chat write clearer questions in a chat.
    return in_layout("chat" if "chat" in model.capabilities else "raw", model, parts, turns, "")


async def write_questions(
    writer: QuestionWriter,
    choice: PassageChoice,
    num_wanted: int,
    file: Path,
    header: dict[str, Any],
    *,
    in_flight: int,
    seconds: float,
    progress: Callable[[int, int], None],
) -> QuestionSet:
    """Write questions until enough are kept, passages or time run out, and return them.

    Args:
        choice: The passages. Every fourth question is written from a passage that is held out.
        num_wanted: The number of questions to keep.
        file: The file of what was written so far; questions there are not written again.
        header: Everything that the questions depend on, by name.
        in_flight: The number of passages that are worked on at the same time; it changes no question.
        seconds: The time, at most. Each kind of question has its share.
        progress: A function that takes the number of questions kept so far and the number that is wanted.

    Raises:
        RunFolderError: The file can't be written, or was made with another header.
        AskanceError: The model failed.
    """
    num_held_out = num_wanted // UNANSWERABLE_EVERY if choice.held_out else 0
    wanted = ((choice.searched, num_wanted - num_held_out, False), (choice.held_out, num_held_out, True))
    with open_results(file, header, _WRITTEN) as (results, append):
        done = {each.passage: each for each in results}
        for passages, num, is_held_out in wanted:
            left = [each for each in passages[: _TRIES * num] if each.id not in done]
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds * num / num_wanted):
                    while left and (num_kept := len(_kept(passages, done)[0])) < num:
                        progress(num_kept, num)
                        num_tried = min(in_flight, num - num_kept)
                        tried, left = {each.id: each for each in left[:num_tried]}, left[num_tried:]
                        write = partial(writer.write, is_held_out=is_held_out)
                        await work_through(tried, write, done, append, in_flight, _failed)
    found = [(num, *_kept(passages, done)) for passages, num, _ in wanted]
    rejected = sum((reasons for _, _, reasons in found), Counter[str]())
    num_written = sum(len(kept) for _, kept, _ in found) + rejected.total()
    answerable, unanswerable = (tuple(kept[:num]) for num, kept, _ in found)
    return QuestionSet(answerable, unanswerable, num_written, rejected)


def _failed(id: str) -> str:
    return f"no question could be written from the passage {id!r}"


def _kept(
    passages: Sequence[Passage], done: dict[str, WrittenQuestion]
) -> tuple[list[tuple[WrittenQuestion, Passage]], Counter[str]]:
    """Return the questions of passages that are kept, in order, and the counts of the others by reason."""
    kept, words, rejected = list[tuple[WrittenQuestion, Passage]](), list[frozenset[str]](), Counter[str]()
    for passage in passages:
        written = done.get(passage.id)
        if written is None:
            continue
        of_question = content_words(written.question)
        if written.rejected:
            rejected[written.rejected] += 1
        elif any(len(of_question & each) >= _SAME_QUESTION * len(of_question | each) for each in words):
            rejected["like an earlier question"] += 1
        else:
            kept.append((written, passage))
            words.append(of_question)
    return kept, rejected


def _row(id: str, kind: str, written: WrittenQuestion, passage: Passage) -> dict[str, Any]:
    """Return the line of a question in the dataset. A passage that is held out is not among its evidence."""
    row: dict[str, Any] = {"id": id, "question": written.question, "type": kind}
    if kind == UNANSWERABLE:
        return row | {"answers": [NO_ANSWER]}
    paragraph = {"title": passage.title, "text": passage.text, "supporting": True}
    return row | {"answers": [written.answer], "supporting": [passage.title], "paragraphs": [paragraph]}
