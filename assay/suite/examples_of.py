"""Made-up values that obey a JSON Schema: what `assay mcp init` calls tools with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.suite.patterns import Undecided
from assay.suite.schema import resolve, value_problem

_FORMATS = {
    "date": "2026-01-02",
    "date-time": "2026-01-02T03:04:05Z",
    "time": "03:04:05Z",
    "email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_DEEPEST = 20
_LONGEST = 1000


def arguments_for(schema: Mapping[str, Any]) -> dict[str, object] | None:
    """Arguments with every required property, those with a default or an example as these say.

    None if no arguments could be made up that obey the schema.
    """
    try:
        value = example(schema, schema)
        return value if isinstance(value, dict) and not value_problem(value, schema) else None
    except (Undecided, ArithmeticError, TypeError, ValueError):
        # A stranger's schema may ask for NaN things, or for multiples of a text.
        return None


def example(schema: object, root: object, depth: int = 0) -> object:
    """A value that very probably obeys the schema; what the schema itself offers comes first."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return {}
    if isinstance(ref := schema.get("$ref"), str):
        return example(resolve(ref, root), root, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum", "anyOf", "oneOf", "allOf"):
        if isinstance(offered := schema.get(key), list) and offered:
            return offered[0] if key in ("examples", "enum") else example(offered[0], root, depth + 1)
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    return _of_kind(kinds[0] if isinstance(kinds, list) and kinds else kinds, schema, root, depth)


def _of_kind(kind: object, schema: Mapping[str, Any], root: object, depth: int) -> object:
    if kind == "object":
        known = schema.get("properties", {})
        return {key: example(known.get(key, {}), root, depth + 1) for key in schema.get("required", [])}
    if kind == "array":
        return [example(schema.get("items", {}), root, depth + 1) for _ in range(_length(schema, "minItems"))]
    if kind in ("integer", "number"):
        return _number(schema, whole=kind == "integer")
    if kind == "boolean":
        return False
    if kind == "null":
        return None
    text = _FORMATS.get(str(schema.get("format")), "text")
    return text.ljust(_length(schema, "minLength"), "x")[: int(schema.get("maxLength", 100))]


def _length(schema: Mapping[str, Any], key: str) -> int:
    """The least length; where it is absurd, one that will not do."""
    return int(min(schema.get(key, 0), _LONGEST))


def _number(schema: Mapping[str, Any], *, whole: bool) -> float:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    value = 1 if low is None else low + (1 if "exclusiveMinimum" in schema else 0)
    if high is not None and value > high:
        value = high - (1 if "exclusiveMaximum" in schema else 0)
    step = schema.get("multipleOf")
    if step:
        value = -(-value // step) * step
    return int(value) if whole else float(value)
