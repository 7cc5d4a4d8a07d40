"""Which turn of the script answers a request, and whether the tool results are what the script expects.

The position belongs to the server: each request of the main conversation takes the next turn, except that
- a turn with `times` is taken that often,
- a request that repeats the one just answered (the CLI lost the answer) gets the same turn again, unless that turn was
  meant to fail: after a scripted failure the retry is the next turn,
- beyond the last turn every request gets the script's `final` text, so that no CLI can loop for ever.
Sub-agents take the turns marked `subagent`, in order, each only if its `match` is in what the sub-agent was asked.
"""

from __future__ import annotations

import json
import re
import threading
from typing import Literal, NamedTuple

from assay.rehearsal.protocol import Asked, Call, Json, Speaker, shorten

FAILING = ("status", "limit", "hang", "cut", "stream_error")
"""A turn with one of these does not give the CLI an answer that it could go on from."""


class Play(NamedTuple):
    """One turn taken for one request.

    Attributes:
        position: Position in the script, from 0; None beyond its end.
        serial: Names this turn and its repetition; ids in the answer are made of it.
        calls: Its tool calls in the vendor's terms.
    """

    turn: Json
    position: int | None
    serial: str
    how: Literal["turn", "repeat", "beyond"]
    calls: list[Call]


class _Line:
    """Turns that are played in order, and how often the first of them was taken."""

    def __init__(self, turns: list[tuple[int, Json]]) -> None:
        self.turns = turns
        self.taken = 0


class Player:
    """Plays one script to one CLI. Safe to use from several threads.

    Args:
        script: The plain form of a script.
        shell: How a `shell` step becomes the vendor's own tool call: the first whose tool is offered.
        first: Position of the turn to begin with, for a conversation that is resumed.
    """

    def __init__(self, script: Json, shell: list[Json], speaker: Speaker, first: int = 0) -> None:
        self._lock = threading.Lock()
        self._speaker, self._shell = speaker, shell
        numbered = list(enumerate(script["turns"]))[first:]
        self._main = _Line([(n, t) for n, t in numbered if not t.get("subagent")])
        self._subs = [_Line([pair]) for pair in numbered if pair[1].get("subagent")]
        self._final: Json = {"text": script["final"]}
        self._beyond = 0
        self._last: dict[str, tuple[int, Play]] = {}
        self._awaited: dict[str, Json] = {}

    def take(self, asked: Asked) -> tuple[Play, list[Json]]:
        """The turn for a request, and what became of the expectations that its tool results settle."""
        with self._lock:
            settled = self._settle(asked)
            before = self._last.get(asked.thread)
            if before and before[0] == asked.same and not any(key in before[1].turn for key in FAILING):
                return before[1]._replace(how="repeat"), settled
            play = self._next(asked)
            for call, step in zip(play.calls, play.turn.get("calls", []), strict=True):
                if "expect" in step or "fails" in step:
                    self._awaited[call.id] = step
            self._last[asked.thread] = (asked.same, play)
            return play, settled

    def _next(self, asked: Asked) -> Play:
        lines = [self._main]
        if asked.kind == "subagent":
            lines = [line for line in self._subs if line.turns[0][1].get("match", "") in asked.opening]
        for line in lines:
            while line.turns:
                index, turn = line.turns[0]
                line.taken += 1
                if line.taken <= turn.get("times", 1):
                    again = f"r{line.taken}" if line.taken > 1 else ""
                    serial = f"{index + 1:03d}{again}"
                    return Play(turn, index, serial, "turn", self._calls(turn, serial, asked.tools))
                line.turns.pop(0)
                line.taken = 0
        self._beyond += 1
        return Play(self._final, None, f"end{self._beyond:03d}", "beyond", [])

    def _calls(self, turn: Json, serial: str, offered: tuple[str, ...]) -> list[Call]:
        calls = []
        for n, step in enumerate(turn.get("calls", [])):
            tool, given = step.get("tool"), step.get("input", {})
            if "shell" in step:
                tool, given = self._shell_call(step["shell"], offered)
            calls.append(Call(self._speaker.call_id(serial, n), tool, given))
        return calls

    def _shell_call(self, command: str, offered: tuple[str, ...]) -> tuple[str, Json | str]:
        way = next((way for way in self._shell if way["tool"] in offered), self._shell[0])
        return way["tool"], fill(way["input"], command)

    def _settle(self, asked: Asked) -> list[Json]:
        settled = []
        for result in asked.results:
            step = self._awaited.pop(result.call, None)
            if step is None:
                continue
            problems = [
                f"the result does not contain {wanted!r}: {shorten(result.text, 200)!r}"
                for wanted in step.get("expect", [])
                if wanted not in result.text
            ]
            if result.error is not None and step.get("fails", result.error) != result.error:
                what = "succeeded, but must fail" if step["fails"] else "failed, but must succeed"
                problems.append(f"the call {what}: {shorten(result.text, 200)!r}")
            settled.append({"call": result.call, "problems": problems})
        return settled


def fill(template: object, command: str) -> Json | str:
    """Put a command into a tool-input template: `{command}` as it is, `{command_json}` quoted as JSON."""
    if isinstance(template, str):
        return re.sub(r"\{command(_json)?\}", lambda found: json.dumps(command) if found[1] else command, template)
    if isinstance(template, dict):
        return {key: fill(value, command) for key, value in template.items()}
    if isinstance(template, list):
        return [fill(value, command) for value in template]  # type: ignore[return-value]
    return template  # type: ignore[return-value]
