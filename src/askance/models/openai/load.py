"""A model of a server, from its specification."""

import os
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from askance.core.errors import ModelSpecError
from askance.models.openai.model import OpenaiModel
from askance.models.openai.options import read_options
from askance.runtime.retry import Patience, RetryingModel

_SPEC = re.compile(r"(?P<model>.*?)@(?P<url>https?://.*)")
_HOSTED = "https://api.openai.com/v1"
_SHAPE = "write openai:MODEL@http://HOST/v1, or openai:MODEL for the server of OPENAI_BASE_URL"


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
    read = read_options(options, server="openai" if url == _HOSTED else "")
    return RetryingModel(OpenaiModel(model, url, key, read), Patience(attempts=read.attempts))


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
    if not host or parts.scheme not in ("http", "https"):
        raise ModelSpecError(f"{url!r} is no URL of a server: {_SHAPE}.")
    return host
