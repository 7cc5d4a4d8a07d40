"""Grade the kept files of a run again: a new folder in its checker/, and nothing else of it is touched."""

from __future__ import annotations

import shutil
from pathlib import Path

from assay.model.errors import EngineError, Unmeasured, UsageError
from assay.model.outcome import Verdict
from assay.model.project import Project
from assay.model.record import RunRecord, State
from assay.model.registry import Choice
from assay.model.task import Task, load_task
from assay.run import prepare
from assay.run.grade import Grading
from assay.run.index import append_index
from assay.run.job import Job, Stop
from assay.run.judge import Graded
from assay.run.lifecycle import checker_of, write_grade
from assay.run.no_room import not_graded, told
from assay.run.prepare import Say
from assay.run.record import RunDir, grades, latest_verdict, read_record
from assay.run.redact import Redactor
from assay.sandbox.engine import Engine


def check(project: Project, run: Path, task: Path | None = None) -> tuple[RunRecord, Job]:
    """What is to be graded, by the checker as it is now.

    Args:
        project: Settings and base image.
        run: The run directory.
        task: The task's folder, if it is no longer where it was.

    Raises:
        UsageError: The run cannot be graded; says why.
    """
    record = read_record(run)
    _refuse(run, record)
    loaded = _task(record, task)
    if loaded.checker is None:
        msg = f"{loaded.path}: has no checker/, so there is nothing to grade with"
        raise UsageError(msg)
    return record, prepare.check(project, loaded, Choice("nop"))


def _refuse(run: Path, record: RunRecord) -> None:
    why = None
    if record.repository is not None:
        why = "it is a question about a repository, whose answer is for you to judge"
    elif record.state is not State.COMMITTED:
        why = f"it is not over (state {record.state}); `assay recover` finishes what a killed assay left"
    elif record.ending is None or not record.ending.graded:
        why = f"it ended as {record.ending}, so its files are not what its agent had to say; `assay resume` goes on"
    elif record.left != "complete" or not (run / "left.tar.zst").is_file():
        why = f"its files were not kept whole ({record.left_reason or 'left.tar.zst is not there'})"
    if why is not None:
        msg = f"{record.id} cannot be graded: {why}"
        raise UsageError(msg)


def _task(record: RunRecord, given: Path | None) -> Task:
    path = given if given is not None else Path(record.task_path)
    if given is None and not path.is_dir():
        msg = f"{record.id}: its task is no longer at {path}; say where it is with --task"
        raise UsageError(msg)
    return load_task(path)


def grade(engine: Engine, project: Project, run: Path, record: RunRecord, job: Job, say: Say, stop: Stop) -> RunRecord:
    """Grade once more and keep it; the record with the new verdict (run.toml itself is not written).

    Raises:
        BuildFailed: The checker's image cannot be had.
        Unmeasured: The run directory cannot be written; what it holds of earlier gradings stands.
        UsageError: The run is being graded by somebody else at this moment.
    """
    job = prepare.build(engine, project, job, say)
    checker = checker_of(job, replaces=job.images.own)
    assert checker is not None  # noqa: S101 - `check` refuses a task without one
    labels = {"assay.run": record.id, "assay.project": str(project.root), "assay.role": "checker"}
    try:
        number = _claim(run)
        grading = Grading(engine, checker, f"assay-{record.id}-checker-{number}", labels)
        graded, output = _graded(grading, run, record.id, stop)
        try:
            write_grade(RunDir(run, record), number, graded, output, job.images.checker)
        except OSError:
            shutil.rmtree(run / "checker" / str(number), ignore_errors=True)
            raise
        renewed = latest_verdict(record, run)
        append_index(run.parent, renewed)
    except OSError as error:
        msg = f"{record.id}: {not_graded(record.id, error)}"
        raise Unmeasured(msg) from error
    return renewed


def _graded(grading: Grading, run: Path, run_id: str, stop: Stop) -> tuple[Graded, bytes]:
    output = b""
    try:
        grading.create()
        graded = grading.run(run, stop)
        output = grading.output(Redactor())
        graded = told(graded, run_id, output)
    except EngineError as error:
        graded = Graded(Verdict.CHECKER_ERROR, not_graded(run_id, error))
    finally:
        grading.remove()
    return graded, output


def _claim(run: Path) -> int:
    """The next folder in checker/, made by us and nobody else."""
    number = max((known["number"] for known in grades(run)), default=0) + 1
    while True:
        try:
            (run / "checker" / str(number)).mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return number
