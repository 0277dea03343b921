"""What went wrong between askance and a server, in words: which server, which model, what to do."""

import math
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime

from askance.core.errors import (
    AskanceError,
    ModelFailure,
    ModelSpecError,
    ModelUnavailable,
    PromptTooLong,
    RequestRefused,
)

_MOST_TOLD = 300
"""Characters of what a server says."""
_MOST_NAMED = 10
"""Models that a message lists."""
_WINDOW = re.compile(r"context[ _](?:length|size|window)|maximum context|too many tokens", re.IGNORECASE)
_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)\b", re.IGNORECASE)
_BUSY = {408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
_BUSY_EVENTS = re.compile(r"rate.?limit|overloaded|server.?error|unavailable|time.?out", re.IGNORECASE)
_SPENT = "insufficient_quota"
_REMEDIES = {
    400: "See which options of the model the server takes (`askance models --check SPEC`).",
    401: "Set OPENAI_API_KEY to a key of this server.",
    402: "See that the account of the key has money left.",
    403: "Use a key that may use this model.",
    404: "See that the name of the model is right, and that the URL ends as the server's own (often in /v1).",
    413: "Ask with fewer passages (--set passages=N).",
    422: "See which options of the model the server takes (`askance models --check SPEC`).",
    429: "Ask fewer questions at a time (--in-flight N, or ?in_flight=N after the model).",
    501: "Leave out of the model's options what the server can't do.",
}
_REFUSED = {401, 402, 403, 404}


class Failures:
    """The errors of one model behind one server.

    Args:
        name: of the model.
        key: which nothing that is raised may hold.
        are_found_out: what the server can do was found out, and not declared.
    """

    def __init__(self, name: str, url: str, key: str, *, are_found_out: bool = False) -> None:
        self._name, self._url, self._key = name, url, key
        self._are_found_out = are_found_out

    def of_status(self, status: int, body: object, headers: Mapping[str, str]) -> AskanceError:
        """A status that is an error."""
        told, code = self.said(body), _code(body)
        is_window = _WINDOW.search(f"{code} {told}") and not _PAGE.match(told)
        if is_window and status in (400, 413, 422, 500):
            return PromptTooLong.told(self._name, told)
        meant = 402 if _SPENT in code else status
        remedy = _REMEDIES.get(meant, "See the log of the server." if status >= 500 else _REMEDIES[400])
        message = (
            f"{self.place} answered {status}{f': {told}' if told else ''}. {remedy[:1].upper()}{remedy[1:]}"
        )
        if meant in _REFUSED:
            refused = ModelSpecError(message)
            refused.status = meant
            return refused
        if meant in _BUSY:
            return ModelUnavailable(message, after_seconds(headers), meant)
        if status >= 500 and status != 501:
            return ModelFailure(message)
        return RequestRefused(message, f"{_parameter(body)} {told}".strip())

    def of_event(self, body: object) -> AskanceError:
        """An error that the server told in the middle of an answer."""
        told, code = self.said(body), _code(body)
        if _WINDOW.search(f"{code} {told}"):
            return PromptTooLong.told(self._name, told)
        message = f"{self.place} broke off its answer: {told or 'it does not say why'}."
        statuses = {*map(str, _BUSY)}
        is_busy = _BUSY_EVENTS.search(f"{code} {told}") or statuses.intersection(code.split())
        return ModelUnavailable(message) if is_busy else ModelFailure(message)

    def of_model(self, models: Sequence[str], url: str) -> AskanceError:
        """A model that the server does not have; `models` are those that it has."""
        shown = ", ".join(map(self.said, models[:_MOST_NAMED]))
        more = f" and {len(models) - _MOST_NAMED} more" if len(models) > _MOST_NAMED else ""
        return ModelSpecError(
            f"{self.place} does not have it, but {shown}{more}: write openai:{self.said(models[0])}@{url}."
        )

    def of_path(self, model: str, url: str) -> AskanceError:
        """An address without the path at which the server speaks the protocol."""
        return ModelSpecError(f"{self.place} speaks OpenAI's protocol at {url}: write openai:{model}@{url}.")

    def of_time(self) -> AskanceError:
        """A request that took too long."""
        return ModelUnavailable(
            f"{self.place} did not answer in time: give it more (?timeout=SECONDS after the model), or ask "
            "fewer questions at a time (--in-flight N)."
        )

    def of_slowness(self, seconds: float) -> AskanceError:
        """A server that takes too long to show what it can do."""
        return ModelUnavailable(
            f"{self.place} did not show in {seconds:g} seconds what it can do: try again when it is less "
            "busy, or name what it is (?server=NAME after the model), and it is not asked."
        )

    def of_reach(self, cause: BaseException | None) -> AskanceError:
        """No connection, or one that was cut."""
        why = self.said(str(cause or "")) or "no connection"
        return ModelUnavailable(
            f"{self.place} can't be reached, or cut the connection ({why}): see that it runs, and that the "
            "URL is right."
        )

    def of_cut(self, cause: BaseException) -> AskanceError:
        """A connection that was cut while an answer came."""
        return ModelUnavailable(
            f"{self.place} cut the connection ({self.said(str(cause)) or 'it does not say why'}): see its "
            "log. Some do so where a prompt does not fit into their context window."
        )

    def of_break(self) -> AskanceError:
        """An answer without an end."""
        return ModelUnavailable(
            f"{self.place} broke off its answer in the middle. If it answers one request at a time, ask it "
            "so (?in_flight=1 after the model)."
        )

    def of_nothing(self, context_tokens: int) -> AskanceError:
        """An answer without a choice.

        Args:
            context_tokens: of the window, as it is declared.
        """
        return ModelFailure(
            f"{self.place} gave an answer without a choice. Some do so where a prompt does not fit into "
            f"their context window, which is declared to have {context_tokens} tokens: ask with fewer "
            "passages (--set passages=N), or start the server with a larger window and declare that "
            "(?context=N after the model)."
        )

    def of_answer(self, what: str) -> AskanceError:
        """An answer that can't be used."""
        return ModelFailure(f"{self.place} gave {self.said(what)}. See the log of the server.")

    def of_no_json(self, what: str, beginning: str) -> AskanceError:
        """An answer that is not of the protocol; `beginning` is how it begins."""
        if not _PAGE.match(beginning):
            return self.of_answer(f"{what}{f': {beginning!r}' if beginning else ''}")
        return ModelSpecError(
            f"{self.place} gave a web page ({self.said(beginning)!r}), where an answer of OpenAI's "
            "protocol was to come: see that the URL ends as the server's own (often in /v1)."
        )

    def of_size(self, most_bytes: int) -> AskanceError:
        """An answer that does not end."""
        return self.of_answer(f"an answer of more than {most_bytes >> 20} MiB")

    def of_redirect(self, url: str) -> AskanceError:
        """A redirect that is not followed."""
        return ModelSpecError(
            f"{self.place} sends on to {self.said(url)}, where the prompt and the key were not meant to "
            "go: name that address in the model's specification (openai:MODEL@URL) if it is the server's own."
        )

    def of_promise(self, what: str, option: str) -> AskanceError:
        """An answer without what the options declare, or what was found out."""
        remedy = (
            "is declared: leave that out of the model's options (`askance models --check SPEC` tells what "
            "the server can do)"
        )
        if self._are_found_out:
            remedy = "was found out: the server may have changed; ask it anew (?server=anew after the model)"
        return ModelFailure(f"{self.place} gave {self.said(what)}, though {option} {remedy}.")

    @property
    def place(self) -> str:
        """Model and server, as the beginning of a sentence."""
        return f"model {self._name!r}: the server at {self._url}"

    def said(self, body: object) -> str:
        """What a server says, on one line without the key."""
        line = " ".join(_told(body).split()).rstrip(".")
        line = line.replace(self._key, "[key]") if self._key else line
        return line if len(line) <= _MOST_TOLD else f"{line[:_MOST_TOLD]}…"


def after_seconds(headers: Mapping[str, str]) -> float | None:
    """When to try again, as the server asks: seconds, milliseconds, or a date; None if it does not say."""
    given = {name.lower(): value.strip() for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(given[name]) * unit
        except (KeyError, ValueError):
            continue
        return max(0.0, seconds) if math.isfinite(seconds) else None
    try:
        date = parsedate_to_datetime(given["retry-after"])
        return max(0.0, date.replace(tzinfo=date.tzinfo or UTC).timestamp() - time.time())
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def _told(body: object) -> str:
    while isinstance(body, Mapping):
        body = next((body[name] for name in ("message", "detail", "error") if body.get(name)), "")
    return _text(body or "")


def _text(value: object) -> str:
    try:
        return str(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or lists within lists
        return ""


def _parameter(body: object) -> str:
    """The parameter that an error is about, where the server names it beside its message."""
    inner = body.get("error") if isinstance(body, Mapping) else None
    source = inner if isinstance(inner, Mapping) else body
    named = source.get("param") if isinstance(source, Mapping) else None
    return named[:_MOST_TOLD] if isinstance(named, str) else ""


def _code(body: object) -> str:
    if not isinstance(body, Mapping):
        return ""
    return " ".join(_text(body[name]) for name in ("code", "type") if body.get(name))
