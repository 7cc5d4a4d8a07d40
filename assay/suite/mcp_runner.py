"""Runs a suite against an MCP server."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Sequence

from assay.model.report import Case, Report
from assay.model.score import Score
from assay.suite.checks import Check
from assay.suite.patterns import Undecided
from assay.suite.subject import Subject
from assay.suite.suite import Suite
from assay.suite.wire.faults import BadAnswer, RpcError, StartFault, WireFault
from assay.suite.wire.transport import Server, shown_url


def run_checks(suite: Suite) -> Report:
    """Make every check of a suite, whose `server` is complete, in order and on one server.

    After a fault there is a new one, and for each check if the suite isolates them.
    """
    begin = time.monotonic()
    cases: dict[int, Case] = {}
    names = case_names(suite.checks)
    order = sorted(range(len(suite.checks)), key=lambda i: suite.checks[i].at_end)
    with Subject(suite.server, begin + suite.timeout) as subject:
        try:
            subject.session  # noqa: B018 - opened now: a server that does not start is no check's score
        except StartFault as fault:
            return _not_started(suite, fault, time.monotonic() - begin)
        for index in order:
            cases[index] = make_case(suite, suite.checks[index], names[index], subject)
    return Report(
        name=suite.name,
        threshold=suite.threshold,
        cases=tuple(cases[index] for index in range(len(suite.checks))),
        errors_fail=suite.errors_fail,
        about=_about(suite.server, subject),
        notes=(*subject.notes, *_vacuous(suite.checks, names), *_stray_note(suite, subject)),
        seconds=time.monotonic() - begin,
    )


def make_case(suite: Suite, check: Check, name: str, subject: Subject) -> Case:
    """Make one check; whatever the server does is a score, never an exception."""
    start = time.perf_counter()
    score = _score(suite, check, subject)
    if suite.isolate:
        subject.drop()
    return Case(name, {check.label: score}, time.perf_counter() - start)


def _score(suite: Suite, check: Check, subject: Subject) -> Score:
    if time.monotonic() >= subject.end:
        return Score.error(f"not made: the suite's {suite.timeout:g} s were over")
    try:
        return check.evaluate(subject)
    except RpcError as error:
        return Score.of(0, 1, f"refused: {error}")
    except BadAnswer as fault:
        return Score.of(0, 1, str(fault), fault.evidence)
    except WireFault as fault:
        subject.drop()
        return Score.error(str(fault), fault.evidence)
    except Undecided as why:
        return Score.error(str(why))


def case_names(checks: Sequence[Check]) -> list[str]:
    """What each check is called in reports; those without a name by their label, numbered from the second on."""
    seen = Counter(check.name for check in checks if check.name)
    names = []
    for check in checks:
        name = check.name or check.label
        if not check.name:
            seen[name] += 1
            name = name if seen[name] == 1 else f"{name}#{seen[name]}"
        names.append(name)
    return names


def _not_started(suite: Suite, fault: StartFault, seconds: float) -> Report:
    names = case_names(suite.checks)
    skipped = (
        Case(name, {check.label: Score.skipped("the server did not start")})
        for name, check in zip(names, suite.checks, strict=True)
    )
    about = {**_told(suite.server), "evidence": fault.evidence}
    return Report(suite.name, suite.threshold, tuple(skipped), fault.told(), about=about, seconds=seconds)


def _told(server: Server) -> dict[str, object]:
    """The server as the user named it; values of variables and headers are never told."""
    return {
        **({"url": shown_url(server.url)} if server.url else {"command": shlex.join(server.command)}),
        "env": sorted(server.env),
        "inherit_env": server.inherit_env,
        "cwd": str(server.cwd) if server.cwd else None,
        "headers": sorted(server.headers),
        "client_capabilities": sorted(server.capabilities),
    }


def _about(server: Server, subject: Subject) -> dict[str, object]:
    info = subject.info
    return {
        **_told(server),
        "server": {"name": info.name, "version": info.version, "capabilities": sorted(info.capabilities)},
        "protocol": info.protocol,
        "starts": subject.starts,
        "stray_lines": subject.stray.count,
    }


def _vacuous(checks: Sequence[Check], names: Sequence[str]) -> list[str]:
    found = [name for name, check in zip(names, checks, strict=True) if check.empty]
    return [f"asserts nothing but that an answer comes: {', '.join(found)}"] if found else []


def _stray_note(suite: Suite, subject: Subject) -> list[str]:
    stray = subject.stray
    if not stray.count or any(check.label == "clean_stdout" for check in suite.checks):
        return []
    return [f"{stray.count} lines on the server's standard output are no messages, first: {stray.samples[0]}"]
