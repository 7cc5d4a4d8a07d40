"""The schema checker agrees with the jsonschema library where both have an opinion."""

from __future__ import annotations

import importlib
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.suite.checks.lists import digest
from assay.suite.examples_of import arguments_for
from assay.suite.patterns import Undecided
from assay.suite.schema import same, schema_problem, value_problem

jsonschema: Any = importlib.import_module("jsonschema")  # comes with the SDK, and has no types
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "", "a", "ab", "1"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
types = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": types | st.lists(types, min_size=1, max_size=2, unique=True),
            "enum": st.lists(scalars, min_size=1, max_size=3),
            "const": scalars,
            "minimum": st.integers(-2, 2),
            "exclusiveMaximum": st.integers(-2, 2),
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "minLength": st.integers(0, 2),
            "pattern": st.sampled_from(["^a", "b$"]),
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "maxProperties": st.integers(0, 2),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "maxItems": st.integers(0, 2),
            "uniqueItems": st.booleans(),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
        },
    )


schemas: st.SearchStrategy[Any] = st.recursive(st.booleans() | st.just({}), _grown, max_leaves=6)


@settings(max_examples=400, deadline=None)
@given(schemas, values)
def test_as_the_library_has_it(schema: Any, value: Any) -> None:
    assert schema_problem(schema) == ""
    ours = value_problem(value, schema)
    assert (ours == "") == jsonschema.Draft202012Validator(schema).is_valid(value), ours


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "int"}, "type 'int' is none of"),
        ({"properties": []}, "properties is not an object"),
        ({"required": "a"}, "required is not a list of names"),
        ({"anyOf": []}, "anyOf is not a list of schemas"),
        ({"properties": {"a": {"pattern": "("}}}, "at properties.a"),
        ({"items": {"minLength": "1"}}, "minLength is not a number at items"),
        ({"$ref": "#/$defs/none"}, "leads nowhere"),
        ([], "is not an object"),
    ],
)
def test_no_schema(schema: Any, words: str) -> None:
    assert words in schema_problem(schema)


def test_references_and_places() -> None:
    schema = {
        "$defs": {"p": {"type": "object", "properties": {"x": {"type": "integer"}}}},
        "items": {"$ref": "#/$defs/p"},
    }
    assert value_problem([{"x": 1}, {"x": "a"}], schema) == "[1].x is string, not integer"
    loop = {"$ref": "#"}
    assert "nested too deeply" in value_problem(1, loop)


@pytest.mark.parametrize(
    ("value", "step", "good"),
    [
        (0.3, 0.1, True),
        (0.35, 0.1, False),
        (10**400, 10, True),
        (10**400 + 1, 10, False),
        (10**400, 0.5, True),
        (math.inf, 2, True),
        (1, math.nan, True),
        (1e308, 1e-300, True),
    ],
)
def test_multiples(value: float, step: float, good: bool) -> None:
    assert (value_problem(value, {"multipleOf": step}) == "") is good


def test_what_is_nested_beyond_all_measure() -> None:
    deep: list[list[Any]] = [[], []]
    for _ in range(5000):
        deep = [[deep[0]], [deep[1]]]
    with pytest.raises(Undecided, match="nested too deeply"):
        value_problem(deep, {"uniqueItems": True})
    tool: dict[str, Any] = {"inputSchema": deep}
    assert digest(tool).startswith("sha256:")


def test_one_is_one_point_nought_and_not_true() -> None:
    assert same({"a": [1]}, {"a": [1.0]})
    assert not same(True, 1)


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "object"}, {}),
        (
            {
                "type": "object",
                "required": ["a", "b", "c", "d", "e"],
                "properties": {
                    "a": {"enum": ["x", "y"]},
                    "b": {"type": "integer", "minimum": 5},
                    "c": {"type": "array", "minItems": 1, "items": {"type": "boolean"}},
                    "d": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
                    "e": {"type": "number", "default": 2.5},
                    "f": {"type": "string"},
                },
            },
            {"a": "x", "b": 5, "c": [False], "d": "2026-01-02", "e": 2.5},
        ),
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "pattern": "^[0-9]{9}$"}}}, None),
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "array", "minItems": math.nan}}}, None),
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "array", "minItems": 10**15}}}, None),
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "minimum": math.inf}}}, None),
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "multipleOf": "x"}}}, None),
    ],
)
def test_made_up_arguments(schema: dict[str, Any], wanted: dict[str, Any] | None) -> None:
    assert arguments_for(schema) == wanted
