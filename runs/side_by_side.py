r"""All methods on the same questions, with the same prompts, passages and model.

    python -m runs.side_by_side --dataset hotpotqa:FILE 2wikimultihopqa:FILE \
        --index DIR --limit 50 --out FOLDER

A cell is a method, METHOD+PROFILE, or either with further knobs: dragin,kept_passages=0. Per dataset there is
a table of cost and worth, and one of the differences to the cell `single`, over the same questions; both as
numbers in FOLDER/results.json. Transcripts of all answers are in FOLDER/transcripts. Started again, it goes
on where it was stopped; more cells and a greater limit may be asked for.
"""

import argparse

from askance.cli import exit_codes
from runs.recorded_runs import (
    Cell,
    Questions,
    Recording,
    Row,
    Setting,
    ask_all,
    common_options,
    load_setting,
    read_questions,
    settings_of,
)
from runs.summaries import (
    Summary,
    difference_table,
    differences,
    summarise,
    summary_table,
    write_results,
)

BASE = "single"
CELLS = (
    "closed_book", "closed_book+code", "single", "single+code", "fixed_length", "fixed_length+code",
    "fixed_sentence", "fixed_sentence+code", "flare", "flare_token", "flare_entity",
    "dragin", "dragin+paper", "dragin+code",
)  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = common_options(__doc__ or "")
    parser.add_argument("--dataset", nargs="+", required=True, metavar="NAME:FILE")
    parser.add_argument("--cells", nargs="+", default=list(CELLS), metavar="METHOD[+PROFILE][,KNOB=VALUE]")
    parser.add_argument("--set", nargs="+", default=[], metavar="KNOB=VALUE", help="for all that have it")
    with exit_codes():
        _compare(parser.parse_args(arguments))


def _compare(options: argparse.Namespace) -> None:
    chosen = [read_questions(spec, options.limit, options.prompts) for spec in options.dataset]
    cells = [Cell.named(name, options.set) for name in dict.fromkeys(options.cells)]
    settings = settings_of(options, options.dataset)
    setting = load_setting(options)
    recording = Recording(options.out, settings)
    results = {}
    for questions in chosen:
        rows = ask_all(setting, cells, questions, recording, options.out)
        results[questions.name] = _show(questions, rows, setting)
        write_results(options.out, {**settings, "results": results})


def _show(questions: Questions, rows: dict[str, list[Row]], setting: Setting) -> dict[str, list[Summary]]:
    found = {"cells": summarise(questions, rows)}
    print(f"## {questions.name}: {setting.title(questions)}\n\n{summary_table(found['cells'])}\n")
    if BASE in rows and len(rows) > 1:
        found["differences"] = differences(questions, rows, BASE)
        print(f"{difference_table(found['differences'])}\n", flush=True)
    return found


if __name__ == "__main__":
    main()
