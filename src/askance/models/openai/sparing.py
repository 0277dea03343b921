"""Parameters that a server refuses, and without which what is asked for stays the same."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from askance.models.openai.options import Options

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
