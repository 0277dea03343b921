"""What the tests of training examples share: invented examples, and prompts as text."""

from types import SimpleNamespace
from typing import Any

from askance.core.types import Prompt, Question, Raw, Span
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, ReasoningStep, SupportingFacts, Triple

BOTH: Any = SimpleNamespace(capabilities=frozenset({"raw", "chat"}))
RAW_ONLY: Any = SimpleNamespace(capabilities=frozenset({"raw"}))


def supporting(title: str, text: str) -> Paragraph:
    return Paragraph(title, text, ((0, len(text)),))


HEIDI = supporting("Heidi (1937 film)", "Heidi is a film of 1937, directed by Allan Dwan.")
DWAN = supporting("Allan Dwan", "Allan Dwan (3 April 1885 – 28 December 1981) was a director from Toronto.")
PISA = Paragraph("Pisa", "Pisa lies on the Arno. It has a tower.")
FILM = Example(
    Question("f1", "When was the director of film Heidi (1937 Film) born?"),
    ("3 April 1885",),
    ("Heidi (1937 film)", "Allan Dwan"),
    "compositional",
    2,
    SupportingFacts(
        (PISA, HEIDI, DWAN),
        (
            Triple("Heidi (1937 film)", "director", "Allan Dwan"),
            Triple("Allan Dwan", "date of birth", "3 April 1885"),
        ),
    ),
)
FURY = supporting("Fury (film)", "Fury is a film by Fritz Lang.")
LANG = supporting("Fritz Lang", "Fritz Lang was born on 5 December 1890 in Vienna.")
OTHER_FILM = Example(
    Question("f2", "When was the director of Fury born?"),
    ("5 December 1890",),
    ("Fury (film)", "Fritz Lang"),
    "compositional",
    2,
    SupportingFacts(
        (FURY, LANG),
        (
            Triple("Fury (film)", "director", "Fritz Lang"),
            Triple("Fritz Lang", "date of birth", "5 December 1890"),
        ),
    ),
)
ARGON = Example(
    Question("s1", "Can you chew argon?", task="yes_no"),
    ("no",),
    supporting_facts=SupportingFacts(
        facts=("Argon is a gas", "Gases can't be chewed."),
        steps=(ReasoningStep("What is argon?"), ReasoningStep("Can #1 be chewed?")),
    ),
)
TOWER = Example(
    Question("p1", "Which river does Pisa lie on?"),
    ("Arno",),
    ("Pisa",),
    "answerable",
    1,
    SupportingFacts((Paragraph("Pisa", PISA.text, ((0, 22),)),)),
)
NO_TOWER = Example(
    Question("p2", "Who built the bridge of Pisa?"),
    ("noanswer",),
    ("Pisa",),
    "unanswerable",
    1,
    SupportingFacts((PISA,)),
)


def text_of(prompt: Prompt) -> str:
    """All of a prompt; "|" stands before its continuation."""
    turns = (prompt.parts,) if isinstance(prompt, Raw) else tuple(turn.parts for turn in prompt.turns)
    return "\n".join(map(_joined, turns)) + "|" + _joined(prompt.continuation)


def _joined(parts: Any) -> str:
    assert all(isinstance(part, Span) for part in parts)
    return "".join(part.text for part in parts)
