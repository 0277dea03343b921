"""Load a model on a server from its specification."""

import asyncio
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b

from askance.core.concurrency import run_blocking
from askance.core.errors import InputError, ModelSpecError
from askance.core.notes import doing, note
from askance.middleware.retry import RetryingModel, RetryPolicy
from askance.models.bundled import cache_folder
from askance.models.openai.connection import Connection
from askance.models.openai.errors import SPEC_FORMAT
from askance.models.openai.model import OpenaiModel
from askance.models.openai.options import ANEW, AUTO, ServerOptions, is_probed, read_options
from askance.models.openai.probe import probe
from askance.models.openai.server_info import fetch_server_info
from askance.storage.durable_files import write_atomically

_SPEC = re.compile(r"(?P<model>.*?)@(?P<url>https?://.*)")
_HOSTED = "https://api.openai.com/v1"
_PROBE_SECONDS = 300.0
"""The time limit of all requests of a probe, retries included."""
_FORMAT = 2
"""The format version of the cached findings. Files of other versions are not used."""


def load_openai(name: str, *, environment: Mapping[str, str] = os.environ, **options: str) -> RetryingModel:
    """Load a model on a server, with retries while the server is busy.

    Args:
        name: ``MODEL@URL``, or ``MODEL`` for the server of OPENAI_BASE_URL, which is OpenAI's own by default.
        environment: The environment variables. OPENAI_API_KEY is sent to the server even if the server is not
            OpenAI's.

    Raises:
        ModelSpecError: The model's name is missing, the URL or key can't be used, or no URL follows the
            ``@``.
        UnknownName, ParameterError: An option or its value is invalid.
        ModelUnavailable, RequestRefused, ModelFailure: The server could not be probed.
    """
    match = _SPEC.fullmatch(name)
    if match is None and "@" in name:
        raise ModelSpecError(
            f"model 'openai:': what follows the @ is no URL with http:// or https://: {SPEC_FORMAT}."
        )
    model = match["model"] if match else name
    url = (match["url"] if match else environment.get("OPENAI_BASE_URL") or _HOSTED).rstrip("/")
    if not model:
        raise ModelSpecError(f"model 'openai:' names no model: {SPEC_FORMAT}.")
    key = environment.get("OPENAI_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):  # The error of a failed request would show the key.
        raise ModelSpecError(
            "OPENAI_API_KEY holds a character that can't be sent (a line break?): set it to the key alone."
        )
    if url == _HOSTED and not key:
        raise ModelSpecError(
            f"model {name!r}: the server {url} needs a key: set OPENAI_API_KEY, or {SPEC_FORMAT}."
        )
    parsed = read_options(options)
    if is_probed(options):
        parsed = run_blocking(_probe_or_load(model, Connection(model, url, key), options, parsed))
    loaded = OpenaiModel(model, parsed, Connection(model, url, key, parsed.in_flight))
    return RetryingModel(loaded, RetryPolicy(attempts=parsed.attempts))


async def _probe_or_load(
    model: str, connection: Connection, options: Mapping[str, str], parsed: ServerOptions
) -> ServerOptions:
    """Return the options of a server from a probe or from the cache. Explicit options take precedence."""
    explicit = {name: value for name, value in options.items() if name != "server"} | {"server": AUTO}
    url, retries = connection.url, RetryPolicy(attempts=parsed.attempts)
    with doing(f"asking the server at {url} what it is"):
        info = await retries.keep_trying(lambda: fetch_server_info(model, connection))
    if url == _HOSTED:
        info = replace(info, server="openai")
    cache_key = repr((_FORMAT, url, model, info.server, info.version))
    cached = cache_folder() / "servers" / f"{blake2b(cache_key.encode(), digest_size=8).hexdigest()}.json"
    if options.get("server") != ANEW:
        # A window that the server reports now takes precedence: a restart may have changed it.
        window = {"context": str(info.context)} if info.context else {}
        with suppress(Exception):  # The file may be missing or damaged.
            probed = json.loads(cached.read_text(encoding="utf-8"))["options"]
            return read_options({**probed, **window, **explicit})
    try:
        with doing(f"finding out what the server at {url} can do, by a few short requests"):
            async with asyncio.timeout(_PROBE_SECONDS):
                probed = await retries.keep_trying(lambda: probe(model, connection, info, parsed.timeout))
    except TimeoutError:
        raise connection.errors.unavailable(
            f"did not show in {_PROBE_SECONDS:g} seconds what it can do: try again when it is less busy, "
            "or name its kind (?server=NAME after the model), which makes the probe unnecessary."
        ) from None
    result = read_options({**probed, **explicit})
    abilities = sorted(result.capabilities | result.signals | ({"top_k"} if result.top_k else set()))
    title = f"{info.server} {info.version}".strip() or "of an unknown kind"
    cache_note = "not kept: no cache can be written"
    with suppress(OSError, InputError):  # The cache is optional.
        cached.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(cached, json.dumps({"url": url, "model": model, "options": probed}, indent=1))
        cache_note = "kept, and ?server=anew asks again"
    note(
        "probe",
        f"The server at {url} ({title}): {', '.join(abilities)}; window of {result.context:,} tokens "
        f"(?context=N declares another); {cache_note}.",
    )
    return result
