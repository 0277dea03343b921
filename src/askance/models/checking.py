"""Check the abilities that a model declares, and find undeclared ones, with a few short calls for each."""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from askance.core.errors import ModelFailure, ModelUnavailable
from askance.core.panics import panics_as
from askance.core.ports import Model
from askance.core.types import (
    Chat,
    GenerateRequest,
    Generation,
    Prompt,
    Raw,
    Sampling,
    Span,
    Token,
    Turn,
    Want,
)

_NUM_TOP = 5
_TOLERANCE = 0.05
"""The largest accepted difference (nats) between two calls to the same server."""
_SCORE_TOLERANCE = 0.5
"""The largest accepted difference (nats) of scores, because prefill and decoding differ slightly."""
CHAT = Chat((Turn("user", (Span("Count from one to twenty in words."),)),))
_RAW = Raw((Span("One, two, three, four,"),))
_CHAT_AGAIN = Chat((Turn("user", (Span("Say the words 'no, no, yes' ten times."),)),))
_RAW_AGAIN = Raw((Span("no, no, yes, no, no, yes, no, no, yes,"),))
SAMPLING = Sampling(24)


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """The result of the check of one ability.

    Attributes:
        ability: A signal or capability that a server may have, or a guarantee that every model gives.
        is_declared: Whether the model declares the ability; None for a guarantee.
        works: Whether the ability works; None if it was not tried.
        why: The reason why the ability does not work.
        declare: The options that declare the ability.
    """

    ability: str
    is_declared: bool | None
    works: bool | None
    why: str = ""
    declare: str = ""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The results of all checks of a model."""

    model: str
    context_tokens: int
    findings: tuple[CheckFinding, ...]

    @property
    def is_right(self) -> bool:
        """Return whether all declared abilities work."""
        return all(finding.works for finding in self.findings if finding.is_declared)


Check = Callable[[Model], Awaitable[str]]
"""A check, which returns a description of the problem that it found, or an empty string."""


async def check(load: Callable[[str], Model], enabling_options: Mapping[str, str] = {}) -> CheckReport:
    """Check every ability of a model that a server may have.

    Args:
        load: A function that loads the model with further options, such as "chat=1".
        enabling_options: For each ability that the model may have, the options that declare it.

    Raises:
        ModelUnavailable: The server is busy or can't be reached.
    """
    model = load("")
    declared = model.signals | model.capabilities
    findings = list[CheckFinding]()
    for name, check_one in (ABILITY_CHECKS | GUARANTEE_CHECKS).items():
        if check_one in _NEED_ALTERNATIVES and "top_logprobs" not in declared:
            continue
        is_declared = name in declared if name in ABILITY_CHECKS else None
        option = enabling_options.get(name, "") if is_declared is False else ""
        if is_declared is False and not option:
            findings.append(CheckFinding(name, False, None))
            continue
        try:
            with panics_as(ModelFailure):
                why = await check_one(load(option) if option else model)
        except Exception as error:  # Any error of a model is the reason why an ability does not work.
            if isinstance(error, ModelUnavailable) and is_declared and not findings:
                raise
            why = str(error) or type(error).__name__
        findings.append(CheckFinding(name, is_declared, not why, why, option))
    return CheckReport(model.name, model.context_tokens, tuple(findings))


def _prompt(model: Model, raw: Prompt = _RAW, chat: Prompt = CHAT) -> Prompt:
    return raw if "raw" in model.capabilities else chat


async def generate_text(
    model: Model, want: Want = Want(), prompt: Prompt | None = None, sampling: Sampling = Sampling(8)
) -> tuple[Generation, tuple[Token, ...]]:
    """Return a generation and all of its tokens, including the dropped tokens."""
    request = GenerateRequest(prompt or _prompt(model), sampling, want, key=("check",))
    (generation,) = await model.generate(request)
    return generation, (*generation.tokens, *generation.dropped)


async def check_continuation(model: Model, whole: Generation | None = None) -> str:
    """Check that the model continues the first half of its own text with the word that it wrote before.

    Args:
        whole: The text, if the model has written it already.
    """
    prompt = CHAT if "chat" in model.capabilities else _RAW
    whole = whole or (await generate_text(model, prompt=prompt, sampling=SAMPLING))[0]
    middle = len(whole.tokens) // 2
    words = (middle + index for index, token in enumerate(whole.tokens[middle:]) if token.text[:1].isspace())
    kept = whole.tokens[: next(words, middle)]
    beginning = "".join(token.text for token in kept)
    rest = whole.text[len(beginning) :]
    if not beginning or not rest.strip():
        return f"its text is too short for the check: {whole.text!r}"
    begun = replace(prompt, continuation=(tuple(token.id for token in kept),))
    again, _ = await generate_text(model, prompt=begun, sampling=SAMPLING)
    if again.text.split()[:1] == rest.split()[:1]:
        return ""
    return f"after {beginning!r} it continued with {again.text!r}, where it had written {rest!r} in one go"


async def check_scores(model: Model) -> str:
    """Check that scores are log-probabilities that agree with those of generated tokens."""
    options, generated = [" five", " zebra"], list[Token]()
    if "logprob" in model.signals:
        generation, _ = await generate_text(model, Want(logprob=True), sampling=Sampling(1))
        generated = [token for token in generation.tokens if model.tokenize(token.text) == (token.id,)]
    scores = await model.score(_prompt(model), [*options, *(token.text for token in generated)])
    is_valid = all(-math.inf < score.logprob <= 0 and score.num_tokens for score in scores)
    if len(scores) != len(options) + len(generated) or not is_valid:
        return f"invalid scores: {scores}"
    for token, score in zip(generated, scores[len(options) :], strict=True):
        own = token.logprob or 0.0
        if abs(score.logprob - own) > _SCORE_TOLERANCE:
            return f"{score.logprob:.2f} nats for {token.text!r}, which it writes with {own:.2f}"
    return ""


async def _check_text(model: Model, want: Want = Want(), prompt: Prompt | None = None) -> str:
    """Check that the model generates a text, with the signals in `want` for each token."""
    _, tokens = await generate_text(model, want, prompt)
    for token in tokens:
        own, best = token.logprob, token.top[0][1] if token.top else 0.0
        if want.logprob and (own is None or own > 0):
            return f"it returned {own}"
        if want.top_logprobs and not token.top:
            return "tokens without alternatives"
        if want.entropy and token.entropy is None:
            return "tokens without entropy"
        if own is not None and best < own - _TOLERANCE:
            return f"the token {token.text!r} is more probable than the most probable"
    return "" if tokens else "it wrote nothing"


async def _check_reproducibility(model: Model) -> str:
    texts = [(await generate_text(model, sampling=Sampling(8, 1.0)))[0].text for _ in range(2)]
    return "" if texts[0] == texts[1] else f"{texts[0]!r}, then {texts[1]!r}"


async def _check_temperature(model: Model) -> str:
    want = Want(logprob=True, top_logprobs=1)
    results = [await generate_text(model, want, sampling=Sampling(1, heat)) for heat in (0.0, 2.0)]
    first, second = [tokens[0].top[0][1] for _, tokens in results]
    return "" if abs(first - second) <= _TOLERANCE else f"{first:.3f} at temperature 0, {second:.3f} at 2"


async def _check_greedy(model: Model) -> str:
    """Check that the model writes its most probable tokens, which default penalties or limits may change."""
    prompt = _prompt(model, _RAW_AGAIN, _CHAT_AGAIN)
    _, tokens = await generate_text(model, Want(logprob=True, top_logprobs=_NUM_TOP), prompt, Sampling(24))
    for token in tokens:
        own = token.logprob or 0.0
        if token.top and token.top[0][1] - own > _TOLERANCE:
            best, logprob = token.top[0]
            return f"it wrote {token.text!r} ({own:.2f} nats), where {best!r} has {logprob:.2f}"
    return ""


async def _check_count(model: Model) -> str:
    generation, _ = await generate_text(model, sampling=Sampling(1))
    counted, num_read = await model.count(_prompt(model)), generation.prompt_tokens
    return "" if counted >= num_read else f"{counted}, where it read {num_read}"


ABILITY_CHECKS: dict[str, Check] = {
    "chat": partial(_check_text, prompt=CHAT),
    "raw": partial(_check_text, prompt=_RAW),
    "continuation": check_continuation,
    "score": check_scores,
    "logprob": partial(_check_text, want=Want(logprob=True)),
    "top_logprobs": partial(_check_text, want=Want(logprob=True, top_logprobs=_NUM_TOP)),
    "entropy": partial(_check_text, want=Want(entropy=True)),
}
"""The checks of the abilities that a server may have."""
GUARANTEE_CHECKS: dict[str, Check] = {
    "the same key gives the same text": _check_reproducibility,
    "log-probabilities are those before temperature": _check_temperature,
    "at temperature 0 it writes the most probable token": _check_greedy,
    "prompts are not longer than it counts": _check_count,
}
_NEED_ALTERNATIVES = (_check_temperature, _check_greedy)
"""The checks of guarantees that need the most probable tokens."""
