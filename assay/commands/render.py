"""`assay render`: a recorded event stream as a transcript, or as the facts that Assay takes from it."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import IO, Any

import click

from assay.model.errors import UsageError
from assay.model.events import Event, Exit, Facts

EXAMPLES = """\b
Examples:
  assay render --decoder claude events.jsonl
  assay render --decoder claude events.jsonl --stderr stderr.log --exit-code 1 --json
  tail -f events.jsonl | assay render --decoder claude -"""


@click.command(epilog=EXAMPLES)
@click.argument("file", metavar="FILE")
@click.option("--decoder", required=True, metavar="NAME", help="Which vendor's stream it is.")
@click.option("--stderr", metavar="FILE", help="The CLI's stderr.")
@click.option("--exit-code", type=int, metavar="N", help="The CLI's exit code; 128 + N for signal N.")
@click.option("--session-file", metavar="FILE", help="The CLI's own session file: spend that the stream lacks.")
@click.option("--resumed", is_flag=True, help="The CLI went on with an earlier session.")
@click.option("--stopped", is_flag=True, help="The CLI was stopped from outside.")
@click.option("--json", "as_json", is_flag=True, help="The facts as one JSON object instead of the transcript.")
def command(
    file: str,
    decoder: str,
    stderr: str | None,
    exit_code: int | None,
    session_file: str | None,
    resumed: bool,
    stopped: bool,
    as_json: bool,
) -> int:
    """Render a recorded event stream. FILE is what the CLI wrote to stdout; - reads standard input."""
    from assay import decoders

    chosen = decoders.get(decoder)
    exit_ = Exit(
        exit_code,
        b"" if stderr is None else _read(stderr),
        None if session_file is None else _read(session_file),
        stopped=stopped,
        resumed=resumed,
    )
    with _open(file) as stream:
        decoding = chosen.decode(stream)
        if not as_json:
            _show(decoding, flush=file == "-")
            return 0
        facts = chosen.conclude(_facts(decoding), exit_)
    click.echo(json.dumps(_as_object(facts), indent=2))
    return 0


def _open(file: str) -> IO[bytes]:
    if file == "-":
        return sys.stdin.buffer
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise _unreadable(file, error) from None


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise _unreadable(file, error) from None


def _unreadable(file: str, error: OSError) -> UsageError:
    return UsageError(
        f"{file}: cannot be read ({error.strerror}): nothing was rendered; name a file of a kept run, or -"
    )


def _show(decoding: Iterable[Event], *, flush: bool) -> None:
    """Write the transcript as it comes; flush each event where somebody is waiting for it."""
    from assay.terminal.paint import printed, silence, tolerant, wants_color
    from assay.terminal.transcript import lines

    out = tolerant(sys.stdout)
    color = wants_color(out)
    try:
        for event in decoding:
            out.write("".join(printed(line, color=color) for line in lines(event)))
            if flush:
                out.flush()
        out.flush()
    except BrokenPipeError:
        silence(out)


def _facts(decoding: Generator[Event, None, Facts]) -> Facts:
    while True:
        try:
            next(decoding)
        except StopIteration as end:
            facts: Facts = end.value
            return facts


def _as_object(facts: Facts) -> dict[str, Any]:
    """What is not known is null; tokens name the known kinds only."""
    return {
        "ending": facts.ending,
        "reason": facts.reason or None,
        "reset_at": None if facts.reset_at is None else facts.reset_at.isoformat().replace("+00:00", "Z"),
        "session": facts.session,
        "model": facts.model,
        "cli_version": facts.cli_version,
        "turns": facts.turns,
        "tool_calls": [{"name": use.name, "ok": use.ok} for use in facts.tool_calls],
        "tokens": None if facts.tokens is None else facts.tokens.as_dict(),
        "cost_usd": None if facts.cost_usd is None else round(facts.cost_usd, 9),
        "text": facts.text,
    }
