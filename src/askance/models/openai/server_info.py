"""Which server it is, and which models it has, as far as it tells: hints, on which nothing else relies."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from askance.core.errors import ModelFailure, ModelSpecError, ModelUnavailable, PromptTooLong
from askance.models.openai.connection import Connection
from askance.models.openai.events import dig, num_tokens

T = TypeVar("T")

REFUSALS = (ModelFailure, ModelSpecError, PromptTooLong)
"""Of a request that a server does not take, or breaks at."""
_LOOK_SECONDS = 15.0
"""Most of a request that nothing is computed for."""
_OWNERS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama.cpp",
    "library": "ollama",
    "organization_owner": "lmstudio",
    "organization-owner": "lmstudio",
    "me": "llama-cpp-python",
}
"""Servers by what their lists of models give as `owned_by`."""
_VERSIONS = {
    "vllm": ("/version", "version"),
    "sglang": ("/get_server_info", "version"),
    "llama.cpp": ("/props", "build_info"),
    "ollama": ("/api/version", "version"),
}
"""Where a server tells its version."""
ANY_MODEL = {"llama.cpp", "llama-cpp-python"}
"""Servers that have one model, and answer with it whatever name is given."""
_LOADING = {
    "ollama": ("/api/ps", "models", "name", "context_length"),
    "lmstudio": ("/api/v0/models", "data", "id", "loaded_context_length"),
}
"""Servers that load a model when it is asked, with a window of their own: where they list models, and how."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a server tells of itself.

    Attributes:
        server: a key of `SERVERS`; empty for one that is not known.
        models: their names; none where it lists none.
        context: tokens of the model's window; 0 where it does not say.
    """

    server: str = ""
    version: str = ""
    models: tuple[str, ...] = ()
    context: int = 0


async def identify(model: str, connection: Connection) -> Identity:
    """Who a server is, by a few requests that send nothing.

    Raises:
        ModelUnavailable: it is busy or out of reach.
    """
    entries = _entries(await if_taken(connection.answer("/models", None, _LOOK_SECONDS)))
    own = next((each for each in entries if each.get("id") == model), None)
    entry = own or next(iter(entries), {})
    server = _OWNERS.get(_text(entry.get("owned_by")), "")
    path, field = _VERSIONS.get(server or "ollama", ("", ""))  # Ollama may list models of other owners
    told = await _look(connection, path) if path else None
    version = connection.failures.said(_text(dig(told, field)))
    server = server or ("ollama" if version else "")
    contexts = [dig(told, "default_generation_settings", "n_ctx")]
    if own or len(entries) == 1:
        contexts += [entry.get("max_model_len"), dig(entry, "meta", "n_ctx")]
    contexts.append(await loaded_context(server, model, connection))
    return Identity(
        server,
        version,
        tuple(filter(None, (_text(each.get("id")) for each in entries))),
        next(filter(None, map(_window, contexts)), 0),
    )


async def loaded_context(server: str, model: str, connection: Connection) -> int:
    """The window with which a server of `_LOADING` has loaded a model; 0 where it does not say."""
    if server not in _LOADING:
        return 0
    path, models, name, length = _LOADING[server]
    listed = _entries(await _look(connection, path), models)
    loaded = (each for each in listed if each.get(name) in (model, f"{model}:latest"))
    return _window(next(loaded, {}).get(length))


async def _look(connection: Connection, path: str) -> object:
    """What stands at a path beside the protocol's own; None where nothing that can be read does."""
    try:
        return await connection.answer(connection.root + path, None, _LOOK_SECONDS)
    except Exception:  # whatever is there, the server need not have it
        return None


async def if_taken(call: Awaitable[T]) -> T | None:
    """What a call gives; None where the server refuses it, or breaks at it."""
    try:
        return await call
    except ModelUnavailable:
        raise
    except REFUSALS:
        return None


def _window(told: object) -> int:
    tokens = num_tokens(told) or 0
    return tokens if tokens > 1 else 0


def _entries(told: object, name: str = "data") -> list[Mapping[str, Any]]:
    listed = dig(told, name)
    return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
