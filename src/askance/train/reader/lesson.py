"""One thing to learn: a prompt as a method would write it, and what the model should have written."""

from dataclasses import dataclass
from typing import Literal

from askance.core.types import Prompt, Raw

Task = Literal[
    "reading",
    "memory",
    "going_on",
    "single_hop",
    "splitting",
    "following_up",
    "summing_up",
    "relevance",
    "support",
    "usefulness",
    "retrieval",
]
"""What a lesson teaches; one builder makes the lessons of one task or of close relatives."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A prompt and its continuation.

    Attributes:
        id: of the dataset's question that it was made from, with the name of its dataset in front.
        target: what is learned, exactly as it follows the prompt, leading space included; the end token
            comes behind it.
        answer: what the target ends in and all before it leads to; empty where no part of it is more than
            another.
    """

    task: Task
    id: str
    prompt: Prompt
    target: str
    answer: str = ""


def reply(task: Task, id: str, prompt: Prompt, text: str) -> Lesson:
    """A lesson in a whole reply. A blank parts it from the cue of plain text; a chat turn has no cue."""
    return Lesson(task, id, prompt, f" {text}" if isinstance(prompt, Raw) else text)
