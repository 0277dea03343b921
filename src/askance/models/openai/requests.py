"""Build request bodies for a server, count and score prompts, and find parameters that a server refuses."""

import re
from collections.abc import Mapping
from hashlib import blake2b
from itertools import accumulate
from typing import Any

from askance.core.types import Chat, GenerateRequest, Key, Prompt, Raw, Scored, Want, untrusted
from askance.models.openai.connection import Connection
from askance.models.openai.events import InvalidResponse, ServerEvent, get_nested, read_event, token_count
from askance.models.openai.options import ServerOptions
from askance.models.openai.tokenization import neutralize_control, to_utf8

_NUM_SEEDS = 1 << 31
"""The number of seeds, which fit into the 32 bits that llama.cpp takes."""
_TURN_TOKENS = 16
"""An upper bound of the number of tokens that a chat template adds, usually, for a turn or the whole chat."""
_COUNTED_HERE = "askance counts the prompt tokens itself"
_CUT_COUNTED_HERE = "askance counts the prompt tokens of a cut text itself"
FALLBACKS: dict[str, tuple[dict[str, Any], str]] = {
    "continuous_usage_stats": ({"running_usage": False}, _CUT_COUNTED_HERE),
    "stream_options": ({"usage": False, "running_usage": False}, _COUNTED_HERE),
    "include_usage": ({"usage": False, "running_usage": False}, _COUNTED_HERE),
    "seed": ({"seed": False}, "samples are not the same when they are drawn again"),
    "top_k": ({"top_k": False, "neutral": False}, "samples are drawn from all tokens"),
    "chat_template_kwargs": ({"enable_thinking": ""}, "the model thinks as its template says"),
    "reasoning_effort": ({"reasoning_effort": ""}, "the model thinks as much as it does by default"),
    "min_p": ({"neutral": False}, ""),
    "repeat_penalty": ({"neutral": False}, ""),
    "max_tokens": ({"completion_tokens": True}, ""),
    "max_completion_tokens": ({"completion_tokens": False}, ""),
}
"""For each parameter that a request can do without: the options that omit it, and the consequence. A server
that does not know a penalty applies none, so omitting penalties has no consequence."""


def request_body(
    request: GenerateRequest, sample: int, model: str, options: ServerOptions, max_tokens: int
) -> dict[str, Any]:
    """Return the body of a streaming request for one sample, with at most `max_tokens` new tokens.

    Stop strings are not sent, since a server omits them and their tokens from its response. `top_k` is not
    sent to a server that is not declared to support it.
    """
    prompt, sampling, want = request.prompt, request.sampling, request.want
    is_chat = isinstance(prompt, Chat)
    length = "max_completion_tokens" if is_chat and options.completion_tokens else "max_tokens"
    body: dict[str, Any] = {
        "model": model,
        **prompt_fields(prompt, options),
        length: max_tokens,
        "temperature": sampling.temperature,
        "stream": True,
    }
    if is_chat and options.enable_thinking:
        body["chat_template_kwargs"] = {"enable_thinking": options.enable_thinking == "1"}
    if is_chat and options.reasoning_effort:
        body["reasoning_effort"] = options.reasoning_effort
    if options.usage:
        running = {"continuous_usage_stats": True} if options.running_usage else {}
        body["stream_options"] = {"include_usage": True} | running
    if options.neutral:
        body |= {"repeat_penalty": 1.0, "min_p": 0.0, "top_k": 0}
    if sampling.temperature > 0:
        body |= {"seed": sample_seed(request.key, sample)} if options.seed else {}
        body["top_p"] = sampling.top_p
        body |= {"top_k": sampling.top_k} if sampling.top_k and options.top_k else {}
    num_top = num_alternatives(want, options)
    if want.logprob or num_top:
        # Some servers read 0 alternatives as a request without log-probabilities.
        alternatives = {"top_logprobs": max(1, num_top)} if options.top_logprobs else {}
        body |= {"logprobs": True, **alternatives} if is_chat else {"logprobs": max(1, num_top)}
    return body


def num_alternatives(want: Want, options: ServerOptions) -> int:
    """Return how many alternatives to request: as many as possible if the entropy is wanted."""
    return options.top_logprobs if want.entropy else min(want.top_logprobs, options.top_logprobs)


def prompt_fields(prompt: Prompt, options: ServerOptions) -> dict[str, Any]:
    """Return the fields of a body that hold the prompt and make the server continue it."""
    if not isinstance(prompt, Chat):
        return {"prompt": _full_text(prompt)}
    messages = [{"role": turn.role, "content": neutralize_control(turn.parts)} for turn in prompt.turns]
    if not prompt.continuation:
        return {"messages": messages}
    last = {"role": "assistant", "content": neutralize_control(prompt.continuation)}
    flags = {"add_generation_prompt": False, "continue_final_message": True}
    return {"messages": [*messages, last], **(flags if options.continuation == "final_message" else {})}


def sample_seed(key: Key, sample: int) -> int:
    """Return the seed of a sample, which depends only on the call's key and the sample's number."""
    digest = blake2b(repr((key, sample)).encode(), digest_size=8).digest()
    return int.from_bytes(digest) % _NUM_SEEDS


def max_prompt_tokens(prompt: Prompt) -> int:
    """Return an upper bound of the number of tokens of a prompt.

    It is the number of bytes of the text, plus a constant for each turn of a chat.
    """
    if not isinstance(prompt, Chat):
        return 1 + len(to_utf8(_full_text(prompt)))
    texts = list(map(neutralize_control, (*(turn.parts for turn in prompt.turns), prompt.continuation)))
    return sum(len(to_utf8(text)) for text in texts) + _TURN_TOKENS * len(texts)


async def count_tokens(model: str, options: ServerOptions, connection: Connection, prompt: Prompt) -> int:
    """Return the number of tokens of a prompt in its chat template, or an upper bound of this number.

    The result is an upper bound if the server can't count the tokens. This function raises the errors of
    `Connection.fetch_json`.
    """
    fields, is_chat = prompt_fields(prompt, options), isinstance(prompt, Chat)

    async def fetch(path: str, body: Mapping[str, Any], name: str) -> Any:
        response = await connection.fetch_json(connection.root + path, body, options.timeout)
        return get_nested(response, name)

    if options.tokenize == "vllm":
        tokens = await fetch("/tokenize", {"model": model, **fields}, "count")
    elif options.tokenize == "llama.cpp":
        text = await fetch("/apply-template", fields, "prompt") if is_chat else fields["prompt"]
        if not isinstance(text, str):
            raise connection.errors.invalid_response("no prompt")
        # A chat template writes its own control tokens, including BOS.
        flags = {"add_special": not is_chat, "parse_special": is_chat}
        tokens = await fetch("/tokenize", {"content": text, **flags}, "tokens")
    elif options.tokenize == "llama-cpp-python" and not is_chat:
        # This server does not show its chat template.
        tokens = await fetch("/extras/tokenize/count", {"input": fields["prompt"]}, "count")
    else:
        return max_prompt_tokens(prompt)
    num_tokens = len(tokens) if isinstance(tokens, list) else token_count(tokens)
    if num_tokens is None:
        raise connection.errors.invalid_response("no count of tokens")
    return num_tokens


def refused_parameter(body: Mapping[str, Any], message: str) -> str | None:
    """Return the parameter that a server's refusal names, or None if the request needs that parameter."""
    sent = {*body, *body.get("stream_options", {})}
    named = (name for name in FALLBACKS if name in sent and re.search(rf"(?<!\w){name}(?!\w)", message))
    return next(named, None)


async def score_option(
    model: str, seconds: float, connection: Connection, prompt: Raw, option: str
) -> Scored:
    """Return the log-probability of an option, for which the server echoes the prompt with the option.

    The request generates one token, since some servers can't generate zero tokens. The entry of that token
    shows whether the log-probabilities are aligned with their tokens.
    """
    flags = {"echo": True, "logprobs": 1, "max_tokens": 1, "min_tokens": 1, "temperature": 0}
    body = {"model": model, "prompt": _full_text(prompt, option), **flags}
    response = await connection.fetch_json("/completions", body, seconds)
    try:
        return _read_score(read_event(response), prompt, option)
    except InvalidResponse as error:
        raise connection.errors.invalid_response(str(error)) from error


def _read_score(event: ServerEvent, prompt: Raw, option: str) -> Scored:
    """Return the log-probability of the option in the echoed prompt.

    Raises:
        InvalidResponse: The prompt is not echoed with log-probabilities, the log-probabilities belong to
            other tokens, or one token spans prompt and option.
    """
    if event.entries is None:
        raise InvalidResponse("no log-probabilities of the prompt")
    before, text = _full_text(prompt), _full_text(prompt, option)
    echo = "".join(entry.text for entry in event.entries)
    # The server may report BOS as a token before the text.
    start = echo.find(text)
    if start < 0:
        raise InvalidResponse(f"not the prompt that it was to repeat, but {echo[:80]!r}")
    generated = event.text.removeprefix(text) if event.text.startswith(text) else ""
    if generated and len(echo) == start + len(text):
        # llama-cpp-python does this for models without BOS: each token has the value of the next one.
        raise InvalidResponse(f"log-probabilities moved by one token: none for {generated!r}, which it wrote")
    ends = [0, *accumulate(len(entry.text) for entry in event.entries)]
    option_start, option_end = start + len(before), start + len(text)
    if option_start not in ends or option_end not in ends:
        raise InvalidResponse("a token that belongs to the prompt and to the option that follows it")
    num_before = len(ends) - 1 - ends[::-1].index(option_start)
    entries = event.entries[num_before : ends.index(option_end)]
    return Scored(sum(entry.logprob for entry in entries), len(entries))


def _full_text(prompt: Raw, option: str = "") -> str:
    """Return the text of a prompt, followed by an option."""
    return neutralize_control((*prompt.parts, *prompt.continuation, untrusted(option)))
