"""Reads legacy tables through libiptc (python-iptables), which shares no code with the tool that set them.

A process of its own: the library is single-threaded, and nothing else needs it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from assay.sandbox.rules import BLOCK

sys.path.insert(0, "/opt/fence/iptc")

POLICIES = {"INPUT": "DROP", "FORWARD": "DROP", "OUTPUT": "DROP"}


def expected(rule: dict[str, Any]) -> dict[str, Any]:
    """A compiled rule in the library's own shape."""
    shape: dict[str, Any] = {}
    names = {"source": "src", "to": "dst", "into": "in-interface", "out": "out-interface", "protocol": "protocol"}
    for ours, theirs in names.items():
        if rule[ours]:
            shape[theirs] = "icmpv6" if rule[ours] == "ipv6-icmp" else rule[ours]
    for name, options in rule["matches"]:
        shape[name] = dict(options)
    target = rule["target"]
    shape["target"] = (
        {"goto": target} if target == BLOCK else {target: dict(rule["options"])} if rule["options"] else target
    )
    return shape


def difference(meant: list[dict[str, Any]], *, ipv6: bool) -> str:
    """The first thing that stands otherwise than it was meant, "" if all is as it should be."""
    import iptc.easy  # type: ignore[import-not-found]  # only in the image

    for chain, policy in POLICIES.items():
        if (found := iptc.easy.get_policy("filter", chain, ipv6=ipv6)) != policy:
            return f"policy of {chain} is {found}"
    table = iptc.easy.dump_table("filter", ipv6=ipv6)
    if set(table) != {*POLICIES, BLOCK}:
        return f"chains {sorted(table)}"
    for chain, rules in table.items():
        stands = [{key: value for key, value in rule.items() if key != "counters"} for rule in rules]
        wanted = [expected(rule) for rule in meant if rule["chain"] == chain]
        if stands != wanted:
            odd = [rule for rule in stands + wanted if rule not in stands or rule not in wanted]
            return f"{chain}: {odd[0] if odd else 'their order'}"
    return ""


def refusals(*, ipv6: bool) -> int:
    """Packets refused, by the kernel's counters."""
    import iptc

    kind = iptc.Table6 if ipv6 else iptc.Table
    chain = iptc.Chain(kind(kind.FILTER), BLOCK)
    return sum(rule.get_counters()[0] for rule in chain.rules if rule.target.name == "REJECT")


def main() -> None:
    """`verify` (rules of both families on standard input) or `count`; the answer is JSON on standard output."""
    if sys.argv[1] == "verify":
        meant = json.load(sys.stdin)
        told = difference(meant["4"], ipv6=False) or difference(meant["6"], ipv6=True)
        json.dump(told, sys.stdout)
    else:
        json.dump(refusals(ipv6=False) + refusals(ipv6=True), sys.stdout)


if __name__ == "__main__":
    main()
