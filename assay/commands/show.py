"""`assay show`: one run, all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.commands import completion

if TYPE_CHECKING:
    from assay.model.record import RunRecord

PARTS = ("record", "prompt", "conversation", "answer", "transcript", "changes", "checker", "stderr", "network")

EXAMPLES = """\b
Examples:
  assay show last
  assay show 20261130T1439 --part changes
  assay show runs/20261130T143935Z-hello-claude-6714 --part transcript --part checker
  assay show last --json | jq .record.tokens
The raw event stream is events.jsonl in the run's directory, the files left are left/ and left.tar.zst."""


@click.command(epilog=EXAMPLES)
@click.argument("run", metavar="RUN", shell_complete=completion.runs)
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only this, with no headings.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: record, grades, changes, network, files.")
def command(run: str, parts: tuple[str, ...], *, as_json: bool) -> None:
    """Show RUN (a path, the start of an id, or `last`): its record, transcript, changes, and what the checker said.

    Nothing that came out of a container acts on the terminal.
    """
    from assay.model.place import find_root
    from assay.run.find import find_run
    from assay.run.record import latest_verdict, read_record

    path = find_run(find_root() / "runs", run)
    record = latest_verdict(read_record(path), path)
    if as_json:
        from assay.commands.output import json_text

        click.echo(json_text(_facts(path, record)))
        return
    usual = ("record", "transcript", "changes", "checker")
    for part in parts or (usual if record.repository is None else ("record", "conversation", "changes")):
        text = "".join(_part(path, record, part))
        if not parts and text:
            click.echo(f"\n-- {part}" if part != "record" else "", nl=part != "record")
        click.echo(text, nl=False)


def _part(path: Path, record: RunRecord, part: str) -> Iterator[str]:
    from assay.terminal.sanitise import sanitise

    if part == "record":
        yield _record(path, record)
    elif part == "checker":
        yield from _checker(path)
    elif part == "conversation":
        yield from _conversation(path, record)
    else:
        names = {
            "prompt": "prompt.md",
            "answer": "answer.md",
            "transcript": "transcript.txt",
            "changes": "changes.txt",
            "stderr": "stderr.log",
            "network": "fence.json",
        }
        yield from (sanitise(line) for line in _lines(path / names[part]))


def _lines(file: Path) -> Iterator[str]:
    """Lines of a kept file, whatever its bytes are; a last one without its line break gets one."""
    try:
        with file.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            for line in lines:
                yield line if line.endswith("\n") else f"{line}\n"
    except FileNotFoundError:
        return


def _record(path: Path, record: RunRecord) -> str:
    """What is known, in the order in which a reader asks."""
    from assay.commands.fence_words import fence_words
    from assay.commands.words import chain_words, resumable_when, tokens_words, unfinished_words, verdict_words
    from assay.model.place import as_named
    from assay.run.chain import chain, total
    from assay.run.record import resumed_by
    from assay.terminal.figures import dollars, seconds
    from assay.terminal.tables import fields

    run = record.to_toml()
    times, later = record.times, resumed_by(path)
    before = chain(path.parent, record)[:-1]
    stage = f"{record.stage}, rung {record.rung}" if record.rung is not None else record.stage
    limit = f" of {seconds(times.limit_seconds)}" if times.limit_seconds and times.seconds is not None else ""
    source = {"cli": "as its CLI says", "price-table": "by list price"}.get(record.cost_source or "", "")
    cost = dollars(record.cost_usd)
    return fields(
        [
            ("run", record.id),
            ("state", None if record.state == "committed" else unfinished_words(run)),
            ("task", f"{record.task}  {record.task_path}"),
            ("stage", f"{stage}, attempt {record.attempt}" if stage else None),
            ("agent", " ".join(part for part in (record.agent, record.cli_version) if part)),
            ("model", _model(record)),
            ("effort", record.effort),
            ("rehearsal", "yes: against a stand-in, nothing was spent" if record.rehearsal else None),
            ("ending", record.ending or "not yet"),
            ("reason", record.reason),
            ("resumable", resumable_when(run) if record.resumable and later is None else None),
            ("resumed by", later),
            ("resumed from", record.resumed_from),
            ("spent before", chain_words(total(before)) if before else None),
            ("in all", chain_words(total([*before, record])) if before else None),
            ("verdict", verdict_words(run)),
            ("score", record.score),
            ("time", f"{seconds(times.seconds)}{limit}" if times.seconds is not None else None),
            ("began", None if times.started is None else f"{times.started:%Y-%m-%d %H:%M:%S} UTC"),
            ("tokens", tokens_words(run.get("tokens", {}))),
            ("cost", f"{cost} {source}".strip() if cost else None),
            ("turns", record.turns),
            ("tool calls", record.tool_calls),
            ("changes", record.changes),
            ("files left", None if record.left == "complete" else _left(record)),
            ("fence", fence_words(path, record.fence)),
            ("image", record.image),
            ("secrets", f"{record.secrets_redacted} × struck out" if record.secrets_redacted else None),  # noqa: RUF001
            ("kept in", as_named(path)),
        ]
    )


def _model(record: RunRecord) -> str | None:
    used = record.model_used
    said = f"{record.model}, answered as {used}" if record.model and used and used != record.model else record.model
    return f"{said} (not listed by its agent)" if record.unlisted else said or used


def _left(record: RunRecord) -> str | None:
    return f"{record.left} ({record.left_reason})" if record.left_reason else record.left


def _checker(path: Path) -> Iterator[str]:
    """What each grading said, the latest last; the output of the latest."""
    from assay.commands.words import verdict_words
    from assay.run.record import grades
    from assay.terminal.sanitise import one_line, sanitise

    known = grades(path)
    for grade in known:
        said = verdict_words({**grade, "verdict_reason": grade.get("reason")})
        at = f"{grade['at']:%Y-%m-%d %H:%M} UTC" if "at" in grade else ""
        yield one_line(f"{grade['number']}: {said} · {grade.get('seconds', 0):g} s · {at}") + "\n"
    if known:
        yield from (sanitise(line) for line in _lines(path / "checker" / str(known[-1]["number"]) / "output.txt"))


def _conversation(path: Path, record: RunRecord) -> Iterator[str]:
    """Questions and answers of an ask and of those it follows up."""
    from assay.run.conversation import conversation
    from assay.terminal.sanitise import sanitise

    for exchange in conversation(path.parent, record) if record.repository is not None else ():
        said = exchange.answer or f"(no answer: {exchange.record.ending or exchange.record.state})\n"
        yield sanitise("".join(f"> {line}\n" for line in exchange.question.splitlines()))
        yield f"\n{sanitise(said).rstrip()}\n\n"


def _facts(path: Path, record: RunRecord) -> dict[str, Any]:
    from dataclasses import asdict

    from assay.run.chain import chain, total
    from assay.run.record import grades, resumed_by

    runs = chain(path.parent, record)
    return {
        "record": record.to_toml(),
        "path": str(path.resolve()),
        "resumed_by": resumed_by(path),
        "chain": [run.id for run in runs],
        "total": asdict(total(runs)),
        "grades": grades(path),
        **_asked(path, record),
        "changes": [line.rstrip("\n") for line in _lines(path / "changes.txt")],
        "network": _json(path / "fence.json"),
        "files": sorted(entry.name for entry in path.iterdir() if not entry.name.startswith(".")),
    }


def _asked(path: Path, record: RunRecord) -> dict[str, Any]:
    from assay.run.conversation import conversation

    if record.repository is None:
        return {}
    told = conversation(path.parent, record)
    exchanges = [{"run": one.record.id, "question": one.question, "answer": one.answer or None} for one in told]
    return {"conversation": exchanges, "repository": _json(path / "repository.json")}


def _json(file: Path) -> Any:
    import json

    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
