"""Runs a suite on an agent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from fractions import Fraction

from assay.model.errors import UsageError
from assay.model.report import Case, Report
from assay.model.score import Score, State, mean
from assay.model.trajectory import Trajectory
from assay.suite.agents.sources import Agent
from assay.suite.judging.judge import CommandJudge, Judge, judge_score
from assay.suite.judging.spec import JudgeSpec
from assay.suite.metrics.case import AgentCase, Metric
from assay.suite.metrics.output import Answered
from assay.suite.patterns import TOO_DEEP, Undecided
from assay.suite.suite import Suite

MakeJudge = Callable[[JudgeSpec], Judge]


def run_cases(
    suite: Suite,
    agent: Agent,
    *,
    judge: Judge | None = None,
    make_judge: MakeJudge | None = None,
    about: dict[str, object] | None = None,
) -> Report:
    """Ask an agent every prompt of a suite and score its answers.

    Args:
        suite: With cases.
        agent: Asked anew each time; it keeps nothing from case to case unless it does so itself.
        judge: Judges every case that wants judging, instead of what the suite says.
        make_judge: Makes a judge of what the suite says where that is no command.
        about: Facts about the agent, for the report.
    """
    begin = time.monotonic()
    end = begin + suite.timeout
    cases = [run_case(suite, case, agent, judge=judge, make_judge=make_judge, end=end) for case in suite.cases]
    vacuous = [case.name for case in suite.cases if case.metrics == (Answered(),)]
    notes = [f"asks for nothing but an answer: {', '.join(vacuous)}"] if vacuous else []
    return Report(
        name=suite.name,
        threshold=suite.threshold,
        cases=tuple(cases),
        errors_fail=suite.errors_fail,
        about=about or {},
        notes=tuple(notes),
        seconds=time.monotonic() - begin,
    )


def _judge(spec: JudgeSpec, make: MakeJudge | None) -> Judge:
    if spec.command:
        return CommandJudge(spec.command, spec.timeout)
    if make is None:
        msg = f"the judge {spec.agent!r} is an agent in a container, which only `assay agent` starts; give judge="
        raise UsageError(msg)
    return make(spec)


def run_case(
    suite: Suite,
    case: AgentCase,
    agent: Agent,
    *,
    judge: Judge | None = None,
    make_judge: MakeJudge | None = None,
    end: float | None = None,
) -> Case:
    """Ask one case, as often as it wants to be asked; `end` is the monotonic time at which the suite must be over."""
    if judge is None and case.judge is not None:
        judge = _judge(case.judge, make_judge)
    end = time.monotonic() + suite.timeout if end is None else end
    runs = [_run(suite, case, agent, judge, end) for _ in range(case.repeat)]
    seconds = sum(run[1] for run in runs)
    if case.repeat == 1:
        return Case(case.name, runs[0][0], seconds)
    scores = [run[0] for run in runs]
    labels = list(dict.fromkeys(label for score in scores for label in score))
    merged = {label: _merged([score[label] for score in scores if label in score], case.repeat) for label in labels}
    return Case(case.name, merged, seconds, _pass_rate(case, scores))


def _run(
    suite: Suite, case: AgentCase, agent: Agent, judge: Judge | None, end: float
) -> tuple[dict[str, Score], float]:
    limit = suite.agent.timeout if suite.agent is not None else suite.timeout
    left = end - time.monotonic()
    if left <= 0:
        return {"answer": Score.error(f"not asked: the suite's {suite.timeout:g} s were over")}, 0.0
    trajectory = agent.answer(case.prompt, min(case.timeout or limit, left))
    return score_trajectory(case, trajectory, judge), trajectory.seconds or 0.0


def score_trajectory(case: AgentCase, trajectory: Trajectory, judge: Judge | None = None) -> dict[str, Score]:
    """What every metric of a case says of a trajectory, in order."""
    if trajectory.error:
        return {"answer": Score.error(trajectory.error)}
    scores = {metric.label: _scored(metric, case.prompt, trajectory) for metric in case.metrics}
    if case.judge is not None and judge is not None:
        scores["judge"] = judge_score(judge, case.judge, case.prompt, trajectory)
    return scores


def _scored(metric: Metric, prompt: str, trajectory: Trajectory) -> Score:
    try:
        return metric.score(prompt, trajectory)
    except Undecided as why:
        return Score.error(str(why))
    except RecursionError:
        return Score.error(TOO_DEEP)


def _merged(scores: Sequence[Score], runs: int) -> Score:
    """One metric over repetitions: the mean, and the first reason for not being full."""
    for score in scores:
        if score.state is State.ERROR:
            return score
    value = mean(score.value or Fraction(0) for score in scores)
    first = next((score for score in scores if score.value != 1), scores[0])
    full = sum(score.value == 1 for score in scores)
    detail = f"{full}/{runs} runs in full" + ("" if full == len(scores) else f", first other: {first.detail}")
    return Score.of(value, 1, detail, first.evidence)


def _pass_rate(case: AgentCase, runs: Sequence[dict[str, Score]]) -> Score:
    good = sum(all(score.value == 1 for score in run.values()) for run in runs)
    if any(score.state is State.ERROR for run in runs for score in run.values()):
        return Score.error(f"{good}/{len(runs)} runs passed, others could not be measured")
    rate = Fraction(good, len(runs))
    if case.pass_rate is None:
        return Score.of(good, len(runs), f"{good}/{len(runs)} runs passed")
    detail = f"{good}/{len(runs)} runs passed, {float(case.pass_rate):.0%} needed"
    return Score.of(Fraction(1) if rate >= case.pass_rate else rate / case.pass_rate, 1, detail)
