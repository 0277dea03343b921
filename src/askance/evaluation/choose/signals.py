"""Record signals: for each question, the answer from memory and after one search, with all that is known.

The answers are those of the methods `closed_book` and `single`, character for character. What a model can't
give, such as attention, is left out; `lacking` names it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from askance.ask import Engine, Result
from askance.core.errors import LASTING, AllFailed, AskanceError
from askance.core.ports import Model, Retriever, language_model
from askance.core.safe_text import json_line
from askance.core.trace import Searched
from askance.core.types import GenerateRequest, Key, Prompt, Question, Sampling, Span, untrusted
from askance.evaluation.choose.outcomes import MEMORY, OUTCOMES, READ
from askance.evaluation.datasets import Example
from askance.evaluation.run.result_file import KEPT, open_results, os_errors_as_run_errors, work_through
from askance.methods.baselines import ClosedBook, Single
from askance.methods.common.prompts import Layout, chat_turns, in_layout, label_probabilities
from askance.methods.gates.named import TOKEN_SIGNALS, WatchedModel, want_of
from askance.storage.durable_files import write_atomically
from askance.text.linguistics import entity_spans

RECORDED = "recorded.jsonl"
"""The file of what is recorded so far, from which the outcomes are made."""
Row = dict[str, Any]
_ROW: TypeAdapter[Row] = TypeAdapter(Row)
_IS_TRUE = "\nIs the proposed answer true or false?", "\nIt is"
"""The question of P(True) (Kadavath et al. 2022), and how a reply begins in raw text."""
_HOW_PROBABLE = (
    "\nHow probable is it that the proposed answer is correct? Reply with one whole number from 0 to 100.",
    "\nProbability in percent:",
)
_CONFIDENCE_TOKENS = 16
_PERCENT = re.compile(r"[^\d-]*(100|\d{1,2})\s*(?:%|(?:/|out of) ?100)?\D*")


def lacking(model: Model) -> list[str]:
    """Return the names of the signals that a model can't give."""
    signals: list[str] = [each for each in TOKEN_SIGNALS if each not in model.signals]
    return signals + ["P(True)"] * ("score" not in model.capabilities)


@dataclass(frozen=True, slots=True)
class SignalRecorder:
    """An engine that reads, and what else to record.

    Attributes:
        reader: The engine, whose method searches once.
        samples: The number of sampled answers; 0 for none.
        others: Engines of other methods, by name.
    """

    reader: Engine
    samples: int
    others: Mapping[str, Engine]

    async def record(self, example: Example) -> Row:
        """Return the outcome of one question, in the form that `outcomes` reads.

        Raises:
            AskanceError: A call failed.
        """
        single, question = self.reader.method, example.question
        assert isinstance(single, Single)
        same = {each.name: getattr(single, each.name) for each in fields(ClosedBook)}
        drafter = replace(self.reader, method=ClosedBook(**same), retriever=None)
        reader = replace(self.reader, method=replace(single, guard=None))
        memory, watched, _ = await _watch(drafter, question, self.samples)
        read, _, result = await _watch(reader, question)
        model = language_model(self.reader.models["answer"])
        memory |= await _stated_confidence(model, question, memory["answer"], watched.request.key)
        if "score" in model.capabilities:
            asked = _about("auto", model, question, memory["answer"], *_IS_TRUE)
            memory["p_true"] = (await label_probabilities(model, asked, ("true", "false")))[0]
        hits = (hit for event in result.trace.events if isinstance(event, Searched) for hit in event.hits)
        assert self.reader.retriever is not None
        row: Row = {
            "id": question.id,
            "question": question.text,
            "gold": list(example.golds),
            "model": model.name,
            MEMORY: memory,
            READ: read,
            "scores": [hit.score for hit in hits],
            "signals": await _name_rarity(question.text, self.reader.retriever),
        }
        others = {name: _costs(await engine.answer(question)) for name, engine in self.others.items()}
        return row | others


async def _watch(engine: Engine, question: Question, samples: int = 0) -> tuple[Row, WatchedModel, Result]:
    """Return an answer with its signals, the model that generated it, and the whole result."""
    model = language_model(engine.models["answer"])
    watched = WatchedModel(model, want_of(model.signals))
    result = await replace(engine, models={**engine.models, "answer": watched}).answer(question)
    written = await watched.written(result.answer, question, samples)
    tokens = written.tokens
    best, second = ([token.top[at][1] if len(token.top) > 1 else None for token in tokens] for at in (0, 1))
    columns: dict[str, Sequence[float | None]] = {
        "logprobs": [token.logprob for token in tokens],
        "entropies": [token.entropy for token in tokens],
        "best": best,
        "second": second,
    }
    draft: Row = {name: values for name, values in columns.items() if None not in values}
    draft |= {"influences": written.influences, "texts": [token.text for token in tokens]}
    numbers = written.numbers if engine.retriever else {}
    return {**_costs(result), "draft": draft, "samples": written.samples, **numbers}, watched, result


def _costs(result: Result) -> Row:
    usage = result.usage
    return {"answer": result.answer.short, "searches": usage.searches, "tokens": usage.tokens}


def _about(layout: Layout, model: Model, question: Question, answer: str, asks: str, begins: str) -> Prompt:
    """Return a prompt that asks the model about its answer; in raw text, the reply follows `begins`."""
    said = untrusted(question.text), Span("\nProposed answer: "), untrusted(answer)
    shown = (Span("Question: "), *said, Span(asks))
    return in_layout(layout, model, (*shown, Span(begins)), chat_turns("", (), shown), "")


async def _stated_confidence(model: Model, question: Question, answer: str, key: Key) -> Row:
    """Return the confidence in its answer that the model states in words, from 0 to 1 (Tian et al. 2023).

    The result is empty if the reply has more or other numbers than a whole one from 0 to 100.
    """
    layout: Layout = "chat" if "chat" in model.capabilities else "auto"
    prompt = _about(layout, model, question, answer, *_HOW_PROBABLE)
    request = GenerateRequest(prompt, Sampling(_CONFIDENCE_TOKENS, stop=("\n",)), key=(*key, "confidence"))
    (reply,) = await model.generate(request)
    stated = _PERCENT.fullmatch(reply.text)
    return {"stated_confidence": int(stated[1]) / 100} if stated else {}


async def _name_rarity(question: str, retriever: Retriever) -> Row:
    """Return the greatest score of the best passage for one of the question's names alone.

    With BM25, it grows with the inverse document frequency of the name's words. The result is empty if the
    question has no name, or none is found.
    """
    names = [question[start:end] for start, end in entity_spans(question)]
    scores = [hit.score for name in names for hit in await retriever.search(name, 1)]
    return {"name_rarity": max(scores)} if scores else {}


async def record_signals(
    recorder: SignalRecorder,
    examples: Sequence[Example],
    folder: Path,
    header: Mapping[str, Any],
    *,
    in_flight: int,
    progress: Callable[[int, int], None],
) -> dict[str, str]:
    """Record the signals of questions, and write those that are done to ``outcomes.jsonl``.

    Questions that an earlier call recorded in the same folder are not asked again, unless they have changed.

    Returns:
        The error of each question that failed, by id. The next call asks it again.

    Raises:
        RunFolderError: The folder can't be written, or was made with another header.
        AllFailed: No question could be recorded.
        ModelSpecError, MissingAbility: The model can't answer any question.
    """
    failures = dict[str, str]()
    with open_results(folder / RECORDED, header, _ROW) as (results, append):
        asked = {each.question.id: (each.question.text, list(each.golds)) for each in examples}
        done = {row["id"]: row for row in results if asked.get(row["id"]) == (row["question"], row["gold"])}
        left = [each for each in examples if each.question.id not in done]

        async def work(example: Example) -> Row | None:
            try:
                return await recorder.record(example)
            except LASTING:
                raise
            except Exception as error:  # a model or retriever may be somebody else's code
                known = isinstance(error, AskanceError)
                failures[example.question.id] = f"{error}" if known else f"{type(error).__name__}: {error}"
                return None

        def keep(rows: Sequence[Row | None]) -> None:
            found = [row for row in rows if row is not None]
            append(found)
            done.update({row["id"]: row for row in found})
            progress(len(done), len(examples))

        progress(len(done), len(examples))
        await work_through(left, work, keep, in_flight, lambda each: f"question {each.question.id!r} failed")
        if not done:
            first = next(iter(failures.values()))
            raise AllFailed(f"no question could be recorded; the first error: {first}")
        rows = (done[each.question.id] for each in examples if each.question.id in done)
        with os_errors_as_run_errors(f"write {folder / OUTCOMES}", KEPT):
            write_atomically(folder / OUTCOMES, "".join(f"{json_line(row)}\n" for row in rows))
    return failures
