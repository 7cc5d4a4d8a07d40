"""A tar stream without the known secrets: in contents, in names, in what links lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from assay.run.redact import Redactor, Stream
from assay.sandbox.archive import END, Member, TarReader
from assay.sandbox.tar_header import rewritten


def clean_member(member: Member, redactor: Redactor) -> Member:
    """A member as it is kept: itself where there is nothing to strike out, else with other names and another header."""
    name, link = redactor.clean_name(member.name), redactor.clean_name(member.link)
    if name == member.name and link == member.link and not redactor.finds(member.raw):
        return member
    return replace(member, name=name, link=link, raw=rewritten(member, name, link, redactor.clean_name))


def clean_tar(chunks: Iterable[bytes], redactor: Redactor, out: Callable[[bytes], object]) -> None:
    """Pass on a whole stream.

    Args:
        chunks: The stream, as the engine hands it out.
        redactor: Knows the secrets.
        out: Gets the cleaned bytes, in order.

    Raises:
        EngineError: The stream is broken.
    """
    reader = TarReader(chunks)
    for member in reader:
        out(clean_member(member, redactor).raw)
        content = Stream(redactor, out)
        for part in reader.content():
            content.write(part)
        content.close()
        out(member.padding)
    out(END)
