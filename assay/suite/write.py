"""Writing a suite as a TOML file that a person goes on editing."""

from __future__ import annotations

from collections.abc import Mapping


def suite_text(data: Mapping[str, object], remarks: list[str]) -> str:
    """A suite's data as TOML below remarks; what TOML cannot hold (null) is left out."""
    import tomli_w

    head = "".join(f"# {line}\n" for remark in remarks for line in remark.splitlines())
    plain = _without_null(data)
    return f"{head}\n{tomli_w.dumps(plain if isinstance(plain, dict) else {})}"


def holds_null(value: object) -> bool:
    """Whether there is a null anywhere in a value."""
    if isinstance(value, Mapping):
        return any(map(holds_null, value.values()))
    return any(map(holds_null, value)) if isinstance(value, list) else value is None


def _without_null(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return [_without_null(item) for item in value if item is not None] if isinstance(value, list) else value
