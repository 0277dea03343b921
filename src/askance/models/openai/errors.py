"""What went wrong between askance and a server, in words: which server, which model, what to do."""

import math
import re
from collections.abc import Mapping

from pydantic_core import from_json

from askance.core.errors import ModelFailure, ModelSpecError, ModelUnavailable, PromptTooLong, RequestRefused

SHAPE = "write openai:MODEL@http://HOST/v1, or openai:MODEL for the server of OPENAI_BASE_URL"
"""What a specification looks like, as the end of a message."""
_MOST_TOLD = 300
"""Characters of what a server says."""
_WINDOW = re.compile(r"context[ _](?:length|size|window)|maximum context|too many tokens", re.IGNORECASE)
_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)\b", re.IGNORECASE)
_BUSY = {408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
_BUSY_EVENTS = re.compile(r"rate.?limit|overloaded|server.?error|unavailable|time.?out", re.IGNORECASE)
_NO_MONEY = 402
_OPTIONS = "See which options of the model the server takes (`askance models --check SPEC`)."
_REMEDIES = {
    401: "Set OPENAI_API_KEY to a key of this server.",
    _NO_MONEY: "See that the account of the key has money left.",
    403: "Use a key that may use this model.",
    404: "See that the name of the model is right, and that the URL ends as the server's own (often in /v1).",
    413: "Ask with fewer passages (--set passages=N).",
    429: "Ask fewer questions at a time (--in-flight N, or ?in_flight=N after the model).",
    501: "Leave out of the model's options what the server can't do.",
}
_REFUSED = {401, _NO_MONEY, 403, 404}


class Failures:
    """The errors of one model behind one server.

    Args:
        name: of the model.
        key: which nothing that is raised may hold.
    """

    def __init__(self, name: str, url: str, key: str) -> None:
        self._key = key
        self.place = f"model {name!r}: the server at {url}"
        self._name = name

    def unavailable(self, what: str) -> ModelUnavailable:
        """An error that says what the server did, and may not do again."""
        return ModelUnavailable(f"{self.place} {what}")

    def misnamed(self, what: str) -> ModelSpecError:
        """An error that says what the server did, since another server or model was meant."""
        return ModelSpecError(f"{self.place} {what}")

    def of_answer(self, what: str) -> ModelFailure:
        """An answer that can't be used."""
        return ModelFailure(
            f"{self.place} gave {self.said(what)}: see its log, and what it can do (`askance models --check "
            "SPEC`; with ?server=anew after the model that is found out anew)."
        )

    def of_no_json(self, text: str) -> Exception:
        """An answer that is not of the protocol; `text` is all of it."""
        beginning = self.said(text[: 4 * _MOST_TOLD])
        if not _PAGE.match(beginning):
            return self.of_answer(f"no JSON: {beginning!r}")
        return self.misnamed(
            f"gave a web page ({beginning!r}), where an answer of OpenAI's protocol was to come: see that "
            "the URL ends as the server's own (often in /v1)."
        )

    def of_status(self, status: int, body: bytes, headers: Mapping[str, str]) -> Exception:
        """A status that is an error."""
        try:
            error = from_json(body)
        except ValueError:
            error = body.decode(errors="replace")
        told, code, parameter = self._read(error)
        if status in (400, 413, 422, 500) and _tells_of_window(f"{code} {told}"):
            return PromptTooLong.told(self._name, told)
        meant = _NO_MONEY if "insufficient_quota" in code else status
        remedy = _REMEDIES.get(meant, "See the log of the server." if status >= 500 else _OPTIONS)
        message = f"{self.place} answered {status}{f': {told}' if told else ''}. {remedy}"
        if meant in _REFUSED:
            refused = ModelSpecError(message)
            refused.status = meant
            return refused
        if meant in _BUSY:
            return ModelUnavailable(message, after_seconds(headers), meant)
        if status > 501:
            return ModelFailure(message)
        return RequestRefused(message, f"{parameter} {told}")

    def of_event(self, error: object) -> Exception:
        """An error that the server told in the middle of an answer."""
        told, code, _ = self._read(error)
        if _tells_of_window(f"{code} {told}"):
            return PromptTooLong.told(self._name, told)
        is_busy = _BUSY_EVENTS.search(f"{code} {told}") or {*map(str, _BUSY)}.intersection(code.split())
        kind = ModelUnavailable if is_busy else ModelFailure
        return kind(f"{self.place} broke off its answer: {told or 'it does not say why'}.")

    def said(self, text: str) -> str:
        """What a server says, on one line without the key."""
        line = " ".join(text.split()).rstrip(".")
        line = line.replace(self._key, "[key]") if self._key else line
        return line if len(line) <= _MOST_TOLD else f"{line[:_MOST_TOLD]}…"

    def _read(self, body: object) -> tuple[str, str, str]:
        """What an error says, its code and type, and the parameter that it names."""
        fields: dict[str, object] = {}
        while isinstance(body, Mapping):
            fields |= body
            body = next((body[name] for name in ("message", "detail", "error") if body.get(name)), "")
        code = " ".join(str(fields[name]) for name in ("code", "type") if fields.get(name))
        return self.said(str(body)), code, self.said(str(fields.get("param") or ""))


def after_seconds(headers: Mapping[str, str]) -> float | None:
    """When to try again, as the server asks in seconds; None if it does not say."""
    try:
        seconds = float(headers["retry-after"])
    except (KeyError, ValueError):  # or it names a date
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _tells_of_window(told: str) -> bool:
    return bool(_WINDOW.search(told)) and not _PAGE.match(told.strip())
