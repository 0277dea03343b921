"""The parameters of a method with their types, and as a JSON Schema."""

import dataclasses
import math
from typing import Any, get_type_hints

from askance.core.parameters import name_of, parameter_range
from askance.core.ports import Method


def parameter_schema(method: Method) -> dict[str, Any]:
    """Return the JSON Schema of a method's parameters, in which a dataclass is represented as a string."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name_of(type(method)),
        "type": "object",
        "properties": {
            field.name: _parameter_schema(field, hint) for field, hint in typed_parameters(type(method))
        },
        "additionalProperties": False,
    }


def typed_parameters(cls: type[Any]) -> list[tuple[dataclasses.Field[Any], Any]]:
    """Return the parameters of a method with their types."""
    hints: dict[str, Any] = get_type_hints(cls)
    known = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return [(each, hints[each.name]) for each in known]


def _parameter_schema(field: dataclasses.Field[Any], hint: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter

    is_record, default = dataclasses.is_dataclass(hint), field.default
    if is_record or default in (math.inf, -math.inf):
        default = str(default)
    schema = {"type": "string"} if is_record else TypeAdapter(hint).json_schema()
    bounds = zip(("minimum", "maximum"), parameter_range(field), strict=True)
    schema |= {name: bound for name, bound in bounds if math.isfinite(bound)}
    return {**schema, "description": field.metadata.get("description", ""), "default": default}
