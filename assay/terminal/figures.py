"""Times, tokens and money as a person reads them."""

from __future__ import annotations


def seconds(value: float | None) -> str:
    """`0.8 s`, `42 s`, `3:05`, `1:02:03`; "" for unknown."""
    if value is None:
        return ""
    if value < 60:
        return f"{value:.1f} s" if value < 9.95 else f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def clock(value: float) -> str:
    """A running clock, in whole seconds: `7 s`, `3:05`."""
    return f"{int(value)} s" if value < 60 else seconds(int(value))


def tokens(value: int | None) -> str:
    """`950`, `12.3k`, `4.56M`; "" for unknown."""
    if value is None:
        return ""
    if value < 1000:
        return str(value)
    return f"{value / 1000:.1f}k" if value < 999_950 else f"{value / 1_000_000:.2f}M"


def dollars(value: float | None) -> str:
    """`$0.0262`, `$1.92`, `<$0.0001`, `$0`; "" for unknown."""
    if value is None:
        return ""
    if value == 0:
        return "$0"
    if value < 0.0001:
        return "<$0.0001"
    return f"${value:.2f}" if value >= 1 else f"${value:.4f}"
