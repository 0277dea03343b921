"""Gates that a method calls while it answers: as the trigger of a search, or as the guard of an answer."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from pydantic import WithJsonSchema

from askance.core.answers import Answer
from askance.core.errors import FunctionFailure, InputError, MissingAbility
from askance.core.extensions import NamedFunction
from askance.core.ports import WrappedModel
from askance.core.types import GenerateRequest, Generation, Question, Signal, Token, Want
from askance.methods.dragin.attention_map import model_attention_map
from askance.methods.gates.signals import Gate, MissingSignal, Numbers, Signals, Written
from askance.text.answers import short_answer
from askance.text.linguistics import token_words
from askance.text.support import cited_sentences

TOKEN_SIGNALS: tuple[Signal, ...] = ("logprob", "entropy", "top_logprobs", "attention")
"""The signals of tokens that gates read."""
_TEMPERATURE = 1.0
"""The temperature of sampled answers."""
NUM_SAMPLES = 5
_TERM = re.compile(r"((?:^[+-]?|[+-])\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?:\*(\w+))?")
"""A number of a weighted sum, with the gate that it is the weight of."""


@dataclass(frozen=True, slots=True, repr=False)
class NamedGate(NamedFunction):
    """A gate or guard as the value of a parameter, which a method calls while it answers.

    Attributes:
        signals: The signals of tokens without which it fails.
        needs_samples: Whether it fails without sampled answers.
    """

    signals: frozenset[Signal]
    needs_samples: bool = False

    def values(self, signals: Signals) -> Numbers:
        """Return the gate's number, or one for each word of the draft.

        Raises:
            MissingAbility: The gate needs a signal that is not known.
            FunctionFailure: The gate raised an error or returned something else.
        """
        try:
            values = np.asarray(self.function(signals), dtype=np.float64)
        except MissingSignal as missing:
            raise MissingAbility(f"the gate {self.name} can't be used here: {missing}.") from missing
        except Exception as error:  # a gate may be somebody else's code
            raise FunctionFailure(f"the gate {self.name} failed: {type(error).__name__}: {error}") from error
        num_words = len(token_words(signals.draft.tokens))
        if values.shape not in ((), (num_words,)) or not np.isfinite(values).all():
            expected = f"expected a finite number, or one for each of {num_words} words"
            raise FunctionFailure(f"the gate {self.name} returned {values!s:.99}: {expected}.")
        return values


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """A gate that adds the weighted numbers of others, such as a router that is trained on outcomes.

    Attributes:
        terms: Each gate with its weight. One that returns a number for each word counts with the greatest.
        constant: A number that is added.
    """

    terms: tuple[tuple[float, Gate], ...]
    constant: float

    def __call__(self, signals: Signals) -> float:
        return self.constant + sum(weight * greatest(gate(signals)) for weight, gate in self.terms)


def greatest(numbers: float | Sequence[float]) -> float:
    """Return the number of a gate for the whole question, which is 0 for a text without a word."""
    return float(np.max(numbers)) if np.size(numbers) else 0.0


def read_sum(text: str, find: Callable[[str], Gate]) -> WeightedSum:
    """Return the gate that a text such as ``0.3*perplexity+2*margin-1.4`` describes.

    Args:
        find: Returns the gate of a name.

    Raises:
        InputError: The text is no such sum.
    """
    if rest := _TERM.sub("", text):
        example = "write it without spaces, as 0.3*perplexity+2*margin-1.4"
        raise InputError(f"{text!r} is no weighted sum of gates; it can't be read at {rest!r}: {example}.")
    terms = [(float(weight), name) for weight, name in _TERM.findall(text)]
    constant = sum(weight for weight, name in terms if not name)
    return WeightedSum(tuple((weight, find(name)) for weight, name in terms if name), constant)


GateParameter = Annotated[NamedGate, WithJsonSchema({"type": "string"})]
"""The type of a parameter that holds a gate."""


def named_gate(name: str, gate: Gate, *, is_guard: bool = False) -> NamedGate:
    """Return a gate as the value of a parameter.

    The signals that it needs are those without which it raises `MissingSignal` for a made-up draft.

    Args:
        is_guard: Whether it knows both answers and sampled ones. A trigger only knows a sentence.

    Raises:
        InputError: The gate needs something else.
    """
    every = (*TOKEN_SIGNALS, "samples")
    if lack := _lack(gate, every if is_guard else TOKEN_SIGNALS, is_guard):
        use = "guard, which knows both answers" if is_guard else "trigger, which only knows a sentence"
        raise InputError(f"{name} can't be a {use} with the signals of its tokens: {lack}. Name another.")
    signals = frozenset(each for each in TOKEN_SIGNALS if _lack(gate, {*every} - {each}, is_guard))
    return NamedGate(name, gate, signals, bool(_lack(gate, TOKEN_SIGNALS, is_guard)))


def _lack(gate: Gate, known: Collection[str], is_guard: bool) -> str:
    """Return the message of the `MissingSignal` that a gate raises if only `known` signals are given."""
    logprob, entropy = (-0.5 if signal in known else None for signal in ("logprob", "entropy"))
    top = (("", -0.5), ("", -1.5)) if "top_logprobs" in known else ()
    draft = tuple(Token(-1, " Bonn", at, at + 5, logprob, entropy, top) for at in (0, 5, 10, 15))
    influences, samples = (0.2,) * 4 * ("attention" in known), ("Bonn", "Ulm") * ("samples" in known)
    written = Written("Bonn", draft, influences, samples, {"support": 1.0})
    try:
        gate(Signals("Where is Bonn?", written, written if is_guard else None))
    except Exception as error:  # any other error says nothing about signals
        return str(error) if isinstance(error, MissingSignal) else ""
    return ""


def want_of(signals: Collection[str]) -> Want:
    """Return the request for these signals of tokens."""
    attends, two_best = "attention" in signals, 2 * ("top_logprobs" in signals)
    return Want("logprob" in signals, two_best, "entropy" in signals, (), "max" if attends else None)


@dataclass(eq=False, repr=False)
class WatchedModel(WrappedModel):
    """A model of one question whose answer is generated with further signals, and kept."""

    want: Want
    request: GenerateRequest = field(init=False)
    generation: Generation = field(init=False)

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        if request.key[-1] != "answer":
            return await self._model.generate(request)
        self.request = replace(request, want=self.want)
        (self.generation,) = found = await self._model.generate(self.request)
        return found

    async def written(self, answer: Answer, question: Question, num_samples: int = 0) -> Written:
        """Return an answer with its signals, and with short answers of texts sampled from its prompt."""
        tokens, samples = self.generation.tokens, tuple[str, ...]()
        seen = model_attention_map(self.generation, question.text, "") if self.want.attention else None
        words = token_words(tokens) if seen else ()
        influences = tuple(seen.influence(word.start, word.end, "max", False) for word in words if seen)
        if num_samples:
            sampling, key = replace(self.request.sampling, temperature=_TEMPERATURE), self.request.key
            request = GenerateRequest(self.request.prompt, sampling, n=num_samples, key=(*key, "samples"))
            texts = [each.text for each in await self._model.generate(request)]
            samples = tuple(short_answer(text, question) for text in texts)
        sentences = cited_sentences(answer)
        numbers = {"support": sum(bool(each.passages) for each in sentences) / max(len(sentences), 1)}
        return Written(answer.short, tokens, influences, samples, numbers)
