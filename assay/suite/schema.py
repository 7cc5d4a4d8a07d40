"""The part of JSON Schema that tools use, checked without a library: is a schema one, and does a value obey it?

Keywords that are not known here are not looked at, as the standard has it; `format` is an annotation only. Schemas and
values may be a stranger's, made to take for ever, so there is a time by which every question is answered.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from assay.model.score import exact
from assay.suite.patterns import MATCH_SECONDS, TOO_DEEP, BadPattern, Pattern, Undecided, in_time

_TYPES: dict[str, Callable[[object], bool]] = {
    "object": lambda v: isinstance(v, Mapping),
    "array": lambda v: isinstance(v, list | tuple),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "integer": lambda v: not isinstance(v, bool) and (isinstance(v, int) or (isinstance(v, float) and v.is_integer())),
}
_DEEPEST = 100
_LIMITS = [f"{end}{what}" for end in ("min", "max") for what in ("Length", "Items", "Properties", "imum")]
_ONE, _MANY, _NAMED = (
    ("additionalProperties", "items", "contains", "not", "if", "then", "else", "propertyNames"),
    ("allOf", "anyOf", "oneOf", "prefixItems"),
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"),
)


def same(a: object, b: object) -> bool:
    """Equality as JSON has it: 1 and 1.0 are one number, true is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@dataclass(frozen=True, slots=True)
class _Whole:
    """What a part of a schema is a part of.

    Attributes:
        root: Where references start.
        end: The monotonic time by which there must be an answer.
        patterns: Whether texts may be matched with patterns.
    """

    root: object
    end: float
    patterns: bool = True


def schema_problem(schema: object, end: float | None = None) -> str:
    """What makes this no JSON Schema; "" if it is one.

    Raises:
        Undecided: It could not be told by `end`, a monotonic time.
    """
    end = time.monotonic() + MATCH_SECONDS if end is None else end
    return _schema_problem(schema, _Whole(schema, end), "", 0)


def _schema_problem(schema: object, whole: _Whole, where: str, depth: int) -> str:
    in_time(whole.end)
    if isinstance(schema, bool):
        return ""
    if not isinstance(schema, Mapping):
        return f"{where or 'the schema'} is not an object"
    if depth > _DEEPEST:
        return f"{where[:60]} is nested too deeply"
    at = f" at {where}" if where else ""
    if problem := _keyword_problem(schema, whole):
        return f"{problem}{at}"
    for key, child in _children(schema, where):
        if problem := _schema_problem(child, whole, key, depth + 1):
            return problem
    return ""


def _keyword_problem(schema: Mapping[str, Any], whole: _Whole) -> str:  # noqa: C901 - a table of independent rules
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if not isinstance(kind, str) or kind not in _TYPES:
            return f"type {kind!r} is none of {', '.join(_TYPES)}"
    for key in _NAMED:
        if key in schema and not isinstance(schema[key], Mapping):
            return f"{key} is not an object"
    for key in _MANY:
        if key in schema and (not isinstance(schema[key], list) or not schema[key]):
            return f"{key} is not a list of schemas"
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return "required is not a list of names"
    if "enum" in schema and not isinstance(schema["enum"], list):
        return "enum is not a list"
    for key in _LIMITS:
        if key in schema and (isinstance(schema[key], bool) or not isinstance(schema[key], int | float)):
            return f"{key} is not a number"
    for pattern in [*([schema["pattern"]] if "pattern" in schema else []), *(schema.get("patternProperties") or {})]:
        if not isinstance(pattern, str):
            return "pattern is not a text"
        in_time(whole.end)
        try:
            Pattern(pattern)
        except BadPattern as error:
            return f"pattern {pattern!r} cannot be compiled ({error})"
    ref = schema.get("$ref")
    if ref is not None and (not isinstance(ref, str) or (ref.startswith("#") and resolve(ref, whole.root) is None)):
        return f"$ref {ref!r} leads nowhere"
    return ""


def _children(schema: Mapping[str, Any], where: str) -> list[tuple[str, object]]:
    dot = f"{where}." if where else ""
    out = [(f"{dot}{key}", schema[key]) for key in _ONE if key in schema and not isinstance(schema[key], list)]
    for key in _MANY:
        out += [(f"{dot}{key}[{i}]", child) for i, child in enumerate(schema.get(key, []))]
    for key in _NAMED:
        out += [(f"{dot}{key}.{name}", child) for name, child in schema.get(key, {}).items()]
    return out


def resolve(ref: str, root: object) -> object:
    """What a local reference points to; None if nothing."""
    node = root
    for part in ref.lstrip("#").split("/")[1:] if ref != "#" else []:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping) and part in node:
            node = node[part]
        elif isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        else:
            return None
    return node


def value_problem(value: object, schema: object, end: float | None = None, *, patterns: bool = True) -> str:
    """How a value breaks a schema, with the place; "" if it does not.

    Args:
        value: What should obey it.
        schema: One in which `schema_problem` finds nothing.
        end: The monotonic time by which there must be an answer.
        patterns: Whether texts and names may be matched with its patterns.

    Raises:
        Undecided: There was none, or a pattern was met that may not be matched.
    """
    end = time.monotonic() + MATCH_SECONDS if end is None else end
    try:
        return _problem(value, schema, _Whole(schema, end, patterns), "", 0)
    except RecursionError:
        raise Undecided(TOO_DEEP) from None


def _problem(value: object, schema: object, whole: _Whole, where: str, depth: int) -> str:
    in_time(whole.end)
    if schema is False:
        return f"{where or 'the value'} is not allowed"
    if not isinstance(schema, Mapping):
        return ""
    if depth > _DEEPEST:
        return f"{where[:60]} is nested too deeply"
    ref = schema.get("$ref")
    target = resolve(ref, whole.root) if isinstance(ref, str) and ref.startswith("#") else True
    if problem := _problem(value, target, whole, where, depth + 1):
        return problem
    for check in (_kind_problem, _number_problem):
        if problem := check(value, schema, where or "the value"):
            return problem
    for deep in (_text_problem, _object_problem, _array_problem, _combined_problem):
        if problem := deep(value, schema, whole, where, depth):
            return problem
    return ""


def _kind_problem(value: object, schema: Mapping[str, Any], name: str) -> str:
    kinds = schema.get("type")
    wanted = kinds if isinstance(kinds, list) else [kinds] if kinds is not None else []
    if wanted and not any(_TYPES[kind](value) for kind in wanted if kind in _TYPES):
        return f"{name} is {_kind(value)}, not {' or '.join(map(str, wanted))}"
    if "enum" in schema and not any(same(value, item) for item in schema["enum"]):
        return f"{name} is none of the values in enum"
    if "const" in schema and not same(value, schema["const"]):
        return f"{name} is not the constant it must be"
    return ""


def _kind(value: object) -> str:
    return next((kind for kind in ("integer", *_TYPES) if _TYPES[kind](value)), type(value).__name__)


def _number_problem(value: object, schema: Mapping[str, Any], name: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    limits: tuple[tuple[str, Callable[[Any, Any], bool], str], ...] = (
        ("minimum", lambda v, n: v >= n, "less than"),
        ("maximum", lambda v, n: v <= n, "more than"),
        ("exclusiveMinimum", lambda v, n: v > n, "not more than"),
        ("exclusiveMaximum", lambda v, n: v < n, "not less than"),
    )
    for key, good, words in limits:
        limit = schema.get(key)
        if isinstance(limit, int | float) and not isinstance(limit, bool) and not good(value, limit):
            return f"{name} is {words} {limit}"
    step = schema.get("multipleOf")
    if _finite(step) and step > 0 and _finite(value) and exact(value) % exact(step):
        return f"{name} is no multiple of {step}"
    return ""


def _finite(number: object) -> TypeGuard[float]:
    """Whether it is a number that is written with digits: such are compared exactly, however large."""
    return type(number) is int or (isinstance(number, float) and math.isfinite(number))


def _text_problem(value: object, schema: Mapping[str, Any], whole: _Whole, where: str, depth: int) -> str:  # noqa: ARG001
    if not isinstance(value, str):
        return ""
    name = where or "the value"
    if len(value) < schema.get("minLength", 0):
        return f"{name} is shorter than {schema['minLength']}"
    if len(value) > schema.get("maxLength", math.inf):
        return f"{name} is longer than {schema['maxLength']}"
    if "pattern" in schema and not _matcher(schema["pattern"], whole).search(value, whole.end):
        return f"{name} does not match {schema['pattern']!r}"
    return ""


def _object_problem(value: object, schema: Mapping[str, Any], whole: _Whole, where: str, depth: int) -> str:
    if not isinstance(value, Mapping):
        return ""
    dot = f"{where}." if where else ""
    for key in schema.get("required", []):
        if key not in value:
            return f"{dot}{key} is missing"
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    rest = schema.get("additionalProperties", True)
    matchers = [(_matcher(pattern, whole), child) for pattern, child in patterns.items()]
    for key, item in value.items():
        schemas = [known[key]] if key in known else []
        schemas += [child for matcher, child in matchers if matcher.search(key, whole.end)]
        if not schemas and rest is False:
            return f"{dot}{key} is not allowed"
        for child in schemas or [rest]:
            if problem := _problem(item, child, whole, f"{dot}{key}", depth + 1):
                return problem
    if len(value) < schema.get("minProperties", 0):
        return f"{where or 'the value'} has fewer than {schema['minProperties']} keys"
    if len(value) > schema.get("maxProperties", math.inf):
        return f"{where or 'the value'} has more than {schema['maxProperties']} keys"
    return ""


def _array_problem(value: object, schema: Mapping[str, Any], whole: _Whole, where: str, depth: int) -> str:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ""
    name = where or "the value"
    if len(value) < schema.get("minItems", 0):
        return f"{name} has fewer than {schema['minItems']} items"
    if len(value) > schema.get("maxItems", math.inf):
        return f"{name} has more than {schema['maxItems']} items"
    if schema.get("uniqueItems") and _has_equals(value, whole):
        return f"{name} has equal items"
    fixed = schema.get("prefixItems", [])
    for index, item in enumerate(value):
        child = fixed[index] if index < len(fixed) else schema.get("items", True)
        if problem := _problem(item, child, whole, f"{where}[{index}]", depth + 1):
            return problem
    return ""


def _matcher(pattern: str, whole: _Whole) -> Pattern:
    if not whole.patterns:
        msg = f"nothing asked for {pattern!r} to be matched"
        raise Undecided(msg)
    return Pattern(pattern)


def _has_equals(items: Sequence[object], whole: _Whole) -> bool:
    for index, item in enumerate(items):
        in_time(whole.end)
        if any(same(item, other) for other in items[:index]):
            return True
    return False


def _combined_problem(value: object, schema: Mapping[str, Any], whole: _Whole, where: str, depth: int) -> str:
    def problem(child: object) -> str:
        return _problem(value, child, whole, where, depth + 1)

    name = where or "the value"
    for child in schema.get("allOf", []):
        if found := problem(child):
            return found
    if "anyOf" in schema and all(problems := [problem(child) for child in schema["anyOf"]]):
        return f"{name} fits nothing in anyOf ({problems[0]})"
    if "oneOf" in schema and (fits := sum(not problem(child) for child in schema["oneOf"])) != 1:
        return f"{name} fits {fits} schemas in oneOf, not one"
    if "not" in schema and not problem(schema["not"]):
        return f"{name} fits what it must not"
    if "if" in schema:
        return problem(schema.get("else" if problem(schema["if"]) else "then", True))
    return ""
