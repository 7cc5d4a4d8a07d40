"""Setting the rules with the system's tools, and proving them: read back line by line, probed, counted."""

from __future__ import annotations

import contextlib
import errno
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from assay.sandbox.rules import BLOCK, Rule, growth, table

NFT, LEGACY, AUTO = "nft", "legacy", "auto"
TOOLS = {4: "iptables", 6: "ip6tables"}
CALL_SECONDS = 20
PROBE_SECONDS = 2
PROBED = {4: "198.18.0.1", 6: "2001:2::1"}
"""Addresses reserved for benchmarks (RFC 2544, RFC 5180): nobody answers there, so a refusal is the fence's own."""
PROBED_PORT = 9

Rules = Mapping[int, Sequence[Rule]]


class Failed(Exception):
    """The rules could not be set or proven."""


def set_up(backend: str, rules: Rules, meanwhile: Callable[[], object] = lambda: None) -> str:
    """Set both families' rules with the first tool that can, and verify every one; the tool's name.

    Args:
        backend: `nft`, `legacy` or `auto`.
        rules: Of each family.
        meanwhile: Called while the kernel is busy: a change of its tables is mostly waiting (20 ms).

    Raises:
        Failed: None could, or what stands is not what was meant.
    """
    said = []
    for name in (NFT, LEGACY) if backend == AUTO else (backend,):
        try:
            _restore(name, {version: table(rules[version]) for version in TOOLS}, (), meanwhile)
        except Failed as failure:
            said.append(str(failure))
            if backend == AUTO and name == NFT:
                _clear(name)
            continue
        verify(name, rules)
        return name
    raise Failed("; ".join(said))


def grow(backend: str, old: Rules, new: Rules) -> None:
    """Add rules to those that stand, keep their counters, and verify the whole again."""
    texts = {version: text for version in TOOLS if (text := growth(old[version], new[version]))}
    _restore(backend, texts, ("--noflush",))
    verify(backend, new)


def verify(backend: str, rules: Rules) -> None:
    """Compare what the kernel holds with what was meant, rule by rule.

    On legacy tables a second implementation reads (libiptc by way of python-iptables), not the tool that wrote.

    Raises:
        Failed: They differ.
    """
    if backend == LEGACY:
        import json

        wanted = {str(version): [rule._asdict() for rule in rules[version]] for version in TOOLS}
        differing = json.loads(_legacy("verify", json.dumps(wanted)))
        if differing:
            msg = f"read back other rules than were set: {differing}"
            raise Failed(msg)
        return
    for version, lines in _saved(backend, ()).items():
        found = [line.split(" [")[0] for line in lines]
        meant = [line.split(" [")[0] for line in table(rules[version]).splitlines()]
        if found != meant:
            odd = [line for line in meant + found if (line in meant) != (line in found)] or ["their order"]
            msg = f"read back other IPv{version} rules than were set: {odd[0]}"
            raise Failed(msg)


def counted(backend: str) -> int:
    """Packets that the REJECT rules have refused so far, both families."""
    if backend == LEGACY:
        return int(_legacy("count", ""))
    refusals = 0
    for lines in _saved(backend, ("-c",)).values():
        for line in lines:
            counters, _, rule = line.partition("] ")
            if rule.startswith(f"-A {BLOCK} ") and " -j REJECT " in rule:
                refusals += int(counters[1:].split(":")[0])
    return refusals


def probe(logged: Callable[[], None]) -> int:
    """Prove that a connection is refused at once; the number of packets that took.

    Args:
        logged: Waits until the packet log told of a packet; called once, where a packet was sent.

    Raises:
        Failed: Something connected, hung, or went unlogged.
    """
    import socket

    sent = 0
    for version, address in PROBED.items():
        with socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET, socket.SOCK_STREAM) as attempt:
            attempt.settimeout(PROBE_SECONDS)
            try:
                attempt.connect((address, PROBED_PORT))
            except ConnectionRefusedError:
                sent += 1
                logged()
                continue
            except OSError as error:
                # Without IPv6 in this namespace there is no way out for it, and no packet to refuse.
                if version == 6 and error.errno in (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    continue
                msg = f"a probe over IPv{version} was not refused: {error}"
                raise Failed(msg) from None
        msg = f"a probe over IPv{version} got through"
        raise Failed(msg)
    if not sent:
        msg = "no probe was refused"
        raise Failed(msg)
    return sent


def _restore(
    backend: str, texts: Mapping[int, str], options: Sequence[str], meanwhile: Callable[[], object] = lambda: None
) -> None:
    _both({v: [f"{TOOLS[v]}-{backend}-restore", *options] for v in texts}, texts, meanwhile)


def _saved(backend: str, options: Sequence[str]) -> dict[int, list[str]]:
    outputs = _both({v: [f"{TOOLS[v]}-{backend}-save", "-t", "filter", *options] for v in TOOLS}, {})
    return {v: [line for line in out.splitlines() if not line.startswith("#")] for v, out in outputs.items()}


def _clear(backend: str) -> None:
    """Undo what one family may have got before the other failed; where that fails too, it stays closed."""
    for version, tool in TOOLS.items():
        text = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n"
        try:
            _both({version: [f"{tool}-{backend}-restore"]}, {version: text})
        except Failed:
            continue


def _legacy(verb: str, text: str) -> str:
    argv = [sys.executable, "-EsS", "-m", "assay.sandbox.fence_image.legacy", verb]
    return _both({4: argv}, {4: text})[4]


def _both(
    commands: Mapping[int, Sequence[str]], inputs: Mapping[int, str], meanwhile: Callable[[], object] = lambda: None
) -> dict[int, str]:
    """Run one command a family, side by side."""
    running: dict[int, subprocess.Popen[str]] = {}
    out, failures = {}, []
    try:
        for version, argv in commands.items():
            pipe = subprocess.PIPE
            running[version] = process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
            assert process.stdin is not None  # noqa: S101
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(inputs.get(version, ""))
                process.stdin.close()
            process.stdin = None
        meanwhile()
        for version, process in running.items():
            out[version], said = process.communicate(timeout=CALL_SECONDS)
            if process.returncode:
                failures.append(f"{commands[version][0]}: {' '.join(said.split())[:300] or process.returncode}")
    except (OSError, subprocess.TimeoutExpired) as error:
        failures.append(str(error))
    finally:
        for process in running.values():
            if process.poll() is None:
                process.kill()
                process.wait()
    if failures:
        raise Failed("; ".join(failures))
    return out
