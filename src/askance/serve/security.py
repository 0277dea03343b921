"""The protection of the server: keys, Host and Origin checks, limits of bodies, and headers of responses.

`Guard` is an ASGI middleware around the whole application, so no route can forget it.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from askance.core.errors import InputError
from askance.core.filters import Filter
from askance.retrieval.filters import parse_filter
from askance.serve.errors import ApiError
from askance.serve.limits import Limits
from askance.serve.metrics import Metrics

OWNER = "askance_owner"
"""The key of the request's scope under which the guard stores the owner (see `Keys.owner_of`)."""
MIN_KEY_CHARACTERS = 16
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
"""The HTTP methods that are counted by name, so that invented ones do not fill the memory."""
_OPEN_PATHS = re.compile(r"/|/healthz|/readyz|/viewer/.*", re.DOTALL)
"""The paths that need no key."""
_TAKES_JSON = re.compile(r"/v1/(?:chat/completions|search|documents)")
"""The paths of requests with a body."""
_PASSAGES, _DOCUMENTS = "/v1/passages/", "/v1/documents"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Keys:
    """The API keys of the server. Only their hashes are kept.

    Args:
        keys: The keys, each with its filter or None; none if the server needs no key. A key with a filter
            only finds, lists and deletes the documents that pass.

    Attributes:
        filters: The filters of the owners that have one.

    Raises:
        InputError: A key is too short to be a secret.
    """

    def __init__(self, keys: Mapping[str, Filter | None] = {}) -> None:
        self._secrets: dict[str, bytes] = {}
        self.filters: dict[str, Filter] = {}
        for number, (key, where) in enumerate(keys.items(), start=1):
            if len(key) < MIN_KEY_CHARACTERS:
                raise InputError(
                    f"API key {number} has {len(key)} characters, which can be guessed: use "
                    f"{MIN_KEY_CHARACTERS} or more, for example from `openssl rand -hex 32`."
                )
            secret = hashlib.sha256(key.encode()).digest()
            owner = hashlib.sha256(b"owner" + secret).hexdigest()[:16]
            self._secrets[owner] = secret
            if where is not None:
                self.filters[owner] = where

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def owner_of(self, authorization: str) -> str | None:
        """Return the owner that an Authorization header names, or None if its key is wrong or missing.

        The owner is a hash of the key, or an empty string if the server needs no key. The comparison takes
        the same time for every key of every length.
        """
        if not self._secrets:
            return ""
        scheme, _, key = authorization.partition(" ")
        given = hashlib.sha256(key.strip().encode("utf-8", "surrogateescape")).digest()
        found = [owner for owner, secret in self._secrets.items() if hmac.compare_digest(given, secret)]
        return found[0] if found and scheme.lower() == "bearer" else None

    def signature(self, owner: str, passage_id: str) -> str:
        """Return the signature that lets a browser open one passage without the key; empty without keys."""
        if owner not in self._secrets:
            return ""
        return hmac.digest(self._secrets[owner], f"passage\0{passage_id}".encode(), "sha256").hex()[:32]

    def signer_of(self, signature: str, passage_id: str) -> str | None:
        """Return the owner who signed the link to a passage, or None if the signature is wrong."""
        found = [
            owner
            for owner in self._secrets
            if hmac.compare_digest(self.signature(owner, passage_id).encode(), signature.encode())
        ]
        return found[0] if found else None


def read_keys(specs: Iterable[str], environment: Mapping[str, str]) -> Keys:
    """Return the keys in environment variables.

    Args:
        specs: ``NAME`` or ``NAME where FILTER``: the variable with the keys, separated by commas, and the
            filter of these keys.

    Raises:
        InputError: A variable is empty, a key is too short or given twice, or a filter can't be read.
    """
    keys: dict[str, Filter | None] = {}
    for spec in specs:
        variable, has_filter, where = map(str.strip, spec.partition(" where "))
        named = [key for key in map(str.strip, environment.get(variable, "").split(",")) if key]
        if not named:
            raise InputError(
                f"the environment variable {variable} holds no API key: set it, for example with export "
                f"{variable}=$(openssl rand -hex 32), or leave --api-key-env out."
            )
        if not keys.keys().isdisjoint(named):
            raise InputError(
                f"a key in the environment variable {variable} is given twice, and a key has at most one "
                "filter: name it once."
            )
        keys |= dict.fromkeys(named, parse_filter(where) if has_filter else None)
    return Keys(keys)


def is_loopback(host: str) -> bool:
    """Return whether only programs on the same machine can reach a server on this host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class Guard:
    """The middleware that lets a request through, or answers it with an error in OpenAI's form.

    Attributes:
        hosts: The host names that a request may name in its Host header; None accepts any name. A server on
            loopback accepts only its own names, so that a web page whose domain name was bound to 127.0.0.1
            (DNS rebinding) can't use it.
        posts: The turns of requests that add documents. The bodies of those that wait are not read yet, so
            they take no memory.
    """

    app: ASGIApp
    keys: Keys
    hosts: frozenset[str] | None
    limits: Limits
    metrics: Metrics
    posts: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(4))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request. Nothing else arrives: uvicorn runs without lifespan and WebSockets."""

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
                route = getattr(scope.get("route"), "path", "")
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self.metrics.requests.labels(route, method, message["status"]).inc()
            await send(message)

        try:
            self._check(scope)
        except ApiError as error:
            await error.response(scope, receive, send_protected)
            return
        has_documents = scope["method"] == "POST" and scope["path"].startswith(_DOCUMENTS)
        async with self.posts if has_documents else nullcontext():
            await self.app(scope, self._limited(scope, receive), send_protected)

    def _check(self, scope: Scope) -> None:
        headers = HTTPConnection(scope).headers
        host = headers.get("host", "")
        if self.hosts is not None and _host_name(host) not in self.hosts:
            raise ApiError(
                421,
                f"this server does not answer for the host {host[:200]!r}: use the address that it printed, "
                "or start it with --allow-host.",
                code="wrong_host",
            )
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise ApiError(403, f"a page of {origin[:200]!r} may not use this server.", code="wrong_origin")
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        takes_json = scope["method"] == "POST" and _TAKES_JSON.fullmatch(scope["path"])
        if takes_json and content_type != "application/json":
            raise ApiError(415, "send JSON, with the header Content-Type: application/json.", code="not_json")
        scope[OWNER] = self._owner(HTTPConnection(scope), scope["path"])
        length = headers.get("content-length", "0")
        self._check_size(scope, int(length) if length.isdigit() else math.inf)

    def _owner(self, request: HTTPConnection, path: str) -> str:
        owner = self.keys.owner_of(request.headers.get("authorization", ""))
        if owner is None and path.startswith(_PASSAGES) and request.scope["method"] == "GET":
            signature = request.query_params.get("signature", "")
            owner = self.keys.signer_of(signature, path.removeprefix(_PASSAGES))
        if owner is None and _OPEN_PATHS.fullmatch(path):
            owner = ""
        if owner is None:
            raise ApiError(
                401,
                "the API key is missing or wrong: send it in the header Authorization: Bearer KEY.",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return owner

    def _check_size(self, scope: Scope, num_bytes: float) -> None:
        takes_documents = scope["path"].startswith(_DOCUMENTS)
        most = self.limits.document_bytes if takes_documents else self.limits.request_bytes
        if num_bytes > most:
            raise ApiError(413, f"the request is larger than {most:,} bytes: send less.", code="too_large")

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """Return a `receive` that refuses a body that is too large, or that takes too long to arrive."""
        num_bytes, is_complete = 0, False
        ends = asyncio.get_running_loop().time() + self.limits.body_seconds

        async def limited() -> Message:
            nonlocal num_bytes, is_complete
            if is_complete:
                return await receive()  # waits until the client leaves
            try:
                async with asyncio.timeout_at(ends):
                    message = await receive()
            except TimeoutError as error:
                raise ApiError(
                    408, f"the body did not arrive within {self.limits.body_seconds:g} s.", code="too_slow"
                ) from error
            num_bytes += len(message.get("body", b""))
            is_complete = not message.get("more_body", False)
            self._check_size(scope, num_bytes)
            return message

        return limited


def _host_name(host: str) -> str:
    """Return the name in a Host header, without the port and in lower case."""
    return host.lower() if host.endswith("]") else host.lower().rpartition(":")[0] or host.lower()
