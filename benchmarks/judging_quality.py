r"""Measure how well a model judges whether passages contain an answer, and which passages are relevant.

    python -m benchmarks.judging_quality --model bundled bundled:base --out FOLDER \
        --unanswerable 'squad2:FILE?unanswerable=keep' --articles Normans 'Steam engine' \
        --relevance hotpotqa:FILE

Unanswerable: each question about the named articles (about all articles if none is named) is asked with its
own paragraph in AirRAG's retrieval-answer prompt. A reply which says that the passages contain no answer
counts as "unanswerable". Balanced accuracy is the mean of the accuracy on answerable questions and the
accuracy on unanswerable questions. Name articles that the model was not trained on.

Relevance: every paragraph of a question is judged with Self-RAG's relevance prompt. The paragraph's score is
the log-probability of the label "relevant" minus that of "irrelevant" (nats). The table has the area under
the ROC curve of a question's supporting paragraphs against its distractors, averaged over questions.

FOLDER/MODEL stores each finished question, and the same command continues a stopped run. FOLDER/judging.json
has the table.
"""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from recipes.command_line import parser_of
from recipes.grids import folder_name

from askance.cli.main import exit_codes
from askance.configuration.build import load_model
from askance.configuration.evaluation import read_dataset
from askance.core.ports import Model
from askance.core.types import GenerateRequest, Hit, Passage, Sampling
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.single_hop import UNANSWERABLE
from askance.evaluation.run.result_file import work_through
from askance.evaluation.statistics.compare import mean_interval
from askance.methods.airrag.prompts import PromptBuilder, is_refusal, parse_final
from askance.methods.common.prompts import label_options
from askance.methods.selfrag.scoring import LABELS, judgement_prompt
from askance.storage.durable_files import write_atomically
from benchmarks.kept_rows import Row, kept_rows

Judge = Callable[[Model, Example], Awaitable[Row]]
IN_FLIGHT = 16
REPLY_TOKENS = 24


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--model", nargs="+", default=["bundled", "bundled:base"])
    parser.add_argument("--unanswerable", metavar="squad2:FILE?unanswerable=keep")
    parser.add_argument("--articles", nargs="*", default=[], help="titles; all if none is named")
    parser.add_argument("--relevance", nargs="*", default=[], metavar="NAME:FILE")
    parser.add_argument("--limit", type=int, help="questions a dataset; all if not given")
    parser.add_argument("--out", type=Path, required=True)
    with exit_codes():
        _measure(parser.parse_args(arguments))


def _measure(given: argparse.Namespace) -> None:
    found = []
    for spec in given.model:
        model = load_model(spec)
        if given.unanswerable:
            examples = of_articles(read_dataset(given.unanswerable), given.articles)[: given.limit]
            rows = _kept(given.out / folder_name(spec) / "refusals", spec, examples, model, ask)
            found.append({"model": spec, "what": "refusals", **refusals(rows)})
        for dataset in given.relevance:
            examples = read_dataset(dataset, given.limit)
            name = dataset.partition(":")[0]
            rows = _kept(given.out / folder_name(spec) / f"relevance-{name}", spec, examples, model, compare)
            found.append({"model": spec, "what": f"relevance, {name}", **relevance(rows)})
    write_atomically(given.out / "judging.json", json.dumps(found, indent=1))
    print("| model | what | mean (95 %) | questions | in parts |\n|---|---|---|---|---|")
    for row in found:
        interval = f"{row['mean']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
        parts = ", ".join(f"{name} {value:.3f}" for name, value in row["parts"].items())
        print(f"| {row['model']} | {row['what']} | {interval} | {row['num_questions']} | {parts} |")


def of_articles(examples: Sequence[Example], titles: Sequence[str]) -> Sequence[Example]:
    """Return the questions about these articles, or all questions if no title is given."""
    return [each for each in examples if not titles or set(titles) & set(each.supporting_titles)]


async def ask(model: Model, example: Example) -> Row:
    """Ask a question about its own paragraph, and return whether the model refused to answer it."""
    (paragraph,) = example.supporting_facts.paragraphs
    hits = (Hit(Passage("1", paragraph.title, paragraph.text), 1.0, 1),)
    prompt = PromptBuilder(model, example.question).ra(hits, example.question.text)
    (reply,) = await model.generate(
        GenerateRequest(prompt, Sampling(REPLY_TOKENS, stop=("\n",)), key=("refusal",))
    )
    answer = parse_final(reply.text)
    is_answerable = example.kind != UNANSWERABLE
    return {"is_answerable": is_answerable, "is_refused": is_refusal(answer), "answer": answer}


async def compare(model: Model, example: Example) -> Row:
    """Return the relevance scores of a question's supporting paragraphs and of its distractors."""
    scores: dict[bool, list[float]] = {True: [], False: []}
    for paragraph in example.supporting_facts.paragraphs:
        passage = Passage("", paragraph.title, paragraph.text)
        prompt = judgement_prompt(model, example.question, "relevance", [passage])
        options = label_options(prompt, LABELS["relevance"].values())
        relevant, irrelevant = await model.score(prompt, options)
        scores[paragraph.is_supporting].append(relevant.logprob - irrelevant.logprob)
    return {"supporting": scores[True], "distractors": scores[False]}


def refusals(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the balanced accuracy, with its interval over questions."""
    weight = {kind: 0.5 / max(1, sum(row["is_answerable"] == kind for row in rows)) for kind in (True, False)}
    right = [float(row["is_refused"] != row["is_answerable"]) for row in rows]
    shares = {
        name: float(np.mean([hit for hit, row in zip(right, rows, strict=True) if row["is_answerable"] ==
        kind])) for name, kind in (("answerable", True), ("unanswerable", False))
    }  # fmt: skip
    weighted = [hit * weight[row["is_answerable"]] * len(rows) for hit, row in zip(right, rows, strict=True)]
    return _interval(weighted, shares)


def relevance(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the mean area under a question's ROC curve, over questions with both kinds of paragraphs."""
    areas = [
        area(row["supporting"], row["distractors"])
        for row in rows
        if row["supporting"] and row["distractors"]
    ]
    pooled = area(
        [s for row in rows for s in row["supporting"]], [s for row in rows for s in row["distractors"]]
    )
    return _interval(areas, {"all pairs": pooled})


def area(above: Sequence[float], below: Sequence[float]) -> float:
    """Return the fraction of pairs whose number from `above` exceeds that from `below`. Ties count half."""
    first, second = np.array(above)[:, None], np.array(below)[None]
    return float(((first > second) + 0.5 * (first == second)).mean())


def _interval(values: Sequence[float], parts: Mapping[str, float]) -> dict[str, Any]:
    found = mean_interval(values)
    return {
        "mean": found.mean,
        "low": found.low,
        "high": found.high,
        "num_questions": len(values),
        "parts": parts,
    }


def _kept(folder: Path, spec: str, examples: Sequence[Example], model: Model, judge: Judge) -> list[Row]:
    with kept_rows(folder, {"model": spec}) as (kept, add):

        async def judged(example: Example) -> Row:
            return {"id": example.question.id, **await judge(model, example)}

        def keep(rows: Sequence[Row]) -> None:
            for row in rows:
                add(row)

        missing = [each for each in examples if each.question.id not in kept]
        failed = lambda example: f"the question {example.question.id!r} could not be judged"  # noqa: E731
        asyncio.run(work_through(missing, judged, keep, IN_FLIGHT, failed))
        return [kept[each.question.id] for each in examples]


if __name__ == "__main__":
    main()
