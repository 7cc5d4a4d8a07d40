"""Reading a suite's file, TOML or YAML, into one and the same plain tree.

YAML is read by the 1.2 core rules: `on`, `yes`, dates and `1_000` stay the texts they are. A number that stands where
a text is wanted keeps the spelling it had in the file (`Spelled`).
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from assay.model.errors import ConfigError
from assay.model.toml import parse_toml

if TYPE_CHECKING:
    import yaml

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {"null": None, "~": None, "true": True, "false": False}


class SpelledInt(int):
    """A whole number that remembers how it was written."""

    text: str


class SpelledFloat(float):
    """A number that remembers how it was written."""

    text: str


def read_document(file: Path) -> dict[str, Any]:
    """The content of a suite's file; the ending `.toml` means TOML, anything else YAML.

    Raises:
        ConfigError: It cannot be read or is neither; with the line where that is known.
    """
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise ConfigError(file, "", f"cannot be read: {(error.strerror or str(error)).lower()}") from None
    return parse_toml(raw, file) if file.suffix == ".toml" else parse_yaml(raw, file)


def parse_yaml(raw: bytes, file: Path | str) -> dict[str, Any]:
    """The content of YAML text; `file` is what the user knows it by.

    Raises:
        ConfigError: It is not UTF-8, not one YAML document with a mapping at its top, or a key is given twice.
    """
    import yaml

    try:
        nodes = list(yaml.compose_all(raw.decode("utf-8-sig"), Loader=yaml.SafeLoader))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(file, f"line {line}", "not UTF-8") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(file, where, f"not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ConfigError(file, "", f"not valid YAML: {' '.join(str(error).split())}") from None
    if len(nodes) > 1:
        line = nodes[1].start_mark.line + 1
        problem = "a second document begins here, and would have been ignored; a suite is one document"
        raise ConfigError(file, f"line {line}", problem)
    value = _Builder(file).build(nodes[0], ()) if nodes and nodes[0] is not None else None
    if value is None:
        raise ConfigError(file, "", "it is empty; a suite has checks or cases")
    if not isinstance(value, dict):
        raise ConfigError(file, "line 1", f"a suite is a mapping of keys, not a {_KINDS.get(type(value), 'scalar')}")
    return cast("dict[str, Any]", value)


_KINDS: dict[type, str] = {list: "list", str: "text"}


class _Builder:
    """Makes plain values of YAML nodes."""

    def __init__(self, file: Path | str) -> None:
        self.file = file

    def build(self, node: yaml.Node, above: tuple[int, ...]) -> object:
        import yaml

        if id(node) in above:
            self._fail(node, "an alias that contains itself")
        inside = (*above, id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, inside)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, inside) for item in node.value]
        return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, inside: tuple[int, ...]) -> dict[str, object]:
        import yaml

        out: dict[str, object] = {}
        merged: dict[str, object] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._fail(key_node, "a key must be a text")
            key = key_node.value
            if key == "<<" and key_node.style is None:
                for part in [value_node] if isinstance(value_node, yaml.MappingNode) else value_node.value:
                    base = self.build(part, inside)
                    merged = {**(base if isinstance(base, dict) else {}), **merged}
                continue
            if key in out:
                self._fail(key_node, f"the key {key!r} is given twice")
            out[key] = self.build(value_node, inside)
        return {**merged, **out}

    def _scalar(self, node: Any) -> object:
        text: str = node.value
        if node.tag not in _PLAIN_TAGS:
            self._fail(node, f"the tag {node.tag} has no meaning in a suite")
        if node.style is not None or (node.tag == _STR and _would_resolve(text)):
            return text
        if text == "":
            return None
        if text.lower() in _WORDS and text in (text.lower(), text.upper(), text.capitalize()):
            return _WORDS[text.lower()]
        if _INT.fullmatch(text):
            whole = SpelledInt(int(text, 0) if text[:2] in ("0o", "0x") else int(text))
            whole.text = text
            return whole
        if _FLOAT.fullmatch(text):
            number = SpelledFloat(text.replace(".inf", "inf").replace(".nan", "nan") if "n" in text.lower() else text)
            if not math.isfinite(number):
                self._fail(node, f"{text} is no number that a suite can use")
            number.text = text
            return number
        return text

    def _fail(self, node: yaml.Node, problem: str) -> None:
        mark = node.start_mark
        raise ConfigError(self.file, f"line {mark.line + 1}, column {mark.column + 1}", problem)


def _would_resolve(text: str) -> bool:
    """Whether PyYAML takes the plain text for more than a text, so that a node that is one was tagged `!!str`."""
    import yaml

    resolvers = yaml.SafeLoader.yaml_implicit_resolvers.get(text[:1], [])
    return any(pattern.match(text) for _, pattern in resolvers)


_STR = "tag:yaml.org,2002:str"
_KNOWN = ("str", "int", "float", "bool", "null", "timestamp", "merge", "value")
_PLAIN_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in _KNOWN}
