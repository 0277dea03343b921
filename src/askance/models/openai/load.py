"""A model of a server, from its specification."""

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from askance.core.activity import doing
from askance.core.errors import AskanceError, InputError, ModelSpecError
from askance.core.notes import note
from askance.models.bundled import cache_folder
from askance.models.openai.connection import wait_for
from askance.models.openai.failures import Failures
from askance.models.openai.identity import Identity, Looker
from askance.models.openai.model import OpenaiModel
from askance.models.openai.options import (
    ANEW,
    AUTO,
    OPTION_NAMES,
    Options,
    described,
    is_probed,
    read_options,
)
from askance.models.openai.probing import probe
from askance.runtime.durable import write_atomically
from askance.runtime.retry import Patience, RetryingModel

_SPEC = re.compile(r"(?P<model>.*?)@(?P<url>https?://.*)")
_HOSTED = "https://api.openai.com/v1"
_LOOK_SECONDS = 15.0
"""Most of a request that nothing is computed for."""
_PROBE_SECONDS = 300.0
"""Most of all requests of a probe, with those that are made again."""
_SHAPE = "write openai:MODEL@http://HOST/v1, or openai:MODEL for the server of OPENAI_BASE_URL"
T = TypeVar("T")


def load_openai(
    name: str, options: Mapping[str, str], *, environment: Mapping[str, str] = os.environ
) -> RetryingModel:
    """A model behind a server, asked again while the server is busy.

    Args:
        name: ``MODEL@URL``, or ``MODEL`` for the server of OPENAI_BASE_URL, which is OpenAI's own by default.
        options: see `Options`.
        environment: where OPENAI_API_KEY is; it is sent to the server, whichever that is.

    Raises:
        ModelSpecError: no model, no URL that can be used, or an ``@`` without one.
        UnknownName, KnobError: an option that can't be used.
        ModelUnavailable, RequestRefused, ModelFailure: of a server that was asked what it can do.
    """
    match = _SPEC.fullmatch(name)
    if match is None and "@" in name:
        raise ModelSpecError(
            "model 'openai:': what follows the @ is no URL, and nothing is sent to a server that was not "
            f"named: write openai:{_corrected(name)}, or name a model without an @."
        )
    model = match["model"] if match else name
    url = (match["url"] if match else environment.get("OPENAI_BASE_URL") or _HOSTED).rstrip("/")
    host = _host(url)
    if not model:
        raise ModelSpecError(f"model 'openai:' names no model: {_SHAPE}.")
    key = environment.get("OPENAI_API_KEY", "")
    if url == _HOSTED and not key:
        raise ModelSpecError(
            f"model {name!r}: the server {host} wants a key: set OPENAI_API_KEY, or name another server: "
            f"{_SHAPE}."
        )
    read, probed = read_options(options), is_probed(options)
    if probed:
        read = _found_out(model, url, key, options, read)
    made = OpenaiModel(model, url, key, read, are_found_out=probed)
    return RetryingModel(made, Patience(attempts=read.attempts))


def _found_out(model: str, url: str, key: str, options: Mapping[str, str], read: Options) -> Options:
    """The options of a server that is asked what it can do, or was before; those given count more."""
    given = {name: value for name, value in options.items() if name != "server"}
    failures, patience = Failures(f"{model}@{url}", url, key), Patience(attempts=read.attempts)
    looker = Looker(model, url, key, failures, min(read.timeout, _LOOK_SECONDS))
    with doing(f"asking the server at {url} what it is"):
        identity = wait_for(patience.keep_trying(looker.identity))
    if url == _HOSTED:
        identity = replace(identity, server="openai")
    kept = Kept(model, url, identity)
    found = None if options.get("server") == ANEW else kept.read()
    if found is not None:
        with suppress(AskanceError):  # a file that somebody changed
            return read_options({**found, **given, "server": AUTO})
    with doing(f"finding out what the server at {url} can do, by a few short requests"):
        probing = patience.keep_trying(lambda: probe(model, url, key, identity, read.timeout))
        found = wait_for(_in_time(probing, failures))
    result = read_options({**found, **given, "server": AUTO})
    later = "kept; ?server=anew asks again" if kept.write(found) else "not kept: no cache can be written"
    window = f"window of {result.context:,} tokens"
    if "context" not in {**found, **given}:
        window = f"its window is not told, and taken to be {result.context:,} tokens (?context=N declares it)"
    note("probe", f"The server at {url} ({identity.title}): {described(result)}; {window} ({later}).")
    return result


async def _in_time(probing: Awaitable[T], failures: Failures) -> T:
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            return await probing
    except TimeoutError:
        raise failures.of_slowness(_PROBE_SECONDS) from None


def _corrected(name: str) -> str:
    """The specification with a URL, from one that names a host alone."""
    model, _, address = name.rpartition("@")
    model = "" if "@" in model else model  # it may hold a password
    address = re.sub(r"^[a-z]*:?/+", "", address, flags=re.IGNORECASE).rstrip("/")
    host, _, path = address.partition("/")
    is_near = ":" in host or "." not in host or host.replace(".", "").isdigit()
    return f"{model or 'MODEL'}@{'http' if is_near else 'https'}://{host or 'HOST'}/{path or 'v1'}"


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ModelSpecError(f"the URL of a server can't be read ({error}): {_SHAPE}.") from error
    if parts.username or parts.password:
        raise ModelSpecError(
            f"the URL of the server {host} holds a name or password, which traces would show: set "
            "OPENAI_API_KEY in its place."
        )
    if parts.query or parts.fragment:
        raise ModelSpecError(
            f"the URL of the server {host} has a query or a fragment, which traces would show and requests "
            f"would lose: {_SHAPE}."
        )
    if not host or parts.scheme not in ("http", "https"):
        raise ModelSpecError(f"{url!r} is no URL of a server: {_SHAPE}.")
    return host


_FORMAT = 1
"""Raised when what is found out changes; older files are then not used any more."""
_MOST_BYTES = 1 << 16
_LEAST_CONTEXT = 2
"""Tokens: fewer are no window."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Where the options of one model behind one server are kept. A cache that can't be used keeps nothing."""

    model: str
    url: str
    identity: Identity

    def read(self) -> dict[str, str] | None:
        """The options, or None where none are kept that can be used. The window is what the server tells now,
        where it does: it may have been started with another one.
        """
        try:
            path = self._path()
            if path.stat().st_size > _MOST_BYTES:
                return None
            told = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError, InputError):
            return None
        found = told.get("options") if isinstance(told, Mapping) and told.get("of") == self._of() else None
        if not isinstance(found, Mapping) or not found.keys() <= set(OPTION_NAMES):
            return None
        options = {name: str(value) for name, value in found.items()}
        context = str(self.identity.context)
        if self.identity.context < _LEAST_CONTEXT or options.get("context") == context:
            return options
        options["context"] = context
        self.write(options)
        return options

    def write(self, options: Mapping[str, str]) -> bool:
        """Keep the options; whether that was possible."""
        try:
            path = self._path()
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps({"of": self._of(), "options": dict(options)}, indent=1))
        except (OSError, InputError):
            return False
        return True

    def _of(self) -> list[object]:
        return [_FORMAT, self.url, self.model, self.identity.server, self.identity.version]

    def _path(self) -> Path:
        digest = blake2b(repr(self._of()).encode(), digest_size=8).hexdigest()
        return cache_folder() / "servers" / f"{digest}.json"
