"""Every recording's expected rendering: `tests/data/streams/<vendor>/<recording>.txt`.

After a vendor's CLI was upgraded, record a stream anew and run

    .venv/bin/python -m tests.decoders.goldens [VENDOR ...]

What the new format broke is then a diff. Facts are not rewritten: `facts.toml` is written by hand.
"""

from __future__ import annotations

import sys
from pathlib import Path

from assay.decoders import get
from assay.terminal.transcript import lines

STREAMS = Path(__file__).parent.parent / "data" / "streams"


def recordings(vendors: list[str] | None = None) -> list[Path]:
    """Every recorded stream, of all vendors or of some."""
    return sorted(path for path in STREAMS.glob("*/*.jsonl") if not vendors or path.parent.name in vendors)


def rendering(recording: Path) -> str:
    """The transcript of a recording, as `assay render` prints it."""
    with recording.open("rb") as stream:
        return "".join(f"{line.text}\n" for event in get(recording.parent.name).decode(stream) for line in lines(event))


def expected(recording: Path) -> Path:
    """Where the expected rendering lies."""
    return recording.with_name(f"{recording.stem}.txt")


def main(vendors: list[str]) -> None:
    """Write the renderings anew and say which changed."""
    for recording in recordings(vendors):
        file, new = expected(recording), rendering(recording)
        if not file.exists() or file.read_text(encoding="utf-8") != new:
            file.write_text(new, encoding="utf-8")
            print(file.relative_to(STREAMS))


if __name__ == "__main__":
    main(sys.argv[1:])
