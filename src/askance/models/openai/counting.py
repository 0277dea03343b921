"""How many tokens a prompt has: by the server's own tokenizer where it offers one, else at most how many."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from askance.core.errors import PromptTooLong
from askance.core.types import Chat, Prompt
from askance.models.openai.connection import Connection
from askance.models.openai.events import num_tokens
from askance.models.openai.failures import Failures
from askance.models.openai.options import Options
from askance.models.openai.requests import most_tokens, said

_KEPT = 1024
"""Prompts whose count is remembered."""


class Counter:
    """Counts the tokens of prompts."""

    def __init__(
        self, model: str, url: str, options: Options, connection: Connection, failures: Failures
    ) -> None:
        self._model, self._options = model, options
        self._connection, self._failures = connection, failures
        self._root = url.removesuffix("/v1")
        self._ways = {
            "vllm": self._by_vllm,
            "llama.cpp": self._by_llama_cpp,
            "llama-cpp-python": self._by_llama_cpp_python,
        }
        self._counted = lru_cache(_KEPT)(self._ask)

    @property
    def is_exact(self) -> bool:
        """Whether every prompt is counted by a server; llama-cpp-python's counts no chats."""
        return self._options.tokenize in ("vllm", "llama.cpp")

    @property
    def guards_window(self) -> bool:
        """Whether it is to be asked before a text is: llama-cpp-python's server writes less than it is asked
        for, or cuts the connection, and counts texts, but no chats.
        """
        return self._options.tokenize == "llama-cpp-python"

    def check_window(self, name: str, prompt: Prompt, max_tokens: int) -> None:
        """Whether a text fits into the window with what is to be written; it blocks where a server counts.

        Raises:
            PromptTooLong: it does not.
        """
        room = self._options.context - max_tokens
        if isinstance(prompt, Chat) or most_tokens(prompt) <= room:
            return
        counted = self.count(prompt)
        if counted > room:
            raise PromptTooLong(
                name, prompt_tokens=counted, max_tokens=max_tokens, context_tokens=self._options.context
            )

    def count(self, prompt: Prompt) -> int:
        """Tokens of a prompt, its chat template included; at most how many where no server counts.

        Raises what `Connection.answer_now` does.
        """
        return most_tokens(prompt) if self._options.tokenize == "none" else self._counted(prompt)

    def _ask(self, prompt: Prompt) -> int:
        return self._ways[self._options.tokenize](prompt)

    def _by_vllm(self, prompt: Prompt) -> int:
        told = self._answer("/tokenize", {"model": self._model, **said(prompt, self._options)})
        return self._number(told, "count")

    def _by_llama_cpp(self, prompt: Prompt) -> int:
        text = said(prompt, self._options).get("prompt")
        is_chat = isinstance(prompt, Chat)
        if is_chat:
            told = self._answer("/apply-template", said(prompt, self._options))
            text = told.get("prompt")
            if not isinstance(text, str):
                raise self._failures.of_promise("no prompt", "tokenize=llama.cpp")
        # A template writes its own control tokens, BOS among them.
        told = self._answer(
            "/tokenize", {"content": text, "add_special": not is_chat, "parse_special": is_chat}
        )
        return self._number(told, "tokens")

    def _by_llama_cpp_python(self, prompt: Prompt) -> int:
        if isinstance(prompt, Chat):  # nothing tells how its template lays out a chat
            return most_tokens(prompt)
        told = self._answer("/extras/tokenize/count", {"input": said(prompt, self._options)["prompt"]})
        return self._number(told, "count")

    def _answer(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        told = self._connection.answer_now(f"{self._root}{path}", body)
        if not isinstance(told, Mapping):
            raise self._failures.of_answer(f"no count of tokens at {path}")
        return told

    def _number(self, told: Mapping[str, Any], name: str) -> int:
        found = told.get(name)
        counted = len(found) if isinstance(found, list) else num_tokens(found)
        if counted is None:
            raise self._failures.of_promise("no count of tokens", f"tokenize={self._options.tokenize}")
        return counted
