"""What a run cost by list price, where its CLI does not say."""

from __future__ import annotations

from assay.model.outcome import Tokens
from assay.model.registry import Agent

PER = 1_000_000
DECIMALS = 9
"""A token of a cent a million is worth 1e-8 dollars; what is beyond comes from binary fractions."""


def cost(entry: Agent, model: str, tokens: Tokens) -> float | None:
    """US dollars by the entry's price table; None unless every kind of token that was used has a price."""
    known = entry.models.get(model)
    prices = known.usd_per_mtok if known is not None else None
    if not prices or tokens.output is None or tokens.input is None:
        return None
    total = 0.0
    for kind in ("input", "cached", "cache_write", "output"):
        used = getattr(tokens, kind)
        if not used:
            continue
        price = prices.get(kind)
        if price is None:
            return None
        total += used * price / PER
    return round(total, DECIMALS)
