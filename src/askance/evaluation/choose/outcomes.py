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
less sure, unless a gate of that name says otherwise. `scores` are those of the passages found, and `router`
has the probabilities that no search, one search, and several searches are needed.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
_NO_ANSWER = ("id", "question", "gold", "scores", "router", "signals")
_KNOWN_SEARCHES = {MEMORY: 0.0, READ: 1.0}
_MOST_TOKENS = 100_000


@dataclass(frozen=True, slots=True)
class RecordedOutcome:
    """The recorded answers to one question, with their costs and signals.

    Attributes:
        answers: The answer of each method, by name; `MEMORY` and `READ` are among them.
        router: The probabilities that no search, one search and several are needed; empty if not recorded.
        searches, tokens: The number of searches and of tokens of each method, as far as they are recorded.
    """

    id: str
    golds: tuple[str, ...]
    answers: Mapping[str, str]
    searches: Mapping[str, float]
    tokens: Mapping[str, float]
    signals: Signals = field(repr=False)
    router: tuple[float, ...] = ()


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
    golds = tuple(record["gold"].texts())
    methods = {
        name: value
        for name, value in ((name, record[name]) for name in record.object() if name not in _NO_ANSWER)
        if isinstance(value.value, str) or (isinstance(value.value, dict) and "answer" in value.value)
    }
    for name in (MEMORY, READ):
        if name not in methods:
            raise record[name].flaw("missing, or no answer")
    written = {name: _written(value) for name, value in methods.items()}
    numbers = {
        name: value
        for method, each in written.items()
        if method != READ
        for name, value in each.numbers.items()
        if name not in _COSTS
    }
    searches, tokens = (
        {name: each.numbers[cost] for name, each in written.items() if cost in each.numbers}
        for cost in ("searches", "tokens")
    )
    router = tuple(_numbers(record.get("router", [])))
    if len(router) not in (0, 3):
        raise record["router"].flaw("not three probabilities", found=True)
    given = record.get("signals", {})
    numbers |= {name: _number(given[name]) for name in given.object()}
    if router:
        numbers[RECORDED_ROUTER] = 1 - router[0]
    signals = Signals(
        record.get("question", "").maybe_blank(),
        written[MEMORY],
        written[READ],
        tuple(_numbers(record.get("scores", []))),
        numbers,
    )
    answers = {name: each.answer for name, each in written.items()}
    yield RecordedOutcome(
        record["id"].id(), golds, answers, _KNOWN_SEARCHES | searches, tokens, signals, router
    )


def _written(value: Field) -> Written:
    if isinstance(value.value, str):
        return Written(value.maybe_blank())
    numbers = {
        name: _number(value[name])
        for name, given in value.object().items()
        if isinstance(given, int | float) and not isinstance(given, bool)
    }
    draft = value.get("draft", {})
    tokens, influences = _tokens(draft), tuple(_numbers(draft.get("influences", [])))
    return Written(
        value["answer"].maybe_blank(),
        tokens,
        influences,
        tuple(value.get("samples", []).maybe_blanks()),
        numbers,
    )


def _tokens(draft: Field) -> tuple[Token, ...]:
    """Return the tokens of a draft, whose signals are lists of the same length."""
    texts = draft.get("texts", []).maybe_blanks()
    if len(texts) > _MOST_TOKENS:
        raise draft["texts"].flaw(f"more than {_MOST_TOKENS:,} tokens")
    num = len(texts)
    logprobs, entropies = (_signal(draft, name, num) for name in ("logprobs", "entropies"))
    first, second = (_signal(draft, name, num) for name in ("best", "second"))
    tokens, start = list[Token](), 0
    for text, logprob, entropy, *two in zip(texts, logprobs, entropies, first, second, strict=True):
        top = tuple(("", each) for each in two if each is not None)
        tokens.append(Token(-1, text, start, start + len(text), logprob, entropy, top))
        start += len(text)
    return tuple(tokens)


def _signal(draft: Field, name: str, num: int) -> Sequence[float | None]:
    """Return the values of a signal for each of `num` tokens, or as many None if it was not recorded."""
    values = draft[name]
    if not values.is_given:
        return [None] * num
    if len(numbers := _numbers(values)) != num:
        raise values.flaw(f"{len(numbers)} values for {num} tokens")
    return numbers


def _numbers(values: Field) -> list[float]:
    given = values.value
    if isinstance(given, list) and all(type(each) is float and math.isfinite(each) for each in given):
        return given  # without a field for each of many numbers
    return [_number(each) for each in values.each()]


def _number(value: Field) -> float:
    number = value.value
    if not isinstance(number, int | float) or isinstance(number, bool) or not math.isfinite(number):
        raise value.flaw("not a finite number", found=True)
    return float(number)
