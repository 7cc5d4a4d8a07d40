"""No known secret is in any name or link of a tar that is kept, however the name is laid out in the header."""

from __future__ import annotations

import io
import itertools
import tarfile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.run.clean_tar import clean_tar
from assay.run.redact import SHORTEST_PART, Redactor

SECRETS = (
    "wJalrXUtnFEMI/K7MDENGaaa/bPxRfiCYEXAMPLEKEY",
    "plain-secret-without-a-slash",
    "gr\u00f6\u00dfer/als/ASCII-geheim",
)
FORMATS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/*"), min_size=1, max_size=90)


def packed(form: int, *members: tarfile.TarInfo, content: bytes = b"kept as it is") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for member in members:
            member.size = len(content) if member.isreg() else 0
            member.mode, member.uid, member.mtime = 0o4751, 1_000_000, 1_700_000_000
            try:
                tar.addfile(member, io.BytesIO(content))
            except ValueError:
                assert form == tarfile.USTAR_FORMAT  # the name does not fit there at all
    return out.getvalue()


def cleaned(data: bytes, secrets: tuple[str, ...] = SECRETS, step: int = 700) -> bytes:
    out: list[bytes] = []
    clean_tar((data[at : at + step] for at in range(0, len(data), step)), Redactor(secrets), out.append)
    return b"".join(out)


def read(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as tar:
        members = {member.name: member for member in tar}
        for member in members.values():
            if (file := tar.extractfile(member) if member.isreg() else None) is not None:
                assert file.read() == b"kept as it is"
    return members


def folders(path: str) -> list[tarfile.TarInfo]:
    """The folders on the way, as an engine puts them in front."""
    made = []
    for at, char in enumerate(path):
        if char == "/":
            info = tarfile.TarInfo(path[:at])
            info.type = tarfile.DIRTYPE
            made.append(info)
    return made


def link(kind: bytes, name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@given(st.sampled_from(FORMATS), st.sampled_from(SECRETS), st.lists(NAMES, max_size=3), st.lists(NAMES, max_size=2))
@example(tarfile.USTAR_FORMAT, SECRETS[0], ["a" * 90], ["b" * 20])
@example(tarfile.PAX_FORMAT, SECRETS[0], ["a" * 85], ["b" * 90, "c" * 90])
@example(tarfile.GNU_FORMAT, SECRETS[0], ["a" * 85], ["b" * 90, "c" * 90])
def test_wherever_a_name_is_cut(form: int, secret: str, before: list[str], after: list[str]) -> None:
    """The bytes of the whole stream show no secret, and of one with slashes no part that a folder was called."""
    path = "/".join(["app", *before, f"x{secret}y", *after])
    links = [link(kind, f"app/l{kind.decode()}", path) for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE)]
    data = cleaned(packed(form, *folders(path), tarfile.TarInfo(path), *links))
    assert secret.encode() not in data
    for part in secret.split("/")[:-1]:
        assert len(part) < SHORTEST_PART or part.encode() not in data
    for member in read(data).values():
        assert secret not in member.name
        assert secret not in member.linkname
        assert (member.mode, member.uid, member.mtime) == (0o4751, 1_000_000, 1_700_000_000)
        assert not member.linkname or len(member.linkname.encode()) == len(path.encode())


@given(st.sampled_from(FORMATS), st.lists(st.lists(NAMES, min_size=1, max_size=4), max_size=4))
def test_without_a_secret_every_byte_stays(form: int, paths: list[list[str]]) -> None:
    data = packed(form, *(tarfile.TarInfo("/".join(path)) for path in paths)).rstrip(b"\0")
    assert cleaned(data + bytes(5120)).startswith(data)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("long", [1, 120])
def test_what_is_renamed_stays_apart_and_below_its_folders(form: int, long: int) -> None:
    top, secret = "app/" + "d" * min(long, 90), SECRETS[0]
    paths = [f"{top}/{secret}/{name}" for name in ("one", "two")]
    found = list(read(cleaned(packed(form, *folders(paths[0]), *map(tarfile.TarInfo, paths)))))
    starred = f"{top}/{'*' * len(secret)}"
    assert found[-3:] == [starred, f"{starred}/one", f"{starred}/two"]
    for shorter, longer in itertools.pairwise(found[:-2]):
        assert len(shorter) < len(longer)


def test_other_texts_of_a_header() -> None:
    info = tarfile.TarInfo("app/file")
    info.uname, info.pax_headers = SECRETS[1], {"SCHILY.xattr.user.note": SECRETS[0], "comment": "c" * 200}
    data = cleaned(packed(tarfile.PAX_FORMAT, info))
    assert not [secret for secret in SECRETS if secret.encode() in data]
    assert read(data)["app/file"].pax_headers["comment"] == "c" * 200


def test_a_name_with_half_of_a_secret_is_nobodys() -> None:
    """A file that is called as a secret begins is none of its folders."""
    data = packed(tarfile.PAX_FORMAT, tarfile.TarInfo("app/wJalrXUtnFEMI"), tarfile.TarInfo("app/short/x"))
    assert list(read(cleaned(data, ("short/of-it-all", SECRETS[0])))) == ["app/wJalrXUtnFEMI", "app/short/x"]
