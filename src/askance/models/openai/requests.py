"""What is sent to a server for a prompt, how long it is, and what is left out where a server refuses it."""

import re
from collections.abc import Mapping
from hashlib import blake2b
from itertools import accumulate
from typing import Any

from askance.core.types import Chat, GenerateRequest, Key, Prompt, Raw, Scored, Want, untrusted
from askance.models.openai.connection import Connection, wait_for
from askance.models.openai.events import ServerEvent, Unusable, dig, num_tokens, read_event
from askance.models.openai.options import ServerOptions
from askance.models.openai.tokenization import plain, utf8

_SEEDS = 1 << 31
"""llama.cpp takes 32 bits."""
_TOKENS_OF_A_TURN = 16
"""What a chat template puts around a turn, and around all of them, as a rule."""
_COUNTED_HERE = "how long prompts were is counted here"
_CUT_COUNTED_HERE = "how long the prompt of a cut text was is counted here"
LEFT_OUT: dict[str, tuple[dict[str, Any], str]] = {
    "continuous_usage_stats": ({"running_usage": False}, _CUT_COUNTED_HERE),
    "stream_options": ({"usage": False, "running_usage": False}, _COUNTED_HERE),
    "include_usage": ({"usage": False, "running_usage": False}, _COUNTED_HERE),
    "seed": ({"seed": False}, "samples are not the same when they are drawn again"),
    "top_k": ({"top_k": False, "neutral": False}, "samples are drawn from all tokens"),
    "min_p": ({"neutral": False}, ""),
    "repeat_penalty": ({"neutral": False}, ""),
    "max_tokens": ({"completion_tokens": True}, ""),
    "max_completion_tokens": ({"completion_tokens": False}, ""),
}
"""Options with which a parameter is not sent, and what is lost then. Who does not know a penalty has none."""


def path_of(prompt: Prompt) -> str:
    """The endpoint that takes a prompt."""
    return "/chat/completions" if isinstance(prompt, Chat) else "/completions"


def body_of(request: GenerateRequest, sample: int, model: str, options: ServerOptions) -> dict[str, Any]:
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


def num_alternatives(want: Want, options: ServerOptions) -> int:
    """How many alternatives to ask for: all there are where the entropy is wanted."""
    return options.top_logprobs if want.entropy else min(want.top_logprobs, options.top_logprobs)


def said(prompt: Prompt, options: ServerOptions) -> dict[str, Any]:
    """The prompt itself, with what makes the server go on from it."""
    if not isinstance(prompt, Chat):
        return {"prompt": _whole(prompt)}
    messages = [{"role": turn.role, "content": plain(turn.parts)} for turn in prompt.turns]
    if not prompt.continuation:
        return {"messages": messages}
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
        return 1 + len(utf8(_whole(prompt)))
    texts = [plain(turn.parts) for turn in prompt.turns] + [plain(prompt.continuation)]
    return sum(len(utf8(text)) for text in texts) + _TOKENS_OF_A_TURN * len(texts)


def count(model: str, options: ServerOptions, connection: Connection, prompt: Prompt) -> int:
    """Tokens of a prompt, its chat template included; at most how many where no server counts.

    It blocks while a server counts. Raises what `Connection.answer` does.
    """
    given, is_chat = said(prompt, options), isinstance(prompt, Chat)

    def told(path: str, body: Mapping[str, Any], name: str) -> Any:
        return dig(wait_for(connection.answer(connection.root + path, body, options.timeout)), name)

    if options.tokenize == "vllm":
        found = told("/tokenize", {"model": model, **given}, "count")
    elif options.tokenize == "llama.cpp":
        text = told("/apply-template", given, "prompt") if is_chat else given["prompt"]
        if not isinstance(text, str):
            raise connection.failures.of_answer("no prompt")
        # A template writes its own control tokens, BOS among them.
        flags = {"add_special": not is_chat, "parse_special": is_chat}
        found = told("/tokenize", {"content": text, **flags}, "tokens")
    elif options.tokenize == "llama-cpp-python" and not is_chat:  # nothing tells how it lays out a chat
        found = told("/extras/tokenize/count", {"input": given["prompt"]}, "count")
    else:
        return most_tokens(prompt)
    counted = len(found) if isinstance(found, list) else num_tokens(found)
    if counted is None:
        raise connection.failures.of_answer("no count of tokens")
    return counted


def refused_parameter(body: Mapping[str, Any], told: str) -> str | None:
    """The parameter of a request that a server's refusal names, if it can be left out.

    Args:
        told: what the server says.
    """
    sent = {*body, *body.get("stream_options", {})}
    named = (name for name in LEFT_OUT if name in sent and re.search(rf"(?<!\w){name}(?!\w)", told))
    return next(named, None)


async def score(model: str, seconds: float, connection: Connection, prompt: Raw, option: str) -> Scored:
    """The log-probability of an option, in a prompt and option that the server repeats with theirs.

    One token is written behind, since some servers want to write; and what is told of it shows whether
    log-probabilities stand beside the tokens that they belong to.
    """
    asked = {"echo": True, "logprobs": 1, "max_tokens": 1, "min_tokens": 1, "temperature": 0}
    body = {"model": model, "prompt": _whole(prompt, option), **asked}
    answer = await connection.answer("/completions", body, seconds)
    try:
        return _read_score(read_event(answer), prompt, option)
    except Unusable as error:
        raise connection.failures.of_answer(str(error)) from error


def _read_score(event: ServerEvent, prompt: Raw, option: str) -> Scored:
    """The log-probability of the option in what the server repeated.

    Raises:
        Unusable: it did not repeat the prompt with log-probabilities, these belong to other tokens, or one
            token belongs to both.
    """
    if event.entries is None:
        raise Unusable("no log-probabilities of the prompt")
    before, text = _whole(prompt), _whole(prompt, option)
    told = "".join(entry.text for entry in event.entries)
    # A beginning of the text that is a control token is told as one.
    at = told.find(text)
    if at < 0:
        raise Unusable(f"not the prompt that it was to repeat, but {told[:80]!r}")
    behind = event.text.removeprefix(text) if event.text.startswith(text) else ""
    if behind and len(told) == at + len(text):
        # llama-cpp-python does so with models without BOS: each token has what belongs to the next one.
        raise Unusable(f"log-probabilities that are moved by one token: none for {behind!r}, which it wrote")
    ends = [0, *accumulate(len(entry.text) for entry in event.entries)]
    begin, end = at + len(before), at + len(text)
    if begin not in ends or end not in ends:
        raise Unusable("a token that belongs to the prompt and to the option that follows it")
    num_before = len(ends) - 1 - ends[::-1].index(begin)
    within = event.entries[num_before : ends.index(end)]
    return Scored(sum(entry.logprob for entry in within), len(within))


def _whole(prompt: Raw, option: str = "") -> str:
    """The text of a prompt with an option behind it."""
    return plain((*prompt.parts, *prompt.continuation, untrusted(option)))
