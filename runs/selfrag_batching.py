r"""What computing a beam's segments together is worth: Self-RAG's long form, as it is and one call at a time.

    python -m runs.selfrag_batching --dataset sample --index DIR --sample 3 --out FOLDER

A beam of 2 with 5 passages and 4 segments writes and judges up to 35 segments. As it is, those of a step are
computed side by side, and prompts that begin alike are computed once. Against that stands the same method on
the same model with a lock around it: each call alone, with all that was computed before it forgotten. Both
begin each question with nothing kept. They take turns, so that neither has the quieter machine; the figures
are medians of all repeats, and the ratio is that of the medians.

Both must give the same answers from the same segments (numbers may differ in their last digits): if one
differs, its line says so, and the exit code is 1. FOLDER/questions.jsonl keeps each finished question, so
that a stopped measurement goes on; FOLDER/batching.json has the table.
"""

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from askance.ask import Result
from askance.cli import exit_codes
from askance.cli_options import knobs_by_name
from askance.core.trace import Expanded, Generated, ScoredOptions
from askance.eval.cell import Cell
from askance.eval.selection import Selection
from runs.grids import markdown
from runs.kept_rows import Row
from runs.one_by_one import WAYS, Comparison, compare, comparison_options, median, name_of_line

KNOBS = {"form": "long", "mode": "always", "beam_width": 2, "passages": 5, "max_segments": 4}
"""Searches are not left to the model, so that every beam has its full width."""


@dataclass(frozen=True, slots=True)
class Line:
    """One question, or all: medians over the repeats.

    Attributes:
        seconds_together, seconds_one_by_one: of a whole answer.
        ratio: how many times as long it took one by one.
        calls, segments: of the model, and those tried, in one answer.
        is_same: whether both ways gave the same answer from the same segments, in every repeat.
    """

    question: str
    seconds_together: float
    seconds_one_by_one: float
    ratio: float
    calls: float
    segments: float
    is_same: bool


def main(arguments: list[str] | None = None) -> None:
    options = comparison_options(__doc__ or "", "selfrag").parse_args(arguments)
    with exit_codes():
        compare(options, cell_of(options), Comparison("batching.json", outcome, figures, line_of, table))


def cell_of(options: argparse.Namespace) -> Cell:
    """What is asked, with the prompts and preset that a run of the evaluation would have."""
    return Cell(
        dataset=options.dataset,
        method="selfrag",
        selection=Selection(sample=options.sample),
        index=options.index,
        knobs={**KNOBS, **knobs_by_name(options.set)},
        prompts=options.prompts,
        models={"answer": options.model},
    )


def figures(found: Mapping[str, Sequence[Result]]) -> Row:
    """Calls of the model and segments of the first answer."""
    events = found[WAYS[0]][0].trace.events
    return {
        "calls": sum(isinstance(event, Generated | ScoredOptions) for event in events),
        "segments": sum(isinstance(event, Expanded) for event in events),
    }


def outcome(result: Result) -> object:
    """What must not depend on how calls were made: the answer, and every segment that was tried."""
    steps = [event for event in result.trace.events if isinstance(event, Expanded)]
    tried = sorted((step.node, step.action, step.text, bool(step.rejected)) for step in steps)
    return result.answer, tried


def line_of(rows: Sequence[Row]) -> Line:
    """Of the medians of each question, the median."""
    medians = {way: median(rows, "seconds", way) for way in WAYS}
    return Line(
        question=name_of_line(rows),
        seconds_together=medians[WAYS[0]],
        seconds_one_by_one=medians[WAYS[1]],
        ratio=medians[WAYS[1]] / medians[WAYS[0]],
        calls=statistics.median(row["calls"] for row in rows),
        segments=statistics.median(row["segments"] for row in rows),
        is_same=all(row["is_same"] for row in rows),
    )


def table(lines: Sequence[Line]) -> str:
    """Markdown."""
    rows = [
        [
            line.question,
            f"{line.seconds_together:.2f}",
            f"{line.seconds_one_by_one:.2f}",
            f"{line.ratio:.2f}",
            f"{line.calls:g}",
            f"{line.segments:g}",
            "yes" if line.is_same else "no",
        ]
        for line in lines
    ]
    titles = ("question", "s together", "s one by one", "ratio", "calls", "segments", "same answers")
    return markdown(titles, rows)


if __name__ == "__main__":
    main()
