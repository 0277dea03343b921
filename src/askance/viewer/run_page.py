"""The page of a run: its questions with their scores and the causes of wrong answers, and every trace."""

import base64
import gzip
from typing import Any

from askance.core.strict_json import json_line
from askance.evaluation.report.causes import error_cause
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.storage.trace_file import event_record
from askance.viewer.page import html_page

WON_FROM = 0.5
"""The score of the first metric from which a question counts as won."""


def run_page(run: RecordedRun) -> str:
    """Return the HTML of one file that shows the questions of a run and their traces.

    A question is won if its first metric that applies is at least `WON_FROM`. The traces are compressed, and
    the page unpacks the one that the reader opens.

    Raises:
        RunFolderError: A trace can't be read.
    """
    settings = run.settings
    shown = {
        "title": settings.title,
        "dataset": settings.dataset,
        "questions": [_question(run, record) for record in run.records],
    }
    return html_page(f"{settings.title}: {settings.dataset}", "run", shown)


def _question(run: RecordedRun, record: Record) -> dict[str, Any]:
    metric, score = next(
        ((name, score) for name, score in record.scores.items() if score is not None), ("", 0.0)
    )
    events = run.trace(record)
    is_won = not record.is_failure and score >= WON_FROM
    text = json_line([*map(event_record, events)])
    return {
        "id": record.id,
        "question": record.question,
        "golds": record.golds,
        "short": record.short or record.text,
        "error": record.error,
        "metric": metric,
        "score": score,
        "verdict": "failed" if record.is_failure else "won" if is_won else "lost",
        "cause": "" if is_won else error_cause(record, events),
        "searches": record.usage.searches,
        "tokens": record.usage.computed_tokens,
        "trace": base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode(),
    }
