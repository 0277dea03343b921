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
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from sys import float_info

from askance.core.errors import DatasetError
from askance.core.records import Field, read_records
from askance.core.types import Token
from askance.methods.gates.signals import Signals, Written

RECORDED_ROUTER = "recorded router"
"""The number under which the probability that a search is needed is a signal."""
OUTCOMES = "outcomes.jsonl"
"""The file in a folder of signals."""
MEMORY, READ, SEVERAL = "none", "one", "ircot"
SHAPE = 'A line needs "id", "gold", "none" and "one"; docs/gates.md shows one.'
_COSTS = ("searches", "calls", "tokens")
_NO_ANSWER = ("id", "question", "model", "gold", "scores", "router", "signals")
_MOST_TOKENS = 100_000


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
        return self.answers[method].numbers.get(name, known.get(method, math.nan))


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
    router, further = _numbers(record, "router"), record.get("signals", {})
    if len(router) not in (0, 3):
        raise record["router"].flaw("not three probabilities", found=True)
    of_answers = (each.numbers.items() for method, each in answers.items() if method != READ)
    numbers = {name: value for each in of_answers for name, value in each if name not in _COSTS}
    numbers |= {name: _number(further[name]) for name in further.object()}
    numbers |= {RECORDED_ROUTER: 1 - router[0]} if router else {}
    question, scores = record.get("question", "").maybe_blank(), _numbers(record, "scores")
    signals = Signals(question, answers[MEMORY], answers[READ], scores, numbers)
    id, golds, model = record["id"].id(), record["gold"].texts(), record.get("model", "").maybe_blank()
    yield RecordedOutcome(id, tuple(golds), answers, signals, router, model)


def _written(value: Field) -> Written:
    if isinstance(value.value, str):
        return Written(value.maybe_blank())
    of_answer = value.object().items()
    numbers = {name: _number(value[name]) for name, each in of_answer if type(each) in (int, float)}
    draft, samples = value.get("draft", {}), tuple(value.get("samples", []).maybe_blanks())
    answer, influences = value["answer"].maybe_blank(), _numbers(draft, "influences")
    return Written(answer, _tokens(draft), influences, samples, numbers)


def _tokens(draft: Field) -> tuple[Token, ...]:
    """Return the tokens of a draft, whose signals are lists of the same length, or empty."""
    texts = draft.get("texts", []).maybe_blanks()
    if (num := len(texts)) > _MOST_TOKENS:
        raise draft["texts"].flaw(f"more than {_MOST_TOKENS:,} tokens")
    columns = list[Sequence[float | None]]()
    for name in ("logprobs", "entropies", "best", "second"):
        values = _numbers(draft, name)
        if len(values) not in (0, num):
            raise draft[name].flaw(f"{len(values)} values for {num} tokens")
        columns.append(values or [None] * num)
    ends = list(accumulate(map(len, texts)))
    return tuple(
        Token(-1, text, end - len(text), end, logprob, entropy, tuple(("", x) for x in two if x is not None))
        for text, end, logprob, entropy, *two in zip(texts, ends, *columns, strict=True)
    )


def _numbers(place: Field, name: str) -> tuple[float, ...]:
    """Return the numbers of a list, which is empty if it was not recorded."""
    values = place.get(name, [])
    found = values.value
    if isinstance(found, list) and all(type(each) is float and math.isfinite(each) for each in found):
        return tuple(found)  # without a field for each of many numbers
    return tuple(map(_number, values.each()))


def _number(value: Field) -> float:
    number = value.value
    if type(number) not in (int, float) or not abs(number) <= float_info.max:
        raise value.flaw("not a finite number", found=True)
    return float(number)
