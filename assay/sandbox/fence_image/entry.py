"""What the fence's container runs: the rules first, and all else while the kernel takes them in.

What is imported here is imported before the first rule stands, so it is little.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import sys

from assay.sandbox.fence_image import firewall
from assay.sandbox.rules import Around, compile_rules, read

PLAN = "/run/fence/plan"


def look_around() -> Around:
    """The engine's resolvers, the networks on our links, and whether IPv6 leads anywhere."""
    with open("/etc/resolv.conf", encoding="utf-8") as file:  # noqa: PTH123
        words = [line.split() for line in file]
    named = [w[1] for w in words if len(w) > 1 and w[0] == "nameserver"]
    resolvers = tuple(address for address in named if "%" not in address)
    links, ipv6 = [], False
    with open("/proc/net/route", encoding="ascii") as file:  # noqa: PTH123
        for fields in (line.split() for line in list(file)[1:]):
            target, gateway, mask = (bytes.fromhex(fields[n])[::-1] for n in (1, 2, 7))
            if not any(gateway) and any(mask):
                links.append(f"{ipaddress.IPv4Address(target)}/{int.from_bytes(mask, 'big').bit_count()}")
    with contextlib.suppress(FileNotFoundError), open("/proc/net/ipv6_route", encoding="ascii") as file:  # noqa: PTH123
        for fields in (line.split() for line in file):
            network, size, via = bytes.fromhex(fields[0]), int(fields[1], 16), fields[4]
            if fields[9] == "lo":
                continue
            if not size:
                ipv6 = True
            elif not via.strip("0") and network[0] != 0xFF:
                links.append(f"{ipaddress.IPv6Address(network)}/{size}")
    return Around(resolvers, tuple(dict.fromkeys(links)), ipv6)


def main() -> None:
    """Stand as the fence that is asked for; one line `failed` and a bad exit where that cannot be."""
    try:
        plan = read(os.environ.get("ASSAY_PLAN") or _given())
        around = look_around()
        rules = {version: compile_rules(plan, version, around) for version in (4, 6)}
        backend = firewall.set_up(os.environ["ASSAY_BACKEND"], rules, _load)
        from assay.sandbox.fence_image.sidecar import Sidecar

        sidecar = Sidecar(plan, around, rules, backend)
        sidecar.start()
        sidecar.run()
    except (firewall.Failed, OSError) as error:
        from assay.sandbox.fence_image.sidecar import tell

        tell("failed", why=str(error))
        sys.exit(1)


def _given() -> str:
    with open(PLAN, encoding="ascii") as file:  # noqa: PTH123
        return file.read()


def _load() -> None:
    import assay.sandbox.fence_image.sidecar  # noqa: F401
