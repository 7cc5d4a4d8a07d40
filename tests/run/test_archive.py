"""The tar reader sees what the standard library wrote; the packer's trees come back as they were."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.model.errors import EngineError
from assay.sandbox import archive
from assay.sandbox.archive import Put, TarReader

NAMES = st.text(st.characters(blacklist_characters="\0/", codec="utf-8"), min_size=1, max_size=180).filter(
    lambda name: name not in (".", "..") and name.strip("/") == name
)


def cut(data: bytes, step: int) -> list[bytes]:
    return [data[at : at + step] for at in range(0, len(data), step)]


@given(
    st.dictionaries(NAMES, st.binary(max_size=2000), max_size=5),
    st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]),
    st.integers(1, 1500),
)
def test_reads_what_tarfile_writes(files: dict[str, bytes], form: int, step: int) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.uid = len(data), 0o640, 3_000_000
            tar.addfile(info, io.BytesIO(data))
    found = {}
    raw = b""
    for member in (reader := TarReader(cut(out.getvalue(), step))):
        content = b"".join(reader.content())
        found[member.name.decode()] = content
        raw += member.raw + content + member.padding
        assert (member.mode, member.uid, member.size) == (0o640, 3_000_000, len(content))
    assert found == files
    # What it hands on is what came in.
    assert out.getvalue().startswith(raw)


def test_skipped_content_is_passed_over() -> None:
    data = archive.pack([Put("a", b"x" * 1000, 0o644), Put("b", b"y", 0o644)])
    assert [member.name for member in TarReader(cut(data, 100))] == [b"a", b"b"]


@pytest.mark.parametrize("end", [1, 511, 513, 1000])
def test_a_stream_that_breaks_off_is_an_error(end: int) -> None:
    data = archive.pack([Put("a", b"x" * 1000, 0o644)])
    with pytest.raises(EngineError):
        list(TarReader([data[:end]]))


def test_tree_keeps_modes_links_and_odd_names(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "run").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "run").chmod(0o755)
    os.link(tmp_path / "run", tmp_path / "same")
    (tmp_path / "out").symlink_to("/etc/passwd")
    (tmp_path / "skipped").write_bytes(b"no")
    odd = os.fsencode(tmp_path / "deep") + b"/bad\xff\nname"
    with open(odd, "wb") as file:  # noqa: PTH123 - a name of bytes
        file.write(b"odd")
    os.mkfifo(tmp_path / "fifo")
    stream = [*archive.pack_tree(tmp_path, "/srv/app", 1000, skip=("skipped",)), archive.END]
    with tarfile.open(fileobj=io.BytesIO(b"".join(stream)), errors="surrogateescape") as tar:
        found = {member.name: member for member in tar}
    assert set(found) == {
        "srv/app",
        "srv/app/deep",
        "srv/app/deep/er",
        os.fsdecode(b"srv/app/deep/bad\xff\nname"),
        "srv/app/out",
        "srv/app/run",
        "srv/app/same",
    }
    assert found["srv/app/run"].mode & 0o777 == 0o755
    assert found["srv/app/same"].islnk()
    assert found["srv/app/out"].linkname == "/etc/passwd"
    assert {member.uid for member in found.values()} == {1000}
