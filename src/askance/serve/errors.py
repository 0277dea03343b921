"""Errors of the HTTP API in OpenAI's form, and the status that each error of askance has.

Messages about the request itself are sent as they are. A failure of a model, a retriever or the machine may
name addresses and files of the server, so the client only learns its kind. The trace says more.
"""

import re
from collections.abc import Mapping

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
from askance.serve.responses import Json

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
        self.body = {"error": {"message": message, "type": type, "param": param, "code": code}}

    @property
    def response(self) -> Json:
        """The response with the error."""
        return Json(self.body, self.status_code, self.headers)


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """Return the error for a request that can't be used: status 400."""
    return ApiError(400, message, param=param, code=code)


def not_found(message: str, code: str = "not_found") -> ApiError:
    """Return the error for something that does not exist or belongs to another key: status 404."""
    return ApiError(404, message, code=code)


def server_error(
    status: int, message: str, code: str | None = None, retry_seconds: float | None = None
) -> ApiError:
    """Return the error for a failure of the server, with the time after which to try again, if that helps."""
    headers = None if retry_seconds is None else {"Retry-After": str(max(1, round(retry_seconds)))}
    return ApiError(status, message, type="server_error", code=code, headers=headers)


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
            message, code = f"the {what} failed ({type(error).__name__}).{more}", f"{what}_failed"
            if isinstance(error, ModelUnavailable):
                return server_error(503, message, code, error.after_seconds or 1)
            return server_error(502, message, code)
        case LimitReached():
            return ApiError(422, _for_clients(str(error)), code="limit_reached")
        case UnknownName() if error.setting == "model":
            return not_found(str(error), "model_not_found")
        case IndexBusy():  # the message would name the folder of the server
            message = f"the index can't be written; another process writes it: try again.{more}"
            return server_error(503, message, "index_busy", retry_seconds=1)
        case BadIndex():
            message = f"the index can't be read or written; tell the operator of the server.{more}"
            return server_error(503, message, "index_failed")
        case InputError():
            setting = error.setting.removeprefix("parameters.")
            return bad_request(_for_clients(str(error)), f"askance.{setting}" if setting else None)
        case MachineFailure() | MemoryError():
            return server_error(503, f"the server is out of memory or disk space.{more}")
        case TimeoutError():
            return server_error(504, f"the time for one question is up.{more}")
        case AskanceError():
            return server_error(500, f"the question failed ({type(error).__name__}).{more}")
    return server_error(500, f"an unexpected error occurred.{more}")


def _for_clients(message: str) -> str:
    """Return a message with parameters named as a request has them, rather than as the command line does."""
    return _OPTION.sub(r"\1", message)
