"""Record signals: for each question, the answer from memory and after one search, with all that is known.

The answers are those of the methods `closed_book` and `single`, character for character. What a model can't
give, such as attention, is left out; `lacking` names it.
"""

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
from askance.core.types import Prompt, Question, Span, untrusted
from askance.evaluation.choose.outcomes import MEMORY, OUTCOMES, READ
from askance.evaluation.datasets import Example
from askance.evaluation.run.result_file import open_results, work_through
from askance.methods.baselines import ClosedBook, Single
from askance.methods.common.prompts import chat_turns, in_layout, label_probabilities
from askance.methods.gates.named import WatchedModel, want_of
from askance.methods.gates.signals import Written
from askance.storage.durable_files import write_atomically
from askance.text.linguistics import entity_spans

Row = dict[str, Any]
_ROW: TypeAdapter[Row] = TypeAdapter(Row)
SIGNALS = {
    "logprob": "log-probabilities",
    "entropy": "entropies",
    "top_logprobs": "margins",
    "attention": "attention",
}
"""The signals of tokens, with the names to show."""


def lacking(model: Model) -> list[str]:
    """Return the names of the signals that a model can't give."""
    named = [called for signal, called in SIGNALS.items() if signal not in model.signals]
    return named + ["P(True)"] * ("score" not in model.capabilities)


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
        memory, _, _ = await _watch(drafter, question, self.samples)
        read, written, result = await _watch(reader, question)
        model = language_model(self.reader.models["answer"])
        if "score" in model.capabilities:
            asked = _whether_true(model, question, memory["answer"])
            memory["p_true"] = (await label_probabilities(model, asked, ("true", "false")))[0]
        read["support"] = written.number("support")
        searches = [each for each in result.trace.events if isinstance(each, Searched)]
        row: Row = {
            "id": question.id,
            "question": question.text,
            "gold": list(example.golds),
            MEMORY: memory,
            READ: read,
            "scores": [hit.score for each in searches for hit in each.hits],
            "signals": {},
        }
        assert self.reader.retriever is not None
        rarity = await _name_rarity(question.text, self.reader.retriever)
        if rarity is not None:
            row["signals"]["name_rarity"] = rarity
        others = {name: _costs(await engine.answer(question)) for name, engine in self.others.items()}
        return row | others


async def _watch(engine: Engine, question: Question, num_samples: int = 0) -> tuple[Row, Written, Result]:
    """Return an answer with its signals, as a record and as they are, and the whole result."""
    model = language_model(engine.models["answer"])
    watched = WatchedModel(model, want_of(model.signals))
    result = await replace(engine, models={**engine.models, "answer": watched}).answer(question)
    written = await watched.written(result.answer, question, num_samples)
    tokens = written.tokens
    best, second = ([token.top[at][1] if len(token.top) > 1 else None for token in tokens] for at in (0, 1))
    columns: dict[str, Sequence[float | None]] = {
        "logprobs": [token.logprob for token in tokens],
        "entropies": [token.entropy for token in tokens],
        "best": best,
        "second": second,
    }
    draft: Row = {name: values for name, values in columns.items() if None not in values}
    draft |= {"influences": written.influences} if written.influences else {}
    draft["texts"] = [token.text for token in tokens]
    samples = {"samples": written.samples} if num_samples else {}
    return _costs(result) | {"draft": draft} | samples, written, result


def _costs(result: Result) -> Row:
    usage = result.usage
    return {"answer": result.answer.short, "searches": usage.searches, "tokens": usage.tokens}


def _whether_true(model: Model, question: Question, answer: str) -> Prompt:
    """Return a prompt that asks the model whether its answer is true (Kadavath et al. 2022)."""
    said = untrusted(question.text), Span("\nProposed answer: "), untrusted(answer)
    shown = (Span("Question: "), *said, Span("\nIs the proposed answer true or false?"))
    return in_layout("auto", model, (*shown, Span("\nIt is")), chat_turns("", (), shown), "")


async def _name_rarity(question: str, retriever: Retriever) -> float | None:
    """Return the greatest score of the best passage for one of the question's names alone.

    With BM25, it grows with the inverse document frequency of the name's words. The result is None if the
    question has no name, or none is found.
    """
    names = [question[start:end] for start, end in entity_spans(question)]
    return max([hit.score for name in names for hit in await retriever.search(name, 1)], default=None)


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
    with open_results(folder / "recorded.jsonl", header, _ROW) as (results, append):
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
            raise AllFailed(
                f"no question could be recorded; the first error: {next(iter(failures.values()))}"
            )
        rows = (done[each.question.id] for each in examples if each.question.id in done)
        write_atomically(folder / OUTCOMES, "".join(f"{json_line(row)}\n" for row in rows))
    return failures
