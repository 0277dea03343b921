"""The cause of a wrong answer: each one from the smallest trace that has it, and their order."""

import pytest

from askance.core.trace import Generated, Searched, Trace
from askance.core.types import Hit, Passage
from askance.evaluation.report.causes import Cause, error_cause
from tests.evaluation.hand_made import record

WRONG = {"exact_match": 0.0}
RHINE = Passage("1", "Bonn", "Bonn lies on the Rhine.")
NILE = Passage("2", "Cairo", "Cairo lies on the Nile.")


def events(*steps):
    """Return a trace: passages are the hits of a search, and texts a prompt and its reply."""
    trace = Trace()
    for step in steps:
        if all(isinstance(each, Passage) for each in step):
            hits = tuple(Hit(passage, 1.0, rank) for rank, passage in enumerate(step, start=1))
            trace.add(Searched, query="q", k=2, hits=hits)
            continue
        prompt, text = step
        trace.add(
            Generated,
            role="answer",
            key=("sentence",),
            prompt=prompt,
            text=text,
            finish="stop",
            tokens=(),
            prompt_tokens=1,
            generated_tokens=1,
            reused_tokens=0,
        )
    return trace.events


SHOWN = f"[1] Bonn: {RHINE.text}\nQuestion:"


@pytest.mark.parametrize(
    ("steps", "cause"),
    [
        ([("Question:", "Nile")], Cause.NOT_SEARCHED),
        ([(), ("Question:", "Nile")], Cause.NOT_FOUND),
        ([(NILE,), (f"{NILE.text}", "Nile")], Cause.NOT_FOUND),
        ([(RHINE, NILE), (NILE.text, "Nile")], Cause.NOT_SHOWN),
        ([(RHINE,), (SHOWN, "Nile")], Cause.NOT_READ),
        ([("Question:", "the Rhine"), (RHINE,), (SHOWN, "Nile")], Cause.SEARCHED_TOO_MUCH),
        ([(RHINE,), (SHOWN, "the Rhine")], Cause.NOT_READ),
    ],
)
def test_the_first_step_that_went_wrong_is_the_cause(steps, cause):
    assert error_cause(record(1, WRONG, golds=("Rhine",)), events(*steps)) is cause


def test_evidence_is_every_supporting_document_if_the_dataset_names_them():
    both = record(1, WRONG, golds=("Rhine",), supporting_titles=("Bonn", "Cairo"))
    assert error_cause(both, events((RHINE,), (SHOWN, "no"))) is Cause.NOT_FOUND
    assert error_cause(both, events((RHINE,), (NILE,), (SHOWN, "no"))) is Cause.NOT_SHOWN
    assert error_cause(both, events((RHINE, NILE), (SHOWN + NILE.text, "no"))) is Cause.NOT_READ


def test_the_text_of_an_answer_is_no_evidence_for_yes_or_no():
    asked = record(1, WRONG, golds=("yes",), task="yes_no")
    assert error_cause(asked, events(("Question:", "yes"), (RHINE,), (SHOWN, "no"))) is Cause.UNKNOWN
    assert error_cause(asked, events(("Question:", "no"))) is Cause.NOT_SEARCHED


def test_a_failed_question_failed():
    assert error_cause(record(1, WRONG, error="the server is gone"), events()) is Cause.FAILED
