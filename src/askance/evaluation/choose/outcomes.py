"""Recorded outcomes: what a model answered to each question without a search, with one, and otherwise.

A file is JSON Lines, may be packed (.gz), and has one object for each question:

    {"id": "7", "question": "Where was Nadia Halden born?", "gold": ["Bergen"],
     "none": {"answer": "Oslo", "tokens": 91, "p_true": 0.41,
              "draft": {"texts": ["Os", "lo"], "logprobs": [-0.9, -0.1], "entropies": [2.1, 0.3],
                        "best": [-0.9, -0.1], "second": [-1.2, -2.5], "influences": [0.6]},
              "samples": ["Oslo", "Bergen"]},
     "one": {"answer": "Bergen", "tokens": 512, "support": 1.0}, "ircot": "Bergen",
     "scores": [11.2, 7.5], "router": [0.2, 0.7, 0.1]}

`gold` lists the accepted answers. `none` is the answer from memory and `one` that after a single search; both
are required. Every other field whose value is a string, or an object with an `answer`, is the answer of the
method of that name. An object may state its `searches` (0 for `none` and 1 for `one`), `calls` and `tokens`.
Its other numbers are signals: of `one` for guards, and of any other answer for gates, where greater means
less sure, unless a gate of that name says otherwise. `scores` are those of the passages found, `router`
has the probabilities that no search, one search, and several searches are needed, and `model` is a name.

`record_signals` writes such a file. Its answers are those of the methods `closed_book` and `single`,
character for character. What a model can't give, such as attention, is left out; `lacking` names it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from math import nan
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from askance.ask import Engine, Result
from askance.core.errors import LASTING, AllFailed, AskanceError, DatasetError
from askance.core.ports import Model, Retriever, language_model
from askance.core.records import Field, read_records
from askance.core.safe_text import json_line
from askance.core.trace import Searched
from askance.core.types import GenerateRequest, Key, Prompt, Question, Sampling, Span, Token, untrusted
from askance.evaluation.datasets import Example
from askance.evaluation.run.result_file import KEPT, open_results, os_errors_as_run_errors, work_through
from askance.methods.baselines import ClosedBook, Single
from askance.methods.common.prompts import Layout, chat_turns, in_layout, label_probabilities
from askance.methods.gates.named import TOKEN_SIGNALS, WatchedModel, want_of
from askance.methods.gates.signals import Signals, Written, two_best
from askance.storage.durable_files import write_atomically
from askance.text.linguistics import entity_spans

RECORDED_ROUTER = "recorded router"
"""The number under which the probability that a search is needed is a signal."""
OUTCOMES = "outcomes.jsonl"
"""The file in a folder of signals."""
MEMORY, READ, SEVERAL = "none", "one", "ircot"
SHAPE = 'A line needs "id", "gold", "none" and "one"; docs/gates.md shows one.'
_COLUMNS = ("logprobs", "entropies", "best", "second")
"""The numbers of each token of a draft: two signals, and the log-probabilities of the two best tokens."""
_COSTS = ("searches", "calls", "tokens")
_NO_ANSWER = ("id", "question", "model", "gold", "scores", "router", "signals")
_MOST_TOKENS = 100_000
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


@dataclass(frozen=True, slots=True)
class RecordedOutcome:
    """The recorded answers to one question, with their costs and signals.

    Attributes:
        answers: The answer of each method, by name, with its costs among its numbers; `MEMORY` and `READ` are
            among them.
        router: The probabilities that no search, one search and several are needed; empty if not recorded.
        model: The name of the model that answered; empty if it was not recorded.
    """

    id: str
    golds: tuple[str, ...]
    answers: Mapping[str, Written]
    signals: Signals = field(repr=False)
    router: tuple[float, ...] = ()
    model: str = ""

    def cost(self, name: str, method: str) -> float:
        """Return the number of "searches" or "tokens" of a method; not a number if it was not recorded."""
        known = {MEMORY: 0.0, READ: 1.0} if name == "searches" else {}
        return self.answers[method].numbers.get(name, known.get(method, nan))


def read_outcomes(path: Path) -> tuple[RecordedOutcome, ...]:
    """Return the outcomes that a file, or a folder of signals, holds.

    Raises:
        DatasetError: The file can't be read, holds none, or has two of one id.
    """
    found, path = {}, path / OUTCOMES if path.is_dir() else path
    for outcome in read_records(path, SHAPE, convert=_outcome):
        if outcome.id in found:
            raise DatasetError(f"{path} has two questions with the id {outcome.id!r}: leave one out.")
        found[outcome.id] = outcome
    if not found:
        raise DatasetError(f"{path} has no questions. {SHAPE}")
    return tuple(found.values())


def _outcome(record: Field, number: int) -> Iterator[RecordedOutcome]:
    answers = {
        name: _written(record[name])
        for name, value in record.object().items()
        if name not in _NO_ANSWER
        and (isinstance(value, str) or (isinstance(value, dict) and "answer" in value))
    }
    for name in (MEMORY, READ):
        if name not in answers:
            raise record[name].flaw("missing, or no answer")
    router, further = record.get("router", []).numbers(), record.get("signals", {})
    if len(router) not in (0, 3):
        raise record["router"].flaw("not three probabilities", found=True)
    of_answers = (each.numbers.items() for method, each in answers.items() if method != READ)
    numbers = {name: value for each in of_answers for name, value in each if name not in _COSTS}
    numbers |= {name: further[name].number() for name in further.object()}
    numbers |= {RECORDED_ROUTER: 1 - router[0]} if router else {}
    question, scores = record.get("question", "").maybe_blank(), record.get("scores", []).numbers()
    signals = Signals(question, answers[MEMORY], answers[READ], scores, numbers)
    id, golds, model = record["id"].id(), record["gold"].texts(), record.get("model", "").maybe_blank()
    yield RecordedOutcome(id, tuple(golds), answers, signals, router, model)


def _written(value: Field) -> Written:
    if isinstance(value.value, str):
        return Written(value.maybe_blank())
    of_answer = value.object().items()
    numbers = {name: value[name].number() for name, each in of_answer if type(each) in (int, float)}
    draft, samples = value.get("draft", {}), tuple(value.get("samples", []).maybe_blanks())
    answer, influences = value["answer"].maybe_blank(), draft.get("influences", []).numbers()
    return Written(answer, _tokens(draft), influences, samples, numbers)


def _tokens(draft: Field) -> tuple[Token, ...]:
    """Return the tokens of a draft, whose signals are lists of the same length, or empty."""
    texts = draft.get("texts", []).maybe_blanks()
    if (num := len(texts)) > _MOST_TOKENS:
        raise draft["texts"].flaw(f"more than {_MOST_TOKENS:,} tokens")
    columns = list[Sequence[float | None]]()
    for name in _COLUMNS:
        values = draft.get(name, []).numbers()
        if len(values) not in (0, num):
            raise draft[name].flaw(f"{len(values)} values for {num} tokens")
        columns.append(values or [None] * num)
    ends = list(accumulate(map(len, texts)))
    return tuple(
        Token(-1, text, end - len(text), end, logprob, entropy, tuple(("", x) for x in two if x is not None))
        for text, end, logprob, entropy, *two in zip(texts, ends, *columns, strict=True)
    )


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
        """Return the outcome of one question, in the form that `read_outcomes` reads.

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
        return {
            "id": question.id,
            "question": question.text,
            "gold": list(example.golds),
            "model": model.name,
            MEMORY: memory,
            READ: read,
            "scores": [hit.score for hit in hits],
            "signals": await _name_rarity(question.text, self.reader.retriever),
            **{name: _costs(await engine.answer(question)) for name, engine in self.others.items()},
        }


async def _watch(engine: Engine, question: Question, samples: int = 0) -> tuple[Row, WatchedModel, Result]:
    """Return an answer with its signals, the model that generated it, and the whole result."""
    model = language_model(engine.models["answer"])
    watched = WatchedModel(model, want_of(model.signals))
    result = await replace(engine, models={**engine.models, "answer": watched}).answer(question)
    written = await watched.written(result.answer, question, samples)
    rows = [(token.logprob, token.entropy, *(two_best(token) or (None, None))) for token in written.tokens]
    columns = zip(_COLUMNS, zip(*rows, strict=True), strict=False)
    draft: Row = {name: values for name, values in columns if None not in values}
    draft |= {"influences": written.influences, "texts": [token.text for token in written.tokens]}
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
    failures, items = dict[str, str](), {each.question.id: each for each in examples}

    async def work(example: Example) -> Row | None:
        try:
            return await recorder.record(example)
        except LASTING:
            raise
        except Exception as error:  # a model or retriever may be somebody else's code
            known = isinstance(error, AskanceError)
            failures[example.question.id] = f"{error}" if known else f"{type(error).__name__}: {error}"
            return None

    def failed(id: str) -> str:
        return f"question {id!r} failed"

    with open_results(folder / RECORDED, header, _ROW) as (results, append):
        asked = {id: (each.question.text, list(each.golds)) for id, each in items.items()}
        done = {row["id"]: row for row in results if asked.get(row["id"]) == (row["question"], row["gold"])}
        await work_through(items, work, done, append, in_flight, failed, progress)
        if not done:
            first = next(iter(failures.values()))
            raise AllFailed(f"no question could be recorded; the first error: {first}")
        with os_errors_as_run_errors(f"write {folder / OUTCOMES}", KEPT):
            rows = (json_line(done[id]) for id in items if id in done)
            write_atomically(folder / OUTCOMES, "".join(f"{row}\n" for row in rows))
    return failures
