r"""Compare the accuracy, speed and size of the bundled model's weights by quantisation type.

    python -m benchmarks.bundled_weights --out FOLDER --index DIR \
        --searched hotpotqa:FILE 2wikimultihopqa:FILE --read squad2:FILE --articles Normans 'Steam engine'
    python -m benchmarks.bundled_weights --out FOLDER --speed

For each type, the base and the adapter that ships are merged once and written into FOLDER (0.9 GB). The
models of all types answer the same questions, with the method single and the prompts of `bundled`. The
questions of --searched come with the first 4 passages of an index, and the questions of --read with the
paragraphs that contain the answer. For --articles, name articles of SQuAD that the adapter was not trained
on. The table has the mean F1 of each type, and its difference from float32 on the same questions, with the
interval of the paired bootstrap.

FOLDER/questions.jsonl stores each finished question, and the same command continues a stopped run. With
--speed, each type is converted again, and then all types and the original base are timed in turn, in several
rounds. Use --speed on an idle machine.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from recipes.command_line import markdown, parser_of

from askance.ask import Engine
from askance.cli.main import exit_codes
from askance.configuration.build import load_model, open_retriever
from askance.configuration.evaluation import read_dataset
from askance.configuration.methods import make_method
from askance.core.concurrency import map_concurrent
from askance.core.errors import InputError
from askance.core.ports import Model, Retriever
from askance.core.types import GenerateRequest, Raw, Sampling, Span
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.answers import f1
from askance.evaluation.run.gold_retriever import GoldRetriever
from askance.evaluation.statistics.compare import mean_interval, paired_difference
from askance.storage.durable_files import write_atomically
from benchmarks.judging_quality import of_articles
from benchmarks.kept_rows import Row, kept_rows

EXACT = "float32"
TYPES: Mapping[str, tuple[str, str]] = {
    EXACT: ("F32", "F32"),
    "Q8_0": ("Q8_0", ""),
    "Q4_0, embeddings Q8_0": ("Q4_0", ""),
    "Q4_0": ("Q4_0", "Q4_0"),
}
"""The types of the layers' matrices and of the embeddings. An empty type keeps the original Q8_0."""
AS_IT_CAME = "Q4_1, the base as it came"
IN_FLIGHT = 8
NUM_PASSAGES = 4
PROMPT_NUMBERS, NEW_TOKENS = 100, 64
"""The count of numbers in a prompt of --speed, of five tokens each, and the count of generated tokens."""


@dataclass(frozen=True, slots=True)
class Task:
    """A question of a dataset, with its retriever."""

    id: str
    dataset: str
    example: Example
    retriever: Retriever


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of results; a stopped run continues")
    parser.add_argument("--index", type=Path, help="folder made by `askance index`, for --searched")
    parser.add_argument("--searched", nargs="*", default=[], metavar="NAME:FILE")
    parser.add_argument("--read", nargs="*", default=[], metavar="NAME:FILE")
    parser.add_argument("--articles", nargs="*", default=[], help="titles, of squad2; all if none is named")
    parser.add_argument("--limit", type=int, help="questions a dataset; all if not given")
    parser.add_argument("--types", nargs="+", default=list(TYPES), choices=TYPES)
    parser.add_argument("--speed", action="store_true", help="seconds and tokens a second, not accuracy")
    parser.add_argument("--rounds", type=int, default=5, help="of --speed (5)")
    with exit_codes():
        options = parser.parse_args(arguments)
        options.out.mkdir(parents=True, exist_ok=True)
        (_time if options.speed else _measure)(options)


def weights_of(name: str, out: Path) -> Path:
    """Return the path of the file with a type's weights, after writing the file if it does not exist."""
    from askance.models.bundled import READER, gguf_path
    from askance.models.llama_cpp.packing import pack

    matrices, embeddings = TYPES[name]
    target = out / f"{name.replace(', ', '-').replace(' ', '-')}.gguf"
    if not target.exists():
        partial = target.with_suffix(".partial")
        pack(gguf_path(), partial, READER, matrices=matrices, embeddings=embeddings)
        partial.rename(target)
    return target


def _measure(options: argparse.Namespace) -> None:
    tasks = _tasks(options)
    names = [EXACT, *(name for name in options.types if name != EXACT)]
    settings = {"types": names, "passages": NUM_PASSAGES}
    with kept_rows(options.out, settings) as (kept, add):
        missing = [task for task in tasks if task.id not in kept]
        if missing:
            models = {name: load_model(f"gguf:{weights_of(name, options.out)}?attention=0") for name in names}
            for start in range(0, len(missing), IN_FLIGHT):
                asyncio.run(_answer(missing[start : start + IN_FLIGHT], models, add))
                print(f"{start + IN_FLIGHT} of {len(missing)}", file=sys.stderr, flush=True)
        rows = [kept[task.id] for task in tasks]
    lines = list(table(rows, names))
    write_atomically(options.out / "accuracy.json", json.dumps(lines, indent=1) + "\n")
    titles = ("weights", "dataset", "questions", "F1 (95 %)", "F1 − float32's (95 %)", "same answers")
    print(markdown(titles, (tuple(line.values()) for line in lines)))


def _tasks(options: argparse.Namespace) -> list[Task]:
    """Return the questions of all datasets in turn, so that any first part of the list is balanced."""
    if options.searched and options.index is None:
        raise InputError("--searched needs an index: name its folder with --index.")
    index = open_retriever(options.index) if options.searched else None
    found: list[list[Task]] = []
    for spec in (*options.searched, *options.read):
        name = spec.partition(":")[0]
        examples: Sequence[Example] = read_dataset(spec)
        if name == "squad2":
            examples = of_articles(examples, options.articles)
        searched = index if spec in options.searched else None
        found.append(
            [
                Task(
                    f"{name}/{each.question.id}", name, each, searched or GoldRetriever(each.supporting_facts)
                )
                for each in examples[: options.limit]
            ]
        )
    return [task for task in chain.from_iterable(zip_longest(*found)) if task is not None]


async def _answer(tasks: Sequence[Task], models: Mapping[str, Model], add: Callable[[Row], None]) -> None:
    method = make_method("single", {"passages": NUM_PASSAGES}, model="bundled")
    rows: dict[str, Row] = {task.id: {"id": task.id, "dataset": task.dataset} for task in tasks}
    for name, model in models.items():

        async def ask(task: Task, model: Model = model) -> str:
            engine = Engine(method, {"answer": model}, task.retriever)
            return (await engine.answer(task.example.question)).answer.short

        async for outcomes in map_concurrent(tasks, ask, IN_FLIGHT):
            for outcome in outcomes:
                if outcome.error is not None:
                    raise outcome.error
                short = outcome.result or ""
                score = f1(short, outcome.item.example.golds) or 0.0
                rows[outcome.item.id][name] = {"answer": short, "f1": score}
    for row in rows.values():
        add(row)


def table(rows: Sequence[Row], names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield, for each type of weights, a line for each dataset and one for all questions."""
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    for name in names:
        for dataset in (*datasets, *(["all"] if len(datasets) > 1 else [])):
            asked = [row for row in rows if dataset in (row["dataset"], "all")]
            scores = {row["id"]: row[name]["f1"] for row in asked}
            found = mean_interval(list(scores.values()))
            gain = paired_difference(scores, {row["id"]: row[EXACT]["f1"] for row in asked})
            same = sum(row[name]["answer"] == row[EXACT]["answer"] for row in asked)
            yield {
                "weights": name,
                "dataset": dataset,
                "questions": str(len(asked)),
                "f1": f"{found.mean:.3f} ({found.low:.3f} to {found.high:.3f})",
                "gain": f"{gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})",
                "same": str(same),
            }


def _time(options: argparse.Namespace) -> None:
    from askance.models.bundled import gguf_path

    seconds = {name: _seconds_to_write(name, options.out) for name in options.types}
    files = {AS_IT_CAME: gguf_path()} | {name: weights_of(name, options.out) for name in options.types}
    models = {name: load_model(f"gguf:{file}") for name, file in files.items()}
    rounds = [
        {name: asyncio.run(_speeds(model, number)) for name, model in models.items()}
        for number in range(options.rounds)
    ]
    titles = ("weights", "MB", "seconds to write", "prompt tokens/s", "new tokens/s")
    lines = [
        {
            "weights": name,
            "MB": f"{files[name].stat().st_size / 1e6:.0f}",
            "seconds": f"{seconds[name]:.1f}" if name in seconds else "—",
            "prompt": _spread([each[name][0] for each in rounds]),
            "new": _spread([each[name][1] for each in rounds]),
        }
        for name in files
    ]
    write_atomically(options.out / "speed.json", json.dumps(lines, indent=1) + "\n")
    print(markdown(titles, (tuple(line.values()) for line in lines)))


def _seconds_to_write(name: str, out: Path) -> float:
    with TemporaryDirectory(dir=out) as folder:
        began = time.perf_counter()
        weights_of(name, Path(folder))
        return time.perf_counter() - began


async def _speeds(model: Model, number: int) -> tuple[float, float]:
    """Return the speeds of reading a prompt and of generating the text after it, in tokens per second."""
    numbers = (1000 + (number * 7919 + at * 977) % 9000 for at in range(PROMPT_NUMBERS))
    prompt = Raw((Span(" ".join(map(str, numbers))),))
    began = time.perf_counter()
    (first,) = await model.generate(GenerateRequest(prompt, Sampling(1), key=("prompt",)))
    read = time.perf_counter()
    (text,) = await model.generate(GenerateRequest(prompt, Sampling(NEW_TOKENS), key=("text",)))
    written = time.perf_counter()
    num_read = first.prompt_tokens - first.reused_tokens
    return num_read / (read - began), text.generated_tokens / (written - read)


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


if __name__ == "__main__":
    main()
