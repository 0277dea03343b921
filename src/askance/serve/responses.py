"""The forms of responses: strict JSON, and errors as OpenAI describes them."""

from typing import Any

from pydantic import BaseModel
from starlette.responses import JSONResponse

from askance.core.strict_json import json_line


class Json(JSONResponse):
    """A response in JSON that every parser accepts, from records that may contain dataclasses."""

    def render(self, content: Any) -> bytes:
        return json_line(content).encode()


class Error(BaseModel):
    """An error: what is wrong, and what to do about it."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The body of a response with an error."""

    error: Error
