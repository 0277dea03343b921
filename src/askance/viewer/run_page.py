"""The page of a run: its questions with their scores and outcomes, and every trace."""

import base64
import gzip
from typing import Any

from askance.core.safe_text import json_line
from askance.evaluation.report.outcomes import main_score, outcome_counts, outcome_of
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.storage.trace_file import event_record
from askance.viewer.page import html_page


def run_page(run: RecordedRun) -> str:
    """Return the HTML of one file that shows the questions of a run and their traces.

    The traces are compressed, and the page unpacks the one that the reader opens.

    Raises:
        RunFolderError: A trace can't be read.
    """
    settings, questions = run.settings, [_question(run, record) for record in run.records]
    shown = {
        "title": settings.title,
        "dataset": settings.dataset,
        "outcomes": list(outcome_counts(question["outcome"] for question in questions).items()),
        "questions": questions,
    }
    return html_page(f"{settings.title}: {settings.dataset}", "run", shown)


def _question(run: RecordedRun, record: Record) -> dict[str, Any]:
    events, (metric, score) = run.trace(record), main_score(record)
    text = json_line([*map(event_record, events)])
    return {
        "id": record.id,
        "question": record.question,
        "golds": record.golds,
        "short": record.short or record.text,
        "error": record.error,
        "metric": metric,
        "score": score,
        "outcome": outcome_of(record, events),
        "searches": record.usage.searches,
        "tokens": record.usage.tokens,
        "trace": base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode(),
    }
