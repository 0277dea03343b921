"""Lessons as token ids, exactly as the model that answers would see them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from askance.core.errors import InputError
from askance.core.types import Prompt, TokenIds
from askance.train.reader.lesson import Lesson, Task


class Encoder(Protocol):
    """What turns prompts into ids for a model."""

    def prompt_ids(self, prompt: Prompt) -> TokenIds: ...
    def text_ids(self, text: str) -> TokenIds: ...
    @property
    def end_id(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Encoded:
    """A lesson in ids.

    Attributes:
        ids: prompt, target and end token.
        num_prompt_tokens: what stands before the target; it carries no loss.
        num_answer_tokens: of the answer that the target ends in, the end token included; 0 without one.
    """

    task: Task
    id: str
    ids: TokenIds
    num_prompt_tokens: int
    num_answer_tokens: int = 0

    @property
    def num_target_tokens(self) -> int:
        """The end token included."""
        return len(self.ids) - self.num_prompt_tokens


def encode(
    lessons: Iterable[Lesson], encoder: Encoder, max_tokens: int
) -> tuple[tuple[Encoded, ...], Mapping[Task, int]]:
    """The lessons that fit into `max_tokens`, and how many of each task do not.

    A lesson is never cut: cut passages would ask for what they no longer say, cut answers would teach to
    stop.

    Raises:
        InputError: the model's chat template refuses one.
    """
    fitting, left_out = [], Counter[Task]()
    for lesson in lessons:
        prompt_ids = _prompt_ids(lesson, encoder)
        target_ids = encoder.text_ids(lesson.target)
        ids = (*prompt_ids, *target_ids, encoder.end_id)
        if len(ids) > max_tokens:
            left_out[lesson.task] += 1
        else:
            num_answer = len(target_ids) + 1 - _num_before(lesson, encoder) if lesson.answer else 0
            fitting.append(Encoded(lesson.task, lesson.id, ids, len(prompt_ids), num_answer))
    return tuple(fitting), left_out


def _num_before(lesson: Lesson, encoder: Encoder) -> int:
    """Tokens before the answer; where a token reaches over the border, it belongs to the answer."""
    return len(encoder.text_ids(lesson.target.removesuffix(lesson.answer)))


def _prompt_ids(lesson: Lesson, encoder: Encoder) -> TokenIds:
    try:
        return encoder.prompt_ids(lesson.prompt)
    except InputError as error:
        raise InputError(
            f"the base can't be asked as in the lesson on {lesson.task} of {lesson.id}: {error} Start from a "
            "model that takes such prompts, since the methods will ask the same."
        ) from error
