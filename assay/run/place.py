"""Where an agent runs: the fence around it, and who answers at its vendor's address."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.model.errors import AssayError, EngineError
from assay.model.outcome import Ending
from assay.run.attempt import Attempt
from assay.run.inject import outside
from assay.run.job import Job
from assay.sandbox.engine import Engine
from assay.sandbox.fence import Fence
from assay.sandbox.pins import resolve
from assay.sandbox.proxy import looked_up
from assay.sandbox.rules import Pin, Via

if TYPE_CHECKING:
    from assay.rehearsal.vendor import StandIn

LOOK_UP_SECONDS = 300.0
"""Between two look-ups of a vendor's hosts."""


@dataclass(slots=True)
class Place:
    """The surroundings of one run.

    Attributes:
        network: For the agent's container.
        ca_pem: Certificates the agent is to trust beside its own.
        over: Set at the end.
    """

    network: str
    fence: Fence | None
    ca_pem: bytes | None = None
    stand_in: StandIn | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def wait_ready(self) -> None:
        """Block until the fence is proven and whoever answers at the vendor's address listens.

        Raises:
            FenceFailed: The fence could not be set up or proven.
            EngineError: The engine or the stand-in failed.
        """
        if self.fence is not None:
            self.fence.start()
        if self.stand_in is not None:
            self.stand_in.wait_ready()
        if self.fence is not None:
            self.fence.ready()

    def watch_over(self, attempt: Attempt) -> None:
        """End the run if its fence dies under it (it fails closed, but the agent would wait in vain)."""
        if self.fence is not None:
            self.fence.watch(lambda reason: attempt.cut_short(Ending.CRASHED, reason))
            if self.stand_in is None and self.fence.pins:
                threading.Thread(target=self._look_up, args=(attempt, self.fence), name="pins", daemon=True).start()

    def _look_up(self, attempt: Attempt, fence: Fence) -> None:
        """Pin what a vendor's names have come to mean, again and again; nothing is ever taken away."""
        while not self.over.wait(LOOK_UP_SECONDS):
            try:
                fresh = fence.refresh()
            except (AssayError, OSError) as error:
                if not self.over.is_set():
                    attempt.cut_short(Ending.CRASHED, f"the fence failed: {error}")
                return
            if fresh.added or fresh.notes:
                attempt.log.info("looked up again", added=dict(fresh.added), notes=fresh.notes)

    def finish(self, attempt: Attempt) -> None:
        """Write down what fence and stand-in saw, and take everything down."""
        self.over.set()
        try:
            if self.fence is not None:
                _fenced(attempt, self.fence)
            if self.stand_in is not None:
                _rehearsed(attempt, self.stand_in)
        finally:
            try:
                if self.fence is not None:
                    self.fence.stop()
            finally:
                if self.stand_in is not None:
                    self.stand_in.stop()


def _fenced(attempt: Attempt, fence: Fence) -> None:
    """What the fence saw; and whether a credential that was kept outside was ever asked for."""
    report = fence.report()
    _keep(attempt, "fence.json", report.as_dict())
    if report.requests_injected == 0 and report.complete and attempt.job.held.names and attempt.record.times.started:
        names = ", ".join(attempt.job.held.names)
        refused = " (fence.json has those that were refused)" if report.requests_refused else ""
        attempt.say(f"no request carried the placeholder of {names}, so it was never put in{refused}")


def _rehearsed(attempt: Attempt, stand_in: StandIn) -> None:
    """What the stand-in was asked, and where a resumed conversation goes on in the script."""
    try:
        report = stand_in.report()
    except EngineError as error:
        attempt.say(f"rehearsal: the stand-in's record cannot be read: {error}")
        return
    entry = attempt.job.choice.entry
    if entry is not None and not attempt.job.settings.internet:
        asked = {tool for request in report.requests for tool in request.tools or ()}
        if offered := sorted(asked.intersection(entry.web_tools)):
            attempt.say(f"rehearsal: {', '.join(offered)} was offered to the model although the run has no internet")
    requests = [dict(request.raw) for request in report.requests]
    known = {"problems": report.problems, "next_turn": report.next_turn, "requests": requests}
    _keep(attempt, "rehearsal.json", known)
    if attempt.record.ending is Ending.FINISHED:
        for problem in report.problems:
            attempt.say(f"rehearsal: {problem}")


def _keep(attempt: Attempt, name: str, what: dict[str, Any]) -> None:
    attempt.dir.write(name, attempt.redactor.clean(json.dumps(what, indent=1, default=str).encode()))


def set_up(attempt: Attempt) -> Place:
    """Create the surroundings, so that the agent's container can be created; not ready yet.

    Raises:
        FenceFailed: A host cannot be pinned.
        EngineError: The engine failed; nothing is left behind.
    """
    job, engine = attempt.job, attempt.engine
    stand_in, via = _stand_in(attempt), None
    try:
        ca_pem = job.ca
        if stand_in is not None:
            ca_pem = stand_in.ca_pem
            pins = [Pin(host, (stand_in.address,), private=True) for host in stand_in.hosts]
        else:
            via, pins = _way_out(job)
        kept = outside(job, [pin.host for pin in pins], ca_pem or b"", public=stand_in is None)
        if kept is not None:
            ca_pem, attempt.handed = kept.ca_pem, kept.held
        fence = Fence(
            engine,
            job.images.fence,
            pins,
            job.fence_mode,
            name=attempt.name("fence"),
            labels={**attempt.labels, "assay.role": "fence"},
            backend=job.fence_backend,
            via=via,
            injection=kept.injection if kept is not None else None,
        )
        fence.create()
    except BaseException:
        if stand_in is not None:
            stand_in.stop()
        raise
    return Place(fence.network, fence, ca_pem, stand_in)


def _way_out(job: Job) -> tuple[Via | None, list[Pin]]:
    """How a real run reaches its vendor: directly at pinned addresses, or through the user's proxy."""
    hosts = job.held.hosts(job.choice.entry) if job.choice.entry is not None else []
    if job.proxy is None:
        return None, list(resolve(hosts))
    return looked_up(job.proxy), [Pin(host, ()) for host in dict.fromkeys(hosts)]


def found(attempt: Attempt, containers: Iterable[Mapping[str, Any]]) -> Place:
    """The surroundings that a killed harness left standing, as far as they still do.

    Args:
        attempt: The run, taken over.
        containers: Those of this run, as the engine lists them.

    Raises:
        EngineError: The engine failed.
    """
    job, fences, stand_in = attempt.job, dict[str, str](), None
    for container in containers:
        role, part = container["Labels"].get("assay.role"), container["Labels"].get("assay.fence", "")
        if role == "fence" and container["State"] == "running":
            fences[part] = str(container["Id"])
        elif role == "stand-in" and job.script is not None and job.choice.entry is not None:
            stand_in = _stand_in_found(job, attempt.engine, str(container["Id"]))
    inner = fences.get("agents")
    fence = Fence.attach(attempt.engine, inner, job.fence_mode, fences.get("gate")) if inner is not None else None
    return Place(fence.network if fence is not None else "none", fence, stand_in=stand_in)


def _stand_in_found(job: Job, engine: Engine, container: str) -> StandIn | None:
    from assay.rehearsal.vendor import StandIn, configuration

    entry = job.choice.entry
    if entry is None or entry.rehearsal is None or job.script is None:
        return None
    first = job.earlier.turn if job.earlier is not None else 0
    turns = configuration(entry.rehearsal, job.script)["script"]["turns"]
    return StandIn(engine, container, tuple(entry.rehearsal.hosts), b"", turns, first)


def _stand_in(attempt: Attempt) -> StandIn | None:
    job, entry = attempt.job, attempt.job.choice.entry
    if job.script is None or entry is None or entry.rehearsal is None:
        return None
    from assay.rehearsal import vendor

    return vendor.create(
        attempt.engine,
        job.images.support,
        entry.rehearsal,
        job.script,
        {**attempt.labels, "assay.role": "stand-in"},
        name=attempt.name("stand-in"),
        first=job.earlier.turn if job.earlier is not None else 0,
    )
