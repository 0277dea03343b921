"""One thing to learn: a prompt as a method would write it, and what the model should have written."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from askance.core.errors import InputError
from askance.core.types import Prompt, Raw, TokenIds


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A prompt and its continuation.

    Attributes:
        task: what is taught, such as "reading"; losses are reported by it.
        id: the dataset's question that it was made from, with the name of its dataset in front.
        target: what is learned, exactly as it follows the prompt, leading space included; the end token
            comes behind it.
        answer: what the target ends in and all before it leads to; empty where no part of it is more than
            another.
    """

    task: str
    id: str
    prompt: Prompt
    target: str
    answer: str = ""


def reply(task: str, id: str, prompt: Prompt, text: str) -> TrainingExample:
    """A lesson in a whole reply. A blank parts it from the cue of plain text; a chat turn has no cue."""
    return TrainingExample(task, id, prompt, f" {text}" if isinstance(prompt, Raw) else text)


class PromptEncoder(Protocol):
    """What turns prompts into ids for a model."""

    def encode(self, prompt: Prompt) -> TokenIds: ...
    def text_ids(self, text: str) -> TokenIds: ...
    @property
    def end_id(self) -> int: ...


@dataclass(frozen=True, slots=True)
class EncodedExample:
    """A lesson in token ids, exactly as the model that answers would see them.

    Attributes:
        ids: prompt, target and end token.
        num_prompt_tokens: what stands before the target; it carries no loss.
        num_answer_tokens: length of the answer that the target ends in, with the end token; 0 without one.
    """

    task: str
    id: str
    ids: TokenIds
    num_prompt_tokens: int
    num_answer_tokens: int = 0

    @property
    def num_target_tokens(self) -> int:
        """The end token included."""
        return len(self.ids) - self.num_prompt_tokens


def encode(
    lessons: Iterable[TrainingExample], encoder: PromptEncoder, max_tokens: int
) -> tuple[tuple[EncodedExample, ...], Mapping[str, int]]:
    """The lessons that fit into `max_tokens`, and how many of each task do not.

    A lesson is never cut: cut passages would ask for what they no longer say, cut answers would teach to
    stop.

    Raises:
        InputError: the model's chat template refuses one.
    """
    fitting, left_out = [], Counter[str]()
    for lesson in lessons:
        prompt_ids = _prompt_ids(lesson, encoder)
        target_ids = encoder.text_ids(lesson.target)
        ids = (*prompt_ids, *target_ids, encoder.end_id)
        if len(ids) > max_tokens:
            left_out[lesson.task] += 1
            continue
        # A token that reaches over the border belongs to the answer.
        before = encoder.text_ids(lesson.target.removesuffix(lesson.answer))
        num_answer = len(target_ids) + 1 - len(before) if lesson.answer else 0
        fitting.append(EncodedExample(lesson.task, lesson.id, ids, len(prompt_ids), num_answer))
    return tuple(fitting), left_out


def _prompt_ids(lesson: TrainingExample, encoder: PromptEncoder) -> TokenIds:
    try:
        return encoder.encode(lesson.prompt)
    except InputError as error:
        raise InputError(
            f"the base can't be asked as in the lesson on {lesson.task} of {lesson.id}: {error} Start from a "
            "model that takes such prompts, since the methods will ask the same."
        ) from error


def lessons_digest(lessons: Sequence[EncodedExample]) -> str:
    """What tells one set of lessons from another, their order included: 32 hexadecimal digits."""
    digest = blake2b(digest_size=16)
    for lesson in lessons:
        parts = (lesson.num_prompt_tokens, lesson.num_answer_tokens)
        digest.update(f"{lesson.task} {parts} {lesson.ids}\n".encode())
    return digest.hexdigest()
