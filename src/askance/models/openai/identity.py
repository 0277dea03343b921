"""Which server it is, and which models it has, as far as it tells: hints, on which nothing else relies."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from askance.core.errors import ModelFailure, ModelSpecError, ModelUnavailable
from askance.models.openai.connection import Connection
from askance.models.openai.events import num_tokens
from askance.models.openai.failures import Failures
from askance.models.openai.guarding import Guard

MOST_BYTES = 4 << 20
"""The size of one answer: a list of some hundred models with their descriptions has half a MiB."""
_MOST_MODELS = 10_000
_MOST_NAME = 300
_OWNERS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama.cpp",
    "library": "ollama",
    "organization_owner": "lmstudio",
    "organization-owner": "lmstudio",
    "me": "llama-cpp-python",
    "openai": "litellm",
}
"""Servers by what their lists of models give as `owned_by`. LiteLLM gives what OpenAI's own does."""
NAMES = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llama.cpp": "llama.cpp",
    "llama-cpp-python": "llama-cpp-python",
    "ollama": "Ollama",
    "lmstudio": "LM Studio",
    "litellm": "LiteLLM",
}
ANY_MODEL = {"llama.cpp", "llama-cpp-python"}
"""Servers that have one model, and answer with it whatever name is given."""
LOADING = {
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

    @property
    def title(self) -> str:
        """Name and version, as screens show them."""
        return f"{NAMES.get(self.server, self.server)} {self.version}".strip() or "of no kind that is known"


class Looker:
    """Reads what a server tells without being sent anything.

    Args:
        url: such as ``http://host/v1``.
        timeout: most seconds of a request.
    """

    def __init__(self, model: str, url: str, key: str, failures: Failures, timeout: float) -> None:
        self._model, self._url, self._failures = model, url, failures
        guard = Guard(url, failures, "GET", MOST_BYTES)
        self._connection = Connection(url, key, failures, timeout=timeout, guard=guard)

    async def identity(self) -> Identity:
        """Who it is, by a few requests.

        Raises:
            ModelUnavailable: it is busy or out of reach.
            ModelSpecError: it gives a web page, leads elsewhere, or speaks the protocol below /v1.
        """
        try:
            told = await self._connection.look("/models")
        except ModelUnavailable:
            raise
        except ModelFailure:
            told = None
        except ModelSpecError as error:
            if not error.status:
                raise
            told = None  # a key may be allowed to use models, and not to list them
        entries = _entries(told)
        if not entries and not self._url.endswith("/v1") and _entries(await self._at("/v1/models")):
            raise self._failures.of_path(self._model, f"{self._url}/v1")
        own = next((each for each in entries if each.get("id") == self._model), None)
        entry = own or next(iter(entries), {})
        owner = entry.get("owned_by")
        meta = entry.get("meta")
        context = entry.get("max_model_len") or (meta.get("n_ctx") if isinstance(meta, Mapping) else None)
        found = Identity(
            server=_OWNERS.get(owner, "") if isinstance(owner, str) else "",
            models=tuple(filter(None, (_text(each.get("id")) for each in entries))),
            context=(num_tokens(context) or 0) if own or len(entries) == 1 else 0,
        )
        found = await self._confirmed(found)
        return replace(found, version=self._failures.said(found.version))

    async def loaded_context(self, server: str) -> int:
        """The window that one of `LOADING` has loaded the model with; 0 where it has not, or does not say."""
        path, models, name, length = LOADING[server]
        for each in _entries(await self._at(path), models):
            if each.get(name) in (self._model, f"{self._model}:latest"):
                return num_tokens(each.get(length)) or 0
        return 0

    async def _confirmed(self, found: Identity) -> Identity:
        if found.server == "litellm":
            is_it = await self._at("/health/liveliness") == "I'm alive!"
            return found if is_it else replace(found, server="")
        if found.server == "vllm":
            return replace(found, version=_version(await self._at("/version")))
        if found.server == "sglang":
            return replace(found, version=_version(await self._at("/get_server_info")))
        if found.server == "llama.cpp":
            return _with_props(found, await self._at("/props"))
        if found.server == "lmstudio":
            return replace(found, context=await self.loaded_context("lmstudio"))
        if found.server == "llama-cpp-python":
            return found
        version = _version(await self._at("/api/version"))
        if not version:
            return found
        return replace(found, server="ollama", version=version, context=await self.loaded_context("ollama"))

    async def _at(self, path: str) -> object:
        """What stands at a path beside the protocol's own; None where nothing that can be read does."""
        try:
            return await self._connection.look(self._url.removesuffix("/v1") + path)
        except Exception:  # whatever is there, the server need not have it
            return None


def _entries(told: object, name: str = "data") -> list[Mapping[str, Any]]:
    listed = told.get(name) if isinstance(told, Mapping) else None
    first = listed[:_MOST_MODELS] if isinstance(listed, list) else []
    return [each for each in first if isinstance(each, Mapping)]


def _text(value: object) -> str:
    return value[:_MOST_NAME] if isinstance(value, str) else ""


def _version(told: object) -> str:
    return _text(told.get("version")) if isinstance(told, Mapping) else ""


def _with_props(found: Identity, told: object) -> Identity:
    if not isinstance(told, Mapping):
        return found
    settings = told.get("default_generation_settings")
    context = settings.get("n_ctx") if isinstance(settings, Mapping) else None
    version = _text(told.get("build_info"))
    return replace(found, version=version, context=num_tokens(context) or found.context)
