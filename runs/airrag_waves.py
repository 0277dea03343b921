r"""What rollouts side by side are worth: AirRAG as it is, and one call at a time with nothing reused.

    python -m runs.airrag_waves --dataset sample --index DIR --sample 3 --out FOLDER

Sixteen rollouts in waves of four, three samples of SAY and QT. As it is, the calls of a wave are computed
side by side, and prompts that begin alike are computed once. Against that stands the same method on the same
model, as `runs.one_by_one` has it: each call alone, with all that was computed before it forgotten, and each
sample of a request by itself, too. They take turns, so that neither has the quieter machine; the
figures are medians of all repeats, and the ratio is that of the medians. "Reused" is the share of prompt
tokens that were not computed again.

Both must give the same answers from the same trees: if one differs, its line says so, and the exit code is 1.
FOLDER/questions.jsonl keeps each finished question, so that a stopped measurement goes on; FOLDER/waves.json
has the table.
"""

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from askance.ask import Result
from askance.cli import exit_codes
from askance.cli_options import knobs_by_name
from askance.core.trace import Expanded
from askance.eval.cell import Cell
from askance.eval.selection import Selection
from runs.airrag_table import spent
from runs.grids import markdown
from runs.kept_rows import Row
from runs.one_by_one import WAYS, Comparison, compare, comparison_options, median, name_of_line

KNOBS = {"rollouts": 16, "samples": 3, "q_div": 1, "wave": 4}


@dataclass(frozen=True, slots=True)
class Line:
    """One question, or all: medians over the repeats.

    Attributes:
        seconds_in_waves, seconds_one_by_one: of a whole answer.
        ratio: how many times as long it took one by one.
        reused: share of prompt tokens, in waves.
        reused_one_by_one: the same, which is to be 0.
        calls, steps: of the model, and nodes of the tree, in one answer.
        is_same: whether both ways gave the same answer from the same tree, in every repeat.
    """

    question: str
    seconds_in_waves: float
    seconds_one_by_one: float
    ratio: float
    reused: float
    reused_one_by_one: float
    calls: float
    steps: float
    is_same: bool


def main(arguments: list[str] | None = None) -> None:
    options = comparison_options(__doc__ or "", "airrag").parse_args(arguments)
    with exit_codes():
        compare(options, cell_of(options), Comparison("waves.json", outcome, figures, line_of, table))


def cell_of(options: argparse.Namespace) -> Cell:
    """What is asked, as a run of the evaluation would."""
    return Cell(
        dataset=options.dataset,
        method="airrag",
        selection=Selection(sample=options.sample),
        index=options.index,
        knobs={**KNOBS, **knobs_by_name(options.set)},
        models={"answer": options.model},
    )


def figures(found: Mapping[str, Sequence[Result]]) -> Row:
    """Shares of prompt tokens reused, by way; calls and steps of the first answer."""
    first = found[WAYS[0]][0]
    return {
        "reused": {way: [share_reused(each) for each in results] for way, results in found.items()},
        "calls": spent(first.trace.events).calls,
        "steps": len(_steps(first)),
    }


def share_reused(result: Result) -> float:
    """Of the tokens of all prompts, those of every sample counted."""
    usage = result.usage
    return usage.reused_tokens / usage.prompt_tokens if usage.prompt_tokens else 0.0


def outcome(result: Result) -> object:
    """What must not depend on how calls were made: the answer, and the tree with its visits."""
    return result.answer, [
        (step.node, step.action, step.text, step.numbers.get("visits"), step.numbers.get("votes"))
        for step in _steps(result)
    ]


def _steps(result: Result) -> list[Expanded]:
    return [event for event in result.trace.events if isinstance(event, Expanded)]


def line_of(rows: Sequence[Row]) -> Line:
    """Of the medians of each question, the median."""
    seconds = {way: median(rows, "seconds", way) for way in WAYS}
    return Line(
        question=name_of_line(rows),
        seconds_in_waves=seconds[WAYS[0]],
        seconds_one_by_one=seconds[WAYS[1]],
        ratio=seconds[WAYS[1]] / seconds[WAYS[0]],
        reused=median(rows, "reused", WAYS[0]),
        reused_one_by_one=median(rows, "reused", WAYS[1]),
        calls=statistics.median(row["calls"] for row in rows),
        steps=statistics.median(row["steps"] for row in rows),
        is_same=all(row["is_same"] for row in rows),
    )


def table(lines: Sequence[Line]) -> str:
    """Markdown."""
    rows = [
        [
            line.question,
            f"{line.seconds_in_waves:.2f}",
            f"{line.seconds_one_by_one:.2f}",
            f"{line.ratio:.2f}",
            f"{line.reused:.1%}",
            f"{line.reused_one_by_one:.1%}",
            f"{line.calls:g}",
            f"{line.steps:g}",
            "yes" if line.is_same else "no",
        ]
        for line in lines
    ]
    titles = ("question", "s in waves", "s one by one", "ratio", "reused", "reused one by one")
    return markdown((*titles, "calls", "steps", "same answers"), rows)


if __name__ == "__main__":
    main()
