"""Training data from the trees of a run: right paths, preferred steps, and steps with their values.

The value of a step is estimated by Monte Carlo, as the paper of AirRAG does it for its reward model (Feng et
al. 2025): the share of right answers among all samples of valid answers below the step. Equal samples are one
step of the tree, so an answer has the weight that it has in the verifier `vote`: its samples, times the
shares of the samples that led to it. An answer is right by the metric `accuracy`. The rows have the formats
that TRL's trainers read:

    sft         {"prompt": […], "completion": […]}, a row for each right path
    preference  {"prompt": […], "chosen": […], "rejected": […]}, a row for two steps after the same steps
    process     {"prompt": "…", "completions": ["…", …], "labels": [true, …]}, a row for each path

Prompts and completions of the first two are turns of a chat. Rows of the third also have the estimated
"values", and the number of "samples" that each of them counts. Preferences are taken from values of at least
two samples, or of answers themselves.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import Any

from askance.core.errors import InputError
from askance.core.trace import AnyEvent, Expanded
from askance.core.types import Hit
from askance.evaluation.metrics.answers import accuracy
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.methods.airrag.reward import AnswerSupport, step_label, supports_of


class TreeFormat(StrEnum):
    """A format of training data from trees."""

    SFT = "sft"
    PREFERENCE = "preference"
    PROCESS = "process"


LEAST_DIFFERENCE = 0.5
"""The least difference between the values of two steps of which one is preferred."""
LEAST_VALUE = 0.5
"""A step is labelled as right from this value."""
LEAST_SAMPLES = 2
"""A step is preferred to another if the value of each counts at least so many samples, or is an answer's."""
_DIGITS = 12
"""The digits of a value, so that a half is no less than a half after sums of thirds."""


@dataclass(slots=True)
class TreeStep:
    """A step of a recorded search.

    Attributes:
        action, output: The action, and its output on one line.
        hit: The best passage of a retrieval.
        above: The step before it; None after the question.
        votes: The number of samples that gave the step.
        share: Their share of the samples drawn with them.
        num_repeats: The number of query transformations so far that only repeated queries.
        num_samples: The number of samples of valid answers at or below the step.
        weight, right_weight: Their weight, and that of the right ones.
        reward: The reward of an end during the search.
        support: How far the valid answers of the question agree with that of an end.
    """

    action: str
    output: str
    hit: Hit | None
    above: "TreeStep | None"
    votes: int = 1
    share: float = 1.0
    num_repeats: int = 0
    num_samples: int = 0
    weight: float = 0.0
    right_weight: float = 0.0
    is_end: bool = False
    reward: float = 0.0
    support: AnswerSupport | None = None

    @property
    def text(self) -> str:
        """Return the step as a line, with the passage of a retrieval before it."""
        before = f"Passage: {self.hit.passage.titled_text}\n" if self.hit else ""
        return f"{before}{step_label(self.action)}: {self.output}"

    @property
    def path(self) -> tuple["TreeStep", ...]:
        """Return the steps from the first one to this one."""
        return (*self.above.path, self) if self.above else (self,)

    @property
    def value(self) -> float:
        """Return the share of right answers, from 0 to 1; 0 if there is no answer."""
        return round(self.right_weight / self.weight, _DIGITS) if self.weight else 0.0

    @property
    def is_estimated(self) -> bool:
        """Return whether the value counts enough samples to prefer a step by it."""
        return self.is_end or self.num_samples >= LEAST_SAMPLES


def steps_of(events: Sequence[AnyEvent], golds: Sequence[str]) -> list[TreeStep]:
    """Return the steps of AirRAG's search in a trace, each after the one above it.

    Steps of other searches, which count no visits, are left out.
    """
    nodes = [event for event in events if isinstance(event, Expanded) and "visits" in event.numbers]
    drawn, steps = Counter[tuple[str, str]](), dict[str, TreeStep]()
    for event in nodes:
        drawn[_parent(event), event.action] += _votes(event)
    for event in nodes:
        step = steps[event.node] = TreeStep(
            event.action,
            " ".join(event.text.split()),
            event.passage,
            steps.get(_parent(event)),
            _votes(event),
            _votes(event) / drawn[_parent(event), event.action],
            int(event.numbers.get("repeats", 0)),
        )
        if "reward" not in event.numbers or event.rejected or not event.text.strip():
            continue
        step.is_end, step.reward = True, event.numbers["reward"]
    ends = [step for step in steps.values() if step.is_end]
    shares = [prod(step.share for step in end.path[:-1]) for end in ends]
    supports = supports_of([end.output for end in ends], [end.votes for end in ends], shares)
    for end, support in zip(ends, supports, strict=True):
        end.support, weight = support, end.votes * support.path_share
        is_right = bool(accuracy(end.output, golds))
        for step in end.path:
            step.num_samples += end.votes
            step.weight += weight
            step.right_weight += weight * is_right
    return list(steps.values())


def _parent(event: Expanded) -> str:
    return event.node.rpartition(".")[0]


def _votes(event: Expanded) -> int:
    return int(event.numbers.get("votes", 1))


def tree_rows(run: RecordedRun, format: TreeFormat) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of all questions of a run.

    Raises:
        InputError: The run has no trees, or none that gives a row.
    """
    num_trees = num_rows = 0
    for record in run.records:
        steps = steps_of(run.trace(record), record.golds)
        num_trees += bool(steps)
        for row in _ROWS[format](record, steps):
            num_rows += 1
            yield row
    if not num_trees:
        raise InputError(
            f"the run {run.folder} has no search trees: name a run of airrag, whose traces were kept."
        )
    if not num_rows:
        raise InputError(
            f"the trees of the run {run.folder} give no row of the format {format}: make more rollouts, or "
            "name a run in which some answers are right."
        )


def _turn(role: str, text: str) -> list[dict[str, str]]:
    return [{"role": role, "content": text}]


def _sft(record: Record, steps: Sequence[TreeStep]) -> Iterator[Mapping[str, Any]]:
    for step in steps:
        if step.is_end and step.value:
            path = "\n".join(each.text for each in step.path)
            yield {"prompt": _turn("user", record.question), "completion": _turn("assistant", path)}


def _preference(record: Record, steps: Sequence[TreeStep]) -> Iterator[Mapping[str, Any]]:
    """Yield the best and the worst of the steps that follow the same steps, if they differ enough."""
    followers: dict[int, list[TreeStep]] = {}
    for step in steps:
        followers.setdefault(id(step.above), []).append(step)
    for group in followers.values():
        ranked = sorted((step for step in group if step.is_estimated), key=lambda step: step.value)
        if not ranked or ranked[-1].value - ranked[0].value < LEAST_DIFFERENCE:
            continue
        worst, best = ranked[0], ranked[-1]
        before = best.above.path if best.above else ()
        shown = "\n".join((record.question, *(each.text for each in before)))
        yield {
            "prompt": _turn("user", shown),
            "chosen": _turn("assistant", best.text),
            "rejected": _turn("assistant", worst.text),
        }


def _process(record: Record, steps: Sequence[TreeStep]) -> Iterator[Mapping[str, Any]]:
    for end in steps:
        if end.is_end:
            yield {
                "prompt": record.question,
                "completions": [step.text for step in end.path],
                "labels": [step.value >= LEAST_VALUE for step in end.path],
                "values": [step.value for step in end.path],
                "samples": [step.num_samples for step in end.path],
            }


_ROWS = {TreeFormat.SFT: _sft, TreeFormat.PREFERENCE: _preference, TreeFormat.PROCESS: _process}
