"""How many tokens a prompt has: by the server's own tokenizer where it offers one, else at most how many."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from askance.core.errors import ModelFailure
from askance.core.types import Chat, Prompt
from askance.models.openai.connection import Connection, wait_for
from askance.models.openai.events import dig, num_tokens
from askance.models.openai.options import Options
from askance.models.openai.requests import most_tokens, said

_KEPT = 1024
"""Prompts whose count is remembered."""


class Counter:
    """Counts the tokens of prompts."""

    def __init__(self, model: str, options: Options, connection: Connection) -> None:
        self._model, self._options, self._connection = model, options, connection
        self._counted = lru_cache(_KEPT)(self._ask)

    def count(self, prompt: Prompt) -> int:
        """Tokens of a prompt, its chat template included; at most how many where no server counts.

        It blocks while a server counts. Raises what `Connection.answer` does.
        """
        by = self._options.tokenize
        # Nothing tells how llama-cpp-python lays out a chat.
        is_bound = by == "none" or (by == "llama-cpp-python" and isinstance(prompt, Chat))
        return most_tokens(prompt) if is_bound else self._counted(prompt)

    def _ask(self, prompt: Prompt) -> int:
        given, is_chat = said(prompt, self._options), isinstance(prompt, Chat)
        if self._options.tokenize == "vllm":
            told = self._answer("/tokenize", {"model": self._model, **given}, "count")
        elif self._options.tokenize == "llama.cpp":
            text = self._answer("/apply-template", given, "prompt") if is_chat else given["prompt"]
            # A template writes its own control tokens, BOS among them.
            told = self._answer(
                "/tokenize", {"content": text, "add_special": not is_chat, "parse_special": is_chat}, "tokens"
            )
        else:
            told = self._answer("/extras/tokenize/count", {"input": given["prompt"]}, "count")
        counted = len(told) if isinstance(told, list) else num_tokens(told)
        if counted is None:
            raise self._broken("no count of tokens")
        return counted

    def _answer(self, path: str, body: Mapping[str, Any], name: str) -> Any:
        url = self._connection.url.removesuffix("/v1") + path
        told = dig(wait_for(self._connection.answer(url, body, self._options.timeout)), name)
        if name == "prompt" and not isinstance(told, str):
            raise self._broken("no prompt")
        return told

    def _broken(self, what: str) -> ModelFailure:
        return self._connection.failures.of_promise(what, f"tokenize={self._options.tokenize}")
