"""A CLI from its vendor's own host: recorded on first use, held to afterwards. The install lines are those of `agy`."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from assay.commands.pin import record, with_keys
from assay.model.errors import ConfigError
from assay.model.registry import load_registry
from assay.sandbox.engine import Engine
from assay.sandbox.images import Builder
from assay.sandbox.spec import Spec
from tests.conftest import MakeProject
from tests.project import Project

BINARY = b"#!/bin/sh\necho 1.2.17\n"
NAMES = ("amd64", "arm64")
VENDOR = "https://antigravity-cli-auto-updater-974169037036.us-central1.run.app"
ARCHIVE = "antigravity-cli/1.2.17-4711/linux/cli.tar.gz"


def packed(files: Mapping[str, bytes], mode: int = 0o644, form: str = "w") -> bytes:
    """A tar file of some files, each with the folders that lead to it."""
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode=form) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    return into.getvalue()


class Vendor:
    """A host that gives out one archive and its manifest: a container on the network that builds use."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        serve = ["sh", "-c", "mkdir -p /srv && exec python3 -u -m http.server -d /srv 80"]
        image = Builder(engine).environment().id
        self.container = engine.create(Spec(image=image, argv=serve, name="", labels={}, network="bridge"))
        engine.start(self.container)
        assert any(b"Serving" in data for _, data in engine.log(self.container, follow=True))
        self.url = f"http://{engine.address(self.container)}"

    def offers(self, binary: bytes, version: str = "1.2.17") -> str:
        """Give out an archive of this binary; its sha512."""
        archive, path = packed({"antigravity": binary}, form="w:gz"), ARCHIVE.replace("1.2.17", version)
        sha512 = hashlib.sha512(archive).hexdigest()
        manifest = json.dumps({"version": version, "url": f"{self.url}/{path}", "sha512": sha512}).encode()
        names = {f"srv/manifests/linux_{name}.json": manifest for name in NAMES}
        self.engine.put(self.container, packed({**names, f"srv/{path}": archive}, 0o644))
        return sha512

    @property
    def asked(self) -> int:
        """How often the archive was fetched."""
        said = b"".join(data for _, data in self.engine.log(self.container, follow=False))
        return said.count(f"GET /{ARCHIVE} ".encode())


@pytest.fixture
def vendor(engine: Engine) -> Iterator[Vendor]:
    made = Vendor(engine)
    try:
        yield made
    finally:
        engine.remove(made.container)


def entry(name: str, url: str, more: str = "") -> str:
    """An agent that is installed by Antigravity's own lines, from another host."""
    run = json.dumps([line.replace(VENDOR, url) for line in load_registry().agents["agy"].install.run])
    return f"""
[agents.{name}]
title = "T"  # as it is called
version = "1.2.17"
decoder = "antigravity"
hosts = []
default_model = "m"
launch = {{ run = ["agy"] }}

[agents.{name}.install]  # from its own host
obtainable = false
run = {run}
check = ["agy", "--version"]
{more}"""


def forget(engine: Engine, here: Project, name: str) -> None:
    """As on a new machine: the image is not there."""
    for image in engine.api.images(filters={"label": [f"assay.agent={name}"]}):
        engine.remove_image(image["Id"])
    (row,) = here.run("registry", name, "--json").json()
    assert row["built"] is False


def installed(here: Project, name: str) -> dict[str, object]:
    return dict(tomllib.loads((here.root / "agents.toml").read_text())["agents"][name]["install"])


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_an_archive_is_recorded_once_and_another_one_refused(
    project: MakeProject,
    vendor: Vendor,
    engine: Engine,
    mark: str,
) -> None:
    sha512 = vendor.offers(BINARY)
    text = entry(mark, vendor.url)
    here = project({"agents.toml": text})
    build = ("build", mark)
    outcome = here.run(*build, timeout=200).assert_code(0)
    outcome.assert_says(f"{mark} 1.2.17 on the default environment: ready", f"source {vendor.url}/{ARCHIVE}")
    outcome.assert_says(f"[agents.{mark}.install] of agents.toml", sha512[:16])

    header = f"[agents.{mark}.install]  # from its own host\n"
    keys = f'source = "{vendor.url}/{ARCHIVE}"\nsha512 = "{sha512}"\n'
    recorded = text.replace(header, header + keys)
    assert (here.root / "agents.toml").read_text() == recorded
    again = here.run(*build, timeout=200).assert_code(0)
    assert "recorded" not in again.err
    assert vendor.asked == 1, "what the entry now asks for is there already"

    sha512 = vendor.offers(BINARY + b"# newer\n")
    here.write({"agents.toml": text})
    here.run(*build, timeout=200).assert_code(0).assert_says(sha512[:16])
    recorded = (here.root / "agents.toml").read_text()
    assert installed(here, mark)["sha512"] == sha512

    forget(engine, here, mark)
    vendor.offers(BINARY + b"# mended in silence\n")
    refused = here.run(*build, timeout=200).assert_code(3)
    refused.assert_says(f"{mark} 1.2.17: build failed", "another archive than expected for 1.2.17", sha512[:16])
    assert (here.root / "agents.toml").read_text() == recorded


def of_agy(url: str, more: str = "") -> str:
    """Antigravity's own entry, and only its vendor is another host."""
    run = json.dumps([line.replace(VENDOR, url) for line in load_registry().agents["agy"].install.run])
    return f"[agents.agy.install]\nrun = {run}\n{more}"


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_the_newest_version_is_taken_and_recorded_where_nobody_chose_one(
    project: MakeProject, vendor: Vendor, engine: Engine
) -> None:
    sha512 = vendor.offers(BINARY.replace(b"1.2.17", b"1.9.3"), "1.9.3")
    here = project({"agents.toml": of_agy(vendor.url)})
    outcome = here.run("build", "agy", timeout=250).assert_code(0)
    outcome.assert_says("agy newest on the default environment: ready", "recorded version = '1.9.3'", "with 1.2.17")
    said = tomllib.loads((here.root / "agents.toml").read_text())["agents"]["agy"]
    source = f"{vendor.url}/{ARCHIVE.replace('1.2.17', '1.9.3')}"
    assert (said["version"], said["install"]["source"], said["install"]["sha512"]) == ("1.9.3", source, sha512)
    (row,) = here.run("registry", "agy", "--json").json()
    assert (row["version"], row["built"]) == ("1.9.3", True)

    # From now on the vendor may offer what it likes.
    vendor.offers(BINARY.replace(b"1.2.17", b"1.9.4"), "1.9.4")
    again = here.run("build", "agy", timeout=100).assert_code(0)
    assert "recorded" not in again.err
    assert "agy 1.9.3 on the default environment" in again.out
    for image in engine.api.images(filters={"label": ["assay.agent=agy", "assay.version=1.9.3"]}):
        engine.remove_image(image["Id"])


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_a_version_that_was_chosen_or_that_is_not_there_is_refused_with_the_way_out(
    project: MakeProject, vendor: Vendor
) -> None:
    vendor.offers(BINARY, "1.9.5")
    chosen = of_agy(vendor.url, '[agents.agy]\nversion = "1.9.2"\n')
    here = project({"agents.toml": chosen, "script.toml": '[[turn]]\ntext = "x"\n', "tasks/hi/prompt.md": "x"})
    refused = here.run("build", "agy", timeout=250).assert_code(3)
    refused.assert_says(
        "the entry pins 1.9.2, and the archive is", "say none and let assay build take and note the newest"
    )
    assert (here.root / "agents.toml").read_text() == chosen

    # The archive does not hold what its name says: nothing is recorded.
    here.write({"agents.toml": of_agy(vendor.url)})
    lied = here.run("build", "agy", timeout=250).assert_code(3)
    lied.assert_says("agy did not say '1.9.5'")
    assert (here.root / "agents.toml").read_text() == of_agy(vendor.url)


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_what_was_recorded_is_fetched_without_the_manifest(
    project: MakeProject,
    vendor: Vendor,
    engine: Engine,
    mark: str,
) -> None:
    sha512 = vendor.offers(BINARY)
    keys = f'source = "{vendor.url}/{ARCHIVE}"\nsha512 = "{sha512}"\n'
    here = project({"agents.toml": entry(mark, "http://nowhere.invalid", keys)})
    here.run("build", mark, timeout=200).assert_code(0)
    assert vendor.asked == 1
    forget(engine, here, mark)

    # An address alone is given by the user: its archive is taken on first use.
    here.write({"agents.toml": entry(mark, "http://nowhere.invalid", keys.partition("sha512")[0])})
    here.run("build", mark, timeout=200).assert_code(0).assert_says("recorded in")
    assert installed(here, mark)["sha512"] == sha512

    text = (here.root / "agents.toml").read_text().replace('version = "1.2.17"', 'version = "1.2.18"')
    here.write({"agents.toml": text})
    here.run("build", mark, timeout=200).assert_code(3).assert_says("the entry pins 1.2.18, and the archive is http")


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_a_host_that_cannot_be_reached_is_one_line(project: MakeProject, mark: str) -> None:
    text = entry(mark, "http://nowhere.invalid")
    here = project({"agents.toml": text})
    outcome = here.run("build", mark, timeout=200).assert_code(3)
    (line,) = [line for line in outcome.err.splitlines() if line.startswith("assay: ")]
    assert "build failed" in line
    assert "Could not resolve host: nowhere.invalid" in line
    assert (here.root / "agents.toml").read_text() == text


@pytest.mark.docker
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("left", "said"),
    [
        (None, "nothing to record"),
        ('source = "http://x"\\nsha512 = "abc"\\n', "holds no sha512 of 128 hexadecimal digits"),
        ('source = "\\\\u001b[2J"\\n', "names no source"),
        ("= 1", "is not TOML"),
        (f'source = "http://x"\\nsha512 = "{"ab" * 64}"\\nversion = "1 2"\\n', "names no version that could be one"),
    ],
)
def test_what_the_install_lines_leave_is_not_believed(
    project: MakeProject,
    mark: str,
    left: str | None,
    said: str,
) -> None:
    run = ['mkdir -p "$OUT/bin"', "printf '#!/bin/sh\\necho 1.2.17\\n' >\"$OUT/bin/agy\"", 'chmod 755 "$OUT/bin/agy"']
    if left is not None:
        run.append(f"printf '{left}' >\"$OUT/pinned.toml\"")
    lines = entry(mark, VENDOR).splitlines()
    text = "\n".join(f"run = {json.dumps(run)}" if line.startswith("run = ") else line for line in lines)
    here = project({"agents.toml": text})
    here.run("build", mark, timeout=200).assert_code(0 if left is None else 3).assert_says(said)
    assert (here.root / "agents.toml").read_text() == text


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_what_cannot_be_recorded_is_told_with_the_lines_to_add(project: MakeProject, mark: str) -> None:
    pin = f'printf \'source = "http://x/1"\\nsha512 = "{"ab" * 64}"\\n\' >"$OUT/pinned.toml"'
    run = json.dumps(['mkdir -p "$OUT/bin"', pin])
    install = f"install = {{ obtainable = false, run = {run}, check = ['echo', '1.2.17'] }}\n"
    text = entry(mark, VENDOR).partition(f"\n[agents.{mark}.install]")[0] + install
    here = project({"agents.toml": text})
    outcome = here.run("build", mark, timeout=200).assert_code(3)
    outcome.assert_says(f"{mark}: built, but", "cannot be added to as it is laid out", 'source = "http://x/1"; sha512')
    assert (here.root / "agents.toml").read_text() == text


DOTTED = "[agents.a]\ntitle = '''\n[agents.a.install]\nsource = \"\"\n'''\ninstall.shows = 'x'\n"
"""With a header and a key that only look like one: they are text."""
KEYS = {"source": "https://x/1-2", "sha512": "ab"}
LINES = 'source = "https://x/1-2"\nsha512 = "ab"\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[agents.a.install]\nsource = "https://x/1-2"\nsha512 = "ab"\n'),
        ("# mine\n[agents.b]", '# mine\n[agents.b]\n\n[agents.a.install]\nsource = "https://x/1-2"\nsha512 = "ab"\n'),
        (
            '[agents."a".install] # here\r\nshows = "x"\r\n',
            '[agents."a".install] # here\r\nsource = "https://x/1-2"\r\nsha512 = "ab"\r\nshows = "x"\r\n',
        ),
        ("[agents.a.install]", '[agents.a.install]\nsource = "https://x/1-2"\nsha512 = "ab"\n'),
        (
            "[agents.b.install]\nsource = 'b'\n[agents.a.install]\nsource = '' # none\n",
            '[agents.b.install]\nsource = \'b\'\n[agents.a.install]\nsha512 = "ab"\nsource = "https://x/1-2" # none\n',
        ),
        (
            DOTTED,
            DOTTED.replace("a]", 'a]\ninstall.source = "https://x/1-2"\ninstall.sha512 = "ab"', 1),
        ),
        ("[agents.a]\ninstall = { shows = 'x' }\n", None),
    ],
)
def test_only_the_two_keys_change(before: str, after: str | None) -> None:
    assert with_keys(before, "a", KEYS) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[agents.a]\nversion = "2"\n\n[agents.a.install]\nsource = "https://x/1-2"\nsha512 = "ab"\n'),
        (
            '[agents.a]\ntitle = "v"\n[agents.b]\nversion = "1"\n',
            f"""[agents.a]\nversion = "2"\ntitle = "v"\n[agents.b]\nversion = "1"\n\n[agents.a.install]\n{LINES}""",
        ),
        (
            '[agents.a.install]\nshows = "v"',
            '[agents.a.install]\nsource = "https://x/1-2"\nsha512 = "ab"\nshows = "v"\n\n[agents.a]\nversion = "2"\n',
        ),
        ("agents = { a = { title = 'x' } }\n", None),
    ],
)
def test_a_version_is_set_beside_them(before: str, after: str | None) -> None:
    assert with_keys(before, "a", KEYS, "2") == after


def test_a_file_that_cannot_be_added_to_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "agents.toml"
    file.write_text("[agents.a]\ninstall = { shows = 'x' }\n")
    with pytest.raises(ConfigError, match=r'agents\.a\.install: cannot be added to .* source = "https://x/1-2"'):
        record(file, "a", KEYS)
    assert file.read_text() == "[agents.a]\ninstall = { shows = 'x' }\n"
    assert [path.name for path in tmp_path.iterdir()] == ["agents.toml"]
