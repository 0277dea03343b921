"""Whether a model can do what it declares, and what else it could: one tiny call for each ability."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from askance.core.errors import ModelFailure, ModelUnavailable, ParameterError
from askance.core.panics import panics_as
from askance.core.ports import Model
from askance.core.types import (
    Chat,
    GenerateRequest,
    Generation,
    Raw,
    Sampling,
    Span,
    StopCondition,
    Token,
    Turn,
    Want,
)
from askance.models.openai.options import trying
from askance.models.openai.streaming import entropy_bounds
from askance.models.registry import options_in, parse_spec, readying

_BEGUN = 3
"""Tokens of a text that is gone on from."""
_TOP = 5
"""Alternatives."""
_TOLERANCE = 0.05
"""Nats, between two calls of one server."""
_TOLERANCE_OF_SCORES = 0.5
"""Nats: a prompt is computed otherwise than what is written token by token."""
CHAT = Chat((Turn("user", (Span("Count from one to twenty in words."),)),))
_RAW = Raw((Span("One, two, three, four,"),))
_CHAT_AGAIN = Chat((Turn("user", (Span("Say the words 'no, no, yes' ten times."),)),))
_RAW_AGAIN = Raw((Span("no, no, yes, no, no, yes, no, no, yes,"),))


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """What was found out about one ability.

    Attributes:
        ability: a signal or capability, or a promise that every model makes.
        is_declared: None for a promise.
        works: None where it was not tried.
        why: not, or how far.
        declare: the option that would declare it.
    """

    ability: str
    is_declared: bool | None
    works: bool | None
    why: str = ""
    declare: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What was found out about a model."""

    model: str
    context_tokens: int
    findings: tuple[CheckFinding, ...]

    @property
    def is_right(self) -> bool:
        """Whether all that is declared works."""
        return all(each.works for each in self.findings if each.is_declared)


Probe = Callable[[Model], Awaitable[str]]
"""Gives what is wrong, or nothing."""


async def check(spec: str) -> Report:
    """Try everything on the model that `spec` names.

    Raises:
        InputError: no such model.
        ModelUnavailable: its server is busy or out of reach.
    """
    kind, name, options = parse_spec(spec)

    def load(more: str = "") -> Model:
        given = {**options, **dict(options_in(more))}
        return kind.load(name, trying(given) if kind.boldest else given)

    with readying(kind, f"the model {spec}"):
        model = load()
    declared = model.signals | model.capabilities
    findings = list[CheckFinding]()
    for ability, probe in PROBES.items():
        is_declared = ability in declared
        option = "" if is_declared else kind.boldest.get(ability, "")
        if not is_declared and not option:
            findings.append(CheckFinding(ability, False, None))
            continue
        try:
            tried = load(option) if option else model
        except ParameterError as error:  # it contradicts what is declared
            findings.append(CheckFinding(ability, False, None, str(error)))
            continue
        why = await _wrong(probe, tried, may_raise=is_declared and not findings)
        findings.append(CheckFinding(ability, is_declared, not why, why, option))
    for name, probe in PROMISES.items():
        if probe not in _BY_ALTERNATIVES or "top_logprobs" in declared:
            why = await _wrong(probe, model)
            findings.append(CheckFinding(name, None, not why, why))
    return Report(model.name, model.context_tokens, tuple(findings))


async def _wrong(probe: Probe, model: Model, *, may_raise: bool = False) -> str:
    try:
        with panics_as(ModelFailure):
            return await probe(model)
    except Exception as error:  # whatever a model raises is why it does not work
        if may_raise and isinstance(error, ModelUnavailable):
            raise
        return str(error) or type(error).__name__


def _prompt(model: Model, raw: Raw | Chat = _RAW, chat: Raw | Chat = CHAT) -> Raw | Chat:
    return raw if "raw" in model.capabilities else chat


async def write(
    model: Model,
    want: Want = Want(),
    prompt: Raw | Chat | None = None,
    sampling: Sampling = Sampling(8),
    until: StopCondition | None = None,
) -> tuple[Generation, tuple[Token, ...]]:
    """What is written, and all of its tokens."""
    request = GenerateRequest(prompt or _prompt(model), sampling, want, until, key=("check",))
    (written,) = await model.generate(request)
    return written, (*written.tokens, *written.dropped)


async def _takes(model: Model, prompt: Raw | Chat) -> str:
    written, _ = await write(model, prompt=prompt)
    return "" if written.generated_tokens else "it wrote nothing"


async def _continuation(model: Model) -> str:
    """What it wrote itself is begun with: it should go on as it did."""
    prompt = CHAT if "chat" in model.capabilities else _RAW
    whole, _ = await write(model, prompt=prompt)
    kept = whole.tokens[:_BEGUN]
    begun = "".join(token.text for token in kept)
    rest = whole.text[len(begun) :]
    if not rest.strip():
        return f"nothing can be told from what it wrote: {whole.text!r}"
    given = (tuple(token.id for token in kept),)
    again, _ = await write(model, prompt=replace(prompt, continuation=given))
    if again.text.split()[:1] == rest.split()[:1]:
        return ""
    return f"after {begun!r} it went on with {again.text!r}, where it had written {rest!r} in one go"


async def score(model: Model) -> str:
    """Held against the token that it writes itself."""
    options, told = [" five", " zebra"], list[Token]()
    if "logprob" in model.signals:
        written, _ = await write(model, Want(logprob=True), sampling=Sampling(1))
        told = [token for token in written.tokens if model.tokenize(token.text) == (token.id,)]
    scores = await model.score(_prompt(model), [*options, *(token.text for token in told)])
    usable = all(math.isfinite(each.logprob) and each.logprob <= 0 and each.num_tokens for each in scores)
    if len(scores) != len(options) + len(told) or not usable:
        return f"scores that are none: {scores}"
    for token, score in zip(told, scores[len(options) :], strict=True):
        own = token.logprob or 0.0
        if abs(score.logprob - own) > _TOLERANCE_OF_SCORES:
            return f"{score.logprob:.2f} nats for {token.text!r}, which it writes with {own:.2f}"
    return ""


async def _attend(model: Model) -> str:
    attention = await model.attend("The cat sat by the river.", bos=True)
    sums = attention.weights.sum(axis=-1)
    return "" if np.allclose(sums, 1, atol=1e-3) else "weights that do not sum to 1"


async def _each_token(model: Model, want: Want, wrong: Callable[[Token], str]) -> str:
    _, tokens = await write(model, want)
    return next(filter(None, map(wrong, tokens)), "") if tokens else "it wrote nothing"


def _logprob(token: Token) -> str:
    return "" if token.logprob is not None and token.logprob <= 0 else f"it told {token.logprob}"


def _top_logprobs(token: Token) -> str:
    if not token.top:
        return "tokens without alternatives"
    is_off = token.top[0][1] < (token.logprob or 0) - _TOLERANCE
    return f"the token {token.text!r} is more probable than the most probable" if is_off else ""


def _entropy(token: Token) -> str:
    """Held against what the alternatives allow."""
    if token.entropy is None:
        return "tokens without entropy"
    least, most = entropy_bounds([logprob for _, logprob in token.top], _TOP)
    if least - _TOLERANCE <= token.entropy <= most + _TOLERANCE:
        return ""
    allowed = f"its alternatives allow {least:.2f} to {most:.2f}"
    return f"{token.entropy:.2f} nats at the token {token.text!r}, where {allowed}"


async def _token_probs(model: Model) -> str:
    written, _ = await write(model)
    single = [token.text for token in written.tokens if token.text and len(model.tokenize(token.text)) == 1]
    if not single:
        return f"no text of one token in what it wrote: {written.text!r}"
    again, _ = await write(model, Want(token_probs=(single[0],)))
    values = [value for token in again.tokens for value in token.probs]
    return "" if values and all(0 <= value <= 1 for value in values) else f"it told {values}"


async def _attention(model: Model) -> str:
    _, tokens = await write(model, Want(attention="mean"))
    rows = [token.attention for token in tokens[:-1]]
    usable = rows and all(row is not None and abs(float(row.sum()) - 1) < 1e-3 for row in rows)
    return "" if usable else "rows that do not sum to 1, or none"


async def _repeats(model: Model) -> str:
    texts = [(await write(model, sampling=Sampling(8, 1.0)))[0].text for _ in range(2)]
    return "" if texts[0] == texts[1] else f"{texts[0]!r}, then {texts[1]!r}"


async def _before_temperature(model: Model) -> str:
    want = Want(logprob=True, top_logprobs=1)
    told = [await write(model, want, sampling=Sampling(1, temperature)) for temperature in (0.0, 2.0)]
    first, second = [tokens[0].top[0][1] for _, tokens in told]
    return "" if abs(first - second) <= _TOLERANCE else f"{first:.3f} at temperature 0, {second:.3f} at 2"


async def _most_probable(model: Model) -> str:
    """Where penalties or limits of a server's own are at work, another one is written now and then."""
    prompt = _prompt(model, _RAW_AGAIN, _CHAT_AGAIN)
    _, tokens = await write(model, Want(logprob=True, top_logprobs=_TOP), prompt, Sampling(24))
    for token in tokens:
        own = token.logprob or 0.0
        if token.top and token.top[0][1] - own > _TOLERANCE:
            best, told = token.top[0]
            return f"it wrote {token.text!r} ({own:.2f} nats), where {best!r} has {told:.2f}"
    return ""


async def _counts(model: Model) -> str:
    written, _ = await write(model, sampling=Sampling(1))
    counted = model.count(_prompt(model))
    return "" if counted >= written.prompt_tokens else f"{counted}, where it read {written.prompt_tokens}"


PROBES: dict[str, Probe] = {
    "chat": partial(_takes, prompt=CHAT),
    "raw": partial(_takes, prompt=_RAW),
    "continuation": _continuation,
    "score": score,
    "attend": _attend,
    "logprob": partial(_each_token, want=Want(logprob=True), wrong=_logprob),
    "top_logprobs": partial(_each_token, want=Want(logprob=True, top_logprobs=_TOP), wrong=_top_logprobs),
    "entropy": partial(_each_token, want=Want(entropy=True, top_logprobs=_TOP), wrong=_entropy),
    "token_probs": _token_probs,
    "attention": _attention,
}
PROMISES: dict[str, Probe] = {
    "the same key gives the same text": _repeats,
    "log-probabilities are those before temperature": _before_temperature,
    "at temperature 0 it writes the most probable token": _most_probable,
    "prompts are not longer than it counts": _counts,
}
_BY_ALTERNATIVES = (_before_temperature, _most_probable)
"""Promises that only the most probable tokens show."""
