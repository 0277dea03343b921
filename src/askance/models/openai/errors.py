"""Error messages about a server: each names the server, the model and a remedy."""

import math
import re
from collections.abc import Mapping
from contextlib import suppress

from pydantic_core import from_json

from askance.core.errors import ModelFailure, ModelSpecError, ModelUnavailable, PromptTooLong, RequestRefused

SPEC_FORMAT = "write openai:MODEL@http://HOST/v1, or openai:MODEL for the server of OPENAI_BASE_URL"
"""The format of a specification, for the end of a message."""
_MAX_QUOTED_CHARS = 300
_LEAST_CUT_KEY = 6
"""The number of characters from which the beginning of a key is removed, too: a text may have been cut."""
_WINDOW = re.compile(r"context[ _](?:length|size|window)|maximum context|too many tokens", re.IGNORECASE)
_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)\b", re.IGNORECASE)
_BUSY = {408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
_BUSY_EVENTS = re.compile(r"rate.?limit|overloaded|server.?error|unavailable|time.?out", re.IGNORECASE)
_NO_MONEY = 402
_OPTIONS = "See which options of the model the server takes (`askance models --check SPEC`)."
_REMEDIES = {
    401: "Set OPENAI_API_KEY to a key of this server.",
    _NO_MONEY: "Check that the account of the key has money left.",
    403: "Use a key that may use this model.",
    404: "Check the name of the model, and that the URL ends as the server's own (often in /v1).",
    413: "Ask with fewer passages (--set passages=N).",
    429: "Ask fewer questions at a time (--in-flight N, or ?in_flight=N after the model).",
    501: "Remove the options that the server does not support from the model's specification.",
}
_REFUSED = {401, _NO_MONEY, 403, 404}


class ServerErrors:
    """A factory of errors about one model on one server.

    Args:
        key: The API key, which no message may contain.

    Attributes:
        subject: The model and the server, as the beginning of a sentence.
    """

    def __init__(self, name: str, url: str, key: str) -> None:
        self._keys = [key[:size] for size in range(len(key), min(len(key), _LEAST_CUT_KEY) - 1, -1) if size]
        self.subject = f"model {name!r}: the server at {url}"
        self._name = name

    def unavailable(self, problem: str) -> ModelUnavailable:
        """Return an error for a problem that a retry may solve."""
        return ModelUnavailable(f"{self.subject} {problem}")

    def spec_error(self, problem: str) -> ModelSpecError:
        """Return an error for a specification that names the wrong server or model."""
        return ModelSpecError(f"{self.subject} {problem}")

    def invalid_response(self, content: str) -> ModelFailure:
        """Return an error for a response that can't be used because of its content."""
        return ModelFailure(
            f"{self.subject} gave {self.redact(content)}: see its log, and what it can do (`askance models "
            "--check SPEC`; ?server=anew after the model finds that out anew)."
        )

    def not_json(self, text: str) -> Exception:
        """Return an error for a response whose `text` is not JSON."""
        beginning = self.redact(text)
        if not _PAGE.match(beginning):
            return self.invalid_response(f"no JSON: {beginning!r}")
        return self.spec_error(
            f"gave a web page ({beginning!r}) instead of a response of OpenAI's protocol: check that the "
            "URL ends as the server's own (often in /v1)."
        )

    def from_status(self, status: int, body: bytes, headers: Mapping[str, str]) -> Exception:
        """Return the error for a response with an error status."""
        content: object = body.decode(errors="replace")
        with suppress(ValueError):
            content = from_json(body)
        message, code, parameter = self._parse(content)
        if status in (400, 413, 422, 500) and _is_about_window(f"{code} {message}"):
            return PromptTooLong(self._name, message)
        meaning = _NO_MONEY if "insufficient_quota" in code else status
        remedy = _REMEDIES.get(meaning, "See the log of the server." if status >= 500 else _OPTIONS)
        text = f"{self.subject} answered {status}{f': {message}' if message else ''}. {remedy}"
        if meaning in _REFUSED:
            refused = ModelSpecError(text)
            refused.status = meaning
            return refused
        if meaning in _BUSY:
            return ModelUnavailable(text, retry_after_seconds(headers), meaning)
        if status > 501:
            return ModelFailure(text)
        return RequestRefused(text, f"{parameter} {message}")

    def from_event(self, content: object) -> Exception:
        """Return the error for an error event within a stream."""
        message, code, _ = self._parse(content)
        if _is_about_window(f"{code} {message}"):
            return PromptTooLong(self._name, message)
        is_busy = _BUSY_EVENTS.search(f"{code} {message}") or {*map(str, _BUSY)}.intersection(code.split())
        kind = ModelUnavailable if is_busy else ModelFailure
        return kind(f"{self.subject} broke off its answer: {message or 'it does not say why'}.")

    def redact(self, text: str) -> str:
        """Return a server's text on one line, shortened and without the API key, also one that was cut."""
        line = " ".join(text[: 4 * _MAX_QUOTED_CHARS].split()).rstrip(".")
        for key in self._keys:
            line = line.replace(key, "[key]")
        return line if len(line) <= _MAX_QUOTED_CHARS else f"{line[:_MAX_QUOTED_CHARS]}…"

    def _parse(self, body: object) -> tuple[str, str, str]:
        """Return the message of an error, its code and type, and the parameter that the error names."""
        fields: dict[str, object] = {}
        while isinstance(body, Mapping):
            fields |= body
            body = next((body[name] for name in ("message", "detail", "error") if body.get(name)), "")
        code = " ".join(str(fields[name]) for name in ("code", "type") if fields.get(name))
        return self.redact(str(body)), code, self.redact(str(fields.get("param") or ""))


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds after which the server asks for a retry, or None if it gives no number."""
    with suppress(KeyError, ValueError):  # The header may also hold a date.
        seconds = float(headers["retry-after"])
        return max(0.0, seconds) if math.isfinite(seconds) else None
    return None


def _is_about_window(message: str) -> bool:
    return bool(_WINDOW.search(message)) and not _PAGE.match(message.strip())
