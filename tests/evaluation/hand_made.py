"""Runs made by hand: records with given scores, in memory or in a folder of their own."""

from pathlib import Path

from askance.configuration.evaluation import open_metrics
from askance.core.answers import Usage
from askance.core.trace import Answered, Searched, Trace
from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.run.record import Record, Settings
from askance.evaluation.run.recorded_run import RecordedRun, open_run, read_run


def record(number, scores=None, **fields):
    """Question `number`, right in all metrics unless `scores` says otherwise."""
    given = {
        "number": number,
        "id": f"q{number}",
        "question": f"Who built bridge {number}?",
        "task": "open",
        "kind": "",
        "hops": None,
        "golds": ("Bonn",),
        "supporting_titles": (),
        "text": "So the answer is Bonn.",
        "short": "Bonn",
        "cited_titles": (),
        "decisions": {},
        "scores": {"exact_match": 1.0, "f1": 1.0} if scores is None else scores,
        "usage": Usage(prompt_tokens=100, generated_tokens=10, searches=1, seconds=1.0),
        "error": "",
    }
    return Record(**(given | fields))


def settings(records, **fields):
    given = {
        "dataset": "jsonl:bridges.jsonl",
        "num_questions": len(records),
        "method": fields.get("title", "single").partition("(")[0].strip(),
        "title": "single",
        "parameters": {"passages": "3"},
        "models": {"answer": "tiny"},
        "model_specs": {"answer": "hf:tiny"},
        "index": "my-index",
        "index_content": "c0ffee, plain",
        "seed": 0,
        "metrics": tuple(records[0].scores) if records else ("exact_match", "f1"),
        "askance": "0.1.0",
        "versions": {"python": "3.11.9"},
        "machine": "2 cores, x86_64",
        "in_flight": "2",
        "started_at": "2026-11-21T09:00:00+00:00",
    }
    return Settings(**(given | fields))


def run_of(records, folder="runs/single", **fields):
    """A run that is in no folder."""
    return RecordedRun(Path(folder), settings(records, **fields), tuple(records))


def scored(values, metric="f1", **fields):
    """A run whose questions have these values of one metric."""
    made = [record(number, {metric: value}) for number, value in enumerate(values, start=1)]
    return run_of(made, **fields)


def answered(answer, *searches):
    """The trace of a question that ended in an answer; `searches` are queries, each with its hits."""
    trace = Trace()
    for query, hits in searches:
        trace.add(Searched, query=query, k=len(hits), hits=hits)
    trace.add(Answered, answer=answer, usage=Usage())
    return trace


def written(folder, records, traces=None, **fields):
    """A run in a folder, as the harness leaves it; `traces` are those of the records, empty otherwise."""
    examples = [
        Example(
            Question(each.id, each.question, each.task, each.options),
            each.golds,
            each.supporting_titles,
            each.kind,
            each.hops,
        )
        for each in records
    ]
    asked = settings(records, **fields)
    scoring = open_metrics(asked.metrics)
    with open_run(folder, lambda before: asked, examples, scoring) as (writer, _):
        writer.add(list(zip(records, traces or [Trace() for _ in records], strict=True)))
    return read_run(folder)
