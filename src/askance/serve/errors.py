"""Errors of the HTTP API in OpenAI's form, and the status that each error of askance has.

Messages about the request itself are sent as they are. A failure of a model, a retriever or the machine may
name addresses and files of the server, so the client only learns its kind. The trace says more.
"""

import re
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException

from askance.core.errors import (
    AskanceError,
    BadIndex,
    IndexBusy,
    InputError,
    LimitReached,
    MachineFailure,
    ModelFailure,
    ModelSpecError,
    ModelUnavailable,
    RetrieverFailure,
    UnknownName,
)

INVALID = "invalid_request_error"
_OPTION = re.compile(r"--set (\w+=)")


class ApiError(HTTPException):
    """An error to send to the client.

    Args:
        message: The message, which names the faulty value and the remedy.
        type, param, code: The other fields of OpenAI's error object.
        headers: Further headers of the response.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = INVALID,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.body: dict[str, Any] = {
            "error": {"message": message, "type": type, "param": param, "code": code}
        }


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """Return the error for a request that can't be used: status 400."""
    return ApiError(400, message, param=param, code=code)


def not_found(message: str, code: str = "not_found") -> ApiError:
    """Return the error for something that does not exist or belongs to another key: status 404."""
    return ApiError(404, message, code=code)


def api_error(error: BaseException, trace_id: str = "") -> ApiError:
    """Return the error to send for an exception.

    Args:
        trace_id: The id of the trace that says more, if there is one.
    """
    more = f" The trace {trace_id} says more." if trace_id else ""
    match error:
        case ApiError():
            return error
        case ModelSpecError() | ModelFailure() | RetrieverFailure():
            what = "retriever" if isinstance(error, RetrieverFailure) else "model"
            is_busy = isinstance(error, ModelUnavailable)
            seconds = getattr(error, "after_seconds", None) or 1
            return ApiError(
                503 if is_busy else 502,
                f"the {what} failed ({type(error).__name__}).{more}",
                type="server_error",
                code=f"{what}_failed",
                headers={"Retry-After": str(max(1, round(seconds)))} if is_busy else None,
            )
        case LimitReached():
            return ApiError(422, _for_clients(str(error)), code="limit_reached")
        case UnknownName() if error.setting == "model":
            return not_found(str(error), "model_not_found")
        case BadIndex():  # the message would name the folder of the server
            is_busy = isinstance(error, IndexBusy)
            why = "another process writes it: try again" if is_busy else "tell the operator of the server"
            return ApiError(
                503,
                f"the index can't be read or written; {why}.{more}",
                type="server_error",
                code="index_busy" if is_busy else "index_failed",
                headers={"Retry-After": "1"} if is_busy else None,
            )
        case InputError():
            setting = error.setting.removeprefix("parameters.")
            return bad_request(_for_clients(str(error)), f"askance.{setting}" if setting else None)
        case MachineFailure() | MemoryError():
            return ApiError(503, f"the server is out of memory or disk space.{more}", type="server_error")
        case TimeoutError():
            return ApiError(504, f"the time for one question is up.{more}", type="server_error")
        case AskanceError():
            message = f"the question failed ({type(error).__name__}).{more}"
            return ApiError(500, message, type="server_error")
    return ApiError(500, f"an unexpected error occurred.{more}", type="server_error")


def _for_clients(message: str) -> str:
    """Return a message with parameters named as a request has them, rather than as the command line does."""
    return _OPTION.sub(r"\1", message)
