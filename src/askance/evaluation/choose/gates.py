"""All gates, guards and other policies over recorded outcomes, on one footing: what each costs and gains.

The mean over all splits of the questions (see `policies`) gives a question a score and a number of searches
that need not be whole. A policy is compared with never searching, with always searching, and with the better
constant policy: the one of the two that was better on the same other questions. The room is what the better
of both answers, known only afterwards, gains on the better constant policy.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite, isnan, nan

import numpy as np

from askance.core.errors import InputError, UnknownName
from askance.evaluation.choose.outcomes import MEMORY, READ, SEVERAL, RecordedOutcome
from askance.evaluation.choose.policies import (
    Booleans,
    chosen_thresholds,
    cross_validation,
    fitted_router,
    nearest,
    routed,
)
from askance.evaluation.statistics.compare import MeanInterval, mean_interval, paired_difference
from askance.evaluation.statistics.roc import RocArea, roc_area
from askance.evaluation.statistics.selective import LEAST_RIGHT
from askance.methods.gates.named import greatest, named_gate
from askance.methods.gates.signals import Gate, MissingSignal, Numbers, Signals

Score = Callable[[str, Sequence[str]], float | None]
"""A metric: a function of an answer and of the accepted answers."""
ROUTER, NEAREST, THREE_WAYS = "router", "nearest questions", "recorded router, three ways"
BETTER = "better constant"
BEST = "the better of both"
LEAST_QUESTIONS = 10
"""The least number of questions with which a threshold can be chosen and measured."""
POINTS = 100
"""The number of thresholds of a curve."""
Shares = Mapping[str, Numbers]
"""The fraction of the splits in which a method is used for each question, by the name of the method."""


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions with the scores and costs of the methods that answered all of them, in one order.

    Attributes:
        texts: The texts of the questions, which are empty if they were not recorded.
        scores, searches, tokens: The score and costs of each method by name, each of shape [questions]. Costs
            that were not recorded are not finite.
        trains: For each split, the questions on which thresholds are chosen, of shape [splits, questions].
        tests: For each split, the questions that are measured, of the same shape.
    """

    texts: tuple[str, ...]
    scores: Mapping[str, Numbers]
    searches: Mapping[str, Numbers]
    tokens: Mapping[str, Numbers]
    trains: Booleans
    tests: Booleans

    @property
    def gains(self) -> Numbers:
        """The gain in score by a search on each question."""
        return self.scores[READ] - self.scores[MEMORY]

    @property
    def measured(self) -> Booleans:
        """The questions that are measured in any split, of shape [questions]."""
        return np.asarray(self.tests.any(axis=0))

    def shares(self, chosen: Booleans) -> Shares:
        """Return the fraction of the splits that measure a question in which each answer is taken.

        Args:
            chosen: Whether a split takes the answer after a search, of shape [splits or 1, questions or 1].
        """
        read = (chosen & self.tests).sum(axis=0) / np.maximum(self.tests.sum(axis=0), 1)
        return {MEMORY: 1 - read, READ: read}


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The share of questions searched for, and the mean score, at one threshold."""

    searches: float
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The score, cost and gain of one policy.

    Attributes:
        num_failed: The questions left out, because the gate failed for them or lacks a signal.
        fires: The share of questions for which the answer after a search is taken; None if it takes others.
        searches: The mean number of searches; None if it was not recorded.
        tokens_per_right: The mean number of tokens divided by the mean score; None if tokens are unknown.
        minus: The mean difference to "never", "always" and "better", the better constant policy.
        saved, broke: The shares of questions that the answers taken made better, and worse.
        room: The share of the room that the policy recovers; None if there is no room.
        threshold: The median over all splits; None for a policy without one.
        auroc: How well the gate separates questions that memory answers wrongly; None without a gate.
        curve: The score against searches; empty without a gate.
    """

    name: str
    num_failed: int = 0
    score: MeanInterval
    fires: float | None
    searches: float | None
    tokens_per_right: float | None
    minus: Mapping[str, MeanInterval]
    saved: float
    broke: float
    room: float | None
    threshold: float | None = None
    auroc: RocArea | None = None
    curve: tuple[CurvePoint, ...] = ()

    @property
    def is_gain(self) -> bool:
        """True if the policy is better than never, always, and the better constant policy beyond chance.

        The last alone is not enough. Where never and always are about equally good, the one that is better on
        the other questions is the worse one on those left, so the better constant policy looks too bad.
        """
        return all(each.low > 0 for each in self.minus.values())


@dataclass(frozen=True, slots=True)
class GateResults:
    """The score, cost and gain of every policy on the same questions.

    Attributes:
        models: The models that answered, as far as they were recorded.
        constants: The policies that need no signal: never, always, the better constant policy and the other
            methods; last the better of both answers, which is known only afterwards.
        gates, guards: Those that could be measured.
        lacking: The reason why a gate or guard could not be measured, by name.
        failures: The first error of each gate that failed for some questions, by name.
    """

    name: str
    metric: str
    num_questions: int
    num_to_choose: int
    models: tuple[str, ...]
    constants: tuple[Measured, ...]
    gates: tuple[Measured, ...]
    guards: tuple[Measured, ...]
    lacking: Mapping[str, str]
    failures: Mapping[str, str]


def measure_gates(
    name: str,
    outcomes: Sequence[RecordedOutcome],
    dev: Sequence[RecordedOutcome],
    metric: str,
    score: Score,
    gates: Mapping[str, Gate],
    guards: Mapping[str, Gate],
    only: Sequence[str] = (),
) -> GateResults:
    """Measure every policy on recorded outcomes.

    Args:
        dev: The outcomes on which thresholds are chosen; empty for cross-validation.
        only: The names of the gates and guards to measure; empty for all.

    Raises:
        UnknownName: There is no such gate or guard.
        InputError: There are too few questions, or the metric applies to none of them.
    """
    kept, questions = _questions(outcomes, dev, score)
    signals = [each.signals for each in kept]
    recorded = {name: partial(Signals.number, name=name) for each in signals for name in each.numbers}
    gates = {**gates, **{name: gate for name, gate in recorded.items() if name not in gates}}
    if unknown := [name for name in only if name not in (*gates, *guards)]:
        raise UnknownName("gate", unknown[0], (*gates, *guards))
    problems, learning = dict[str, str](), (questions.gains, questions.trains)

    def columns(gates: Mapping[str, Gate]) -> dict[str, Numbers]:
        names = [name for name in gates if name in only or not only]
        values = {name: _values(name, gates[name], signals, problems) for name in names}
        return {name: each for name, each in values.items() if np.isfinite(each[questions.measured]).any()}

    of_gates, of_guards = columns(gates), columns(guards)
    measured = [measure_gate(each, questions, values) for each, values in of_gates.items()]
    by_guards = [measure_gate(each, questions, values, is_guard=True) for each, values in of_guards.items()]
    if len(of_gates) > 1:
        measured.append(measure_choice(ROUTER, questions, routed([*of_gates.values()], *learning)))
    if all(questions.texts) and not only:
        measured.append(measure_choice(NEAREST, questions, nearest(questions.texts, *learning)))
    if of_gates and of_guards:
        both = [*of_gates.values(), *of_guards.values()]
        by_guards.append(measure_choice(ROUTER, questions, routed(both, *learning), is_guard=True))
    return GateResults(
        name=name,
        metric=metric,
        num_questions=int(questions.measured.sum()),
        num_to_choose=len(dev),
        models=tuple(sorted({each.model for each in kept} - {""})),
        constants=tuple(_constants(questions, [each.router for each in kept])),
        gates=tuple(measured),
        guards=tuple(by_guards),
        lacking={name: why for name, why in problems.items() if name not in (*of_gates, *of_guards)},
        failures={name: why for name, why in problems.items() if name in (*of_gates, *of_guards)},
    )


def trained_router(
    outcomes: Sequence[RecordedOutcome], score: Score, gates: Mapping[str, Gate]
) -> dict[str, str | float]:
    """Return settings of `adaptive_rag`, whose router learns from all outcomes.

    The router is the weighted sum of the gates that every question has, which need nothing but the draft. One
    search is made where it is probably better than none. Several are made above the threshold with the
    greatest score of the answers of `ircot` or, if these were not recorded, above the greatest sum.

    Raises:
        InputError: A search makes no answer better, or none worse.
    """
    kept, questions = _questions(outcomes, (), score)
    num_better, num_worse = int((questions.gains > 0).sum()), int((questions.gains < 0).sum())
    if not num_better or not num_worse:
        found = f"of {len(kept)} questions, a search makes {num_better} better and {num_worse} worse"
        raise InputError(f"{found}: a router needs both to learn from. Record more questions.")
    signals, columns = [each.signals for each in kept], dict[str, Numbers]()
    for name, gate in gates.items():
        with suppress(InputError):  # it needs more than a draft
            named_gate(name, gate)
            columns[name] = _values(name, gate, signals, {})
    columns = {name: each for name, each in columns.items() if np.isfinite(each).all()}
    if not columns:
        raise InputError("no gate has its signals for every question: record them with `askance signals`.")
    matrix = np.stack([*columns.values()], axis=1)
    weights, constant = fitted_router(matrix, questions.gains)
    sums, read = matrix @ weights + constant, questions.scores[READ]
    gains, every = questions.scores.get(SEVERAL, read) - read, np.ones((1, len(read)), dtype=np.bool_)
    (several_above,) = np.clip(chosen_thresholds(sums, gains, every), 0.0, sums.max())
    terms = [f"{weight:+.4g}*{name}" for name, weight in zip(columns, weights, strict=True)]
    router = "".join([*terms, f"{constant:+.4g}"])
    return {"router": router, "once_above": 0.0, "several_above": float(f"{several_above:.4g}")}


def _questions(
    outcomes: Sequence[RecordedOutcome], dev: Sequence[RecordedOutcome], score: Score
) -> tuple[list[RecordedOutcome], Questions]:
    every, is_dev = [*outcomes, *dev], np.arange(len(outcomes) + len(dev)) >= len(outcomes)
    # None, where the metric does not apply, becomes a number that is not finite.
    memory = np.array([score(each.answers[MEMORY].answer, each.golds) for each in every], dtype=np.float64)
    applies = np.isfinite(memory)
    for goal, part in {"measure": ~is_dev, **({"choose thresholds on": is_dev} if dev else {})}.items():
        if (num := int((applies & part).sum())) < LEAST_QUESTIONS:
            least = f"it takes at least {LEAST_QUESTIONS} to which the metric applies"
            raise InputError(f"{num} questions to {goal} are too few: {least}.")
    kept, is_dev = [each for each, keeps in zip(every, applies, strict=True) if keeps], is_dev[applies]
    shared = [method for method in kept[0].answers if all(method in each.answers for each in kept)]

    def columns(number_of: Callable[[RecordedOutcome, str], float | None]) -> dict[str, Numbers]:
        return {name: np.array([number_of(each, name) for each in kept], dtype=np.float64) for name in shared}

    trains, tests = (is_dev[None], ~is_dev[None]) if dev else cross_validation(len(kept))
    return kept, Questions(
        tuple(each.signals.question for each in kept),
        columns(lambda each, name: score(each.answers[name].answer, each.golds)),
        columns(lambda each, name: each.cost("searches", name)),
        columns(lambda each, name: each.cost("tokens", name)),
        trains,
        tests,
    )


def _values(name: str, gate: Gate, signals: Sequence[Signals], problems: dict[str, str]) -> Numbers:
    """Return the number of a gate for each question, and note the first problem if some have none."""
    values = np.full(len(signals), nan)
    for at, each in enumerate(signals):
        try:
            values[at] = greatest(gate(each))
            problem = f"it returned {values[at]}"
        except MissingSignal as missing:
            values[at], problem = each.numbers.get(name, nan), f"{missing}"
        except Exception as error:  # a gate may be somebody else's code
            problem = f"{type(error).__name__}: {error}"
        if not isfinite(values[at]):
            problems.setdefault(name, problem)
    return values


def _constants(questions: Questions, routers: Sequence[tuple[float, ...]]) -> list[Measured]:
    """Return the policies without a threshold."""
    no_split = np.zeros((1, len(routers)), dtype=np.bool_)
    choices = {"never": no_split, "always": ~no_split, BETTER: better_always(questions)}
    rows = [measure_answers(name, questions, questions.shares(each)) for name, each in choices.items()]
    others = [method for method in questions.scores if method not in (MEMORY, READ)]
    rows += [measure_answers(each, questions, {each: np.ones(len(routers))}) for each in others]
    if all(routers) and SEVERAL in others:
        ways = np.argmax(routers, axis=1)
        taken = {method: (ways == way) * 1.0 for way, method in enumerate((MEMORY, READ, SEVERAL))}
        rows.append(measure_answers(THREE_WAYS, questions, taken))
    return [*rows, measure_choice(BEST, questions, (questions.gains > 0)[None])]


def measure_gate(name: str, questions: Questions, values: Numbers, *, is_guard: bool = False) -> Measured:
    """Measure a gate. Questions for which it has no finite number are left out.

    Args:
        values: The numbers of the gate, of shape [questions].
    """
    kept = np.isfinite(values)
    values = np.where(kept, values, values[kept].min())
    questions = replace(questions, trains=questions.trains & kept, tests=questions.tests & kept)
    thresholds = chosen_thresholds(values, questions.gains, questions.trains)
    found = measure_choice(name, questions, values > thresholds[:, None], is_guard=is_guard)
    found = replace(found, num_failed=int((~kept).sum()), threshold=float(np.median(thresholds)))
    if is_guard:
        return found
    columns = values, questions.scores[MEMORY], questions.scores[READ]
    values, memory, read = (each[questions.measured] for each in columns)
    are_wrong = memory < LEAST_RIGHT
    auroc = roc_area(values[are_wrong].tolist(), values[~are_wrong].tolist())
    return replace(found, auroc=None if isnan(auroc.area) else auroc, curve=_curve(values, memory, read))


def measure_choice(name: str, questions: Questions, chosen: Booleans, *, is_guard: bool = False) -> Measured:
    """Measure the policy that writes the answer from memory, and takes the other one for chosen questions.

    Args:
        chosen: The questions that each split chooses, of shape [splits, questions] or [1, questions].
        is_guard: Whether the choice needs both answers, so that every question is searched for.
    """
    taken = questions.shares(chosen)
    every = np.ones(len(questions.texts))
    return measure_answers(name, questions, taken, {MEMORY: every, READ: every if is_guard else taken[READ]})


def better_always(questions: Questions) -> Booleans:
    """Return for each split whether always searching is the better constant policy, of shape [splits, 1]."""
    nothing = np.zeros(len(questions.texts))
    return chosen_thresholds(nothing, questions.gains, questions.trains)[:, None] < 0


def measure_answers(name: str, questions: Questions, taken: Shares, uses: Shares | None = None) -> Measured:
    """Measure a policy by the answers that it takes.

    Args:
        taken: The methods whose answers are taken.
        uses: The methods that are used, which may be more, for the costs.
    """

    def total(values: Mapping[str, Numbers], shares: Shares) -> Numbers:
        every = [np.where(each > 0, values[method], 0.0) * each for method, each in shares.items()]
        return np.asarray(np.sum(every, axis=0)[questions.measured])

    def minus(base: Numbers) -> MeanInterval:
        columns = scores.tolist(), base.tolist()
        return paired_difference(*({f"{at}": each for at, each in enumerate(column)} for column in columns))

    memory, read = (questions.scores[method][questions.measured] for method in (MEMORY, READ))
    better_constant = questions.shares(better_always(questions))
    better, scores = (total(questions.scores, shares) for shares in (better_constant, taken))
    costs = (total(each, uses or taken).mean() for each in (questions.searches, questions.tokens))
    searches, tokens = (None if isnan(cost) else float(cost) for cost in costs)
    score, gain = mean_interval(scores.tolist()), scores - memory
    room = float((np.maximum(memory, read) - better).mean())
    others = taken.keys() - {MEMORY, READ}
    return Measured(
        name=name,
        score=score,
        fires=None if others else float(taken[READ][questions.measured].mean()),
        searches=searches,
        tokens_per_right=tokens / score.mean if tokens is not None and score.mean else None,
        minus={"never": minus(memory), "always": minus(read), "better": minus(better)},
        saved=float(np.maximum(gain, 0).mean()),
        broke=float(np.maximum(-gain, 0).mean()),
        room=float((scores - better).mean()) / room if room > 0 else None,
    )


def _curve(values: Numbers, memory: Numbers, read: Numbers) -> tuple[CurvePoint, ...]:
    """Return mean scores if ever more questions are searched for, those with the greatest numbers first."""
    order = np.argsort(-values, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum((read - memory)[order])])
    counts = np.unique(np.linspace(0, len(values), POINTS + 1).round().astype(int))
    means = memory.mean() + sums / len(values)
    return tuple(CurvePoint(count / len(values), float(means[count])) for count in counts.tolist())
