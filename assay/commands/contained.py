"""An agent of the registry as an agent under test: each prompt is one run, sealed in its container and kept."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from assay.commands.kept_run import kept_run
from assay.model.errors import AssayError
from assay.model.trajectory import Trajectory

if TYPE_CHECKING:
    from assay.model.registry import Choice
    from assay.stage.climb import Climbed
    from assay.stage.executor import Happening


class ContainedAgent:
    """A vendor's CLI, driven as everywhere.

    Args:
        name: In the registry.
        model: "" is the agent's default.
        effort: "" is the agent's default.
        rehearse: A script for the stand-in; "" is the vendor itself.

    Raises:
        Refused: There is no such agent, or it has no such model or effort.
    """

    def __init__(self, name: str, model: str = "", effort: str = "", rehearse: str = "") -> None:
        from assay.model.project import find_project

        self.choice: Choice = find_project().registry.validate_choice(name, model or None, effort or None)
        self.rehearse = rehearse or None
        self.runs: list[str] = []
        self.about: dict[str, object] = {
            "agent": name,
            "model": self.choice.model,
            "effort": self.choice.effort,
            "rehearsal": bool(rehearse),
            "runs": self.runs,
        }

    def answer(self, prompt: str, seconds: float) -> Trajectory:
        """Make a task of the prompt, run it once, and read what was kept.

        Raises:
            Refused: No run could be started, and no other will be.
            KeyboardInterrupt: The run was stopped by the user.
        """
        from assay.commands.stopping import stop_on_signals
        from assay.model.project import find_project
        from assay.sandbox.engine import Engine
        from assay.stage.climb import climb
        from assay.stage.earlier import Earlier
        from assay.stage.executor import LocalExecutor
        from assay.stage.layout import Wanted, lay_out

        project = find_project(flags={"timeout": f"{max(seconds, 1):.0f}s"})
        with tempfile.TemporaryDirectory(prefix="assay-") as folder:
            task = Path(folder) / "prompt"
            task.mkdir()
            (task / "prompt.md").write_text(prompt, encoding="utf-8")
            choice = self.choice
            wanted = Wanted([task], None, choice.agent, choice.model, choice.effort, self.rehearse)
            what = lay_out(project, wanted)
            executor = LocalExecutor(Engine.connect(), project, 1)
            with stop_on_signals(partial(executor.stop, None)):
                try:
                    climbed = climb(what, executor, Earlier((), None), _Nobody())
                finally:
                    executor.close()
        return self._read(climbed, project.runs)

    def _read(self, climbed: Climbed, runs: Path) -> Trajectory:
        for run in climbed.runs.values():
            self.runs.append(str(run["id"]))
            if run.get("ending") == "interrupted":
                raise KeyboardInterrupt
            if not climbed.errors:
                return kept_run(str(runs / str(run["id"])))[2]
        error = next(iter(climbed.errors.values()), None)
        if error is not None and not isinstance(error, AssayError | OSError):
            raise error
        return Trajectory(error=str(error) if error is not None else "the run did not take place")


class _Nobody:
    """Looks on and says nothing."""

    def happened(self, happening: Happening) -> None:
        """Say nothing."""

    def decided(self, climbed: Climbed) -> None:
        """Say nothing."""
