"""The tree of a search as text: the lines of a step, and which steps belong together."""

import io
import re

import pytest
from rich.console import Console

from askance.core.trace import Trace
from askance.core.types import Hit, Passage
from askance.methods.airrag.method import Airrag
from askance.terminal.trace_view import print_trace, search_trees
from tests.methods.bridge import PATHS_ALONE, WHERE, Varied, playing, run

CREEK = Hit(Passage("2", "Crum\nCreek", "It flows to the Delaware."), 2.0, 1)


def printed(trace, width=72):
    screen = io.StringIO()
    print_trace(trace.events, Console(file=screen, width=width, highlight=False, emoji=False))
    return [line.rstrip() for line in screen.getvalue().splitlines()]


def shown(trace, width=72):
    """Return the printed lines without the legend."""
    text = re.sub(r"^legend.*\n( .*\n)*", "", "\n".join(printed(trace, width)) + "\n", flags=re.MULTILINE)
    return text.splitlines()


def visited(visits, value, **further):
    return {"visits": float(visits), "value": value, **further}


def searched():
    """The trace of a small search."""
    trace = Trace()
    trace.expand("0.1", "say", "Where is the bridge?; What is the mouth of the river below that one called?",
                 numbers=visited(3, 1.5, votes=2.0, uct=2.41))  # fmt: skip
    trace.expand("0.1.1", "ra", "Where is the bridge? →\nOver Crum Creek", passage=CREEK,
                 numbers=visited(2, 1.0, votes=1.0, uct=3.25))  # fmt: skip
    trace.expand("0.1.1.1", "sa", "the [bold]Delaware[/bold] :smile:",
                 numbers=visited(1, 0.75, votes=1.0, uct=1.9, reward=0.75, cut=1.0, chosen=1.0))  # fmt: skip
    trace.expand("0.1.1.2", "sa", "unknown", numbers=visited(0, 0.0, votes=1.0, reward=0.0),
                 rejected="it says that there is no answer")  # fmt: skip
    trace.expand("0.2", "da", "", numbers=visited(1, 0.25, votes=1.0, uct=1.4, reward=0.25))
    trace.decide("choose", "the Delaware", "sa of 3 answers")
    numbers = {"input tokens": 4321.0, "tokens": 5000.0, "calls": 9.0, "rollouts": 3.0, "l_max": 8192.0}
    trace.decide("budget", "spent", "9 calls read 4,321 tokens of 8,192", numbers=numbers)
    return trace


GOLDEN = """\
tree of 5 steps
├── ✓ system analysis  Where is the bridge?; What is the mouth of the r…
│   0.1 · visits 3 · value 1.50 (mean 0.50) · votes 2 · uct 2.41
│   └── ✓ retrieval-answer  Where is the bridge? → Over Crum Creek
│       0.1.1 · visits 2 · value 1.00 (mean 0.50) · uct 3.25 · Crum Cre…
│       ├── ✓ summary-answer  the [bold]Delaware[/bold] :smile:
│       │   0.1.1.1 · visits 1 · value 0.75 (mean 0.75) · uct 1.90 · re…
│       │   cut: the budget ended it
│       └── summary-answer  unknown
│           0.1.1.2 · visits 0 · reward 0.00
│           rejected: it says that there is no answer
└── direct answer  (nothing)
    0.2 · visits 1 · value 0.25 (mean 0.25) · uct 1.40 · reward 0.25
choose  the Delaware
        sa of 3 answers
budget  input tokens 4,321 · L_total 5,000 · calls 9 · rollouts 3 ·
        L_max 8,192
"""


def test_a_search_is_one_tree():
    assert shown(searched()) == GOLDEN.splitlines()


@pytest.mark.parametrize("width", [5, 12, 30])
def test_a_narrow_terminal_cuts_steps_off_and_loses_none(width):
    lines = printed(searched(), width)
    tree = lines[: next(at for at, line in enumerate(lines) if line.startswith("l"))]
    assert len(tree) >= 13
    assert all(len(line) <= width for line in lines)


def beam(trace):
    """Steps of Self-RAG, with decisions between them."""
    trace.decide("retrieve", "search", "it is likely")
    for node in ("0.1", "0.2"):
        trace.expand(node, "retrieve", f"text of {node}", numbers={"score": 1.0})
    trace.decide("retrieve", "search", "it is likely again")
    trace.expand("0.2.1", "continue", "more", numbers={"score": 0.5}, rejected="it is empty")
    trace.decide("choose", "0.2", "the best", numbers={"0.2": 1.0})


def test_a_beam_is_a_tree_where_its_last_step_is():
    trace = Trace()
    beam(trace)
    lines = shown(trace)
    assert lines[:2] == ["why     it is likely", "why     it is likely again"]
    assert lines[2:] == [
        "tree of 3 steps",
        "├── with a passage  text of 0.1",
        "│   0.1 · score 1.00",
        "└── ✓ with a passage  text of 0.2",
        "    0.2 · score 1.00",
        "    └── with the same passage  more",
        "        0.2.1 · score 0.50",
        "        rejected: it is empty",
        "choose  0.2",
        "        the best",
        "        0.2 (1.00)",
    ]


def test_searches_are_separate_trees_and_single_steps_are_no_tree():
    trace, alone, gap = Trace(), Trace(), Trace()
    for more in (beam, lambda trace: trace.events.extend(searched().events), beam):
        more(trace)
    trees = search_trees(trace.events)
    assert [(len(tree.steps), tree.chosen) for tree in trees] == [(3, "0.2"), (5, "0.1.1.1"), (3, "0.2")]
    for number in (1, 2):
        alone.expand(f"0.{number}", "retrieve", "The Arno.", numbers={"score": 1.0})
    assert search_trees(alone.events) == []
    steps = [line.split()[:3] for line in shown(alone) if line.startswith("try")]
    assert steps == [["try", "0.1", "with"], ["try", "0.2", "with"]]
    for node in ("0.1", "0.1.1", "0.1.1.5.2", "9.9"):
        gap.expand(node, "retrieve", node)
    assert [line for line in shown(gap) if "with a passage" in line] == [
        "├── with a passage  0.1",
        "│   └── with a passage  0.1.1",
        "│       └── with a passage  0.1.1.5.2",
        "└── with a passage  9.9",
    ]


def test_the_path_of_an_answer_of_airrag_is_marked():
    given = Varied(playing(say=WHERE, qt="None", sa="Mohawk\nDelaware\nunknown\nDelaware"))
    result, _ = run(Airrag(answer_samples=4, verifier="jcd", actions=PATHS_ALONE), given)
    (tree,) = search_trees(result.trace.events)
    rejected = {step.text: step.rejected for step in tree.steps if step.rejected}
    assert rejected == {"unknown": "it says that there is no answer"}
    lines = shown(result.trace, 100)
    assert [line.strip("│├└─ ") for line in lines if "✓" in line] == [
        f"✓ system analysis  {WHERE}",
        f"✓ retrieval-answer  {WHERE} → Over Crum Creek",
        "✓ query transformation  None",
        "✓ summary-answer  Delaware",
    ]
    (spent,) = [line for line in lines if line.startswith("budget  input tokens ")]
    assert " · calls 4 · rollouts 1 " in spent
