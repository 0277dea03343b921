r"""Does llama.cpp take the decisions of DRAGIN that torch takes on the same weights?

    python -m runs.gguf_decisions RECORDING --out FOLDER

RECORDING is one of the authors' code, as `benchmarks.replay_reference` reads it: its questions are asked anew
with the examples and settings of its runs of DRAGIN, profile code. Searches find what they found there.
`unpacked` is the bundled model's file with its weights in float32, which is written into FOLDER (540 MB).

For each model: on how many questions all decisions, queries and answers are those of the base; how far the
numbers are apart where the texts are the same; and for each question that is not the same, what came out
otherwise first. It is explained if the base's own numbers were no further from the other outcome than such
numbers are apart anyway. FOLDER/questions.jsonl keeps everything, so that a stopped measurement goes on;
FOLDER/decisions.json has the tables.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import numpy as np
from benchmarks.recorded import Record, RecordedLanguage, split_demo
from benchmarks.replay_reference import make_method

from askance.cli import exit_codes
from askance.core.errors import InputError
from askance.core.ports import Model
from askance.core.types import Demo, Question
from askance.reproductions.dragin import DraginAuthors
from askance.runtime.durable import write_atomically
from askance.text.linguistics import OWN
from askance.wire import load_model
from runs.dragin_courses import course_of
from runs.first_difference import MAY_EXPLAIN, Difference, Gaps, Step, compare
from runs.grids import markdown
from runs.kept_rows import KeptRows, Row, kept_rows
from runs.recorded_passages import RecordedPassages, dragin_runs, recorded_wording

UNPACKED = "unpacked"


@dataclass(frozen=True, slots=True)
class Line:
    """One model against the base.

    Attributes:
        same_decisions: questions where it searches in the same rounds; likewise the others.
        gaps: by their kind, median, 95th percentile and greatest, and of how many they are.
        differences: by question, with whether it is explained.
    """

    model: str
    num_questions: int
    failures: int
    same_decisions: int
    same_queries: int
    same_answers: int
    gaps: Mapping[str, tuple[float, float, float, int]]
    differences: Mapping[str, tuple[Difference, bool]]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recording", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder of results; a stopped run goes on")
    parser.add_argument("--base", default="bundled:base?engine=torch&dtype=float32", help="who is right")
    parser.add_argument("--model", nargs="+", default=[UNPACKED, "bundled:base?engine=llama.cpp"])
    parser.add_argument("--questions", type=int, default=100, help="most of each run (100)")
    parser.add_argument(
        "--language",
        choices=["own", "recorded"],
        default="own",
        help="rules of sentences and words with content: our own, or the recording's, which need spacy",
    )
    with exit_codes():
        _compare(parser.parse_args(arguments))


def _compare(options: argparse.Namespace) -> None:
    record = read_recording(options.recording)
    names = [options.base, *options.model]
    settings = {"recording": record.get("about", ""), "models": names, "language": options.language}
    with kept_rows(options.out, settings) as kept:
        models = {name: load_model(_spec(name, options.out)) for name in names}
        rows = list(_courses(record, models, kept, options))
    lines = [line_of(rows, name, options.base) for name in options.model]
    content = {**settings, "lines": [asdict(line) for line in lines]}
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_atomically(options.out / "decisions.json", text)
    print(f"## Against {options.base}\n\n{agreement_table(lines)}\n\n{gap_table(lines)}")
    if any(line.differences for line in lines):
        print(f"\n{difference_table(lines)}")


def read_recording(path: Path) -> Record:
    """Raises InputError for a file that is none."""
    try:
        record: Record = json.loads(path.read_text(encoding="utf-8"))
        runs = dragin_runs(record)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} can't be read as a recording of the authors' code: {error!r}.") from error
    if not runs:
        raise InputError(f"{path} holds no run of DRAGIN: name a recording with one.")
    return record


def _spec(name: str, out: Path) -> str:
    if name != UNPACKED:
        return name
    from askance.models.bundled import gguf_path
    from askance.models.llama_cpp.packing import pack

    target = out / "unpacked.gguf"
    if not target.exists():
        partial = target.with_suffix(".partial")
        pack(gguf_path(), partial, matrices="F32", embeddings="F32")
        partial.rename(target)
    return f"gguf:{target}"


def _courses(
    record: Record, models: Mapping[str, Model], kept: KeptRows, options: argparse.Namespace
) -> Iterator[Row]:
    linguistics = RecordedLanguage().linguistics if options.language == "recorded" else OWN
    decode = models[options.base].decode
    demos = tuple(Demo(*split_demo(demo)) for demo in record["demos"])
    wording, retriever = recorded_wording(record, demos, decode), RecordedPassages(record, decode)
    asked = {each["qid"]: each["question"] for each in record["questions"]}
    for number, run in enumerate(dragin_runs(record), start=1):
        method = cast(DraginAuthors, make_method(run, wording, linguistics))
        for result in run["results"][: options.questions]:
            id = f"{number}/{result['qid']}"
            row = kept.find(id)
            if row is None:
                question = Question(result["qid"], asked[result["qid"]])
                row = {"id": id, "run": run["name"], "threshold": method.theta} | {
                    name: asyncio.run(course_of(method, question, model, retriever))
                    for name, model in models.items()
                }
                kept.add(row)
                print(f"{id}: {len(row[options.base]['steps'])} steps", file=sys.stderr, flush=True)
            yield row


def line_of(rows: Sequence[Row], name: str, base: str) -> Line:
    """All questions of one model."""
    found: dict[str, Difference] = {}
    gaps: Gaps = {}
    for row in rows:
        difference, here = compare(row[name]["steps"], row[base]["steps"], row["threshold"])
        for kind, values in here.items():
            gaps.setdefault(kind, []).extend(values)
        if difference is not None:
            found[row["id"]] = difference

    def same(part: Callable[[Row], object]) -> int:
        return sum(part(row[name]) == part(row[base]) for row in rows)

    return Line(
        name,
        num_questions=len(rows),
        failures=sum(bool(row[name]["error"] or row[base]["error"]) for row in rows),
        same_decisions=same(lambda course: _decided(course["steps"], "outcome")),
        same_queries=same(lambda course: _decided(course["steps"], "query")),
        same_answers=same(lambda course: (_texts(course["steps"]), course["short"], course["error"])),
        gaps={kind: _spread(values) for kind, values in gaps.items()},
        differences={id: (each, _is_explained(each, gaps)) for id, each in found.items()},
    )


def _decided(steps: Iterable[Step], what: str) -> list[str]:
    return [step[what] for step in steps if step["kind"] == "decide"]


def _texts(steps: Iterable[Step]) -> list[str]:
    return [step["text"] for step in steps if step["kind"] == "answer"]


def _is_explained(difference: Difference, gaps: Gaps) -> bool:
    measured = gaps.get(MAY_EXPLAIN.get(difference.what, ""), [])
    return difference.margin is not None and difference.margin <= max(measured, default=0.0)


def _spread(values: Sequence[float]) -> tuple[float, float, float, int]:
    median, most, greatest = np.percentile(values, (50, 95, 100)).tolist() if values else (0.0, 0.0, 0.0)
    return median, most, greatest, len(values)


def agreement_table(lines: Sequence[Line]) -> str:
    """On how many questions each is the same."""
    titles = ("model", "questions", "same decisions", "same queries", "same answers", "failures")
    return markdown(
        titles,
        (
            (line.model, *map(str, (line.num_questions, line.same_decisions, line.same_queries,
                                    line.same_answers, line.failures)))
            for line in lines
        ),
    )  # fmt: skip


def gap_table(lines: Sequence[Line]) -> str:
    """How far apart the numbers are."""
    titles = ("model", "what", "median", "95 %", "greatest", "of")
    whats = {
        "entropy": "entropy of a token (nats)",
        "lead": "how far a token is ahead (nats)",
        "score": "score of a word",
    }
    return markdown(
        titles,
        (
            (line.model, whats[kind], *(f"{value:.2g}" for value in spread[:3]), str(spread[3]))
            for line in lines
            for kind, spread in line.gaps.items()
        ),
    )


def difference_table(lines: Sequence[Line]) -> str:
    """What came out otherwise first."""
    return markdown(
        ("model", "run/question", "step", "what came out otherwise first", "explained"),
        (
            (line.model, id, str(each.step), each.told.replace("|", "\\|"), "yes" if explained else "no")
            for line in lines
            for id, (each, explained) in line.differences.items()
        ),
    )


if __name__ == "__main__":
    main()
