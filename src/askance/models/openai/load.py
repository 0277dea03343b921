"""A model of a server, from its specification."""

import asyncio
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b

from askance.core.errors import InputError, ModelSpecError
from askance.core.notes import doing, note
from askance.middleware.retry import RetryingModel, RetryPolicy
from askance.models.bundled import cache_folder
from askance.models.openai.connection import Connection, wait_for
from askance.models.openai.errors import SHAPE
from askance.models.openai.model import OpenaiModel
from askance.models.openai.options import ANEW, AUTO, ServerOptions, is_probed, read_options
from askance.models.openai.probe import probe
from askance.models.openai.server_info import identify
from askance.storage.durable_files import write_atomically

_SPEC = re.compile(r"(?P<model>.*?)@(?P<url>https?://.*)")
_HOSTED = "https://api.openai.com/v1"
_PROBE_SECONDS = 300.0
"""Most of all requests of a probe, with those that are made again."""
_FORMAT = 1
"""Raised when what is found out changes; older files are then not used any more."""
_NOT_KEPT = "not kept: no cache can be written"


def load_openai(name: str, *, environment: Mapping[str, str] = os.environ, **options: str) -> RetryingModel:
    """A model behind a server, asked again while the server is busy.

    Args:
        name: ``MODEL@URL``, or ``MODEL`` for the server of OPENAI_BASE_URL, which is OpenAI's own by default.
        environment: where OPENAI_API_KEY is; it is sent to the server, whichever that is.
        options: see `ServerOptions`.

    Raises:
        ModelSpecError: no model, no URL or key that can be used, or an ``@`` without a URL.
        UnknownName, ParameterError: an option that can't be used.
        ModelUnavailable, RequestRefused, ModelFailure: of a server that was asked what it can do.
    """
    match = _SPEC.fullmatch(name)
    if match is None and "@" in name:
        raise ModelSpecError(
            f"model 'openai:': what follows the @ is no URL with http:// or https://: {SHAPE}."
        )
    model = match["model"] if match else name
    url = (match["url"] if match else environment.get("OPENAI_BASE_URL") or _HOSTED).rstrip("/")
    if not model:
        raise ModelSpecError(f"model 'openai:' names no model: {SHAPE}.")
    key = environment.get("OPENAI_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):  # the error of sending it would show it
        raise ModelSpecError(
            "OPENAI_API_KEY holds a character that can't be sent (a line break?): set it to the key alone."
        )
    if url == _HOSTED and not key:
        raise ModelSpecError(
            f"model {name!r}: the server {url} wants a key: set OPENAI_API_KEY, or name another: {SHAPE}."
        )
    read = read_options(options)
    if is_probed(options):
        read = wait_for(_find_out(model, Connection(model, url, key), options, read))
    made = OpenaiModel(model, read, Connection(model, url, key, read.in_flight))
    return RetryingModel(made, RetryPolicy(attempts=read.attempts))


async def _find_out(
    model: str, connection: Connection, options: Mapping[str, str], read: ServerOptions
) -> ServerOptions:
    """The options of a server that is asked what it can do, or was before; those given count more."""
    given = {name: value for name, value in options.items() if name != "server"} | {"server": AUTO}
    url, patience = connection.url, RetryPolicy(attempts=read.attempts)
    with doing(f"asking the server at {url} what it is"):
        identity = await patience.keep_trying(lambda: identify(model, connection))
    if url == _HOSTED:
        identity = replace(identity, server="openai")
    asked = repr((_FORMAT, url, model, identity.server, identity.version))
    kept = cache_folder() / "servers" / f"{blake2b(asked.encode(), digest_size=8).hexdigest()}.json"
    if options.get("server") != ANEW:
        # The window is what the server tells now, where it does: it may have been started with another one.
        window = {"context": str(identity.context)} if identity.context else {}
        with suppress(Exception):  # none kept, or a file that somebody changed
            found = json.loads(kept.read_text(encoding="utf-8"))["options"]
            return read_options({**found, **window, **given})
    try:
        with doing(f"finding out what the server at {url} can do, by a few short requests"):
            async with asyncio.timeout(_PROBE_SECONDS):
                found = await patience.keep_trying(lambda: probe(model, connection, identity, read.timeout))
    except TimeoutError:
        raise connection.failures.unavailable(
            f"did not show in {_PROBE_SECONDS:g} seconds what it can do: try again when it is less busy, "
            "or name what it is (?server=NAME after the model), and it is not asked."
        ) from None
    result = read_options({**found, **given})
    abilities = sorted(result.capabilities | result.signals | ({"top_k"} if result.top_k else set()))
    title = f"{identity.server} {identity.version}".strip() or "of no kind that is known"
    is_kept = False
    with suppress(OSError, InputError):  # a cache that can't be written is no failure
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, json.dumps({"url": url, "model": model, "options": found}, indent=1))
        is_kept = True
    note(
        "probe",
        f"The server at {url} ({title}): {', '.join(abilities)}; window of {result.context:,} tokens "
        f"(?context=N declares another); {'kept, and ?server=anew asks again' if is_kept else _NOT_KEPT}.",
    )
    return result
