"""Responses in strict JSON."""

from typing import Any

from starlette.responses import JSONResponse

from askance.core.strict_json import json_line


class Json(JSONResponse):
    """A response in JSON that every parser accepts, from records that may contain dataclasses."""

    def render(self, content: Any) -> bytes:
        return json_line(content).encode()
