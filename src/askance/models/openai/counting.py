"""How many tokens a prompt has: by the server's own tokenizer where it offers one, else at most how many."""

from collections.abc import Mapping
from typing import Any

from askance.core.types import Chat, Prompt
from askance.models.openai.connection import Connection, wait_for
from askance.models.openai.events import dig, num_tokens
from askance.models.openai.options import Options
from askance.models.openai.requests import most_tokens, said


def count(model: str, options: Options, connection: Connection, prompt: Prompt) -> int:
    """Tokens of a prompt, its chat template included; at most how many where no server counts.

    It blocks while a server counts. Raises what `Connection.answer` does.
    """
    given, is_chat = said(prompt, options), isinstance(prompt, Chat)

    def told(path: str, body: Mapping[str, Any], name: str) -> Any:
        url = connection.url.removesuffix("/v1") + path
        return dig(wait_for(connection.answer(url, body, options.timeout)), name)

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
