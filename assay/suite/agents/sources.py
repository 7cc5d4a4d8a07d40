"""Agents under test: each takes a prompt and gives a trajectory."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from assay.model.errors import UsageError
from assay.model.trajectory import Trajectory
from assay.suite.agents.spec import AgentSpec
from assay.suite.programs import Failed, run_program
from assay.suite.wire.transport import in_words


class Agent(Protocol):
    """Whatever answers a prompt."""

    def answer(self, prompt: str, seconds: float) -> Trajectory:
        """Answer within a time limit; what goes wrong is the trajectory's `error`, never an exception."""
        ...


@dataclass(frozen=True, slots=True)
class ObjectAgent:
    """A Python callable, an object with a `run` method, or a class of either (then new for every prompt).

    It takes the prompt and returns, at once or as a coroutine, a text, a `Trajectory`, the dict form of one, or a list
    of chat messages.
    """

    target: Any

    def answer(self, prompt: str, seconds: float) -> Trajectory:
        """Call it in a thread of its own; a call that outlasts its time is given up, for it cannot be stopped."""
        box: list[object] = []

        def work() -> None:
            try:
                box.append(_call(self.target, prompt))
            except Exception as error:  # noqa: BLE001 - whatever the agent raises is its answer
                box.append(error)

        start = time.perf_counter()
        thread = threading.Thread(target=work, name="agent", daemon=True)
        thread.start()
        thread.join(seconds)
        took = time.perf_counter() - start
        if not box:
            return Trajectory(seconds=took, error=f"no answer within {in_words(seconds)}")
        if isinstance(error := box[0], Exception):
            return Trajectory(seconds=took, error=f"{type(error).__name__}: {error}")
        return _made(box[0], took)


def _call(target: Any, prompt: str) -> object:
    agent = target() if isinstance(target, type) else target
    function: Callable[[str], object] = agent if callable(agent) else agent.run
    result = function(prompt)
    if inspect.isawaitable(result):
        import asyncio

        async def wait() -> object:
            return await result

        return asyncio.run(wait())
    return result


@dataclass(frozen=True, slots=True)
class CommandAgent:
    """A program: the prompt on its standard input, the answer on its standard output."""

    spec: AgentSpec

    def answer(self, prompt: str, seconds: float) -> Trajectory:
        """Run it once; see `Agent.answer`."""
        spec, start = self.spec, time.perf_counter()
        try:
            out = run_program(spec.command, prompt.encode(), seconds, env=spec.env, cwd=spec.cwd)
        except Failed as error:
            return Trajectory(seconds=time.perf_counter() - start, error=str(error))
        took, text = time.perf_counter() - start, out.decode("utf-8", "replace")
        if spec.format == "text":
            return Trajectory(text, seconds=took)
        try:
            return _made(json.loads(text), took)
        except (ValueError, RecursionError) as error:
            return Trajectory(seconds=took, error=f"its output is no JSON: {error}")


@dataclass(frozen=True, slots=True)
class RecordedAgent:
    """A trajectory that is already there; it is the answer to every prompt."""

    trajectory: Trajectory

    def answer(self, prompt: str, seconds: float) -> Trajectory:  # noqa: ARG002 - nothing is asked any more
        """The recorded trajectory."""
        return self.trajectory


def _made(value: object, took: float) -> Trajectory:
    """A trajectory of what an agent returned; the time measured here stands in for one it does not state."""
    try:
        trajectory = as_trajectory(value)
    except ValueError as error:
        return Trajectory(seconds=took, error=str(error))
    return trajectory if trajectory.seconds is not None else replace(trajectory, seconds=took)


def as_trajectory(value: object) -> Trajectory:
    """A trajectory of a text, a trajectory, its dict form, `{"messages": [...]}`, or a list of chat messages.

    Raises:
        ValueError: It is none of these.
    """
    if isinstance(value, Trajectory):
        return value
    if isinstance(value, str):
        return Trajectory(value)
    if isinstance(value, Mapping):
        messages = value.get("messages")
        return Trajectory.from_messages(messages) if isinstance(messages, list) else Trajectory.from_dict(value)
    if isinstance(value, list):
        return Trajectory.from_messages(value)
    msg = f"an agent returns a text, a trajectory or chat messages, not {type(value).__name__}"
    raise ValueError(msg)


def load_object(name: str) -> ObjectAgent:
    """The agent at `module:attribute`; the current folder is looked in first.

    Raises:
        UsageError: There is no such module or attribute, or it is neither callable nor has a `run`.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        msg = f"an object is named module:attribute, not {name!r}"
        raise UsageError(msg)
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        msg = f"{name}: no module {error.name!r} (looked in the current folder and the installed packages)"
        raise UsageError(msg) from None
    for part in attribute.split("."):
        if not hasattr(found, part):
            msg = f"{name}: {module_name} has no {attribute!r}"
            raise UsageError(msg)
        found = getattr(found, part)
    if not callable(found) and not callable(getattr(found, "run", None)):
        msg = f"{name} is neither callable nor has a run method"
        raise UsageError(msg)
    return ObjectAgent(found)


def make_agent(spec: AgentSpec) -> Agent | None:
    """The agent that a suite names, if it is an object, a command or a recording.

    Raises:
        UsageError: It cannot be loaded.
    """
    if spec.object:
        return load_object(spec.object)
    if spec.command:
        return CommandAgent(spec)
    return load_recorded(spec.recorded) if spec.recorded is not None else None


def load_recorded(file: Path) -> RecordedAgent:
    """A trajectory from a JSON file.

    Raises:
        UsageError: It cannot be read or holds no trajectory.
    """
    try:
        return RecordedAgent(as_trajectory(json.loads(file.read_bytes())))
    except OSError as error:
        msg = f"{file} cannot be read: {(error.strerror or str(error)).lower()}"
    except (ValueError, RecursionError) as error:
        msg = f"{file} holds no trajectory: {error}"
    raise UsageError(msg)
