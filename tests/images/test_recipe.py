"""What goes into a build: digests, contexts, and what only this machine needs."""

from __future__ import annotations

import dataclasses
import os
import tarfile
from pathlib import Path

import pytest

from assay.model.errors import Refused
from assay.sandbox.recipe import Host, Recipe, base_images, context, folder_context, with_host_settings

PLAIN = Recipe("a", "r", "FROM x\n", files={"f": b"1"}, args={"A": "1"}, bases={"x": "sha256:1"})


@pytest.mark.parametrize(
    "change",
    [
        {"dockerfile": "FROM y\n"},
        {"files": {"f": b"2"}},
        {"files": {"g": b"1"}},
        {"args": {"A": "2"}},
        {"bases": {"x": "sha256:2"}},
        {"network": "none"},
    ],
    ids=str,
)
def test_digest_changes_with_whatever_may_change_the_image(change: dict[str, object]) -> None:
    assert dataclasses.replace(PLAIN, **change).digest() != PLAIN.digest()  # type: ignore[arg-type]


def test_digest_is_the_same_for_the_same_content(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    first = Recipe("a", "r", "FROM x\n", folder=folder_context(tmp_path)).digest()
    os.utime(tmp_path / "f", (1, 1))
    assert Recipe("another title", "r", "FROM x\n", folder=folder_context(tmp_path)).digest() == first
    (tmp_path / "f").chmod(0o755)
    assert Recipe("a", "r", "FROM x\n", folder=folder_context(tmp_path)).digest() != first


def test_hidden_parts_stay_out_whatever_dockerignore_says(tmp_path: Path) -> None:
    for name in ("checker/test_a.py", "solution/solve.sh", "files/in.txt", "big.bin", "env/requirements.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    (tmp_path / ".dockerignore").write_text("# comment\n*.bin\n!checker\n!checker/**\n!solution/solve.sh\n")
    found = folder_context(tmp_path, ("checker", "solution"))
    assert sorted(found) == ["env", "env/requirements.txt", "files", "files/in.txt"]


def test_context_is_a_tar_of_files_and_links_owned_by_root(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    recipe = Recipe("a", "r", "FROM x\n", files={"run": b"#!/bin/sh\n"}, folder=folder_context(tmp_path))
    with context(recipe, "settings:1") as stream, tarfile.open(fileobj=stream) as tar:
        members = {member.name: member for member in tar}
        assert sorted(members) == [".dockerignore", "Dockerfile", "a", "link", "run"]
        assert members["link"].issym()
        assert members["run"].mode == 0o755
        assert {member.uid for member in members.values()} == {0}


FANCY = """\
# FROM nowhere
FROM --platform=linux/amd64 debian:12 AS build
RUN echo FROM here
from \\
  build as second
FROM scratch
COPY --from=build /x /x
FROM $OTHER
FROM ubuntu:24.04
"""


def test_base_images_are_those_that_no_stage_and_no_variable_names() -> None:
    assert base_images(FANCY) == ["debian:12", "ubuntu:24.04"]


def test_every_stage_but_scratch_gets_the_bundle() -> None:
    lines = with_host_settings(FANCY, "settings:1").splitlines()
    after = [lines[i + 1] for i, line in enumerate(lines) if line.lower().startswith(("from", "  build"))]
    copy = "COPY --from=settings:1 / /opt/assay/build/"
    assert after == [copy, "  build as second", copy, "COPY --from=build /x /x", copy, copy]
    assert [line for line in lines if line in FANCY.splitlines()] == FANCY.splitlines()


def test_host_adds_the_given_bundle_and_takes_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "env.pem"))
    (tmp_path / "env.pem").write_text("env")
    (tmp_path / "own.pem").write_text("own")
    assert Host.read(tmp_path / "own.pem").ca == b"env\nown"
    assert Host.read().ca == b"env"
    assert Host.read().proxies["https_proxy"] == "http://proxy:3128"
    with pytest.raises(Refused, match=r"missing\.pem cannot be read: No such file"):
        Host.read(tmp_path / "missing.pem")
