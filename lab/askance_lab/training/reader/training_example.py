"""A training example: a prompt as a method would write it, and the text that the model should write."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from askance.core.errors import InputError, ModelSpecError
from askance.core.types import Prompt, Raw, Span, TokenIds, untrusted
from askance.models.local.encoding import Encoding


@dataclass(frozen=True, slots=True)
class TargetSpan:
    """A piece of a target that is learned with a weight of its own.

    Attributes:
        span: The text, which may yield control tokens only if it is trusted.
        weight: The weight of each of its tokens in the loss; 0 for text that is read, but not learned.
    """

    span: Span
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A prompt and the continuation to be learned.

    Attributes:
        task: The task that the example teaches, such as "reading"; losses are reported by task.
        id: The dataset's name and the id of the question that the example was made from.
        target: The continuation exactly as it follows the prompt, including any leading space. It is a
            string, in which all tokens together have a weight that depends on their number, or spans, which
            have their own weights. The end token is added by `encode`.
        answer: The answer at the end of the target, if other text of the target leads to the answer;
            otherwise an empty string.
    """

    task: str
    id: str
    prompt: Prompt
    target: str | tuple[TargetSpan, ...]
    answer: str = ""


def reply_example(task: str, id: str, prompt: Prompt, text: str) -> TrainingExample:
    """Return an example whose target is a whole reply.

    In a raw prompt, a space separates the reply from the preceding cue. A chat turn has no cue.
    """
    return TrainingExample(task, id, prompt, f" {text}" if isinstance(prompt, Raw) else text)


@dataclass(frozen=True, slots=True)
class EncodedExample:
    """A training example as token ids, exactly as the model sees them when it answers a question.

    Attributes:
        ids: The ids of prompt, target and end token.
        num_prompt_tokens: The number of tokens before the target, which do not count in the loss.
        num_answer_tokens: The number of tokens in the answer at the end of the target, including the end
            token; 0 if the training example has no `answer`.
        target_weights: The weight of each token of the target, the end token included; empty if the weights
            depend on the number of tokens alone.
    """

    task: str
    id: str
    ids: TokenIds
    num_prompt_tokens: int
    num_answer_tokens: int = 0
    target_weights: tuple[float, ...] = ()

    @property
    def num_target_tokens(self) -> int:
        """The number of tokens in the target, including the end token."""
        return len(self.ids) - self.num_prompt_tokens

    @property
    def num_learned_tokens(self) -> int:
        """The number of tokens in the target that are learned."""
        return sum(map(bool, self.target_weights)) if self.target_weights else self.num_target_tokens


def encode(
    examples: Iterable[TrainingExample], encoder: Encoding, max_tokens: int
) -> tuple[tuple[EncodedExample, ...], Mapping[str, int]]:
    """Encode the examples that fit into `max_tokens`, and count the others by task.

    An example is never truncated: a truncated passage would no longer support the answer, and a truncated
    answer would teach the model to stop early.

    Raises:
        InputError: The model's chat template refuses an example.
        ModelSpecError: The tokenizer has no end token.
    """
    encoded, num_too_long = [], Counter[str]()
    for example in examples:
        prompt_ids = _prompt_ids(example, encoder)
        weights: tuple[float, ...] = ()
        if isinstance(example.target, str):
            target_ids = _text_ids(example.target, encoder)
        else:
            target_ids, weights = _weighted_ids(example.target, encoder)
        ids = (*prompt_ids, *target_ids, _end_id(encoder))
        if len(ids) > max_tokens:
            num_too_long[example.task] += 1
            continue
        num_answer = 0
        if example.answer and isinstance(example.target, str):
            # A token that crosses the border between reasoning and answer belongs to the answer.
            reasoning_ids = _text_ids(example.target.removesuffix(example.answer), encoder)
            num_answer = len(target_ids) + 1 - len(reasoning_ids)
        encoded.append(EncodedExample(example.task, example.id, ids, len(prompt_ids), num_answer, weights))
    return tuple(encoded), num_too_long


def _text_ids(text: str, encoder: Encoding) -> TokenIds:
    """Return the ids of plain text that follows a prompt: no BOS, no added space, no control tokens."""
    return encoder.parts((untrusted(text),), at_start=False)


def _end_id(encoder: Encoding) -> int:
    """Return the id of the end token, which a model is trained to write at the end of a text.

    Raises:
        ModelSpecError: The tokenizer has no end token.
    """
    vocabulary = encoder.vocabulary
    if vocabulary.tokenizer.eos_token_id is None:
        raise ModelSpecError(
            f"the tokenizer of {vocabulary.name!r} names no end token, so its model can't be taught where "
            "to stop: set eos_token in its tokenizer_config.json."
        )
    return int(vocabulary.tokenizer.eos_token_id)


def _weighted_ids(target: tuple[TargetSpan, ...], encoder: Encoding) -> tuple[TokenIds, tuple[float, ...]]:
    """Return the ids of a target's spans, and the weight of each token, with 1 for the end token.

    All spans are encoded together, as when a model answers. A token belongs to the span in which it ends.
    """
    spans = [piece.span for piece in target]
    ids, weights = encoder.parts(spans, at_start=False), list[float]()
    for number, piece in enumerate(target, start=1):
        num_tokens = len(encoder.parts(spans[:number], at_start=False))
        weights += itertools.repeat(piece.weight, num_tokens - len(weights))
    return ids, (*weights, 1.0)


def _prompt_ids(example: TrainingExample, encoder: Encoding) -> TokenIds:
    try:
        return encoder.encode(example.prompt)
    except InputError as error:
        raise InputError(
            f"the base model can't take the prompt of the example of {example.task} from {example.id}: "
            f"{error} Start from a model that takes such prompts, since the methods will use the same."
        ) from error


def examples_digest(examples: Sequence[EncodedExample]) -> str:
    """Return a digest of encoded examples and their order: 32 hexadecimal digits."""
    digest = blake2b(digest_size=16)
    for example in examples:
        lengths = (example.num_prompt_tokens, example.num_answer_tokens)
        weights = f" {example.target_weights}" if example.target_weights else ""
        digest.update(f"{example.task} {lengths} {example.ids}{weights}\n".encode())
    return digest.hexdigest()
