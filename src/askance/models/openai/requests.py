"""What is sent to a server for a prompt, and what of it can be left out where a server refuses it."""

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from askance.core.errors import MissingAbility
from askance.core.types import Chat, GenerateRequest, Key, Prompt, Want
from askance.models.openai.options import Options
from askance.models.openai.texts import plain, utf8

_SEEDS = 1 << 31
"""llama.cpp takes 32 bits."""
_TOKENS_OF_A_TURN = 16
"""What a chat template puts around a turn, and around all of them, as a rule."""


def path_of(prompt: Prompt) -> str:
    """The endpoint that takes a prompt."""
    return "/chat/completions" if isinstance(prompt, Chat) else "/completions"


def body_of(request: GenerateRequest, sample: int, model: str, options: Options) -> dict[str, Any]:
    """The body of one request for one text, streamed.

    Stop strings are not sent: a server leaves them out of what it tells, with all that was written of them.
    Nor is `top_k`, where the server is not declared to understand it.
    """
    prompt, sampling, want = request.prompt, request.sampling, request.want
    is_chat = isinstance(prompt, Chat)
    length = "max_completion_tokens" if is_chat and options.completion_tokens else "max_tokens"
    body: dict[str, Any] = {
        "model": model,
        **said(prompt, options),
        length: sampling.max_tokens,
        "temperature": sampling.temperature,
        "stream": True,
    }
    if options.usage:
        running = {"continuous_usage_stats": True} if options.running_usage else {}
        body["stream_options"] = {"include_usage": True} | running
    if options.neutral:
        body |= {"repeat_penalty": 1.0, "min_p": 0.0, "top_k": 0}
    if sampling.temperature > 0:
        body |= {"seed": seed_of(request.key, sample)} if options.seed else {}
        body["top_p"] = sampling.top_p
        body |= {"top_k": sampling.top_k} if sampling.top_k and options.top_k else {}
    num_top = num_alternatives(want, options)
    if want.logprob or num_top:
        # Some servers take 0 alternatives for no log-probabilities at all.
        told = {"top_logprobs": max(1, num_top)} if options.top_logprobs else {}
        body |= {"logprobs": True, **told} if is_chat else {"logprobs": max(1, num_top)}
    return body


def num_alternatives(want: Want, options: Options) -> int:
    """How many alternatives to ask for: all there are where the entropy is wanted."""
    return options.top_logprobs if want.entropy else min(want.top_logprobs, options.top_logprobs)


def said(prompt: Prompt, options: Options) -> dict[str, Any]:
    """The prompt itself, with what makes the server go on from it.

    Raises:
        MissingAbility: chat that can't be gone on from.
    """
    if not isinstance(prompt, Chat):
        return {"prompt": plain((*prompt.parts, *prompt.continuation))}
    messages = [{"role": turn.role, "content": plain(turn.parts)} for turn in prompt.turns]
    if not prompt.continuation:
        return {"messages": messages}
    if options.continuation == "0":
        raise MissingAbility(
            "the server is not declared to go on from the beginning of an answer: add continuation=1 to the "
            "model's options if it does (`askance models --check SPEC` tries it)."
        )
    last = {"role": "assistant", "content": plain(prompt.continuation)}
    flags = {"add_generation_prompt": False, "continue_final_message": True}
    return {"messages": [*messages, last], **(flags if options.continuation == "final_message" else {})}


def seed_of(key: Key, sample: int) -> int:
    """A function of the call's key and the number of the sample alone."""
    digest = blake2b(repr((key, sample)).encode(), digest_size=8).digest()
    return int.from_bytes(digest) % _SEEDS


def most_tokens(prompt: Prompt) -> int:
    """A bound from above of a prompt's tokens: one for each byte of its text, and some around the turns."""
    if not isinstance(prompt, Chat):
        return 1 + len(utf8(plain((*prompt.parts, *prompt.continuation))))
    texts = [plain(turn.parts) for turn in prompt.turns] + [plain(prompt.continuation)]
    return sum(len(utf8(text)) for text in texts) + _TOKENS_OF_A_TURN * len(texts)


_WITHOUT: dict[str, dict[str, Any]] = {
    "continuous_usage_stats": {"running_usage": False},
    "stream_options": {"usage": False, "running_usage": False},
    "include_usage": {"usage": False, "running_usage": False},
    "seed": {"seed": False},
    "top_k": {"top_k": False, "neutral": False},
    "min_p": {"neutral": False},
    "repeat_penalty": {"neutral": False},
    "max_tokens": {"completion_tokens": True},
    "max_completion_tokens": {"completion_tokens": False},
}
"""Options with which a parameter is not sent, by its name. A server that does not know a penalty has none."""
_LOSSES = {
    "continuous_usage_stats": "how long the prompt of a cut text was is counted here",
    "stream_options": "how long prompts were is counted here",
    "include_usage": "how long prompts were is counted here",
    "seed": "samples are not the same when they are drawn again",
    "top_k": "samples are drawn from all tokens",
}
"""What is lost with a parameter, where anything is."""


def refused_parameter(body: Mapping[str, Any], told: str) -> str | None:
    """The parameter of a request that a server's refusal names, if it can be left out.

    Args:
        told: what the server says.
    """
    sent = _sent(body) & _WITHOUT.keys()
    named = [name for name in _WITHOUT if name in sent and re.search(rf"(?<!\w){name}(?!\w)", told)]
    return named[0] if named else None


def is_sent(parameter: str, body: Mapping[str, Any]) -> bool:
    """Whether a request has a parameter."""
    return parameter in _sent(body)


def without(options: Options, parameter: str) -> Options:
    """The options with which a parameter is not sent."""
    return replace(options, **_WITHOUT[parameter])


def loss(parameter: str) -> str:
    """What is lost without a parameter, in words; empty where nothing is."""
    return _LOSSES.get(parameter, "")


def _sent(body: Mapping[str, Any]) -> set[str]:
    return {*body, *body.get("stream_options", {})}
