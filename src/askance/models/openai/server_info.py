"""Identify a server and list its models, as hints on which no other code relies."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from askance.core.errors import ModelFailure, ModelSpecError, ModelUnavailable, PromptTooLong
from askance.models.openai.connection import Connection
from askance.models.openai.events import as_text, get_nested, token_count

T = TypeVar("T")

REFUSALS = (ModelFailure, ModelSpecError, PromptTooLong)
"""The errors for a request that a server refuses or fails to process."""
_INFO_SECONDS = 15.0
"""The time limit of a request that needs no computation by the model."""
_OWNERS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama.cpp",
    "library": "ollama",
    "organization_owner": "lmstudio",
    "organization-owner": "lmstudio",
    "me": "llama-cpp-python",
}
"""Servers by the value of `owned_by` in their lists of models."""
_VERSIONS = {
    "vllm": ("/version", "version"),
    "sglang": ("/get_server_info", "version"),
    "llama.cpp": ("/props", "build_info"),
    "ollama": ("/api/version", "version"),
}
"""The path and the field in which a server reports its version."""
SINGLE_MODEL_SERVERS = {"llama.cpp", "llama-cpp-python"}
"""Servers that serve one model, and use it for every model name."""
_LOADED_MODELS = {
    "ollama": ("/api/ps", "models", "name", "context_length"),
    "lmstudio": ("/api/v0/models", "data", "id", "loaded_context_length"),
}
"""For servers that load models on request and choose the context window themselves: the path of their list of
models, and the names of the fields with the list, the model's name and the window."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The information that a server gives about itself.

    Attributes:
        server: The kind of server, a key of `SERVERS`; empty if it is unknown.
        version: The version of the server; empty if it is unknown.
        models: The names of the models; empty if the server lists none.
        context: The context window in tokens; 0 if it is unknown.
    """

    server: str = ""
    version: str = ""
    models: tuple[str, ...] = ()
    context: int = 0


async def fetch_server_info(model: str, connection: Connection) -> ServerInfo:
    """Identify a server by a few GET requests.

    Raises:
        ModelUnavailable: The server is busy or can't be reached.
    """
    entries = _entries(await try_call(connection.fetch_json("/models", None, _INFO_SECONDS)))
    own = next((entry for entry in entries if entry.get("id") == model), None)
    entry = own or next(iter(entries), {})
    server = _OWNERS.get(as_text(entry.get("owned_by")), "")
    path, field = _VERSIONS.get(server or "ollama", ("", ""))  # Ollama may list models of other owners.
    details = await _fetch_or_none(connection, path) if path else None
    version = connection.errors.redact(as_text(get_nested(details, field)))
    server = server or ("ollama" if version else "")
    contexts = [get_nested(details, "default_generation_settings", "n_ctx")]
    if own or len(entries) == 1:
        contexts += [entry.get("max_model_len"), get_nested(entry, "meta", "n_ctx")]
    contexts.append(await loaded_context(server, model, connection))
    return ServerInfo(
        server,
        version,
        tuple(filter(None, (as_text(entry.get("id")) for entry in entries))),
        next(filter(None, map(_window, contexts)), 0),
    )


async def loaded_context(server: str, model: str, connection: Connection) -> int:
    """Return the context window (tokens) of a loaded model, or 0 if the server does not report it."""
    if server not in _LOADED_MODELS:
        return 0
    path, models, name, length = _LOADED_MODELS[server]
    entries = _entries(await _fetch_or_none(connection, path), models)
    loaded = (entry for entry in entries if entry.get(name) in (model, f"{model}:latest"))
    return _window(next(loaded, {}).get(length))


async def _fetch_or_none(connection: Connection, path: str) -> object:
    """Return the JSON at a path outside the protocol, or None if the request fails."""
    try:
        return await connection.fetch_json(connection.root + path, None, _INFO_SECONDS)
    except Exception:  # The path is optional: any failure means that the server does not have it.
        return None


async def try_call(call: Awaitable[T]) -> T | None:
    """Return the result of a call, or None if the server refuses it or fails to process it."""
    try:
        return await call
    except ModelUnavailable:
        raise
    except REFUSALS:
        return None


def _window(value: object) -> int:
    num_tokens = token_count(value) or 0
    return num_tokens if num_tokens > 1 else 0


def _entries(content: object, name: str = "data") -> list[Mapping[str, Any]]:
    items = get_nested(content, name)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
