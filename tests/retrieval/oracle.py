"""The oracle of filters: their documented meaning, in plain Python."""

from askance.core.filters import FieldComparison


def kind(value):
    if isinstance(value, bool):
        return "boolean"
    return "text" if isinstance(value, str) else "number"


def matches(where, fields):
    """Return whether a document with these fields passes a filter."""
    if not isinstance(where, FieldComparison):
        results = [matches(part, fields) for part in where.parts]
        return {"and": all(results), "or": any(results), "not": not results[0]}[where.operator]
    value, values = fields.get(where.name), where.values
    if value is None or kind(value) not in map(kind, values):
        return False
    if where.operator in ("=", "in"):
        return any(kind(value) == kind(each) and value == each for each in values)
    (limit,) = values
    return {"<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit}[
        where.operator
    ]
