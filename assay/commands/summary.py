"""What a stage came to, told at its end: which rung passed, what it cost, what the rest would have been."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.commands.words import result_line, resumable_when
from assay.model.place import as_named
from assay.model.record import State
from assay.stage.climb import Climb, Climbed
from assay.stage.plan import Place, Result, Rung, Slot, Standing, Step
from assay.stage.results import outcome_of
from assay.terminal import figures
from assay.terminal.sanitise import one_line

Run = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Prices:
    """What a run of each choice cost on the mean, as far as kept runs tell."""

    means: Mapping[tuple[object, ...], float]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Prices:
        """From every kept run."""
        costs: dict[tuple[object, ...], list[float]] = {}
        for run in runs:
            if run.get("cost_usd") is not None and outcome_of(run).result.measured:
                costs.setdefault(_choice(run), []).append(run["cost_usd"])
        return cls({choice: sum(found) / len(found) for choice, found in costs.items()})

    def estimate(self, what: Climb, step: Step, runs: int) -> float | None:
        """What so many runs of a rung would cost; None where no earlier run tells."""
        job = what.jobs[step]
        key = (job.choice.agent, job.choice.model, job.choice.effort, job.script is not None)
        mean = self.means.get(key)
        return None if mean is None else mean * runs


def _choice(run: Run) -> tuple[object, ...]:
    return (run.get("agent"), run.get("model"), run.get("effort"), bool(run.get("rehearsal")))


def summary_lines(what: Climb, climbed: Climbed, runs: Path, prices: Prices) -> Iterator[str]:
    """The lines of the summary; for one run alone, its result."""
    slots = _shown(climbed)
    if what.stage is None and len(slots) == 1 and what.plan.ladders == 1:
        yield result_line(climbed.runs[slots[0]], runs)
    elif slots or what.stage is not None:
        for ladder in range(what.plan.ladders):
            yield from _ladder(what, climbed, ladder, runs, prices)
        yield _spent(what, climbed)
    errors = [error for thing, error in climbed.errors.items() if thing not in climbed.runs]
    yield from dict.fromkeys(one_line(f"error: {error}") for error in errors)
    yield from _resumable(climbed, runs)


def _ladder(what: Climb, climbed: Climbed, ladder: int, runs: Path, prices: Prices) -> Iterator[str]:
    task = what.tasks[ladder]
    yield one_line(str(as_named(task.path)))
    heads = {rung.number: _head(what, Step(ladder, rung.number)) for rung in what.plan.rungs}
    width = max(map(len, heads.values()))
    for rung in what.plan.rungs:
        found = [slot for slot in _shown(climbed) if slot.step == Step(ladder, rung.number)]
        head = heads[rung.number]
        for slot in found:
            earlier = "(earlier) " if slot in climbed.kept else ""
            yield f"  {head:{width}}  {earlier}{result_line(climbed.runs[slot], runs)}"
            head = ""
        if not found:
            yield f"  {head:{width}}  {_never(what, Step(ladder, rung.number), rung.runs, prices)}"
    yield f"  {one_line(_verdict(what, climbed, climbed.places[ladder], ladder))}"


def _shown(climbed: Climbed) -> list[Slot]:
    """This command's runs, and the earlier ones that count."""
    kept = climbed.kept
    return [slot for slot, run in sorted(climbed.runs.items()) if slot not in kept or outcome_of(run).result.measured]


def _head(what: Climb, step: Step) -> str:
    label = one_line(what.jobs[step].choice.label)
    return f"rung {step.rung}  {label}" if what.stage is not None else label


def _never(what: Climb, step: Step, runs: int, prices: Prices) -> str:
    count = "1 run" if runs == 1 else f"{runs} runs"
    if what.jobs[step].script is not None:
        return f"never started ({count})"  # a rehearsal costs nothing
    cost = prices.estimate(what, step, runs)
    return f"never started ({count}, {f'about {figures.dollars(cost)}' if cost is not None else 'cost not known yet'})"


def _verdict(what: Climb, climbed: Climbed, place: Place, ladder: int) -> str:
    """Where the ladder came to its end, and why."""
    here = [climbed.runs[slot] for slot in _shown(climbed) if slot.ladder == ladder]
    results = Counter(outcome_of(run).result for run in here)
    at = f"rung {place.rung}" if what.stage is not None else "it"
    if place.standing is Standing.PASSED:
        rest = sum(rung.number > place.rung for rung in what.plan.rungs)
        dearer = f"; {rest} dearer rung{'s' if rest > 1 else ''} never started" if rest else ", the last one"
        return f"→ {at} passed{dearer}"
    if place.standing is Standing.DONE:
        judged = results[Result.PASSED] + results[Result.FAILED]
        if what.plan.stop_on_pass:
            return f"→ no rung passed ({judged} run{'' if judged == 1 else 's'})"
        return f"→ {results[Result.PASSED]} of {judged} passed" if judged else "→ nothing to judge: no checker"
    if place.standing is Standing.HELD:
        again = "; the same command goes on from here" if what.stage is not None else ""
        climbs = ", so the ladder does not climb" if _is_below_top(what.plan.rungs, place) else ""
        return f"→ {at} could not be measured ({_unmeasured(climbed, ladder, place)}){climbs}{again}"
    if place.standing is Standing.BUDGET:
        budget = what.plan.budget or 0
        if climbed.state.cost_unknown:
            return f"→ stopped at {at}: a run's cost is unknown, so a budget of ${budget:g} cannot be kept"
        return f"→ stopped at {at}: {figures.dollars(climbed.state.spent)} of ${budget:g} are spent"
    if place.standing is Standing.BROKEN:
        return f"→ {at} could not start"
    again = "; the same command goes on from here" if what.stage is not None else ""
    return f"→ stopped at {at}{again}"


def _is_below_top(rungs: Sequence[Rung], place: Place) -> bool:
    return place.rung != rungs[-1].number


def _unmeasured(climbed: Climbed, ladder: int, place: Place) -> str:
    """What the runs of a rung ended in that were not measured."""
    counts: Counter[str] = Counter()
    for slot, outcome in climbed.state.ended.items():
        if slot.step == Step(ladder, place.rung) and not outcome.result.measured:
            run = climbed.runs.get(slot, {})
            ending = run.get("ending") or "engine error"
            counts["checker-error" if run.get("verdict") == "checker-error" else str(ending)] += 1
    return ", ".join(what if n == 1 else f"{n} × {what}" for what, n in sorted(counts.items()))  # noqa: RUF001


def _spent(what: Climb, climbed: Climbed) -> str:
    """What this command spent, and what earlier runs that count had."""
    new = [climbed.runs[slot] for slot in climbed.runs if slot not in climbed.kept]
    earlier = len(_shown(climbed)) - len(new)
    if earlier and not new:
        return f"nothing was started{_why_nothing(what, climbed)}"
    costs = [outcome_of(run).cost for run in new]
    known = sum(cost for cost in costs if cost is not None)
    unknown = costs.count(None)
    text = f"{len(new)} run{'' if len(new) == 1 else 's'}, {figures.dollars(known) or '$0'}"
    if unknown:
        text += f" and {unknown} of unknown cost"
    if new and all(run.get("rehearsal") for run in new):
        text += " by the stand-in's count (a rehearsal spends nothing)"
    return text + (f"; {earlier} earlier" if earlier else "")


def _why_nothing(what: Climb, climbed: Climbed) -> str:
    """Why earlier runs were all there was, and what would start one."""
    standings = {place.standing for place in climbed.places}
    if standings <= {Standing.PASSED, Standing.DONE}:
        return ": every run that was asked for is there already; --again starts over"
    if Standing.BUDGET not in standings:
        return ""
    if climbed.state.cost_unknown:
        why = "with budget_usd the cost of every earlier run must be known; leave it out to go on"
    else:
        why = f"the earlier runs have spent the budget of ${what.plan.budget or 0:g}; raise it to go on"
    return f": {why}, or --again starts over"


def _resumable(climbed: Climbed, runs: Path) -> Iterator[str]:
    """How to go on with what was cut short."""
    for slot in sorted(climbed.runs):
        run = climbed.runs[slot]
        if run.get("state", State.COMMITTED) != State.COMMITTED:
            continue  # its own reason says that assay recover comes first
        if slot not in climbed.kept and run.get("resumable") and outcome_of(run).result is not Result.SPARED:
            when = resumable_when(run).removeprefix("resumable").strip()
            yield f"to go on: assay resume {as_named(runs / run['id'])}" + (f"   # {when}" if when else "")


def summary_json(what: Climb, climbed: Climbed, prices: Prices) -> dict[str, Any]:
    """The same as one object."""
    ladders = []
    for ladder, place in enumerate(climbed.places):
        rungs = [
            {
                "rung": rung.number,
                "agent": what.jobs[step].choice.agent,
                "model": what.jobs[step].choice.model,
                "effort": what.jobs[step].choice.effort,
                "planned": rung.runs,
                "runs": [climbed.runs[slot]["id"] for slot in sorted(climbed.runs) if slot.step == step],
                "earlier": [climbed.runs[slot]["id"] for slot in sorted(climbed.kept) if slot.step == step],
                "results": [str(outcome.result) for outcome in climbed.state.outcomes(step)],
                "estimate_usd": prices.estimate(what, step, rung.runs),
            }
            for rung in what.plan.rungs
            for step in [Step(ladder, rung.number)]
        ]
        task = what.tasks[ladder]
        ladders.append({"task": task.name, "standing": str(place.standing), "rung": place.rung, "rungs": rungs})
    spent = sum(outcome.cost or 0.0 for outcome in climbed.state.ended.values())
    return {
        "what": "summary",
        "stage": what.stage,
        "ladders": ladders,
        "spent_usd": spent,
        "cost_unknown": any(outcome.cost is None for outcome in climbed.state.ended.values()),
        "errors": [str(error) for error in climbed.errors.values()],
        "exit_code": climbed.exit_code,
    }
